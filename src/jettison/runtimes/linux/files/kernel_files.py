"""Files that the kernel makes up while they are read: whole in one go, and gone at any moment.

A cgroup may be removed, a process may exit, a controller may not be mounted: the file is then *gone*, which callers
meet every second and treat as a value. Any other refusal is an error with the file's name in it.

Some stay open between readings, because opening one costs three times as much as reading it. A descriptor does not keep
a cgroup from being removed. Afterwards it answers ENODEV, even when a cgroup of the same name is there again: every
failure means "open anew, once", and only then "gone".
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import Final

from jettison.errors import ObservationError, WriteError
from jettison.runtimes.linux.files.kernel_texts import reason as reason  # noqa: PLC0414  most callers know this module anyway

PROC = Path("/proc")

# ENODEV comes from a descriptor whose cgroup was removed, ESRCH from a process that was reaped while /proc was read,
# ENOTDIR from a cgroup whose name is that of a control file.
GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ESRCH, errno.ENOTDIR})

# A v1 cgroup.procs of 30,000 processes has 200 kB; everything else fits into one page.
_CHUNK = 65_536

# memory.stat is the longest: 42 lines on version 1, about 60 on version 2, 3 kB with the largest numbers.
_SIZE: Final = 8192


def read(path: Path | str, dir_fd: int | None = None) -> bytes | None:
    """The whole file, or None when it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=dir_fd)
        try:
            return read_all(fd)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in GONE:
            return None
        raise unreadable(path, error) from error


def read_all(fd: int) -> bytes:
    """Everything from the descriptor's position on; a short read says nothing about the end of a kernel file."""
    data = os.read(fd, _CHUNK)
    if not data:
        return data
    parts = [data]
    while data := os.read(fd, _CHUNK):
        parts.append(data)
    return b"".join(parts)


def read_number(path: Path) -> int | None:
    """A file that holds one number; None when it is gone or says `max`."""
    data = read(path)
    if data is None:
        return None
    try:
        return int(data)
    except ValueError:
        if data.strip() == b"max":
            return None
        raise ObservationError(f"`{path}` holds `{data[:40]!r}`, not a number") from None


def write(path: Path | str, data: bytes, dir_fd: int | None = None) -> bool:
    """One write call, because the kernel takes each as a whole command. False when the file is gone."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=dir_fd)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in GONE:
            return False
        raise WriteError(f"cannot write `{data.decode(errors='replace')}` to `{path}`: {reason(error)}") from error
    return True


def unreadable(path: Path | str, error: OSError) -> ObservationError:
    """The one way in which a failed reading is worded."""
    return ObservationError(f"cannot read `{path}`: {reason(error)}")


class DescriptorBudget:
    """How many files may stay open; the rest is opened for each reading, which is slower and never fails.

    A thousand pods have four thousand files and the usual limit is 1,024, so by default half of the limit is used:
    the other half belongs to sockets, logs and processes.
    """

    __slots__ = ("left",)

    def __init__(self, allowed: int | None = None) -> None:
        self.left = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 if allowed is None else allowed


class KeptFiles:
    """One file of many directories, at most 8 kB of it, from the beginning each time.

    A path is put together when it is opened: a thousand pods have four thousand of them, at 200 bytes each.
    """

    __slots__ = ("_after", "_before", "_budget", "_descriptors")

    def __init__(self, before: str, after: str, budget: DescriptorBudget) -> None:
        self._before = before
        self._after = after
        self._budget = budget
        self._descriptors: dict[str, int] = {}

    def read(self, name: str) -> bytes | None:
        """What `<before><name><after>` says; None when it is gone."""
        try:
            return os.pread(self._descriptors[name], _SIZE, 0)
        except (KeyError, OSError):
            return self._read_anew(name)

    def names(self) -> frozenset[str]:
        """Of the files that are open."""
        return frozenset(self._descriptors)

    def forget(self, name: str) -> None:
        """Give the descriptor back; the next reading opens the file again."""
        descriptor = self._descriptors.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)
            self._budget.left += 1

    def _read_anew(self, name: str) -> bytes | None:
        self.forget(name)
        path = f"{self._before}{name}{self._after}"
        if self._budget.left <= 0:
            return read(path)
        try:
            descriptor = self._descriptors[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._budget.left -= 1
            return os.pread(descriptor, _SIZE, 0)
        except OSError as error:
            self.forget(name)
            if error.errno in GONE:
                return None
            raise unreadable(path, error) from error


class KeptFile:
    """A single one."""

    __slots__ = ("_files", "path")

    def __init__(self, path: Path, budget: DescriptorBudget) -> None:
        self.path = path
        self._files = KeptFiles(str(path), "", budget)

    def read(self) -> bytes | None:
        """None when the file is gone."""
        return self._files.read("")

    def close(self) -> None:
        """Give the descriptor back; the next reading opens the file again."""
        self._files.forget("")
