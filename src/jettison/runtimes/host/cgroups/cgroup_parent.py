"""Where on this machine a node may make its cgroups, or why it may not."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

from jettison.errors import RemovalError, WriteError
from jettison.runtimes.host.cgroups.claim import Claim, claim
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux.cgroups import v1 as cgroup_v1
from jettison.runtimes.linux.cgroups import v2 as cgroup_v2
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.delegation import delegated_cgroup
from jettison.runtimes.linux.cgroups.mounts import CGROUP_ROOT, CgroupMounts, discover
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.mounts import PROC

# The leaf of a delegated cgroup into which we and our siblings move: version 2 lets a cgroup have either processes or
# children with controllers.
_AGENT = "agent"
_STILL_USED = frozenset({errno.EBUSY, errno.ENOTEMPTY})


@dataclass(frozen=True, slots=True)
class CgroupParent:
    """`node` is the cgroup of the node; what is above it up to `base` was made by us too, `base` itself was not."""

    mounts: CgroupMounts
    base: str
    node: str
    claim: Claim

    def leave(self) -> bool:
        """Remove the node once it is empty, if it is ours, and the way down to it; other nodes that use it keep it.

        False when the node is there still.
        """
        if not self.claim.is_ours:
            return True
        is_gone = self._remove(Path(self.node))
        name = Path(self.node).parent
        while str(name) not in (".", self.base):
            self._remove(name)
            name = name.parent
        return is_gone

    def _remove(self, name: Path) -> bool:
        is_gone = True
        for tree in self.mounts.used:
            try:
                (tree.mount_point / name).rmdir()
            except OSError as error:
                if error.errno in _STILL_USED:
                    is_gone = False
                elif error.errno not in kernel_files.GONE:
                    raise RemovalError(f"cannot remove cgroup `{name}`: {kernel_files.reason(error)}") from error
        return is_gone


@dataclass(frozen=True, slots=True)
class NoGround:
    """Why cgroups cannot be used."""

    reason: str


def find_cgroup_parent(settings: HostSettings, root: Path = CGROUP_ROOT, proc: Path = PROC) -> CgroupParent | NoGround:
    """Claim the node's cgroup, below the delegated one where there is one, and see whether memory is counted there.

    Raises InputError when another program uses it: then there is no way to run this node, not even without cgroups.
    """
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
        claimed = claim(Cgroup(mounts, node))
    except WriteError as failure:
        return NoGround(str(failure))
    words = cgroup_v2 if memory.is_unified else cgroup_v1
    if not (memory.mount_point / node / words.MEMORY_LIMIT).exists():
        claimed.release()
        return NoGround(f"no memory controller in `{memory.mount_point / node}`: no cgroup above passes it on")
    return CgroupParent(mounts, base, node, claimed)


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
        raise WriteError(f"cannot create cgroup `{leaf}`: {kernel_files.reason(error)}") from error
    for pid in inside:
        kernel_files.write(leaf / "cgroup.procs", pid)
