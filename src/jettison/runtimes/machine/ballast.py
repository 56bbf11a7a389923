"""Space that is held to be given up: room for clean-up on a disk that is full to the last byte or the last inode.

Jettison itself ends pods and removes files without it. A container runtime writes before it deletes, though, and on a
filesystem that copies on write even a removal takes space. So the ballast goes as soon as nothing is left, and comes
back when there is plenty again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from jettison import events
from jettison.engine.node.snapshot import FsStats
from jettison.errors import ObservationError
from jettison.events import Emit
from jettison.runtimes.linux.files.filesystems import mount_of
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.machine.node_disks import DiskPlaces

PIECES = 8
"""Files that it consists of: as many inodes are given up with it."""

# Of the filesystem it takes at most one part in so many; and it comes back when so many times its size is free.
_LEAST_SHARE, _PLENTY = 100, 10
_NAME = "ballast"
_HELD_IN_MEMORY = frozenset({"tmpfs", "ramfs"})


class Ballast:
    """On one filesystem. `keep` and `give_up` may wait for a disk."""

    def __init__(self, directory: Path, size: int, emit: Emit) -> None:
        self.directory = directory
        self._wanted = size
        self._emit = emit
        # Left by an agent that was killed.
        self.is_held = directory.is_dir() and not directory.is_symlink()
        # Told once that it cannot be had, until it can.
        self._lack = ""

    def is_due(self, stats: FsStats | None, *, is_short: bool) -> Callable[[], None] | None:
        """What is to be done about it, by these numbers of its filesystem; nothing where they are not known."""
        if stats is None or stats.available is None or stats.capacity is None:
            return None
        is_full = stats.available <= 0 or stats.inodes_free == 0
        if self.is_held and is_full:
            return self.give_up
        size = self._size(stats.capacity)
        has_inodes = stats.inodes_free is None or stats.inodes_free >= _PLENTY * PIECES
        if not self.is_held and not is_short and size and stats.available >= _PLENTY * size and has_inodes:
            return lambda: self.keep(size)
        return None

    def keep(self, size: int) -> None:
        """Make it. Where that cannot be, nothing of it is left, and it is said once."""
        piece = size // PIECES
        try:
            self.directory.mkdir(mode=0o700, exist_ok=True)
            top = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                for number in range(PIECES):
                    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                    file = os.open(str(number), flags, 0o600, dir_fd=top)
                    try:
                        os.posix_fallocate(file, 0, piece)
                    finally:
                        os.close(file)
            finally:
                os.close(top)
        except OSError as error:
            self._remove()
            if error.errno != errno.ENOSPC and reason(error) != self._lack:
                self._lack = reason(error)
                self._emit(events.ActionFailed(f"make the ballast `{self.directory}`", self._lack))
            return
        self.is_held, self._lack = True, ""
        self._emit(events.BallastKept(str(self.directory), piece * PIECES))

    def give_up(self) -> None:
        """All of it, at once."""
        self.is_held = False
        if self._remove():
            self._emit(events.BallastGivenUp(str(self.directory)))

    def drop(self) -> None:
        """The agent ends, and with it the need."""
        self.is_held = False
        self._remove()

    def _size(self, capacity: int) -> int:
        return min(self._wanted, capacity // _LEAST_SHARE) // PIECES * PIECES

    def _remove(self) -> bool:
        try:
            top = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False  # there is none
        try:
            for number in range(PIECES):
                try:
                    os.unlink(str(number), dir_fd=top)
                except FileNotFoundError:
                    continue
            self.directory.rmdir()
        except OSError as error:
            self._emit(events.ActionFailed(f"give up the ballast `{self.directory}`", reason(error)))
            return False
        finally:
            os.close(top)
        return True


def ballast_places(places: DiskPlaces, node: str) -> list[Path]:
    """Where it is kept: in the node's own directory, and at the top of a filesystem of images. May wait for a disk.

    A filesystem in memory has none: it would take from the memory what it saves on the disk.
    """
    found = []
    for directory, is_own in ((places.node, True), *([] if places.images is places.node else [(places.images, False)])):
        try:
            mount = mount_of(directory)
        except ObservationError:
            continue
        if mount is not None and mount.fstype not in _HELD_IN_MEMORY:
            found.append(directory / _NAME if is_own else mount.mount_point / f".jettison-{_NAME}-{node}")
    return found
