"""Which cgroup hierarchies this machine has, which controller sits in which, and which cgroup systemd left to us.

Version 2 is one hierarchy for all controllers, version 1 one per controller (or per pair: `cpu,cpuacct`). On a hybrid
machine both are there: controllers in version 1, and beside them a unified hierarchy without controllers that is still
worth using, because it has cgroup.kill, cgroup.events and pressure files. A controller is therefore asked for by name
and answered with the hierarchy that holds it; no other module needs to know the version.

On a systemd machine every cgroup belongs to systemd, which may remove what it does not know. A service with
`Delegate=yes`, and every user's own manager, gets a subtree that systemd promises to leave alone, marked with an
extended attribute. We are usually inside that subtree and may be some levels below its top.
"""

from __future__ import annotations

import enum
import errno
import os
from pathlib import Path, PurePosixPath

from jettison.errors import InputError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.filesystems import Mount, read_mounts
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.values import frozen

CGROUP_ROOT = Path("/sys/fs/cgroup")

# What a pod's cgroups need. In version 2 the freezer and the accounting of processor time are no controllers but
# files of every cgroup.
CONTROLLERS = frozenset({"memory", "cpu", "cpuacct", "pids", "freezer"})

# systemd writes `user.delegate` since version 251, which every user may read, and `trusted.delegate` before and since,
# which takes CAP_SYS_ADMIN.
_MARKS = ("user.delegate", "trusted.delegate")
_UNMARKED = frozenset({errno.ENODATA, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES})


class CgroupVersion(enum.Enum):
    """What is mounted, as `doctor` shows it."""

    V1 = "v1"
    V2 = "v2"
    HYBRID = "hybrid"


@frozen
class Hierarchy:
    """One mounted tree of cgroups. `mount_root` is not `/` inside a container that shares its host's namespace."""

    mount_point: Path
    mount_root: str
    controllers: frozenset[str]
    is_unified: bool
    is_systemd: bool = False

    def check_within(self, cgroup: str) -> None:
        """Raises InputError where there is no cgroup of this path, and so nothing that `--within` could mean."""
        if not (self.mount_point / cgroup / "cgroup.procs").exists():
            raise InputError(f"--within `{cgroup}`: there is no such cgroup below `{self.mount_point}`")


@frozen
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


def delegated_cgroup(mounts: CgroupMounts, proc: Path = PROC) -> str | None:
    """The name of the innermost delegated cgroup that holds this process and that it may write to."""
    for tree in mounts.hierarchies:
        # Where systemd runs version 1 its marks are in a hierarchy of its own, without any controller.
        if tree.is_unified or tree.is_systemd:
            own = own_cgroup(tree, proc)
            if own is not None and (name := _innermost_marked(tree, own)) is not None:
                return name
    return None


def own_cgroup(tree: Hierarchy, proc: Path = PROC) -> str | None:
    """Where this process is."""
    return cgroup_of("self", tree, proc)


def cgroup_of(process: int | str, tree: Hierarchy, proc: Path = PROC) -> str | None:
    """Where a process is in that hierarchy, the empty name at its root; None when it is gone or out of sight."""
    for line in (kernel_files.read(proc / str(process) / "cgroup") or b"").split(b"\n"):
        fields = line.split(b":", 2)
        if len(fields) == 3 and _is_line_of(tree, fields[1]):
            path = PurePosixPath(os.fsdecode(fields[2]))
            if not path.is_relative_to(tree.mount_root):
                return None
            name = str(path.relative_to(tree.mount_root))
            return "" if name == "." else name
    return None


def _is_line_of(tree: Hierarchy, controllers: bytes) -> bool:
    if tree.is_unified:
        return controllers == b""
    listed = set(controllers.decode("ascii", "replace").split(","))
    return "name=systemd" in listed if tree.is_systemd else bool(tree.controllers & listed)


def _innermost_marked(tree: Hierarchy, own: str) -> str | None:
    name = PurePosixPath(own)
    while name.parts:
        directory = tree.mount_point / name
        if _is_marked(directory) and os.access(directory / "cgroup.procs", os.W_OK):
            return str(name)
        name = name.parent
    return None


def _is_marked(directory: Path) -> bool:
    for mark in _MARKS:
        try:
            if os.getxattr(directory, mark) == b"1":
                return True
        except OSError as error:
            if error.errno not in _UNMARKED | kernel_files.GONE:
                raise kernel_files.unreadable(directory, error) from error
    return False
