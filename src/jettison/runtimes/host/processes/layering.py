"""A layer over the host's filesystems: what a container's process writes to them lies in its own directory.

The root and every other mount on nodefs are covered by an overlay, because what fills nodefs is to be charged to the
pod that wrote it. An overlay shows nothing of what is mounted below it, so that is bound again on top. The other
filesystems stay the host's.

In the forked child, in a mount namespace of its own. Whatever fails is an OSError.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from pathlib import Path

from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.linux.files.filesystems import Mount, mount_of, read_mounts
from jettison.values import frozen

_ROOT = Path("/")
_OWNER_ONLY = 0o700


@frozen
class Layer:
    """What is written lies in `directory`, which is empty and on nodefs. What is mounted below `hidden` is not shown:
    volumes in memory, also those of other pods.
    """

    directory: str
    hidden: str


def cover(layer: Layer, staging: Path) -> None:
    """Build at `staging` what is to become the root."""
    nodefs, root = mount_of(Path(layer.directory)), mount_of(_ROOT)
    if nodefs is None or root is None:
        raise FileNotFoundError(f"`{layer.directory}` is gone")
    below: dict[int, list[Mount]] = defaultdict(list)
    for mount in read_mounts():
        if not mount.mount_point.is_relative_to(layer.hidden):
            below[mount.parent_id].append(mount)
    _lay(layer, _ROOT, staging, 0)
    count = 0
    waiting = [(each, True) for each in reversed(below[root.mount_id])]
    while waiting:
        mount, is_on_overlay = waiting.pop()
        target = staging / mount.mount_point.relative_to(_ROOT)
        is_covered = False
        try:
            if mount.device == nodefs.device and mount.mount_point.is_dir():
                count += 1
                _lay(layer, mount.mount_point, target, count)
                is_covered = True
            elif is_on_overlay:
                system_calls.bind(str(mount.mount_point), str(target))
        except (FileNotFoundError, NotADirectoryError):
            continue  # hidden by what was mounted above it later
        waiting += [(each, is_covered) for each in reversed(below[mount.mount_id])]


def _lay(layer: Layer, lower: Path, target: Path, number: int) -> None:
    directory = Path(layer.directory)
    upper, work = directory / f"written{number}", directory / f"work{number}"
    found = lower.stat()
    for each in (upper, work):
        each.mkdir(_OWNER_ONLY)
    os.chown(upper, found.st_uid, found.st_gid)
    upper.chmod(stat.S_IMODE(found.st_mode))
    system_calls.mount_overlay(str(lower), str(upper), str(work), str(target))
