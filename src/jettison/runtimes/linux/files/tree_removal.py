"""Removing a directory in which a pod could write, and nothing else.

A pod may have nested directories deeper than a path is long, left a million files, forbidden its own user to change a
directory, or put a link or a mount anywhere below, also while this goes on. So the way leads down from a directory that
is trusted, one name at a time: no link on it is followed, and no mount is entered, not even one of the same device.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Final

from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.descent import Descent

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# The number is the same on all machines. struct open_how: flags, mode, how to resolve.
_OPENAT2: Final = 437
_OPEN_HOW: Final = struct.Struct("=3Q")
_NO_OTHER_MOUNT, _NO_LINKS = 0x01, 0x04
# A kernel before 5.6, or a filter of system calls that does not know this one.
_UNKNOWN_CALL: Final = frozenset({errno.ENOSYS, errno.EPERM})
# A directory that was replaced by something else.
_NO_DIRECTORY: Final = frozenset({errno.ENOTDIR, errno.ELOOP})
_OWNER_ONLY: Final = 0o700


def remove_tree(base: Path, rest: PurePath) -> None:
    """Remove what is at `rest` below `base`, with everything inside. Harmless when it is gone, or when a directory
    above it is something else. Raises OSError, with EXDEV for what is mounted below, and can be called again.
    """
    above = _above(base, rest)
    if above is None:
        return
    try:
        _remove(above, rest.name)
    finally:
        os.close(above)


def _above(base: Path, rest: PurePath) -> int | None:
    """A descriptor of the directory in which it lies; None where there is no such directory."""
    here = -1
    try:
        here = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in rest.parts[:-1]:
            below = _opened(here, name)
            os.close(here)
            here = below
    except OSError as error:
        if here >= 0:
            os.close(here)
        if error.errno in kernel_files.GONE | _NO_DIRECTORY:
            return None
        raise
    return here


def _remove(above: int, name: str) -> None:
    try:
        top = _opened(above, name)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in _NO_DIRECTORY:
            raise
        _done(os.unlink, name, above)
        return
    with Descent(top) as place:
        pending = [_clear(place.fd)]
        while place.depth or pending[-1]:
            if pending[-1]:
                below = pending[-1].pop()
                try:
                    fd = _opened(place.fd, below)
                except FileNotFoundError:
                    continue
                place.stand_in(below, fd, os.fstat(fd))
                pending.append(_clear(place.fd))
                continue
            empty = place.name
            place.leave()
            del pending[place.depth + 1 :]
            _done(os.rmdir, empty, place.fd)
    _done(os.rmdir, name, above)


def _clear(fd: int) -> list[str]:
    """Unlink all that is no directory; returns the names of the directories."""
    directories = []
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            else:
                _done(os.unlink, entry.name, fd)
    return directories


def _done(remove: Callable[..., None], name: str, fd: int) -> None:
    """Without root, nothing goes from a directory whose mode forbids it: caches of modules are read-only on purpose."""
    try:
        remove(name, dir_fd=fd)
    except PermissionError:
        os.fchmod(fd, _OWNER_ONLY)
        remove(name, dir_fd=fd)


def _opened(here: int, name: str) -> int:
    """A directory on the mount on which `here` is."""
    try:
        return _open(here, name)
    except PermissionError:
        # Without root, a process cannot read its own directory if the mode forbids it. By descriptor, because a link
        # that takes its place would have the mode of something else changed.
        found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        try:
            Path(f"/proc/self/fd/{found}").chmod(_OWNER_ONLY)
        finally:
            os.close(found)
        return _open(here, name)


def _open(here: int, name: str) -> int:
    how = _OPEN_HOW.pack(_DIRECTORY, 0, _NO_OTHER_MOUNT | _NO_LINKS)
    found = _LIBC.syscall(_OPENAT2, ctypes.c_int(here), os.fsencode(name), how, ctypes.c_size_t(len(how)))
    if found >= 0:
        return int(found)
    number = ctypes.get_errno()
    if number not in _UNKNOWN_CALL:
        raise OSError(number, os.strerror(number))
    fd = os.open(name, _DIRECTORY, dir_fd=here)
    if os.fstat(fd).st_dev != os.fstat(here).st_dev:
        os.close(fd)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return fd
