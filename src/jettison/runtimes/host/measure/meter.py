"""What the node and its pods use: by cgroups or, where no cgroup counts, as sums over processes from /proc.

Of processes, memory is what they hold resident, which counts a page that two of them share twice. Where a decision
depends on it, their proportional share is read instead: right, but the kernel walks all page tables for it (1 to 5 ms
for a process of 400 MB). Page cache is not counted then, nor is a process that cannot be traced to its pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from jettison.clock import Clock
from jettison.engine.node.snapshot import MemoryStats, ProcessStats
from jettison.errors import ObservationError
from jettison.runtimes.host.cgroups.families import Census
from jettison.runtimes.host.cgroups.kubepods import Kubepods
from jettison.runtimes.host.cgroups.places import ProcessGroups
from jettison.runtimes.host.pods.reports import ActivePod
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux import proc
from jettison.runtimes.linux.cgroups import tree as cgroup_tree
from jettison.runtimes.linux.cgroups.usage import ROOT, UsageReader
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.runtimes.linux.processes import Process
from jettison.runtimes.machine.outlook import MemoryPair
from jettison.values import frozen

# Bytes by which two counters may differ that mean the same: each processor charges in batches of 64 pages.
_BATCH = 256 * 1024
_LIMIT_LASTS_NS = 10**9

_QUICK_NS = 10**9


@frozen
class Exactness:
    """On what the answer depends this time. What is not needed exactly may be as old as the last exact reading."""

    memory: bool = True
    processes: bool = True


class PodNumbers(NamedTuple):
    """One pod with its running containers; None is what could not be measured."""

    working_set: int | None
    processes: int | None
    # By name.
    containers: dict[str, int | None]


class Meter(Protocol):
    """Measures. Only `memory` may fail: without it nothing can be decided. Pods that vanish meanwhile are None."""

    def memory(self) -> MemoryPair:
        """Of the node and of all pods: cheap enough to be asked 500 times a second."""

    def processes(self) -> ProcessStats:
        """Of the node, threads included."""

    def pods(self, active: Iterable[ActivePod], exactness: Exactness) -> dict[str, PodNumbers]:
        """By uid. A pod between two runs of its containers has an entry too, as it has with a kubelet that asks
        cAdvisor: without one it would be ranked first, however little it uses. Without a place there is none.
        """

    def close(self) -> None:
        """Give back what was kept open."""


def node_processes(settings: HostSettings, host: proc.Machine, current: int | None, time_ns: int) -> ProcessStats:
    """A node without a limit of its own counts the tasks of the whole machine."""
    if settings.node_pids is not None:
        return ProcessStats(time_ns, settings.node_pids, current)
    return ProcessStats(time_ns, host.most_tasks(), host.tasks())


class CgroupMeter:
    """Reads kept descriptors. memory.stat is read where the answer depends on it; elsewhere its last answer counts."""

    def __init__(self, settings: HostSettings, kubepods: Kubepods, host: proc.Machine, clock: Clock) -> None:
        self._settings = settings
        self._kubepods = kubepods
        self._host = host
        self._clock = clock
        self._reader = UsageReader(kubepods.mounts)
        self._total = host.memory().total
        memory = kubepods.mounts.holding("memory")
        self._directory = Path() if memory is None else memory.mount_point
        self._limit: int | None = None
        self._limit_ns: int | None = None
        self._names: dict[str, str] = {}
        # By cgroup: the inactive cache at the last exact reading, and processes with the tasks they were counted at.
        self._inactive: dict[str, int] = {}
        self._counted: dict[str, tuple[int, int]] = {}

    def memory(self) -> MemoryPair:
        """The node is its own cgroup, or the machine; the pods are kubepods, whose limit is their capacity."""
        settings = self._settings
        if settings.node_memory is None:
            node = self._stats(ROOT, self._total)
        else:
            node = self._stats(self._kubepods.node, settings.node_memory)
        if node is None:
            raise ObservationError(f"cannot measure memory: cgroup `{self._kubepods.node}` is gone")
        return MemoryPair(node, self._stats(self._kubepods.name, self._pods_limit()))

    def processes(self) -> ProcessStats:
        """By the node's own limit, or the machine's."""
        current = self._reader.tasks(self._kubepods.node) if self._settings.node_pids is not None else None
        return node_processes(self._settings, self._host, current, self._clock.steady_ns())

    def pods(self, active: Iterable[ActivePod], exactness: Exactness) -> dict[str, PodNumbers]:
        """A handful of system calls for each pod."""
        found: dict[str, PodNumbers] = {}
        for each in active:
            running = [(container.name, container.place.name) for container in each.containers if container.is_running]
            pod = each.manifest.pod
            name = self._names.get(pod.uid) or self._names.setdefault(pod.uid, self._kubepods.pod_cgroup(pod))
            numbers = self._pod(name, running, exactness)
            if running or numbers.working_set is not None:
                found[pod.uid] = numbers
        for uid in self._names.keys() - found.keys():
            self._forget(self._names.pop(uid))
        return found

    def close(self) -> None:
        """All descriptors."""
        self._reader.close()
        self._host.close()

    def _pods_limit(self) -> int | None:
        """Only we change it, and not often; but to ask takes as long as the rest of `memory`."""
        now_ns = self._clock.monotonic_ns()
        if self._limit_ns is None or now_ns - self._limit_ns >= _LIMIT_LASTS_NS:
            self._limit, self._limit_ns = self._reader.memory_limit(self._kubepods.name), now_ns
        return self._limit

    def _stats(self, name: str, capacity: int | None) -> MemoryStats | None:
        memory = self._reader.memory(name)
        if memory is None:
            return None
        available = None if capacity is None else capacity - memory.working_set
        return MemoryStats(self._clock.steady_ns(), available, memory.usage, memory.working_set)

    def _pod(self, name: str, running: list[tuple[str, str]], exactness: Exactness) -> PodNumbers:
        usage = working_set = None
        if exactness.memory or name not in self._inactive:
            memory = self._reader.memory(name)
            if memory is not None:
                usage, working_set = memory.usage, memory.working_set
                self._inactive[name] = memory.inactive_file or 0
        else:
            usage = self._reader.memory_usage(name)
            working_set = None if usage is None else max(usage - self._inactive[name], 0)
        containers = {
            container: self._container(cgroup, name, usage, exactness.memory) for container, cgroup in running
        }
        return PodNumbers(working_set, self._processes(name, running, exactness.processes), containers)

    def _container(self, name: str, pod: str, pod_usage: int | None, is_exact: bool) -> int | None:
        """A container that is charged with all of its pod's memory has all of its pod's inactive cache, too."""
        usage = self._reader.memory_usage(name)
        if usage is None:
            return None
        if pod_usage is not None and pod_usage - usage <= _BATCH:
            return max(usage - self._inactive.get(pod, 0), 0)
        if is_exact or name not in self._inactive:
            memory = self._reader.memory(name)
            if memory is None:
                return None
            self._inactive[name] = memory.inactive_file or 0
            return memory.working_set
        return max(usage - self._inactive[name], 0)

    def _processes(self, name: str, running: list[tuple[str, str]], is_exact: bool) -> int | None:
        """Processes, as the kubelet counts them, from lists that must be opened; their tasks are one cheap number."""
        tasks = self._reader.tasks(name)
        counted = self._counted.get(name)
        if not is_exact and counted is not None and counted[0] == tasks:
            return counted[1]
        counts = [cgroup_tree.count_processes(self._directory / cgroup) for _, cgroup in running]
        processes = sum(counts)
        self._counted[name] = (tasks or 0, processes)
        return processes

    def _forget(self, name: str) -> None:
        below = f"{name}/"
        for kept in [kept for kept in self._inactive if kept == name or kept.startswith(below)]:
            del self._inactive[kept]
        self._counted.pop(name, None)
        self._reader.forget_tree(name)


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
