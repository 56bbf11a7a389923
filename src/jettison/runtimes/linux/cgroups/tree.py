"""Everything below one directory of one hierarchy: listed, emptied of directories, taken away.

A process that may create cgroups inside a pod may nest them deeper than a path is long and add new ones meanwhile, so
nothing here recurses, and nothing tries to win against a writer: one pass, and the caller asks again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from jettison.errors import ObservationError, RemovalError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.descent import Descent

# `.` and its name in the parent; every child adds its `..`.
_LINKS_OF_A_LEAF = 2
_BUSY = frozenset({errno.EBUSY, errno.ENOTEMPTY})


def bottom_up(top: Path) -> Iterator[Descent]:
    """Stand in every cgroup of the tree in turn, children before their parents. Nothing when `top` is gone."""
    try:
        place = Descent(top)
    except OSError as error:
        if error.errno in kernel_files.GONE:
            return
        raise kernel_files.unreadable(top, error) from error
    with place:
        pending = [_subdirectories(place.fd)]
        while True:
            if pending[-1]:
                if _enter(place, pending[-1].pop()):
                    pending.append(_subdirectories(place.fd))
                continue
            yield place
            if place.depth == 0:
                return
            place.leave()
            del pending[place.depth + 1 :]


def children(top: Path) -> list[str]:
    """Names of the cgroups directly below."""
    try:
        with Descent(top) as place:
            return _subdirectories(place.fd)
    except OSError as error:
        if error.errno in kernel_files.GONE:
            return []
        raise kernel_files.unreadable(top, error) from error


def processes(top: Path) -> Iterator[int]:
    """Process ids in the tree; one may come twice when it moves meanwhile."""
    for place in bottom_up(top):
        yield from _listed(place.fd)


def count_processes(top: Path) -> int:
    """How many there are in the tree; 15 µs where nothing is nested, which a directory tells by its links."""
    try:
        if top.stat().st_nlink <= _LINKS_OF_A_LEAF:
            return (kernel_files.read(top / "cgroup.procs") or b"").count(b"\n")
    except OSError as error:
        if error.errno in kernel_files.GONE:
            return 0
        raise kernel_files.unreadable(top, error) from error
    return len(set(processes(top)))


def remove(top: Path) -> bool:
    """Take the tree away. False when the kernel still holds part of it."""
    is_gone = True
    for place in bottom_up(top):
        try:
            if place.depth:
                # From inside, because the parent's path may be too long to name.
                os.rmdir(f"../{place.name}", dir_fd=place.fd)
            else:
                top.rmdir()
        except OSError as error:
            if error.errno in _BUSY:
                is_gone = False
            elif error.errno not in kernel_files.GONE:
                raise RemovalError(f"cannot remove cgroup below `{top}`: {kernel_files.reason(error)}") from error
    return is_gone


def _subdirectories(fd: int) -> list[str]:
    try:
        with os.scandir(fd) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        if error.errno in kernel_files.GONE:
            return []
        raise kernel_files.unreadable("cgroup directory", error) from error


def _enter(place: Descent, name: str) -> bool:
    try:
        place.enter(name)
    except OSError as error:
        if error.errno in kernel_files.GONE:
            return False
        raise kernel_files.unreadable(name, error) from error
    return True


def _listed(fd: int) -> Iterator[int]:
    # Opened anew each time. On version 1 a kept descriptor goes on showing the list it was first read with, until it
    # has rested for a second; one that is read more often than that never changes.
    try:
        data = kernel_files.read("cgroup.procs", dir_fd=fd) or b""
    except ObservationError as failure:
        # A threaded cgroup has no list of its own: its processes are listed by the domain above it.
        if isinstance(failure.__cause__, OSError) and failure.__cause__.errno == errno.EOPNOTSUPP:
            return
        raise
    # Processes of foreign pid namespaces are listed as 0.
    yield from (int(pid) for pid in data.split() if pid != b"0")
