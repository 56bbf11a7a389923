"""What a process can write to: of the mounts that it sees, those that are not its own become read-only.

Each mount is closed by itself, and none is opened: what the host has read-only stays so in a hostPath as well.
Filesystems that are no disks (memory, devices, the kernel's own) stay as they are unless all is to be closed: what a
process keeps in memory is charged to it by the kernel.

In the new process, once all its mounts are arranged. Whatever fails is an OSError.
"""

from __future__ import annotations

import errno
import os

from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.linux.files.kernel_texts import mount_lines, read_mount_table, unescaped

NOTHING, DISKS, ALL = "", "disks", "all"
"""What is closed besides read-only volumes. A disk is whatever is not in the list below, such as a network's."""

_NO_DISKS = frozenset(
    b"autofs binder binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs mqueue"
    b" nsfs proc pstore ramfs resctrl rpc_pipefs securityfs selinuxfs smackfs sysfs tmpfs tracefs".split()
)
# What a program must be able to write to, however closed the rest is.
_NEVER_CLOSED = ("/proc", "/dev")
# A mount that others hide is not found under its path; no process can write there, either.
_HIDDEN = (errno.EINVAL, errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_FLAGS = {
    b"nosuid": 1 << 1,
    b"nodev": 1 << 2,
    b"noexec": 1 << 3,
    b"nosymfollow": 1 << 8,
    b"noatime": 1 << 10,
    b"nodiratime": 1 << 11,
    b"relatime": 1 << 21,
}
_STRICT_TIMES = 1 << 24
# Of a line of the kernel's table.
_ID, _PARENT, _DEVICE, _POINT, _OPTIONS = 0, 1, 2, 4, 5


def close(what: str, places: dict[str, bool]) -> None:
    """`places` are mount points without links in them, and whether what is there is read-only. Raises OSError."""
    has_closed = any(places.values())
    if what == NOTHING and not has_closed:
        return
    if what == ALL:
        places = {**dict.fromkeys(_NEVER_CLOSED, False), **places}
    # Fields as the kernel writes them: to make values of them takes longer than all of the rest.
    lines = mount_lines(read_mount_table())
    covered = {(fields[_PARENT], fields[_POINT]) for fields, _ in lines}
    for fields, tail in lines:
        is_closed = _is_foreign(tail, what)
        if not (is_closed or has_closed) or (fields[_ID], fields[_POINT]) in covered:
            continue
        options, point = fields[_OPTIONS].split(b","), unescaped(fields[_POINT])
        own = _place(point, places)
        if b"ro" not in options and (is_closed if own is None else own):
            try:
                system_calls.close_mount(point, _flags(options))
            except OSError as error:
                if error.errno not in _HIDDEN:
                    raise


def is_in_memory(device: int) -> bool:
    """Whether the superblock is of a filesystem that is no disk. Raises OSError."""
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    return any(fields[_DEVICE] == wanted and tail[0] in _NO_DISKS for fields, tail in mount_lines(read_mount_table()))


def _is_foreign(tail: list[bytes], what: str) -> bool:
    if what == DISKS:
        # Ours are mirrors of directories on disks, and volumes in memory, also of other pods.
        return tail[0] not in _NO_DISKS or tail[1] == system_calls.OURS
    return what == ALL


def _place(path: str, places: dict[str, bool]) -> bool | None:
    """Of the place that the path lies in; None where it lies in none."""
    while path not in places:
        if path in ("/", ""):
            return None
        path = path.rpartition("/")[0] or "/"
    return places[path]


def _flags(options: list[bytes]) -> int:
    found = sum(_FLAGS.get(option, 0) for option in options)
    return found if found & (_FLAGS[b"noatime"] | _FLAGS[b"relatime"]) else found | _STRICT_TIMES
