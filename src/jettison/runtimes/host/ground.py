"""Where on this machine a node may make its cgroups, or why it may not."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

from jettison.errors import ActionFailed
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux import cgroup_v1, cgroup_v2, kernel_files
from jettison.runtimes.linux.cgroup_mounts import CGROUP_ROOT, CgroupMounts, discover
from jettison.runtimes.linux.cgroups import Cgroup
from jettison.runtimes.linux.delegation import delegated_cgroup
from jettison.runtimes.linux.mounts import PROC

# The leaf of a delegated cgroup into which we and our siblings move: version 2 lets a cgroup have either processes or
# children with controllers.
_AGENT = "agent"
_STILL_USED = kernel_files.GONE | {errno.EBUSY, errno.ENOTEMPTY}


@dataclass(frozen=True, slots=True)
class Ground:
    """`node` is the cgroup of the node; what is above it up to `base` was made by us too, `base` itself was not."""

    mounts: CgroupMounts
    base: str
    node: str

    def leave(self) -> None:
        """Remove the way down to the node once the node is gone; other nodes that use it keep it."""
        name = Path(self.node).parent
        while str(name) not in (".", self.base):
            for tree in self.mounts.used:
                try:
                    (tree.mount_point / name).rmdir()
                except OSError as error:
                    if error.errno not in _STILL_USED:
                        raise ActionFailed(f"cannot remove cgroup `{name}`: {kernel_files.reason(error)}") from error
            name = name.parent


@dataclass(frozen=True, slots=True)
class NoGround:
    """Why cgroups cannot be used."""

    reason: str


def find_ground(settings: HostSettings, root: Path = CGROUP_ROOT, proc: Path = PROC) -> Ground | NoGround:
    """Make the node's cgroup, below the delegated one where there is one, and see whether memory is counted there."""
    if not settings.uses_cgroups:
        return NoGround("the settings say not to")
    mounts = discover(root, proc)
    memory = mounts.holding("memory")
    if memory is None:
        return NoGround("the memory controller is not mounted")
    base = delegated_cgroup(mounts, proc) or ""
    node = f"{base}/{settings.node_cgroup}" if base else settings.node_cgroup
    try:
        if base and memory.is_unified:
            _make_room(mounts, base)
        Cgroup(mounts, node).create()
    except ActionFailed as failure:
        return NoGround(str(failure))
    words = cgroup_v2 if memory.is_unified else cgroup_v1
    if not (memory.mount_point / node / words.MEMORY_LIMIT).exists():
        return NoGround(f"no memory controller in `{memory.mount_point / node}`: nobody above passes it on")
    return Ground(mounts, base, node)


def _make_room(mounts: CgroupMounts, base: str) -> None:
    unified = mounts.unified
    if unified is None:
        return
    inside = (kernel_files.read(unified.mount_point / base / "cgroup.procs") or b"").split()
    if not inside:
        return
    leaf = unified.mount_point / base / _AGENT
    try:
        leaf.mkdir(exist_ok=True)
    except OSError as error:
        raise ActionFailed(f"cannot create cgroup `{leaf}`: {kernel_files.reason(error)}") from error
    for pid in inside:
        kernel_files.write(leaf / "cgroup.procs", pid)
