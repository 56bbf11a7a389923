"""One cgroup: made, limited, filled, listed and removed under the same name in every hierarchy that matters.

On version 1 a pod is six directories that the kernel does not know to be one; here they are. A name is a relative path
such as `jettison/kubepods/burstable/pod1`. The root has no object of this kind on purpose: whatever can be limited,
emptied or removed must have been created by a program.
"""

from __future__ import annotations

import os
from pathlib import Path

from jettison.errors import InputError, WriteError
from jettison.runtimes.linux.cgroups import tree as cgroup_tree
from jettison.runtimes.linux.cgroups.limits import CgroupV1, CgroupV2, Limits
from jettison.runtimes.linux.cgroups.mounts import CONTROLLERS, CgroupMounts, Hierarchy
from jettison.runtimes.linux.files import kernel_files

_LONGEST_PART = 255


class Cgroup:
    """A name in all hierarchies; whether anything of that name exists is another question."""

    __slots__ = ("mounts", "name")

    def __init__(self, mounts: CgroupMounts, name: str) -> None:
        _check_name(name)
        self.mounts = mounts
        self.name = name

    @property
    def directories(self) -> tuple[Path, ...]:
        """One per hierarchy in use."""
        return tuple(tree.mount_point / self.name for tree in self.mounts.used)

    @property
    def entrances(self) -> tuple[str, ...]:
        """Files into which a process writes `0` to move itself in, before it becomes something that could fork.

        Texts: to join paths for six hierarchies takes 0.1 ms, and each probe that runs a command asks for them.
        """
        return tuple([f"{tree.mount_point}/{self.name}/cgroup.procs" for tree in self.mounts.used])

    def directory(self, controller: str) -> Path | None:
        """Where the controller's files are; None when it is not mounted."""
        tree = self.mounts.holding(controller)
        return None if tree is None else tree.mount_point / self.name

    @property
    def unified_directory(self) -> Path | None:
        """Where cgroup.kill and cgroup.events are; None on a pure version 1 machine."""
        tree = self.mounts.unified
        return None if tree is None else tree.mount_point / self.name

    @property
    def exists(self) -> bool:
        """In any hierarchy: half a cgroup still has to be removed."""
        return any(directory.is_dir() for directory in self.directories)

    def create(self) -> None:
        """Make it, with its parents, wherever it is missing."""
        for tree in self.mounts.used:
            directory = tree.mount_point / self.name
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise WriteError(f"cannot create cgroup `{directory}`: {kernel_files.reason(error)}") from error
            if tree.is_unified and tree.controllers:
                _enable_controllers(tree, self.name)

    def remove(self) -> bool:
        """Remove it with everything below. False when the kernel still holds part of it: kill, then try again.

        A dead process keeps its cgroup busy for some milliseconds longer than it is visible, so False is no failure.
        """
        is_gone = True
        # A container runtime makes the parents of its cgroups in hierarchies that we do not use, and leaves them.
        for tree in self.mounts.hierarchies:
            is_gone &= cgroup_tree.remove(tree.mount_point / self.name)
        return is_gone

    def limit(self, limits: Limits) -> tuple[str, ...]:
        """Set the limits. Returns the controllers that this machine lacks or does not let us use, in name order."""
        missing = set[str]()
        for words, is_unified in ((CgroupV1, False), (CgroupV2, True)):
            for setting in words.settings(limits):
                tree = self.mounts.holding(setting.controller)
                if tree is None:
                    missing.add(setting.controller)
                elif tree.is_unified is is_unified:
                    directory = tree.mount_point / self.name
                    if not kernel_files.write(directory / setting.file, setting.value):
                        if not directory.is_dir():
                            raise WriteError(f"cannot limit cgroup `{directory}`: it does not exist")
                        missing.add(setting.controller)
        return tuple(sorted(missing))

    def processes(self) -> frozenset[int]:
        """Every process in it or below, in any hierarchy, so that one caught halfway while moving is not missed."""
        return frozenset(pid for directory in self.directories for pid in cgroup_tree.processes(directory))

    def children(self) -> frozenset[str]:
        """The names of the cgroups directly below, in any hierarchy."""
        names = {name for directory in self.directories for name in cgroup_tree.children(directory)}
        return frozenset(f"{self.name}/{name}" for name in names)

    def move(self, pid: int) -> bool:
        """Move a process here, in all hierarchies. False when it is gone.

        What it forks between the first and the last hierarchy is left behind in some; `processes` finds it all the
        same. A process that moves itself through `entrances` before it runs anything foreign has no such gap.
        """
        for directory in self.directories:
            if not kernel_files.write(directory / "cgroup.procs", b"%d" % pid):
                if not directory.is_dir():
                    raise WriteError(f"cannot move process `{pid}` to `{directory}`: no such cgroup")
                return False
        return True


def _check_name(name: str) -> None:
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise InputError(f"invalid cgroup name `{name}`: must be a relative path without `.` and `..`")
    # The kernel refuses newlines because /proc/<pid>/cgroup has one line for each hierarchy.
    if "\0" in name or "\n" in name or any(len(os.fsencode(part)) > _LONGEST_PART for part in parts):
        raise InputError(f"invalid cgroup name {name!r}: parts have at most 255 bytes, none of them NUL or newline")


def _enable_controllers(tree: Hierarchy, name: str) -> None:
    # A cgroup of version 2 has only those controllers that every ancestor passes on.
    ancestor = tree.mount_point
    for part in name.split("/"):
        offered = (kernel_files.read(ancestor / "cgroup.controllers") or b"").decode("ascii", "replace").split()
        passed_on = (kernel_files.read(ancestor / CgroupV2.SUBTREE_CONTROL) or b"").decode("ascii", "replace").split()
        for controller in sorted((CONTROLLERS & set(offered)) - set(passed_on)):
            try:
                kernel_files.write(ancestor / CgroupV2.SUBTREE_CONTROL, b"+" + controller.encode())
            except WriteError as failure:
                # Above a delegated cgroup nothing is ours to change: `limit` will tell which controllers are missing.
                if not isinstance(failure.__cause__, PermissionError):
                    raise
        ancestor /= part
