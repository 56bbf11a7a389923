"""The capabilities of Linux by their names, and the set that container runtimes give.

A set is a number with one bit for each capability, as in /proc/<pid>/status and in the kernel's calls.
"""

from __future__ import annotations

from collections.abc import Iterable

from jettison.errors import ManifestError
from jettison.runtimes.host.specs import texts

# In the order of their numbers, from 0.
NAMES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
)
_NUMBERS = {name: number for number, name in enumerate(NAMES)}

ALL = "ALL"
EVERY = (1 << 64) - 1
"""Also those that a newer kernel has and this list does not."""


def mask(names: Iterable[str]) -> int:
    """The set of these; `ALL` is every one."""
    found = 0
    for name in names:
        found |= EVERY if name == ALL else 1 << _NUMBERS[name]
    return found


DEFAULT = mask(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "NET_RAW",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
"""What containerd, CRI-O and Docker leave to a container that says nothing."""


def checked_names(names: Iterable[str], where: str) -> tuple[str, ...]:
    """Without the `CAP_` that some write in front. A name that means nothing would drop nothing: it is refused."""
    found = []
    for name in names:
        bare = name.upper().removeprefix("CAP_")
        if bare != ALL and bare not in _NUMBERS:
            raise ManifestError(f"{where}: there is no capability `{texts.shown(name)}`, see capabilities(7)")
        found.append(bare)
    return tuple(found)
