"""What containers write. Their stdout and stderr are the file itself, so logs need no process to copy them and go on
while the agent is down.

The price is that a log can only be rotated by copying it and cutting it to nothing, which loses what is written in the
microseconds in between. Every writer appends, so the next line lands at the new beginning.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from jettison.engine.pods.pod import Pod
from jettison.errors import WriteError
from jettison.manifests.files.plain_files import check_plain, clear
from jettison.runtimes.host.volumes import log_times
from jettison.runtimes.linux.files import kernel_files

_COPIED_AT_ONCE = 10 * 1024 * 1024

MOST_FILES = 5

SUFFIX, BOX_SUFFIX = ".log", ".cri"
"""A process writes its log itself. A container runtime writes it in CRI's format: time, stream and tag before each
line."""

_DIRECTORY_MODE, _FILE_MODE = 0o700, 0o600
_UNCHANGED = -1
_COPYING = ".copying"
_LAST_WORDS = 4096


def pod_log_dir(logs_dir: Path, pod: Pod) -> Path:
    """Named as the kubelet does it, so that the uid is what follows the last underscore."""
    return logs_dir / f"{pod.namespace}_{pod.name}_{pod.uid}"


def log_file(directory: Path, run: int) -> Path:
    """The log of one run of a container, as a container runtime or the process itself writes it."""
    boxed = directory / f"{run}{BOX_SUFFIX}"
    return boxed if boxed.exists() else directory / f"{run}{SUFFIX}"


def open_log(directory: Path, run: int, owner: int | None = None) -> int:
    """A descriptor to append to; the caller closes it.

    It belongs to the user that the container runs as: /dev/stdout is opened anew, and the kernel then asks whose it is.
    Other users do not come to it, the directories above are root's.
    """
    path = directory / f"{run}{SUFFIX}"
    try:
        directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        # A pipe that a container of root has put there is not waited for: without a reader it cannot be opened.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags, mode=_FILE_MODE)
        try:
            check_plain(descriptor)
            os.set_blocking(descriptor, True)
            # Also those of an earlier version, which the group might read.
            os.fchmod(descriptor, _FILE_MODE)
            os.fchown(descriptor, _UNCHANGED if owner is None else owner, _UNCHANGED)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor
    except OSError as error:
        raise WriteError(f"cannot open log `{path}`: {kernel_files.reason(error)}") from error


def last_words(path: Path) -> bytes:
    """The end of a log of a container that has ended; empty where it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            size = check_plain(descriptor).st_size
            return os.pread(descriptor, _LAST_WORDS, max(0, size - _LAST_WORDS))
        finally:
            os.close(descriptor)
    except OSError:
        return b""


def is_due(path: str | Path, largest: int) -> bool:
    """Whether the log has grown past its size; costs 2 µs. One that cannot be looked at, or that its container has
    replaced by something else, is not: the others wait for the answer.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return found.st_size > largest and stat.S_ISREG(found.st_mode)


def rotate(path: Path, most_files: int = MOST_FILES) -> None:
    """Move what was written so far to `<path>.1`, `<path>.1` to `<path>.2` and so on. Takes as long as copying does.

    On a full disk the copy fails and nothing is cut: then it is for eviction to find room.
    """
    copy = Path(f"{path}{_COPYING}")
    try:
        source = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            check_plain(source)
            is_whole = _copy(source, copy)
            # Without it the last lines have the time of the copy, which is not worth a complaint.
            with suppress(OSError):
                log_times.note(str(path))
            if not is_whole:
                Path(log_times.times_file(path)).unlink(missing_ok=True)
            _shift(path, copy, most_files)
            os.ftruncate(source, 0)
        finally:
            os.close(source)
    except OSError as error:
        # What cannot be unlinked is no copy of ours.
        with suppress(OSError):
            copy.unlink(missing_ok=True)
        raise WriteError(f"cannot rotate log `{path}`: {kernel_files.reason(error)}") from error


def files_of(path: Path) -> Iterator[Path]:
    """The log and what was rotated out of it, oldest first, as far as they exist."""
    rotated = [Path(f"{path}.{number}") for number in range(MOST_FILES - 1, 0, -1)]
    yield from (file for file in (*rotated, path) if file.exists())


def _copy(source: int, target: Path) -> bool:
    """False: the log has holes, which are left out, so that marks of its length do not fit the copy.

    A container owns its log, and can make it as long as it likes without writing: a hole of 3 GiB that was copied as
    zeros took 38 s and 3 GiB of the node's disk.
    """
    # What an interrupted copy has left, or the container has put there.
    clear(target)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode=_FILE_MODE)
    try:
        place = copied = 0
        # Until there is nothing new: a container that writes meanwhile is followed up to the last few microseconds.
        # One that writes faster than this reads is given up when there is as much again.
        begun, most = os.fstat(source).st_size, 0
        while (data := _next_data(source, place)) is not None:
            length = min(os.lseek(source, data, os.SEEK_HOLE) - data, _COPIED_AT_ONCE)
            length = os.copy_file_range(source, descriptor, length, offset_src=data)
            if not length:
                break
            place = data + length
            copied += length
            if place >= begun:
                most = most or 2 * copied + _COPIED_AT_ONCE
                if copied >= most:
                    break
        return place == copied
    finally:
        os.close(descriptor)


def _next_data(source: int, place: int) -> int | None:
    try:
        return os.lseek(source, place, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise


def _shift(path: Path, copy: Path, most_files: int) -> None:
    for number in range(most_files - 2, 0, -1):
        older = Path(f"{path}.{number}")
        if older.exists():
            _move(older, f"{path}.{number + 1}")
    copy.rename(f"{path}.1")
    _move_times(path, f"{path}.1")


def _move(log: Path, target: str) -> None:
    log.rename(target)
    _move_times(log, target)


def _move_times(log: Path, target: str) -> None:
    try:
        Path(log_times.times_file(log)).rename(log_times.times_file(target))
    except FileNotFoundError:
        # Or those of another log would be taken for its own.
        Path(log_times.times_file(target)).unlink(missing_ok=True)
