"""Which cgroup hierarchies this machine has, and which controller sits in which.

Version 2 is one hierarchy for all controllers, version 1 one per controller (or per pair: `cpu,cpuacct`). On a hybrid
machine both are there: controllers in version 1, and beside them a unified hierarchy without controllers that is still
worth using, because it has cgroup.kill, cgroup.events and pressure files. A controller is therefore asked for by name
and answered with the hierarchy that holds it; no other module needs to know the version.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.mounts import PROC, Mount, read_mounts

CGROUP_ROOT = Path("/sys/fs/cgroup")

# What a pod's cgroups need. In version 2 the freezer and the accounting of processor time are no controllers but
# files of every cgroup.
CONTROLLERS = frozenset({"memory", "cpu", "cpuacct", "pids", "freezer"})


class CgroupVersion(enum.Enum):
    """What is mounted, as `doctor` shows it."""

    V1 = "v1"
    V2 = "v2"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted tree of cgroups. `mount_root` is not `/` inside a container that shares its host's namespace."""

    mount_point: Path
    mount_root: str
    controllers: frozenset[str]
    is_unified: bool
    is_systemd: bool = False


@dataclass(frozen=True, slots=True)
class CgroupMounts:
    """All hierarchies of the machine; none at all where cgroups are not mounted."""

    hierarchies: tuple[Hierarchy, ...]

    @property
    def version(self) -> CgroupVersion | None:
        """None when nothing is mounted."""
        kinds = {hierarchy.is_unified for hierarchy in self.hierarchies}
        if kinds == {True, False}:
            return CgroupVersion.HYBRID
        if not kinds:
            return None
        return CgroupVersion.V2 if kinds == {True} else CgroupVersion.V1

    @property
    def unified(self) -> Hierarchy | None:
        """The version 2 hierarchy, with or without controllers."""
        return next((hierarchy for hierarchy in self.hierarchies if hierarchy.is_unified), None)

    def holding(self, controller: str) -> Hierarchy | None:
        """The hierarchy in which the controller lives."""
        return next((tree for tree in self.hierarchies if controller in tree.controllers), None)

    @property
    def used(self) -> tuple[Hierarchy, ...]:
        """The hierarchies in which a pod gets a cgroup: those with a controller we use, and the unified one."""
        return tuple(tree for tree in self.hierarchies if tree.controllers or tree.is_unified)


def discover(root: Path = CGROUP_ROOT, proc: Path = PROC) -> CgroupMounts:
    """Read the mount table. Mounts elsewhere than below `root` belong to containers, not to us."""
    by_mount_point: dict[Path, Hierarchy] = {}
    for mount in read_mounts(proc):
        if mount.fstype in ("cgroup", "cgroup2") and mount.mount_point.is_relative_to(root):
            by_mount_point[mount.mount_point] = _hierarchy(mount)
    return CgroupMounts(tuple(by_mount_point.values()))


def _hierarchy(mount: Mount) -> Hierarchy:
    if mount.fstype == "cgroup2":
        listed = kernel_files.read(mount.mount_point / "cgroup.controllers") or b""
        offered = frozenset(listed.decode("ascii", "replace").split())
        return Hierarchy(mount.mount_point, mount.root, offered & CONTROLLERS, is_unified=True)
    return Hierarchy(
        mount.mount_point,
        mount.root,
        mount.super_options & CONTROLLERS,
        is_unified=False,
        is_systemd="name=systemd" in mount.super_options,
    )
