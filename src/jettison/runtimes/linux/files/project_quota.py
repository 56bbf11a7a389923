"""Disk usage that the filesystem has counted all along: project quotas, on ext4 and xfs.

Where a directory has a project id, everything below inherits it, and the kernel answers in microseconds what a walk
would take minutes for. Often it cannot: the kernel was built without, the filesystem was mounted without, or it is
another filesystem. That is a value with a reason, because the caller then walks.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.disk_usage import DiskUsage

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


@dataclass(frozen=True, slots=True)
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


def project_usage(directory: Path) -> DiskUsage | NoQuota | None:
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
