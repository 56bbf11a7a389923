"""Single processes: their identities, their parents, what they use; and what the kernel lets this one do.

Without a cgroup a pod is what its leader started: its process group, its session, and their descendants. That is a
weaker bond (a double fork into a session of its own leaves it), which is why it is the fallback.

What the kernel does not permit is found out at the start and said once, not found out later.
"""

from __future__ import annotations

import enum
import os
import signal
import warnings
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice
from pathlib import Path

from jettison.errors import ObservationError, WriteError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.values import frozen

_PAGE = os.sysconf("SC_PAGE_SIZE")
# Most readings of the list of processes in one look at all of them.
_ROUNDS = 8

_DEAD = "ZXx"
# Of one process that are looked at for one that lives: the dead are gone at once, unless something traces them.
_MOST_THREADS = 64

LOWEST_OOM_SCORE_ADJ = -1000


@frozen
class Process:
    """`pid` and `start_ticks` together name a process for good: numbers are reused, instants of birth are not."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    start_ticks: int
    threads: int
    resident: int

    @property
    def is_zombie(self) -> bool:
        """Dead, and only waiting for its parent to ask: it uses nothing but its number."""
        return self.state in _DEAD and self.threads <= 1


def read_process(pid: int, proc: Path = PROC) -> Process | None:
    """None when there is no such process.

    One whose first thread has ended, and no other, is shown by /proc as a zombie without memory. It lives on in the
    others, so of these one tells both.
    """
    path = proc / str(pid) / "stat"
    data = kernel_files.read(path)
    if not data:
        return None
    found = _process(pid, data, path)
    if found.state not in _DEAD or found.threads == 1:
        return found
    tasks = path.with_name("task")
    try:
        threads = _listed(tasks)
    except ObservationError:
        return found  # gone meanwhile
    for other in (tasks / str(thread) / "stat" for thread in islice(threads, _MOST_THREADS)):
        data = kernel_files.read(other)
        if data and (living := _process(pid, data, other)).state not in _DEAD:
            return replace(found, state=living.state, resident=living.resident)
    return found


def _process(pid: int, data: bytes, path: Path) -> Process:
    # The second field is the program's name in parentheses, and a program may call itself `x) Z 1 (`: the last
    # parenthesis is the only one that can be trusted.
    fields = data[data.rfind(b")") + 2 :].split()
    try:
        return Process(
            pid=pid,
            parent=int(fields[1]),
            group=int(fields[2]),
            session=int(fields[3]),
            state=fields[0].decode("ascii"),
            start_ticks=int(fields[19]),
            threads=int(fields[17]),
            resident=int(fields[21]) * _PAGE,
        )
    except (IndexError, ValueError):
        raise ObservationError(f"`{path}` holds {data[:80]!r}, not the fields of a process") from None


def read_processes(proc: Path = PROC, skip: AbstractSet[int] = frozenset()) -> tuple[Process, ...]:
    """All processes that we may see, but for the numbers in `skip`, at about 20 µs each.

    A listed process may have died, and left a child that is not listed, before it is read. So the list is read again
    until it names no new process. That catches a chain of processes that each live for a millisecond; a fork bomb is
    not waited for.
    """
    found: list[Process] = []
    seen = set(skip)
    for _ in range(_ROUNDS):
        fresh = _listed(proc) - seen
        if not fresh:
            break
        found += [process for pid in sorted(fresh) if (process := read_process(pid, proc)) is not None]
        seen |= fresh
    return tuple(found)


def _listed(proc: Path) -> set[int]:
    try:
        with os.scandir(proc) as entries:
            return {int(entry.name) for entry in entries if entry.name.isascii() and entry.name.isdigit()}
    except OSError as error:
        raise kernel_files.unreadable(proc, error) from error


def set_oom_score_adj(pid: int, wanted: int, proc: Path = PROC) -> int | None:
    """Ask for a score, take what is allowed, and return what the process has now; None when it is gone.

    Lowering it needs CAP_SYS_RESOURCE. Without it the score stays as inherited, which for a pod that should be
    protected is the best there is.
    """
    path = proc / str(pid) / "oom_score_adj"
    try:
        kernel_files.write(path, b"%d" % wanted)
    except WriteError as failure:
        if not isinstance(failure.__cause__, PermissionError):
            raise
    return kernel_files.read_number(path)


class Capability(enum.IntEnum):
    """The ones we have a use for, by their number in the kernel."""

    CHOWN = 0
    DAC_OVERRIDE = 1
    KILL = 5
    IPC_LOCK = 14
    SYS_PTRACE = 19
    SYS_ADMIN = 21
    SYS_RESOURCE = 24


@frozen
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


def fork_quietly() -> int:
    """As `os.fork`. In the child every signal that can be stays blocked.

    It still has our handlers: Python's would write into the pipe by which this event loop learns of its own signals,
    and the agent would believe that it was told to stop.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = -1
    try:
        with warnings.catch_warnings():
            # From 3.12 on Python warns of a fork beside threads, which matters to a child that takes a lock of theirs.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
    finally:
        if pid != 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid
