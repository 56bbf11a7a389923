"""Single processes: their identities, their parents, what they use. The fallback where cgroups cannot be had.

Without a cgroup a pod is what its leader started: its process group, its session, and their descendants. That is a
weaker bond (a double fork into a session of its own leaves it), which is why it is the fallback.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from jettison.errors import ObservationError, WriteError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.mounts import PROC

_PAGE = os.sysconf("SC_PAGE_SIZE")
# Most readings of the list of processes in one look at all of them.
_ROUNDS = 8


@dataclass(frozen=True, slots=True)
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
        return self.state in "ZXx"


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """`resident` counts a page that two processes share twice, so it is an upper bound."""

    processes: int
    threads: int
    resident: int


def read_process(pid: int, proc: Path = PROC) -> Process | None:
    """None when there is no such process."""
    path = proc / str(pid) / "stat"
    data = kernel_files.read(path)
    if not data:
        return None
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


def family(leader: int, processes: Iterable[Process]) -> tuple[Process, ...]:
    """The leader's process group, its session, and every descendant of any of them."""
    known = tuple(processes)
    children: dict[int, list[Process]] = {}
    for process in known:
        children.setdefault(process.parent, []).append(process)
    found: dict[int, Process] = {}
    pending = [process for process in known if leader in (process.pid, process.group, process.session)]
    while pending:
        process = pending.pop()
        if process.pid not in found:
            found[process.pid] = process
            pending.extend(children.get(process.pid, ()))
    return tuple(found.values())


def total(processes: Iterable[Process]) -> GroupUsage:
    """What they use together; a zombie still has a process id and thus counts as a process."""
    members = tuple(processes)
    return GroupUsage(
        processes=len(members),
        threads=sum(process.threads for process in members),
        resident=sum(process.resident for process in members),
    )


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
