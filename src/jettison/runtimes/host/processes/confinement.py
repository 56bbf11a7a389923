"""Taking the user and the privileges of a container: in the forked child, just before it becomes the program.

The order is the kernel's. The bounding set goes while we may still change it; groups before the user, which may not set
them; the sets of capabilities after the user, whose change empties some of them; no_new_privs before the filter, which
needs it or CAP_SYS_ADMIN. A filter without no_new_privs is therefore installed first, and refuses nothing of the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from jettison.errors import StartError
from jettison.runtimes.host.processes import capabilities, system_calls
from jettison.runtimes.host.specs.security import SecuritySpec
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import PROC

NO_GROUP = 65_534
"""The group of a user whose own number belongs to some group of the host: it owns nothing."""

_USERS, _GROUPS = Path("/etc/passwd"), Path("/etc/group")


def with_group(spec: SecuritySpec, users: Path = _USERS, groups: Path = _GROUPS) -> SecuritySpec:
    """The same with a group, where it names a user and no group.

    Kubernetes takes gid 0 for a user that the image does not know. On a bare host that is root's own group. So it is
    the group that /etc/passwd has for the user, else that of the user's own number if no group of the host has it.
    """
    if spec.user is None or spec.group is not None:
        return spec
    if spec.user == 0:
        return replace(spec, group=0)
    group = next((entry[3] for entry in _entries(users, 4) if entry[2] == b"%d" % spec.user), b"")
    if group.isdigit() and int(group) != 0:
        return replace(spec, group=int(group))
    is_taken = any(entry[2] == b"%d" % spec.user for entry in _entries(groups, 3))
    return replace(spec, group=NO_GROUP if is_taken else spec.user)


def _entries(path: Path, least: int) -> Iterator[list[bytes]]:
    for line in (kernel_files.read(path) or b"").splitlines():
        entry = line.split(b":")
        if len(entry) >= least:
            yield entry


class Confinement:
    """Made before the fork, applied after it. Raises StartError for what this agent has not got itself."""

    __slots__ = ("_is_bounded", "_is_privileged", "_privileges", "_spec")

    def __init__(self, spec: SecuritySpec) -> None:
        self._spec = spec
        self._is_privileged = os.geteuid() == 0
        self._is_bounded = spec.capabilities is not None
        own = 0 if spec.capabilities is None else system_calls.permitted_capabilities()
        missing = spec.added & ~own
        if missing:
            names = [name for number, name in enumerate(capabilities.NAMES) if missing >> number & 1]
            raise StartError(f"capabilities.add: the agent itself has no {', '.join(names)}")
        kept = own & (spec.capabilities or 0)
        # Any user but root has none at hand, as in Kubernetes; what is kept is for programs whose file has it.
        at_hand = 0 if spec.user else kept
        last = _last_capability() if self._is_bounded else -1
        self._privileges = system_calls.Privileges(kept, at_hand, last, spec.seccomp)

    def apply(self) -> None:
        """In the child. Raises OSError, whose text begins with the part that failed."""
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
        spec = self._spec
        if spec.group is not None or spec.groups or self._is_privileged:
            # Never those of the agent, which may be in any group.
            group = os.getgid() if spec.group is None else spec.group
            _do("supplementalGroups", lambda: os.setgroups(list(dict.fromkeys((group, *spec.groups)))))
        if spec.group is not None:
            os.setgid(spec.group)
        if spec.user is not None:
            os.setuid(spec.user)


def _do(what: str, step: Callable[[], None]) -> None:
    try:
        step()
    except OSError as error:
        raise OSError(error.errno, f"securityContext.{what}: {kernel_files.reason(error)}") from error


@cache
def _last_capability() -> int:
    return kernel_files.read_number(PROC / "sys" / "kernel" / "cap_last_cap") or len(capabilities.NAMES) - 1
