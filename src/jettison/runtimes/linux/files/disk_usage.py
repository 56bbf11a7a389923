"""What a directory takes on its disk, counted as `du` counts and in portions, because it may hold millions of files.

Allocated blocks, not lengths: a sparse file is small, a compressed one too. A file with several names counts once.
What is mounted below from another device is not counted, and no symbolic link is followed. Files that come and go
meanwhile are counted or not; that is no error, there is no right answer.

Where a directory has a project id, the filesystem has counted all along (ext4 and xfs): everything below inherits the
id, and the kernel answers in microseconds what a walk would take minutes for. Often it cannot: the kernel was built
without, the filesystem was mounted without, or it is another filesystem. That is a value with a reason, because the
caller then walks.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from jettison.errors import ObservationError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.descent import Descent
from jettison.values import frozen

# st_blocks is in these units whatever the filesystem's block size is.
_BLOCK = 512

# ELOOP: a directory was replaced by a symbolic link between being listed and being entered.
_VANISHED = kernel_files.GONE | {errno.ELOOP, errno.ESTALE}
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})

# quotactl_fd has the same number on every architecture; the C library has no function for it. Linux 5.14 and newer.
_QUOTACTL_FD: Final = 443
_PROJECT_QUOTA: Final = 2
_GET_QUOTA: Final = 0x800007 << 8 | _PROJECT_QUOTA

# struct fsxattr: flags, extent size, extent count, project id, copy-on-write extent size, padding.
_FSXATTR: Final = struct.Struct("=IIIII8x")
_GET_FSXATTR: Final = 0x801C581F

_NO_QUOTA: Final = frozenset(
    {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY, errno.ESRCH, errno.EINVAL, errno.EPERM, errno.EACCES}
)


@frozen
class DiskUsage:
    """The directory itself is part of it. `unreadable` entries could not be looked into: the rest is a lower bound."""

    size: int
    inodes: int
    unreadable: int = 0


class DirectoryWalk:
    """A measurement under way. Between two steps it holds four descriptors and the names still to be visited.

    Most directories have none below them. Such a one is listed from its parent and never entered, which saves the way
    back: a quarter of the system calls.
    """

    def __init__(self, top: Path | str) -> None:
        self._size = self._inodes = self._unreadable = 0
        # Names of a file still to come. One whose names have all been seen is forgotten again, which keeps this
        # small in an ordinary tree of hard links.
        self._links: dict[int, int] = {}
        self._pending: list[list[str]] = []
        self._entries: os._ScandirIterator[str] | None = None
        self._top = top
        self._place: Descent | None = None
        # What is listed and was not entered: its name, its descriptor and its status.
        self._ahead: tuple[str, int, os.stat_result] | None = None
        self._is_gone = False
        self._begin()

    @property
    def usage(self) -> DiskUsage | None:
        """What was counted so far; None when there is no such directory."""
        return None if self._is_gone else DiskUsage(self._size, self._inodes, self._unreadable)

    def step(self, entries: int = 1000) -> bool:
        """Look at that many entries, at some 8 µs each (`du` takes 4). False when nothing is left to count."""
        place = self._place
        if place is None:
            return False
        try:
            while entries > 0:
                if self._entries is not None:
                    entries -= self._look_at(self._entries, entries)
                elif self._go_on(place):
                    entries -= 1
                else:
                    self.close()
                    return False
        except OSError as error:
            self.close()
            raise kernel_files.unreadable(self._top, error) from error
        except ObservationError:
            self.close()
            raise
        return True

    def close(self) -> None:
        """Give up, or clean up."""
        self._close_listing()
        if self._ahead is not None:
            os.close(self._ahead[1])
            self._ahead = None
        if self._place is not None:
            self._place.close()
            self._place = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self) -> None:
        try:
            self._place = Descent(self._top)
            self._count(os.fstat(self._place.fd))
            self._device = self._place.device
            self._open_listing(self._place.fd)
        except OSError as error:
            self.close()
            if error.errno not in _VANISHED:
                raise kernel_files.unreadable(self._top, error) from error
            self._is_gone = True

    def _go_on(self, place: Descent) -> bool:
        """Look into the next directory, or leave one that is done; False at the end."""
        if self._ahead is not None:
            self._settle(place, *self._ahead)
        elif self._pending[-1]:
            self._look_into(place, self._pending[-1].pop())
        elif place.depth:
            place.leave()
            del self._pending[place.depth + 1 :]
        else:
            return False
        return True

    def _look_at(self, listing: Iterator[os.DirEntry[str]], most: int) -> int:
        """Count entries of the current directory; returns how many it looked at."""
        seen = 0
        for entry in islice(listing, most):
            seen += 1
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                self._excuse(error)
                continue
            if status.st_dev != self._device:
                continue
            if stat.S_ISDIR(status.st_mode):
                self._pending[-1].append(entry.name)
            elif status.st_nlink > 1 and not self._is_first_name(status):
                continue
            self._count(status)
        if seen < most:
            self._close_listing()
        return seen

    def _is_first_name(self, status: os.stat_result) -> bool:
        left = self._links.get(status.st_ino)
        if left is None:
            self._links[status.st_ino] = status.st_nlink - 1
            return True
        if left == 1:
            del self._links[status.st_ino]
        else:
            self._links[status.st_ino] = left - 1
        return False

    def _count(self, status: os.stat_result) -> None:
        self._size += status.st_blocks * _BLOCK
        self._inodes += 1

    def _look_into(self, place: Descent, name: str) -> None:
        try:
            fd = place.open(name)
        except OSError as error:
            self._excuse(error)
            return
        status = os.fstat(fd)
        self._ahead = name, fd, status
        if status.st_dev == self._device:
            self._open_listing(fd)
        else:  # something was mounted here since it was listed
            self._pending.append([])

    def _settle(self, place: Descent, name: str, fd: int, status: os.stat_result) -> None:
        """It is listed: enter it for what is below it, or be done with it."""
        self._ahead = None
        if self._pending[-1]:
            place.stand_in(name, fd, status)
        else:
            os.close(fd)
            self._pending.pop()

    def _open_listing(self, fd: int) -> None:
        self._pending.append([])
        try:
            self._entries = os.scandir(fd)
        except OSError as error:
            self._excuse(error)

    def _close_listing(self) -> None:
        if self._entries is not None:
            self._entries.close()
            self._entries = None

    def _excuse(self, error: OSError) -> None:
        """Gone is normal, forbidden is noted, anything else is the disk's fault and ends the walk."""
        if error.errno in _FORBIDDEN:
            self._unreadable += 1
        elif error.errno not in _VANISHED:
            raise error


