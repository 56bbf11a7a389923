"""Which processes belong together where no cgroup says so.

A process is of a family when it is an ancestor we were told of, shares that one's session, descends from a member, or
carries the family's mark in the environment it was started with. The mark finds a daemon that lost its parents and left
the session, also after a restart of the agent; the lineage finds a child that emptied its environment.

Numbers of processes are reused. An ancestor therefore is a number together with an instant of birth, its session is
trusted only for members born later, and a family that was once seen extinct stays so.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from jettison.errors import ObservationError, SignalError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.runtimes.linux.processes import Process, read_process, read_processes

MARK = "JETTISON_PLACE"

# Looks for new children while the known ones are being stopped; what is new after that gets its SIGKILL next time.
_PASSES = 8

# By family, all living processes.
Census = Mapping[str, tuple[Process, ...]]


class Families:
    """All families of one node. `realm` keeps the marks of several nodes apart."""

    def __init__(self, realm: str, proc: Path = PROC) -> None:
        self._realm = realm
        self._proc = proc
        # By number of the ancestor, which is also that of its session: when it was born, and the family.
        self._ancestors: dict[int, tuple[int, str]] = {}
        # Marks of processes that nothing else could place, by number and instant of birth, so that each is read once.
        self._marks: dict[tuple[int, int], str] = {}
        self._strangers: frozenset[int] = frozenset()
        # Ancestors that are still a copy of us, and whose memory is ours.
        self._copies: set[int] = set()

    def mark(self, family: str) -> dict[str, str]:
        """What to put into the environment."""
        return {MARK: f"{self._realm}:{family}"}

    def lead(self, family: str, pid: int, *, is_copy: bool = False) -> None:
        """Remember an ancestor; one that has died already has left no family worth knowing.

        Between fork and exec it looks as large as the agent, in the eyes of /proc. Say it again once its program runs.
        """
        if is_copy:
            self._copies.add(pid)
        else:
            self._copies.discard(pid)
        process = read_process(pid, self._proc)
        if process is not None:
            self._ancestors[pid] = (process.start_ticks, family)
            self._strangers -= {pid}

    def census(self, *, is_quick: bool = False) -> Census:
        """All living processes, from one look at /proc; a fork of us before its exec uses no memory of its own.

        A quick one passes over the numbers that were strangers' last time. That is 1 ms instead of 10, and wrong only
        if such a number was given to one of ours since.
        """
        skipped = self._strangers if is_quick else frozenset()
        read = read_processes(self._proc, skipped)
        alive = {process.pid: process for process in read if not process.is_zombie and process.pid != os.getpid()}
        families: dict[int, str] = {}
        for process in alive.values():
            self._place(process, alive, families)
        found: dict[str, list[Process]] = {}
        for pid, family in families.items():
            if family:
                member = alive[pid]
                found.setdefault(family, []).append(replace(member, resident=0) if pid in self._copies else member)
        self._strangers = skipped | {process.pid for process in read if not families.get(process.pid)}
        extinct = [pid for pid, (_, family) in self._ancestors.items() if family not in found]
        for pid in extinct:
            del self._ancestors[pid]
        self._copies &= alive.keys()
        if not is_quick:
            self._marks = {key: mark for key, mark in self._marks.items() if key[0] in alive}
        return {family: tuple(members) for family, members in found.items()}

    def members(self, family: str) -> tuple[Process, ...]:
        """Of this family and those below it: `node/pod1` has the members of `node/pod1/web`."""
        below = f"{family}/"
        return tuple(
            member
            for name, members in self.census().items()
            if name == family or name.startswith(below)
            for member in members
        )

    def kill(self, family: str) -> frozenset[int]:
        """SIGSTOP, until no new process turns up, then SIGKILL; returns those alive right afterwards."""
        stopped: dict[int, Process] = {}
        for _ in range(_PASSES):
            fresh = [member for member in self.members(family) if member.pid not in stopped]
            if not fresh:
                break
            self._signal(fresh, signal.SIGSTOP)
            stopped.update((member.pid, member) for member in fresh)
        self._signal(stopped.values(), signal.SIGKILL)
        return frozenset(member.pid for member in self.members(family)) if stopped else frozenset()

    def forget(self, family: str) -> None:
        """No process is expected to live there any more."""
        below = f"{family}/"
        self._ancestors = {
            pid: (born, name)
            for pid, (born, name) in self._ancestors.items()
            if name != family and not name.startswith(below)
        }

    def _place(self, process: Process, alive: Mapping[int, Process], families: dict[int, str]) -> str:
        """The family of a process, empty when it is none of ours; noted for it and for all of its line."""
        line: list[Process] = []
        family = ""
        current: Process | None = process
        while current is not None:
            known = families.get(current.pid)
            family = self._own(current) if known is None else known
            if known is None:
                line.append(current)
            if family or known is not None:
                break
            current = alive.get(current.parent)
        while not family and line:
            oldest = line.pop()
            family = families[oldest.pid] = self._marked(oldest)
        for member in line:
            families[member.pid] = family
        return family

    def _own(self, process: Process) -> str:
        for number in (process.pid, process.session):
            ancestor = self._ancestors.get(number)
            if ancestor is not None and _is_kin(process, number, ancestor[0]):
                return ancestor[1]
        return ""

    def _marked(self, process: Process) -> str:
        key = (process.pid, process.start_ticks)
        mark = self._marks.get(key)
        if mark is None:
            mark = self._marks[key] = self._read_mark(process.pid)
        return mark

    def _read_mark(self, pid: int) -> str:
        try:
            environment = kernel_files.read(self._proc / str(pid) / "environ") or b""
        except ObservationError as failure:
            # Another user's, or one that changed its user: none that we could have started or could end.
            if isinstance(failure.__cause__, PermissionError):
                return ""
            raise
        wanted = f"{MARK}={self._realm}:".encode()
        for variable in environment.split(b"\0"):
            if variable.startswith(wanted):
                return os.fsdecode(variable[len(wanted) :])
        return ""

    def _signal(self, processes: Iterable[Process], number: signal.Signals) -> None:
        for process in processes:
            try:
                descriptor = os.pidfd_open(process.pid)
            except ProcessLookupError:
                continue
            except OSError as error:
                raise SignalError(f"cannot hold process `{process.pid}`: {kernel_files.reason(error)}") from error
            try:
                # The descriptor holds the present owner of the number; the instant of birth tells whether that is ours.
                now = read_process(process.pid, self._proc)
                if now is not None and now.start_ticks == process.start_ticks:
                    signal.pidfd_send_signal(descriptor, number)
            except (ProcessLookupError, PermissionError):
                continue  # dead already, or not ours to end: then it is among the survivors
            finally:
                os.close(descriptor)


def _is_kin(process: Process, number: int, born: int) -> bool:
    if process.pid == number:
        return process.start_ticks == born
    return process.start_ticks >= born
