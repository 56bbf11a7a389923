"""Measures what a client asks for: counters of every cgroup, and the processor's use as the difference of two looks.

One look at 110 pods takes 40 ms of a thread, so a look is given again for a second, and there is never more than one
under way. What is kept between questions is one pair of numbers for each cgroup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jettison.clock import Clock
from jettison.engine.node.snapshot import FsStats
from jettison.errors import ObservationError
from jettison.runtimes.linux.cgroups.counters import (
    CounterReader,
    Counters,
    MemoryCounters,
    Stalls,
    SwapCounters,
    boot_time_ns,
)
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts
from jettison.runtimes.linux.files.filesystems import read_filesystem
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.runtimes.linux.network import has_own_network, read_network
from jettison.runtimes.stats import Details, NodeDetails, NodeSubject, PodDetails, PodSubject, StatsSubject

FRESH_SECONDS = 1.0
"""How long a look is given again: so often at most can a client make the agent measure."""

PAUSE_SECONDS = 0.5
"""Between two looks where there is no earlier one to compare with."""

# A look that is older than this is not compared with: the average of an hour is not what is used now.
_LONGEST_NS = 60 * 10**9
# Two looks that are closer than this say little: the kernel's ticks are 4 ms.
_SHORTEST_NS = 200 * 10**6
# Stalls of the node are read no more often: a read of a file with a trigger delays the trigger.
_STALLS_NS = 10 * 10**9


class _Look(NamedTuple):
    monotonic_ns: int
    cpu_ns: int
    # What came out when it was compared with the look before.
    nano_cores: int | None


class StatsReader:
    """Belongs to one thread."""

    def __init__(self, mounts: CgroupMounts, clock: Clock, proc: Path = PROC) -> None:
        self._counters = CounterReader(mounts, proc)
        self._clock = clock
        self._proc = proc
        self._has_stalls = True
        self._looks: dict[str, _Look] = {}
        self._stalls: dict[str, tuple[int, Stalls]] = {}

    def read(self, subject: NodeSubject, *, has_stalls: bool = True) -> NodeDetails:
        """What vanishes meanwhile is left out; stalls where they are not wanted. Raises ObservationError."""
        self._has_stalls = has_stalls
        before, self._looks = self._looks, {}
        system = {name: self._sparing(f"/{name}", each, before) for name, each in subject.system.items()}
        return NodeDetails(
            self._clock.now_ns(),
            self._sparing("/", subject.whole, before),
            read_network(proc=self._proc),
            {name: each for name, each in system.items() if each is not None},
            {each.uid: self._pod(each, before) for each in subject.pods},
            boot_time_ns(self._proc),
        )

    def is_incomplete(self) -> bool:
        """Whether something has no earlier look to compare with."""
        return any(look.nano_cores is None for look in self._looks.values())

    def _pod(self, pod: PodSubject, before: Mapping[str, _Look]) -> PodDetails:
        containers = {name: self._details(f"{pod.uid}/{name}", each, before) for name, each in pod.containers.items()}
        known = {name: each for name, each in containers.items() if each is not None}
        has_cgroup = pod.whole.cgroup is not None or pod.whole.processes is not None
        has_network = pod.pid and has_own_network(pod.pid, self._proc)
        return PodDetails(
            self._details(pod.uid, pod.whole, before) if has_cgroup else _sum(list(known.values())),
            known,
            read_network(pod.pid, self._proc) if has_network else None,
            {name: found for name, path in pod.volumes.items() if (found := self._filesystem(path)) is not None},
            pod.whole.started_ns,
        )

    def _sparing(self, key: str, subject: StatsSubject, before: Mapping[str, _Look]) -> Details | None:
        """The same with stalls that may be some seconds old."""
        found = self._details(key, subject, before)
        if found is None or not self._has_stalls:
            return found
        now_ns = self._clock.monotonic_ns()
        read_ns, stalls = self._stalls.get(key, (now_ns - _STALLS_NS, Stalls()))
        if now_ns - read_ns >= _STALLS_NS and subject.cgroup is not None:
            stalls = self._counters.stalls(subject.cgroup)
            self._stalls[key] = now_ns, stalls
        return found._replace(counters=found.counters._replace(stalls=stalls))

    def _details(self, key: str, subject: StatsSubject, before: Mapping[str, _Look]) -> Details | None:
        try:
            counters = self._read(subject, has_stalls=self._has_stalls and not key.startswith("/"))
        except ObservationError:
            # A process may change its user, and a kernel may refuse: one container must not cost all others.
            return None
        if counters is None:
            return None
        now_ns = self._clock.monotonic_ns()
        nano_cores = None
        if counters.cpu_ns is not None:
            # Another run of a container counts anew.
            look = self._compared(before.get(f"{key} {subject.started_ns}"), now_ns, counters.cpu_ns)
            self._looks[f"{key} {subject.started_ns}"] = look
            nano_cores = look.nano_cores
        return Details(self._clock.now_ns(), counters, nano_cores, subject.started_ns)

    def _read(self, subject: StatsSubject, *, has_stalls: bool) -> Counters | None:
        if subject.cgroup is None:
            return self._counters.processes(subject.processes or ())
        return self._counters.cgroup(subject.cgroup, has_stalls=has_stalls)

    @staticmethod
    def _compared(before: _Look | None, now_ns: int, cpu_ns: int) -> _Look:
        if before is None or now_ns - before.monotonic_ns > _LONGEST_NS or cpu_ns < before.cpu_ns:
            return _Look(now_ns, cpu_ns, None)
        passed_ns = now_ns - before.monotonic_ns
        if passed_ns < _SHORTEST_NS:
            return before
        return _Look(now_ns, cpu_ns, (cpu_ns - before.cpu_ns) * 10**9 // passed_ns)

    def _filesystem(self, path: str) -> FsStats | None:
        found = read_filesystem(Path(path))
        if found is None:
            return None
        used = None if found.inodes is None or found.inodes_free is None else found.inodes - found.inodes_free
        return FsStats(
            self._clock.now_ns(),
            found.available,
            found.capacity,
            found.used,
            found.inodes_free,
            found.inodes,
            used,
        )


def _sum(parts: Sequence[Details]) -> Details | None:
    """Of a pod without a cgroup around its containers. Stalls do not add up."""
    if not parts:
        return None
    cpu = [each.counters.cpu_ns for each in parts if each.counters.cpu_ns is not None]
    memory = [each.counters.memory for each in parts if each.counters.memory is not None]
    swap = [each.counters.swap for each in parts if each.counters.swap is not None]
    cores = [each.nano_cores for each in parts if each.nano_cores is not None]
    counted = MemoryCounters(
        sum(each.usage for each in memory),
        sum(each.working_set for each in memory),
        None,
        sum(each.rss or 0 for each in memory),
        sum(each.faults or 0 for each in memory),
        sum(each.major_faults or 0 for each in memory),
    )
    counters = Counters(
        sum(cpu) if cpu else None,
        counted if memory else None,
        SwapCounters(sum(each.usage for each in swap)) if swap else None,
    )
    return Details(parts[-1].time_ns, counters, sum(cores) if cores else None)


class StatsSource:
    """Answers questions. Belongs to one event loop; `executor` has one thread."""

    def __init__(
        self,
        subject: Callable[[], NodeSubject],
        reader: StatsReader,
        executor: Executor,
        *,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._subject = subject
        self._reader = reader
        self._executor = executor
        self._pause_seconds = pause_seconds
        self._turn = asyncio.Lock()
        # With stalls and without, each until it is too old.
        self._latest: dict[bool, NodeDetails] = {}

    async def details(self, *, has_stalls: bool = True) -> NodeDetails:
        """At most a second old. Raises ObservationError."""
        async with self._turn:
            found = self._latest.get(True) or self._latest.get(has_stalls)
            if found is None:
                found = self._latest[has_stalls] = await self._look(has_stalls)
                # Not kept for longer: it is 400 kB for 110 pods.
                asyncio.get_running_loop().call_later(FRESH_SECONDS, self._latest.pop, has_stalls, None)
            return found

    async def _look(self, has_stalls: bool) -> NodeDetails:
        found = await self._read(has_stalls)
        if not self._reader.is_incomplete():
            return found
        await asyncio.sleep(self._pause_seconds)
        return await self._read(has_stalls)

    async def _read(self, has_stalls: bool) -> NodeDetails:
        work = partial(self._reader.read, self._subject(), has_stalls=has_stalls)
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)
