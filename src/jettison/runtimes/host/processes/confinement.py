"""Taking the user and the privileges of a container: in the new process, just before it becomes the program.

The order is the kernel's. The bounding set goes while we may still change it; groups before the user, which may not set
them; the sets of capabilities after the user, whose change empties some of them; no_new_privs before the filter, which
needs it or CAP_SYS_ADMIN. A filter without no_new_privs is therefore installed first, and refuses nothing of the rest.
"""

from __future__ import annotations

import os

from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.linux.files.kernel_texts import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NO_GROUP = 65_534
"""The group of a user whose own number belongs to some group of the host: it owns nothing."""

_USERS, _GROUPS = "/etc/passwd", "/etc/group"
_LAST_CAPABILITY = "/proc/sys/kernel/cap_last_cap"
# The last one that Linux had when this was written.
_CHECKPOINT_RESTORE = 40


def group_of(user: int | None, group: int | None, users: str = _USERS, groups: str = _GROUPS) -> int | None:
    """The group of a process that names a user and no group. May wait for a disk.

    Kubernetes takes gid 0 for a user that the image does not know. On a bare host that is root's own group. So it is
    the group that /etc/passwd has for the user, else that of the user's own number if no group of the host has it.
    """
    if user is None or group is not None:
        return group
    if user == 0:
        return 0
    found = next((entry[3] for entry in _entries(users) if len(entry) > 3 and entry[2] == b"%d" % user), b"")
    if found.isdigit() and int(found) != 0:
        return int(found)
    is_taken = any(len(entry) > 2 and entry[2] == b"%d" % user for entry in _entries(groups))
    return NO_GROUP if is_taken else user


def _entries(path: str) -> list[list[bytes]]:
    try:
        with open(path, "rb") as file:
            return [line.split(b":") for line in file.read().splitlines()]
    except FileNotFoundError:
        return []


class Confinement:
    """`spec` has the attributes of a SecuritySpec. Made among the mounts of the host, which it asks."""

    __slots__ = ("_group", "_is_bounded", "_is_privileged", "_privileges", "_spec")

    def __init__(self, spec: Any) -> None:
        self._spec = spec
        self._group = group_of(spec.user, spec.group)
        self._is_privileged = os.geteuid() == 0
        self._is_bounded = spec.capabilities is not None
        kept = system_calls.permitted_capabilities() & spec.capabilities if self._is_bounded else 0
        # Any user but root has none at hand, as in Kubernetes; what is kept is for programs whose file has it.
        at_hand = 0 if spec.user else kept
        last = _last_capability() if self._is_bounded else -1
        self._privileges = system_calls.Privileges(kept, at_hand, last, spec.seccomp)

    def apply(self) -> None:
        """Raises OSError, whose text begins with the part that failed."""
        spec, privileges = self._spec, self._privileges
        if self._is_bounded:
            _do("capabilities", privileges.bound)
        if not spec.has_no_new_privileges:
            _do("seccompProfile", privileges.filter)
        self._change_identity()
        if self._is_bounded:
            _do("capabilities", privileges.keep)
        if spec.has_no_new_privileges:
            _do("allowPrivilegeEscalation", system_calls.no_new_privileges)
            _do("seccompProfile", privileges.filter)

    def _change_identity(self) -> None:
        spec, group = self._spec, self._group
        if group is not None or spec.groups or self._is_privileged:
            # Never those of the agent, which may be in any group.
            first = os.getgid() if group is None else group
            _do("supplementalGroups", lambda: os.setgroups(list(dict.fromkeys((first, *spec.groups)))))
        if group is not None:
            os.setgid(group)
        if spec.user is not None:
            os.setuid(spec.user)


def _do(what: str, step: Callable[[], None]) -> None:
    try:
        step()
    except OSError as error:
        raise OSError(error.errno, f"securityContext.{what}: {reason(error)}") from error


def _last_capability() -> int:
    try:
        with open(_LAST_CAPABILITY, "rb") as file:
            return int(file.read())
    except FileNotFoundError:
        return _CHECKPOINT_RESTORE
