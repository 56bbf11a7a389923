"""Where on this machine a node may make its cgroups, or why it may not; and one agent to a cgroup.

The agent that claims a cgroup holds a lock on one of its files for as long as it lives. Two agents that share a node's
name each take the other's pods for leftovers and kill them. The kernel gives a dead agent's lock back, and a cgroup's
file is the same one in every namespace, so neither a SIGKILL nor a container around one of the two makes a difference.
Only the owner may open that file: a process that may read it can lock it, and a pod that waits for the lock would have
it when its agent dies, and keep the next one out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

from jettison.errors import InputError, RemovalError, WriteError
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import CgroupV1, CgroupV2
from jettison.runtimes.linux.cgroups.mounts import CGROUP_ROOT, CgroupMounts, delegated_cgroup, discover
from jettison.runtimes.linux.cgroups.names import PLAIN, CgroupNames
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.values import frozen

# The leaf of a delegated cgroup into which we and our siblings move: version 2 lets a cgroup have either processes or
# children with controllers.
_AGENT = "agent"
_STILL_USED = frozenset({errno.EBUSY, errno.ENOTEMPTY})

KUBEPODS = "kubepods"
"""The one cgroup that a node has directly below its own."""

# Settings that every cgroup has and no program reads.
_LOCKED_V2, _LOCKED_V1 = "cgroup.max.depth", "cgroup.clone_children"
_OWNER_ONLY = 0o600
# A child that an agent forked just before it was killed holds the lock until it has noticed.
_ATTEMPTS, _PAUSE = 50, 0.02


@frozen
class CgroupParent:
    """`node` is the cgroup of the node; what is above it up to `base` was made by us too, `base` itself was not."""

    mounts: CgroupMounts
    base: str
    node: str
    claim: Claim
    names: CgroupNames

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
        # A container runtime makes the way down in hierarchies that we do not use, and leaves it.
        for tree in self.mounts.hierarchies:
            try:
                (tree.mount_point / name).rmdir()
            except OSError as error:
                if error.errno in _STILL_USED:
                    is_gone = False
                elif error.errno not in kernel_files.GONE:
                    raise RemovalError(f"cannot remove cgroup `{name}`: {kernel_files.reason(error)}") from error
        return is_gone


@frozen
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
    names, base, node = node_names(settings, mounts, proc)
    try:
        if base and memory.is_unified:
            _make_room(mounts, base)
        claimed = claim(Cgroup(mounts, node), names)
    except WriteError as failure:
        return NoGround(str(failure))
    words = CgroupV2 if memory.is_unified else CgroupV1
    if not (memory.mount_point / node / words.MEMORY_LIMIT).exists():
        claimed.release()
        return NoGround(f"no memory controller in `{memory.mount_point / node}`: no cgroup above passes it on")
    return CgroupParent(mounts, base, node, claimed, names)


def node_names(settings: HostSettings, mounts: CgroupMounts, proc: Path = PROC) -> tuple[CgroupNames, str, str]:
    """How cgroups of the node are called, what it is made below, and its own cgroup."""
    names = CgroupNames(are_slices=settings.uses_slices)
    # Slices are systemd's, and stand at the root.
    base = "" if settings.uses_slices else delegated_cgroup(mounts, proc) or ""
    own = names.top(settings.node_cgroup)
    return names, base, f"{base}/{own}" if base else own


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


class Claim:
    """Of a cgroup that exists. `is_ours`: there was none before, or it is what an agent has left."""

    __slots__ = ("_descriptor", "is_ours")

    def __init__(self, descriptor: int, *, is_ours: bool) -> None:
        self._descriptor = descriptor
        self.is_ours = is_ours

    def release(self) -> None:
        """Harmless when repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def claim(cgroup: Cgroup, names: CgroupNames = PLAIN) -> Claim:
    """Make the cgroup and hold it.

    Raises WriteError when it cannot be made, and InputError when another agent holds it or it is no node's.
    """
    for _ in range(_ATTEMPTS):
        is_ours = _is_ours(cgroup, names)
        cgroup.create()
        descriptor = _lock(cgroup)
        if descriptor is not None:
            # An agent that left meanwhile may have removed some of what we found.
            cgroup.create()
            return Claim(descriptor, is_ours=is_ours)
        time.sleep(_PAUSE)
    raise InputError(
        f"cgroup `{cgroup.name}` is in use by another agent that runs: every node of a machine needs a name of "
        "its own (--node-name)"
    )


def _is_ours(cgroup: Cgroup, names: CgroupNames) -> bool:
    if not cgroup.exists:
        return True
    children = {names.own(name) for name in cgroup.children()}
    strangers = sorted(children - {KUBEPODS})
    if strangers:
        raise _no_node(cgroup, f"a cgroup `{strangers[0]}`")
    for entrance in cgroup.entrances:
        # A process of a foreign pid namespace is listed as 0, and counts all the same.
        inside = (kernel_files.read(entrance) or b"").split()
        if inside:
            raise _no_node(cgroup, f"a process `{int(inside[0])}`")
    return bool(children)


def _no_node(cgroup: Cgroup, what: str) -> InputError:
    return InputError(
        f"cgroup `{cgroup.name}` cannot be a node's, there is {what} in it: allowed is one that does not exist, that "
        "is empty, or that an agent has left (--cgroup-name)"
    )


def _lock(cgroup: Cgroup) -> int | None:
    """None while another process holds it, and when what was locked is no longer the cgroup of that name."""
    tree = cgroup.mounts.holding("memory") or cgroup.mounts.used[0]
    path = tree.mount_point / cgroup.name / (_LOCKED_V2 if tree.is_unified else _LOCKED_V1)
    try:
        path.chmod(_OWNER_ONLY)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WriteError(f"cannot open `{path}`: {kernel_files.reason(error)}") from error
    if _is_locked(descriptor, path):
        return descriptor
    os.close(descriptor)
    return None


def _is_locked(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
