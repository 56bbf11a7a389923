"""How full a filesystem is, and whether two paths are on the same one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.mounts import PROC, mount_of


@dataclass(frozen=True, slots=True)
class Filesystem:
    """Bytes and inodes. Blocks reserved for root are neither available nor used, so the three need not add up."""

    capacity: int
    available: int
    used: int
    inodes: int | None
    inodes_free: int | None


def read_filesystem(path: Path) -> Filesystem | None:
    """The filesystem that holds the path; None when the path is gone. A dead network filesystem blocks here."""
    try:
        numbers = os.statvfs(path)
    except OSError as error:
        if error.errno in kernel_files.GONE:
            return None
        raise kernel_files.unreadable(path, error) from error
    return _measured(numbers)


def device(path: Path, proc: Path = PROC) -> str | None:
    """`major:minor` of the superblock that holds the path; None when the path is gone."""
    mount = mount_of(path, proc)
    return None if mount is None else mount.device


def are_on_one_device(one: Path, other: Path, proc: Path = PROC) -> bool | None:
    """None when either is gone: then it is not known."""
    devices = device(one, proc), device(other, proc)
    return None if None in devices else devices[0] == devices[1]


def _measured(numbers: os.statvfs_result) -> Filesystem:
    block = numbers.f_frsize or numbers.f_bsize
    # btrfs, vfat and most network filesystems make inodes up as they go and report 0 of 0; none are lacking there.
    has_inodes = numbers.f_files > 0
    return Filesystem(
        capacity=block * numbers.f_blocks,
        available=block * numbers.f_bavail,
        used=block * (numbers.f_blocks - numbers.f_bfree),
        inodes=numbers.f_files if has_inodes else None,
        inodes_free=numbers.f_ffree if has_inodes else None,
    )
