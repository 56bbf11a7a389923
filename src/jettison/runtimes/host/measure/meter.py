"""What the node and its pods use, by cgroups. The seam to the other way of measuring, in `accounting`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from jettison.clock import Clock
from jettison.engine.node.snapshot import MemoryStats, ProcessStats
from jettison.errors import ObservationError
from jettison.runtimes.host.cgroups.kubepods import Kubepods
from jettison.runtimes.host.measure.active import ActivePod
from jettison.runtimes.host.notice.outlook import MemoryPair
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux import proc
from jettison.runtimes.linux.cgroups import tree as cgroup_tree
from jettison.runtimes.linux.cgroups.usage import ROOT, UsageReader

# Bytes by which two counters may differ that mean the same: each processor charges in batches of 64 pages.
_BATCH = 256 * 1024
_LIMIT_LASTS_NS = 10**9


@dataclass(frozen=True, slots=True)
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
