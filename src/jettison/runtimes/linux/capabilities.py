"""What the kernel lets this process do, so that what is missing is said once at the start and not found out later."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from jettison.errors import ObservationError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.mounts import PROC

LOWEST_OOM_SCORE_ADJ = -1000


class Capability(enum.IntEnum):
    """The ones we have a use for, by their number in the kernel."""

    CHOWN = 0
    DAC_OVERRIDE = 1
    KILL = 5
    IPC_LOCK = 14
    SYS_PTRACE = 19
    SYS_ADMIN = 21
    SYS_RESOURCE = 24


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The effective set. In a user namespace of its own a process has all of them and the machine heeds few."""

    effective: frozenset[Capability]
    is_in_initial_namespace: bool

    def has(self, capability: Capability) -> bool:
        """Towards the machine as a whole."""
        return self.is_in_initial_namespace and capability in self.effective

    @property
    def missing(self) -> tuple[Capability, ...]:
        """What `doctor` lists, in order of number."""
        return tuple(capability for capability in Capability if not self.has(capability))


def read_capabilities(proc: Path = PROC) -> Capabilities:
    """Those of this process."""
    path = proc / "self" / "status"
    data = b"\n" + (kernel_files.read(path) or b"")
    # Only the first line can be forged: it is the program's name, in which the kernel escapes newlines.
    start = data.find(b"\nCapEff:")
    line = data[start + 8 : data.find(b"\n", start + 8)].strip()
    try:
        mask = int(line, 16)
    except ValueError:
        raise ObservationError(f"`{path}` has no line `CapEff` with a hexadecimal number") from None
    effective = frozenset(capability for capability in Capability if mask >> capability & 1)
    return Capabilities(effective, _is_initial(proc))


def lowest_oom_score_adj(proc: Path = PROC) -> int | None:
    """How well this process may protect itself, or a child, from the kernel's OOM killer; None when /proc hides it.

    Without CAP_SYS_RESOURCE nothing below the value last set by a process that had it. The kernel does not show that
    floor; the present value is never below it and normally the same.
    """
    if read_capabilities(proc).has(Capability.SYS_RESOURCE):
        return LOWEST_OOM_SCORE_ADJ
    return kernel_files.read_number(proc / "self" / "oom_score_adj")


def _is_initial(proc: Path) -> bool:
    # The initial namespace maps every id to itself; there is no file that says it outright. A kernel built without
    # user namespaces has no map at all.
    mapping = kernel_files.read(proc / "self" / "uid_map")
    return mapping is None or mapping.split() == [b"0", b"0", b"4294967295"]
