"""`engine.snapshot` values to the Summary API's `/stats/summary`, the way the kubelet serves it.

What was not measured is left out, never written as zero. Numbers below zero wrap around, because the wire knows only
unsigned ones; the reader turns them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jettison.engine.node.snapshot import ContainerUsage, FsStats, MemoryStats, NodeStats, PodUsage, ProcessStats
from jettison.engine.pods.pod import Pod
from jettison.manifests.times import exact_time_text, time_text

Document = dict[str, Any]


def summary_document(
    node: NodeStats,
    usages: Mapping[str, PodUsage],
    pods: Iterable[Pod],
    *,
    is_exact: bool = False,
    only_cpu_and_memory: bool = False,
) -> Document:
    """The whole summary. Kubernetes cuts its times to seconds; with `is_exact` they keep their nanoseconds.

    Freshness is decided by times, so a summary that is to be decided on again must be exact.
    """
    known = {pod.uid: pod for pod in pods}
    writer = _Writer(is_exact, only_cpu_and_memory)
    return {
        "node": writer.node(node),
        "pods": [writer.pod(uid, known.get(uid), usage) for uid, usage in usages.items()],
    }


def pod_summary(usage: PodUsage, uid: str, pod: Pod | None, *, only_cpu_and_memory: bool = False) -> Document:
    """What the summary has of one pod."""
    return _Writer(is_exact=False, only_cpu_and_memory=only_cpu_and_memory).pod(uid, pod, usage)


def filesystem_document(stats: FsStats) -> Document:
    """One filesystem by itself."""
    return _Writer(is_exact=False, only_cpu_and_memory=False).fs(stats)


class _Writer:
    def __init__(self, is_exact: bool, only_cpu_and_memory: bool) -> None:
        self._time_text = exact_time_text if is_exact else time_text
        self._has_disks = not only_cpu_and_memory

    def node(self, node: NodeStats) -> Document:
        document: Document = {"nodeName": node.name}
        if node.memory is not None:
            document["memory"] = self._memory(node.memory)
        if node.has_pods_container:
            pods: Document = {"name": "pods"}
            if node.pods_memory is not None:
                pods["memory"] = self._memory(node.pods_memory)
            document["systemContainers"] = [pods]
        if self._has_disks:
            self._add_disks(node, document)
        return document

    def _add_disks(self, node: NodeStats, document: Document) -> None:
        if node.fs is not None:
            document["fs"] = self.fs(node.fs)
        runtime = {
            name: self.fs(stats)
            for name, stats in (("imageFs", node.image_fs), ("containerFs", node.container_fs))
            if stats is not None
        }
        if runtime:
            document["runtime"] = runtime
        if node.processes is not None:
            document["rlimit"] = self._processes(node.processes)

    def pod(self, uid: str, pod: Pod | None, usage: PodUsage) -> Document:
        reference = {"name": pod.name, "namespace": pod.namespace, "uid": uid} if pod is not None else {"uid": uid}
        document: Document = {
            "podRef": reference,
            "containers": [self._container(each) for each in usage.containers],
        }
        if usage.working_set is not None:
            document["memory"] = {"workingSetBytes": _unsigned(usage.working_set)}
        if self._has_disks:
            if usage.processes is not None:
                document["process_stats"] = {"process_count": _unsigned(usage.processes)}
            if usage.ephemeral_storage_bytes is not None:
                document["ephemeral-storage"] = {"usedBytes": _unsigned(usage.ephemeral_storage_bytes)}
            if usage.volumes:
                document["volume"] = [
                    {"name": each.name, **_used(each.used_bytes, each.used_inodes)} for each in usage.volumes
                ]
        return document

    def _container(self, usage: ContainerUsage) -> Document:
        document: Document = {"name": usage.name}
        if usage.working_set is not None:
            document["memory"] = {"workingSetBytes": _unsigned(usage.working_set)}
        if self._has_disks:
            rootfs = _used(usage.rootfs_bytes, usage.rootfs_inodes)
            logs = _used(usage.logs_bytes, usage.logs_inodes)
            if rootfs:
                document["rootfs"] = rootfs
            if logs:
                document["logs"] = logs
        return document

    def _memory(self, stats: MemoryStats) -> Document:
        return self._numbers(
            stats.time_ns,
            availableBytes=stats.available,
            usageBytes=stats.usage,
            workingSetBytes=stats.working_set,
        )

    def fs(self, stats: FsStats) -> Document:
        """One filesystem."""
        return self._numbers(
            stats.time_ns,
            availableBytes=stats.available,
            capacityBytes=stats.capacity,
            usedBytes=stats.used,
            inodesFree=stats.inodes_free,
            inodes=stats.inodes,
            inodesUsed=stats.inodes_used,
        )

    def _processes(self, stats: ProcessStats) -> Document:
        # The only signed numbers of the format.
        numbers = {"maxpid": stats.maximum, "curproc": stats.current}
        document = {name: number for name, number in numbers.items() if number is not None}
        return {**self._numbers(stats.time_ns), **document}

    def _numbers(self, time_ns: int | None, **numbers: int | None) -> Document:
        document: Document = {} if time_ns is None else {"time": self._time_text(time_ns)}
        document.update((name, _unsigned(number)) for name, number in numbers.items() if number is not None)
        return document


def _used(number_of_bytes: int | None, inodes: int | None) -> Document:
    # Line by line, because there are three of these for each container and a record waits for all of them.
    document: Document = {}
    if number_of_bytes is not None:
        document["usedBytes"] = _unsigned(number_of_bytes)
    if inodes is not None:
        document["inodesUsed"] = _unsigned(inodes)
    return document


def _unsigned(number: int) -> int:
    return number if number >= 0 else number + 2**64
