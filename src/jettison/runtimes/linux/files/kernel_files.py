"""Files that the kernel makes up while they are read: whole in one go, and gone at any moment.

A cgroup may be removed, a process may exit, a controller may not be mounted: the file is then *gone*, which callers
meet every second and treat as a value. Any other refusal is an error with the file's name in it.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from jettison.errors import ObservationError, WriteError

# ENODEV comes from a descriptor whose cgroup was removed, ESRCH from a process that was reaped while /proc was read,
# ENOTDIR from a cgroup whose name is that of a control file.
GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ESRCH, errno.ENOTDIR})

# A v1 cgroup.procs of 30,000 processes has 200 kB; everything else fits into one page.
_CHUNK = 65_536


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


def reason(error: OSError) -> str:
    """The kernel's words without Python's decoration: `device or resource busy`."""
    return (error.strerror or str(error)).lower()
