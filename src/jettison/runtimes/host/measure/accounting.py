"""What the node and its pods use where no cgroup counts: sums over processes, from /proc.

Memory is what the processes hold resident, which counts a page that two of them share twice. Where a decision depends
on it, their proportional share is read instead: right, but the kernel walks all page tables for it (1 to 5 ms for a
process of 400 MB). Page cache is not counted here, and a process that cannot be traced to its pod is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jettison.clock import Clock
from jettison.engine.node.snapshot import MemoryStats, ProcessStats
from jettison.errors import ObservationError
from jettison.runtimes.host.cgroups.families import Census
from jettison.runtimes.host.cgroups.process_groups import ProcessGroups
from jettison.runtimes.host.measure.active import ActivePod
from jettison.runtimes.host.measure.meter import Exactness, PodNumbers, node_processes
from jettison.runtimes.host.notice.outlook import MemoryPair
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux import proc
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.mounts import PROC
from jettison.runtimes.linux.processes import Process

_QUICK_NS = 10**9


class ProcessMeter:
    """Reads all of /proc once a second, at about 20 µs for each process of the machine; else only what may be ours."""

    def __init__(
        self,
        settings: HostSettings,
        groups: ProcessGroups,
        host: proc.Machine,
        clock: Clock,
        pods_capacity: int,
        directory: Path = PROC,
    ) -> None:
        self._settings = settings
        self._groups = groups
        self._host = host
        self._clock = clock
        self._pods_capacity = pods_capacity
        self._proc = directory
        self._counted_ns: int | None = None

    def memory(self) -> MemoryPair:
        """A node smaller than its machine uses what its pods use; the machine has what the kernel calls available."""
        now = self._clock.steady_ns()
        used = sum(process.resident for family in self._census().values() for process in family)
        pods = MemoryStats(now, self._pods_capacity - used, used, used)
        if self._settings.node_memory is not None:
            return MemoryPair(MemoryStats(now, self._settings.node_memory - used, used, used), pods)
        machine = self._host.memory()
        available = machine.free if machine.available is None else machine.available
        return MemoryPair(MemoryStats(now, available, machine.total - machine.free, machine.total - available), pods)

    def processes(self) -> ProcessStats:
        """Threads included."""
        current = None
        if self._settings.node_pids is not None:
            current = sum(process.threads for family in self._census().values() for process in family)
        return node_processes(self._settings, self._host, current, self._clock.steady_ns())

    def pods(self, active: Iterable[ActivePod], exactness: Exactness) -> dict[str, PodNumbers]:
        """From one census."""
        census = self._census()
        found: dict[str, PodNumbers] = {}
        for each in active:
            members = {
                container.name: census.get(container.place.name, ())
                for container in each.containers
                if container.is_running
            }
            sizes = {
                name: sum(self._size(process, exactness.memory) for process in family)
                for name, family in members.items()
            }
            count = sum(len(family) for family in members.values())
            found[each.manifest.pod.uid] = PodNumbers(sum(sizes.values()), count, dict(sizes))
        return found

    def close(self) -> None:
        """Two descriptors."""
        self._host.close()

    def _census(self) -> Census:
        now = self._clock.monotonic_ns()
        is_quick = self._counted_ns is not None and now - self._counted_ns < _QUICK_NS
        if not is_quick:
            self._counted_ns = now
        return self._groups.families.census(is_quick=is_quick)

    def _size(self, process: Process, is_exact: bool) -> int:
        # Of a copy of ourselves that has not become its program yet nothing counts, not even what it shares with us.
        is_worth_it = is_exact and process.resident > 0
        return (self._share(process.pid) if is_worth_it else None) or process.resident

    def _share(self, pid: int) -> int | None:
        try:
            data = kernel_files.read(self._proc / str(pid) / "smaps_rollup") or b""
        except ObservationError:
            return None  # dead, or it changed its user: what /proc/<pid>/stat said has to do
        start = data.find(b"\nPss:")
        return None if start < 0 else int(data[start + 5 :].split(None, 1)[0]) * 1024
