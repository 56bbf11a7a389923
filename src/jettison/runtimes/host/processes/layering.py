"""A layer over the host's filesystems: what a container's process writes to them lies in its own directory.

The root and every other mount on nodefs are covered by an overlay, because what fills nodefs is to be charged to the
pod that wrote it. An overlay shows nothing of what is mounted below it, so that is bound again on top. The other
filesystems stay the host's.

In the new process, in a mount namespace of its own. Whatever fails is an OSError.
"""

from __future__ import annotations

import errno
import os
import stat

from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.linux.files.kernel_texts import mount_lines, read_mount_table, unescaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jettison.runtimes.host.processes.orders import Layer

_ROOT = "/"
_OWNER_ONLY = 0o700


class _Mount:
    """One line of mountinfo; `device` is the superblock's."""

    __slots__ = ("device", "mount_id", "mount_point", "parent_id")

    def __init__(self, fields: list[bytes]) -> None:
        self.mount_id = int(fields[0])
        self.parent_id = int(fields[1])
        self.device = fields[2]
        self.mount_point = unescaped(fields[4])


def cover(layer: Layer, staging: str) -> None:
    """Build at `staging` what is to become the root."""
    mounts = [_Mount(fields) for fields, _ in mount_lines(read_mount_table())]
    nodefs, root = _mount_of(layer.directory, mounts), _mount_of(_ROOT, mounts)
    below: dict[int, list[_Mount]] = {}
    for mount in mounts:
        if not _is_below(mount.mount_point, layer.hidden):
            below.setdefault(mount.parent_id, []).append(mount)
    _lay(layer, _ROOT, staging, 0)
    count = 0
    waiting = [(each, True) for each in reversed(below.get(root.mount_id, []))]
    while waiting:
        mount, is_on_overlay = waiting.pop()
        target = staging + mount.mount_point
        is_covered = False
        try:
            if mount.device == nodefs.device and stat.S_ISDIR(os.stat(mount.mount_point).st_mode):
                count += 1
                _lay(layer, mount.mount_point, target, count)
                is_covered = True
            elif is_on_overlay:
                system_calls.bind(mount.mount_point, target)
        except (FileNotFoundError, NotADirectoryError):
            continue  # hidden by what was mounted above it later
        waiting += [(each, is_covered) for each in reversed(below.get(mount.mount_id, []))]


def _mount_of(path: str, mounts: list[_Mount]) -> _Mount:
    """As the kernel says through a descriptor: mounts on top of one another need no guessing by longest prefix."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
            told = file.read()
    finally:
        os.close(descriptor)
    wanted = next((int(line[7:]) for line in told.split(b"\n") if line.startswith(b"mnt_id:")), -1)
    found = next((mount for mount in mounts if mount.mount_id == wanted), None)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, f"`{path}` is gone")
    return found


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _lay(layer: Layer, lower: str, target: str, number: int) -> None:
    upper, work = f"{layer.directory}/written{number}", f"{layer.directory}/work{number}"
    found = os.stat(lower)
    for each in (upper, work):
        os.mkdir(each, _OWNER_ONLY)
    os.chown(upper, found.st_uid, found.st_gid)
    os.chmod(upper, stat.S_IMODE(found.st_mode))
    system_calls.mount_overlay(lower, upper, work, target)
