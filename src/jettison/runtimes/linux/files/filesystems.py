"""Which filesystem is where, which one a path is on, and how full it is.

`st_dev` is not enough to say which one a path is on: every btrfs subvolume has a number of its own, so two directories
of one disk look like two. The mount table names the superblock, which is the thing that runs full.
"""

from __future__ import annotations

import os
from pathlib import Path

from jettison.errors import ObservationError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.runtimes.linux.files.kernel_texts import mount_lines, unescaped
from jettison.values import frozen

_UPPER = "upperdir="


@frozen
class Mount:
    """One line of mountinfo. `device` is the superblock's `major:minor`; `root` is the part of it that is mounted."""

    mount_id: int
    # The mount that it is mounted on.
    parent_id: int
    device: str
    root: str
    mount_point: Path
    fstype: str
    source: str
    super_options: frozenset[str]


def read_mounts(proc: Path = PROC) -> tuple[Mount, ...]:
    """All mounts of this process's mount namespace, in the kernel's order: later ones may hide earlier ones."""
    path = proc / "self" / "mountinfo"
    data = kernel_files.read(path)
    if data is None:
        raise ObservationError(f"`{path}` does not exist, is /proc mounted?")
    return tuple(_mount(fields, tail) for fields, tail in mount_lines(data))


def mount_of(path: Path, proc: Path = PROC) -> Mount | None:
    """The mount that holds the path; None when the path is gone.

    The kernel says which through the descriptor, so symbolic links, bind mounts and mounts on top of one another need
    no guessing by longest prefix.
    """
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in kernel_files.GONE:
            return None
        raise kernel_files.unreadable(path, error) from error
    try:
        info = kernel_files.read(proc / "self" / "fdinfo" / str(fd)) or b""
    finally:
        os.close(fd)
    for line in info.split(b"\n"):
        if line.startswith(b"mnt_id:"):
            wanted = int(line[7:])
            return next((mount for mount in read_mounts(proc) if mount.mount_id == wanted), None)
    return None


def _mount(fields: list[bytes], tail: list[bytes]) -> Mount:
    return Mount(
        mount_id=int(fields[0]),
        parent_id=int(fields[1]),
        device=fields[2].decode("ascii"),
        root=unescaped(fields[3]),
        mount_point=Path(unescaped(fields[4])),
        fstype=unescaped(tail[0]),
        source=unescaped(tail[1]),
        super_options=frozenset(os.fsdecode(b" ".join(tail[2:])).split(",")),
    )


@frozen
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


def upper_dir(pid: int) -> str:
    """The layer that an overlay mount of the container's root is written to; empty where it is none."""
    try:
        data = kernel_files.read(PROC / str(pid) / "mountinfo") or b""
    except ObservationError:
        return ""
    for line in data.decode("utf-8", "surrogateescape").splitlines():
        fields = line.split(" ")
        if len(fields) > 4 and fields[4] == "/":
            options = fields[-1].split(",")
            return next((each.removeprefix(_UPPER) for each in options if each.startswith(_UPPER)), "")
    return ""
