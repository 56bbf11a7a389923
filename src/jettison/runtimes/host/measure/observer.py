"""One consistent instant of the node, read in about a millisecond.

The expensive numbers are read exactly only where a decision depends on them: the memory of each pod matters once a
memory threshold is crossed, the number of its processes once processes are short, and only a disk that runs full is
worth waiting for a walk. Whatever is not needed exactly is refreshed every 10 s, for reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jettison.clock import Clock
from jettison.engine.config.policy import Policy
from jettison.engine.node.signals import ROWS, Resource, readings
from jettison.engine.node.snapshot import (
    ContainerUsage,
    Disks,
    NodeStats,
    PodUsage,
    Snapshot,
    VolumeUsage,
)
from jettison.runtimes.host.measure.meter import Exactness, Meter, PodNumbers
from jettison.runtimes.host.pods.reports import ActiveContainer, ActivePod
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux.files.disk_usage import DiskUsage
from jettison.runtimes.machine.disks import DiskWatch, Targets
from jettison.runtimes.machine.node_disks import NodeDisks

_REFRESH_NS = 10 * 10**9
# How long a full disk may make the agent wait for the pods' directories to be measured; never when memory is short too.
_DISK_PATIENCE = 0.5

_DISK = frozenset({Resource.EPHEMERAL_STORAGE, Resource.INODES})


class Observer:
    """Puts a snapshot together."""

    def __init__(
        self,
        settings: HostSettings,
        policy: Policy,
        meter: Meter,
        disks: DiskWatch,
        filesystems: NodeDisks,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._policy = policy
        self._filesystems = filesystems
        self._meter = meter
        self._disks = disks
        self._clock = clock
        # Whether a disk threshold was not resolved at the last look.
        self.is_disk_short = False
        self._exact_ns: int | None = None
        self._running: list[str] = []
        self._wanted_ns = 0

    def use(self, policy: Policy) -> None:
        """From the next observation on: how exactly is measured depends on what is short."""
        self._policy = policy

    async def observe(self, active: Sequence[ActivePod]) -> Snapshot:
        """Raises ObservationError when the node's memory or its filesystem cannot be read; pods may come and go."""
        node = self._node()
        short = self._short(node)
        self.is_disk_short = bool(short & _DISK)
        self._want(active)
        if short & _DISK and Resource.MEMORY not in short:
            await self._disks.refresh(_DISK_PATIENCE)
            node = self._node()
        else:
            await self._disks.refresh()
        numbers = self._meter.pods(active, self._exactness(short))
        return Snapshot(
            self._clock.steady_ns(),
            node,
            [each.manifest.pod for each in active],
            {
                each.manifest.pod.uid: self._usage(each, known)
                for each in active
                if (known := numbers.get(each.manifest.pod.uid)) is not None
            },
            self._filesystems.layout,
        )

    def _want(self, active: Sequence[ActivePod]) -> None:
        """Tell what to measure when other containers run than before; a restart may wait for the next round."""
        running = [container.place.name for each in active for container in each.containers if container.is_running]
        now = self._clock.monotonic_ns()
        if running != self._running or now - self._wanted_ns >= _REFRESH_NS:
            self._running, self._wanted_ns = running, now
            self._disks.want(_targets(active))

    def levels(self) -> NodeStats:
        """Everything of the node but its memory. Raises ObservationError when its filesystem cannot be read."""
        node, images, layers = self._filesystems.read()
        name, processes = self._settings.node_name, self._meter.processes()
        return NodeStats(name, fs=node, image_fs=images, container_fs=layers, processes=processes)

    def _node(self) -> NodeStats:
        memory = self._meter.memory()
        has_pods = memory.pods is not None
        return self.levels()._replace(memory=memory.node, pods_memory=memory.pods, has_pods_container=has_pods)

    def _short(self, node: NodeStats) -> frozenset[Resource]:
        """Resources for which the engine may want a ranking: it never ranks while all thresholds are resolved."""
        found = readings(node)
        return frozenset(
            ROWS[threshold.signal].resource
            for threshold in self._policy.layouts[self._filesystems.layout].all
            if (reading := found.get(threshold.signal)) is not None and threshold.is_unresolved(reading)
        )

    def _exactness(self, short: frozenset[Resource]) -> Exactness:
        now = self._clock.monotonic_ns()
        if self._exact_ns is None or now - self._exact_ns >= _REFRESH_NS:
            self._exact_ns = now
            return Exactness(memory=True, processes=Resource.PIDS in short)
        return Exactness(memory=Resource.MEMORY in short, processes=Resource.PIDS in short)

    def _usage(self, each: ActivePod, numbers: PodNumbers) -> PodUsage:
        containers = [
            self._container(container, numbers) for container in each.containers if container.name in numbers.containers
        ]
        volumes = [self._volume(name, path) for name, path in _volumes(each)] if each.volumes else []
        known = [size for one in containers for size in (one.rootfs_bytes, one.logs_bytes) if size is not None]
        if volumes:
            local = each.manifest.pod.local_volumes
            known += [one.used_bytes for one in volumes if one.used_bytes is not None and one.name in local]
        return PodUsage(numbers.working_set, numbers.processes, sum(known) if known else None, containers, volumes)

    def _container(self, container: ActiveContainer, numbers: PodNumbers) -> ContainerUsage:
        usages = self._disks.usages
        rootfs, logs = usages.get(container.writable_dir), usages.get(container.log_dir)
        if rootfs is not None and not container.box and self._filesystems.layout.disks is Disks.DEDICATED:
            # A process writes on nodefs, whatever there is for containers: there it counts, with its logs.
            before = logs or DiskUsage(0, 0)
            logs = DiskUsage(rootfs.size + before.size, rootfs.inodes + before.inodes)
            rootfs = None
        return ContainerUsage(
            container.name,
            numbers.containers[container.name],
            None if rootfs is None else rootfs.size,
            None if rootfs is None else rootfs.inodes,
            None if logs is None else logs.size,
            None if logs is None else logs.inodes,
        )

    def _volume(self, name: str, path: str) -> VolumeUsage:
        found = self._disks.usages.get(path)
        return VolumeUsage(name) if found is None else VolumeUsage(name, found.size, found.inodes)


def _targets(active: Iterable[ActivePod]) -> Targets:
    targets: dict[str, bool] = {}
    for each in active:
        for container in each.containers:
            if container.is_running:
                targets[container.writable_dir] = False
                targets[container.log_dir] = True
        for _, path in _volumes(each):
            targets[path] = False
    return targets


def _volumes(each: ActivePod) -> list[tuple[str, str]]:
    """Only what lies below the pod's own directory: a hostPath is not measured, here as in Kubernetes."""
    own = f"{each.pod_dir}/"
    return [(volume.name, volume.path) for volume in each.volumes if volume.path.startswith(own)]
