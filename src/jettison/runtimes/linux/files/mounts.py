"""The mount table: which filesystem is where, and which one a path is on.

`st_dev` is not enough to answer that: every btrfs subvolume has a number of its own, so two directories of one disk
look like two. The mount table names the superblock, which is the thing that runs full.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from jettison.errors import ObservationError
from jettison.runtimes.linux.files import kernel_files

PROC = Path("/proc")

_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo. `device` is the superblock's `major:minor`; `root` is the part of it that is mounted."""

    mount_id: int
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
    return tuple(mount for line in data.split(b"\n") if (mount := _parse(line)) is not None)


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


def _parse(line: bytes) -> Mount | None:
    # Empty fields are legal (a tmpfs may have the empty source), so runs of blanks must not be folded.
    before, separator, after = line.partition(b" - ")
    fields, tail = before.split(b" "), after.split(b" ")
    if not separator or len(fields) < 6 or len(tail) < 3:
        return None
    return Mount(
        mount_id=int(fields[0]),
        device=fields[2].decode("ascii"),
        root=_unescape(fields[3]),
        mount_point=Path(_unescape(fields[4])),
        fstype=_unescape(tail[0]),
        source=_unescape(tail[1]),
        super_options=frozenset(os.fsdecode(b" ".join(tail[2:])).split(",")),
    )


def _unescape(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field))