def measure(top: Path) -> DiskUsage | None:
    """The whole walk in one go: for small directories, or from a thread."""
    with DirectoryWalk(top) as walk:
        while walk.step():
            continue
        return walk.usage


@frozen
class NoQuota:
    """The filesystem has not counted; `reason` says what is missing."""

    reason: str


class _Quota(ctypes.Structure):
    _fields_ = (
        ("block_hard_limit", ctypes.c_uint64),
        ("block_soft_limit", ctypes.c_uint64),
        ("space", ctypes.c_uint64),
        ("inode_hard_limit", ctypes.c_uint64),
        ("inode_soft_limit", ctypes.c_uint64),
        ("inodes", ctypes.c_uint64),
        ("block_time", ctypes.c_uint64),
        ("inode_time", ctypes.c_uint64),
        ("valid", ctypes.c_uint32),
    )


def project_usage(directory: Path | str) -> DiskUsage | NoQuota | None:
    """What the directory's project uses; None when the directory is gone."""
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in kernel_files.GONE:
            return None
        raise kernel_files.unreadable(directory, error) from error
    try:
        project = _attributes(fd)[3]
        if project == 0:
            return NoQuota("the directory has no project id")
        return _usage_of(fd, project)
    except OSError as error:
        if error.errno in _NO_QUOTA:
            return NoQuota(f"the filesystem counts no projects: {kernel_files.reason(error)}")
        raise kernel_files.unreadable(directory, error) from error
    finally:
        os.close(fd)


def _attributes(fd: int) -> tuple[int, int, int, int, int]:
    answer = fcntl.ioctl(fd, _GET_FSXATTR, bytes(_FSXATTR.size))
    flags, extent, extents, project, cow_extent = _FSXATTR.unpack(answer)
    return flags, extent, extents, project, cow_extent


def _usage_of(fd: int, project: int) -> DiskUsage:
    quota = _Quota()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_QUOTACTL_FD, fd, _GET_QUOTA, project, ctypes.byref(quota)) == 0:
        return DiskUsage(quota.space, quota.inodes)
    code = ctypes.get_errno()
    if code == errno.ENOENT:  # xfs: nothing was ever written under this project
        return DiskUsage(0, 0)
    raise OSError(code, os.strerror(code))
