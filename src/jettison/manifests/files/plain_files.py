"""Reading and replacing files: what is there may be anything but a file, and of any size.

Opening a pipe waits for a writer, a device never ends, and a sparse file of a terabyte takes no disk at all. An agent
that waits guards nothing. Nothing else in the program opens a document: `read_plain` is for what lies in a directory,
`read_given` for what an operator names on the command line.
"""

from __future__ import annotations

import errno
import os
import stat
from itertools import count
from pathlib import Path

from jettison.errors import InputError, ManifestError

LARGEST_STATE = 64 * 2**20
"""Of the files that this program writes for itself the largest is a pod's record: some copies of a manifest, which has
256 KiB at most."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Without O_NONBLOCK opening a pipe would wait; a plain file does not know it.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_plain(path: Path, most: int) -> bytes:
    """Its bytes, at most so many. Raises the kernel's OSError, and ManifestError where there is no file, or more."""
    descriptor = _opened(path)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ManifestError(f"{path}: not a plain file")
    return _all_of(descriptor, path, most)


def read_given(path: Path, most: int) -> bytes:
    """What an operator points at, which may be a pipe: shells make one of `<(command)`. Raises InputError only.

    A pipe without a writer is empty. A byte order mark, which Windows' shells like to write, is dropped.
    """
    try:
        descriptor = _opened(path)
        # A pipe that has a writer is waited for: the command behind it takes its time.
        os.set_blocking(descriptor, True)
        return _all_of(descriptor, path, most).removeprefix(BYTE_ORDER_MARK)
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path | str, error: OSError) -> InputError:
    """The one way in which a file that cannot be read is worded."""
    return InputError(f"cannot read `{path}`: {(error.strerror or str(error)).lower()}")


def check_plain(descriptor: int) -> os.stat_result:
    """What is open there, which must be a file: a directory, a pipe or a device is an OSError with that reason."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "Not a plain file")
    return found


def plain_text(data: bytes, name: str) -> str:
    """UTF-8 without a byte order mark, or a ManifestError with the line at which it is something else."""
    data = data.removeprefix(BYTE_ORDER_MARK)
    try:
        # Not utf-8-sig, which Python would load now: an agent loads nothing once it is ready.
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ManifestError(f"{name}:{line}: not UTF-8 at byte {error.start}") from error


def _opened(path: Path) -> int:
    try:
        return os.open(path, _FLAGS)
    except ValueError as error:  # a NUL in a path that some document names
        raise ManifestError(f"{str(path)!r} is not the name of a file") from error


def _all_of(descriptor: int, path: Path, most: int) -> bytes:
    try:
        file = os.fdopen(descriptor, "rb")
    except OSError:  # a directory, which Python does not close then
        os.close(descriptor)
        raise
    with file:
        found = os.fstat(descriptor)
        # Before it is read, because that would take as much memory; and after, because a file may grow meanwhile.
        data = b"" if stat.S_ISREG(found.st_mode) and found.st_size > most else file.read(most + 1)
        if len(data) > most or found.st_size > most:
            raise ManifestError(f"{path}: more than {most} bytes")
    return data


def replace_file(path: Path, data: bytes) -> None:
    """In one go: a reader finds the old contents or the new. Raises the kernel's OSError. Not brought to the disk.

    It is for its owner alone, whatever the umask.
    """
    fresh = path.with_name(f"{path.name}.new")
    clear(fresh)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    try:
        fresh.replace(path)
    except IsADirectoryError:
        _move_aside(path)
        fresh.replace(path)


def set_aside(path: Path, why: str) -> str:
    """Give what is damaged another name, under which it is kept; `why` with that name, for a message."""
    try:
        return f"{why}; it is kept as `{_move_aside(path)}`"
    except OSError as error:
        return f"{why}; and it cannot be set aside: {os.strerror(error.errno or 0).lower()}"


def _move_aside(path: Path) -> Path:
    for number in count(1):
        aside = path.with_name(f"{path.name}.broken" if number == 1 else f"{path.name}.broken-{number}")
        if not os.path.lexists(aside):
            return path.rename(aside)
    raise AssertionError("there is always another number")


def clear(path: Path) -> None:
    """Make room for a file of this name. Raises the kernel's OSError."""
    try:
        path.unlink(missing_ok=True)
    except (IsADirectoryError, PermissionError):
        _move_aside(path)
