"""The cgroup that systemd left to us, where it did.

On a systemd machine every cgroup belongs to systemd, which may remove what it does not know. A service with
`Delegate=yes`, and every user's own manager, gets a subtree that systemd promises to leave alone, marked with an
extended attribute. We are usually inside that subtree and may be some levels below its top.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path, PurePosixPath

from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, Hierarchy
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.mounts import PROC

# systemd writes `user.delegate` since version 251, which every user may read, and `trusted.delegate` before and since,
# which takes CAP_SYS_ADMIN.
_MARKS = ("user.delegate", "trusted.delegate")
_UNMARKED = frozenset({errno.ENODATA, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES})


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
    """Where this process is in that hierarchy, the empty name at its root; None when outside of what is mounted."""
    for line in (kernel_files.read(proc / "self" / "cgroup") or b"").split(b"\n"):
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
