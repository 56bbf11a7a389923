"""A recorded world after a replay has left the recorded path: which pods are there, and what is left for them.

What a pod uses does not depend on what became of others, as far as a recording can tell. So a pod that is gone here and
was not there gives back what it used at each look, and one that was gone there and is here keeps what it had.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from jettison.agent.agent import TapedLook
from jettison.engine.node.snapshot import Disks, FsStats, Layout, MemoryStats, NodeStats, PodUsage, Snapshot
from jettison.engine.pods.pod import Pod


class Amounts(NamedTuple):
    """What a pod takes of its node."""

    memory: int = 0
    processes: int = 0
    node_bytes: int = 0
    node_inodes: int = 0
    # Of the filesystem of images, where that is another one.
    image_bytes: int = 0
    image_inodes: int = 0

    def plus(self, other: Amounts, sign: int = 1) -> Amounts:
        """Both together."""
        return Amounts(*(one + sign * two for one, two in zip(self, other, strict=True)))


def amounts_of(pod: Pod | None, usage: PodUsage | None, layout: Layout) -> Amounts:
    """What was not measured counts as nothing."""
    if usage is None:
        return Amounts()
    local = frozenset[str]() if pod is None else pod.local_volumes
    volumes = [each for each in usage.volumes if each.name in local]
    rootfs = _sum(each.rootfs_bytes for each in usage.containers), _sum(each.rootfs_inodes for each in usage.containers)
    rest_bytes = _sum(each.logs_bytes for each in usage.containers) + _sum(each.used_bytes for each in volumes)
    rest_inodes = _sum(each.logs_inodes for each in usage.containers) + _sum(each.used_inodes for each in volumes)
    if layout.disks is Disks.DEDICATED:
        node, image = (rest_bytes, rest_inodes), rootfs
    else:
        node, image = (rest_bytes + rootfs[0], rest_inodes + rootfs[1]), (0, 0)
    if not node[0] and not image[0]:
        node = usage.ephemeral_storage_bytes or 0, node[1]
    return Amounts(usage.working_set or 0, usage.processes or 0, *node, *image)


def _sum(numbers: Iterable[int | None]) -> int:
    return sum(each for each in numbers if each is not None)


class Estimate:
    """Which pods are other than they were recorded."""

    def __init__(self) -> None:
        # By uid: evicted by the replay alone.
        self.gone: set[str] = set()
        # Evicted by the recorded agent alone, with what it used then.
        self.kept: dict[str, tuple[Pod, PodUsage | None]] = {}

    def decided(self, look: TapedLook, told: Iterable[str]) -> None:
        """After a look: these were told here, `look.told` there."""
        here, there = set(told), set(look.told)
        for uid in here:
            self.kept.pop(uid, None)
        self.gone |= here
        pods = {pod.uid: pod for pod in look.snapshot.pods}
        for uid in there - self.gone:
            if uid in pods:
                self.kept.setdefault(uid, (pods[uid], look.snapshot.usages.get(uid)))

    def snapshot(self, look: TapedLook) -> Snapshot:
        """As the node would have been measured."""
        seen = look.snapshot
        pods = [pod for pod in seen.pods if pod.uid not in self.gone and pod.uid not in self.kept]
        usages = {uid: usage for uid, usage in seen.usages.items() if uid not in self.gone}
        freed = Amounts()
        for pod in seen.pods:
            if pod.uid in self.gone or pod.uid in self.kept:
                freed = freed.plus(amounts_of(pod, seen.usages.get(pod.uid), seen.layout))
        for uid, (pod, usage) in self.kept.items():
            pods.append(pod)
            usages.pop(uid, None)
            if usage is not None:
                usages[uid] = usage
            freed = freed.plus(amounts_of(pod, usage, seen.layout), -1)
        return replace(seen, node=_with(seen.node, freed, seen.layout), pods=pods, usages=usages)


def _with(node: NodeStats, freed: Amounts, layout: Layout) -> NodeStats:
    has_own_images = layout.disks is not Disks.SHARED
    processes = node.processes
    if processes is not None and processes.current is not None:
        processes = processes._replace(current=max(processes.current - freed.processes, 0))
    images = (freed.image_bytes, freed.image_inodes) if has_own_images else (freed.node_bytes, freed.node_inodes)
    containers = images if layout.disks is Disks.DEDICATED else (freed.node_bytes, freed.node_inodes)
    return node._replace(
        memory=_memory(node.memory, freed.memory),
        pods_memory=_memory(node.pods_memory, freed.memory),
        fs=_filesystem(node.fs, freed.node_bytes, freed.node_inodes),
        image_fs=_filesystem(node.image_fs, *images),
        container_fs=_filesystem(node.container_fs, *containers),
        processes=processes,
    )


def _memory(stats: MemoryStats | None, freed: int) -> MemoryStats | None:
    if stats is None or stats.available is None:
        return stats
    working_set = None if stats.working_set is None else max(stats.working_set - freed, 0)
    usage = None if stats.usage is None else max(stats.usage - freed, 0)
    return stats._replace(available=stats.available + freed, working_set=working_set, usage=usage)


def _filesystem(stats: FsStats | None, size: int, inodes: int) -> FsStats | None:
    if stats is None:
        return None
    free = None if stats.inodes_free is None else stats.inodes_free + inodes
    available = None if stats.available is None else stats.available + size
    if available is not None and stats.capacity is not None:
        available = min(available, stats.capacity)
    return stats._replace(available=available, inodes_free=free)
