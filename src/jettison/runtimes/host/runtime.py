"""The host as a runtime: supervision and the node put together behind the protocol that the agent knows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from pathlib import Path

from jettison import events
from jettison.clock import Clock
from jettison.engine.config.allocatable import MachineCapacity, node_allocatable
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.signals import TABLE, Condition
from jettison.engine.node.snapshot import Snapshot
from jettison.engine.node.thresholds import Threshold
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import MountError
from jettison.events import Emit, Fact
from jettison.runtimes.configuration import NodeConfiguration
from jettison.runtimes.containers import ContainerRuntime
from jettison.runtimes.host.cgroups.containment import Builder, Containment, rehearse_kill
from jettison.runtimes.host.cgroups.kubepods import Kubepods
from jettison.runtimes.host.cgroups.places import ProcessGroups
from jettison.runtimes.host.disk_care import DiskCare
from jettison.runtimes.host.measure.capacity import measure_capacity
from jettison.runtimes.host.measure.observer import Observer
from jettison.runtimes.host.measure.subjects import node_subject
from jettison.runtimes.host.pods.record_files import RecordFiles
from jettison.runtimes.host.processes import closing
from jettison.runtimes.host.processes.forking import rehearse_mounts
from jettison.runtimes.host.processes.orders import Layer
from jettison.runtimes.host.processes.processes import WayIn
from jettison.runtimes.host.settings import PRIVATE, READ_ONLY, HostSettings
from jettison.runtimes.host.specs.spec import ImageOffer
from jettison.runtimes.host.supervisor import Supervisor
from jettison.runtimes.host.volumes.pod_directories import HostServices, claim_directories, make_directories
from jettison.runtimes.host.volumes.reclaim import Collector
from jettison.runtimes.host.volumes.removal import remove_directory
from jettison.runtimes.linux import proc
from jettison.runtimes.machine.alarms import MemoryAlarms, Wakeups
from jettison.runtimes.machine.background_tasks import BackgroundTasks, staffed_pool
from jettison.runtimes.machine.disks import DiskWatch
from jettison.runtimes.machine.level_watch import LevelWatch
from jettison.runtimes.machine.node_disks import DiskPlaces, NodeDisks
from jettison.runtimes.machine.outlook import MemoryPair
from jettison.runtimes.protocol import Alarm, EndingPod, PodManifest, PodStatus, ProbeCount, Reclaimed
from jettison.runtimes.stats import NodeSubject

_DISK_SIGNALS = frozenset(row.signal.value for row in TABLE if row.condition is Condition.DISK_PRESSURE)
_SHARED = "volumes of processes are links in their directory, and /tmp and the host's files are shared"
# Seconds from the start of a container to the first look at it; all that start meanwhile are met together.
_ACQUAINTANCE = 0.1


class HostRuntime:
    """One node of this machine. Made by `open`; pods outlive it, and the next one finds them."""

    # What keeps other agents out of its directories.
    _claim: int

    def __init__(
        self,
        settings: HostSettings,
        policy: Policy,
        clock: Clock,
        emit: Emit,
        machine: MachineCapacity,
        host: proc.Machine,
        boxes: ContainerRuntime | None = None,
        offer: ImageOffer | None = None,
        *,
        removes_images: bool = True,
    ) -> None:
        unmountable = _rehearse_mounts(settings)
        self.settings = settings
        self.conditions: frozenset[Condition] = frozenset()
        self._emit = emit
        self._machine = machine
        self._boxes = boxes
        self._wakeups = Wakeups(clock)
        self._disk_pool = staffed_pool(2, "jettison-disk")
        # Its own, so that an alarm never waits for a disk.
        self._alarm_pool = staffed_pool(1, "jettison-alarm")
        build = Builder(settings, policy, machine, host, clock, self._hear, lambda: self._wakeups.ring("oom"))
        self._containment: Containment = build.build()
        files = RecordFiles(settings.records_dir, self._disk_pool, self._hear)
        self.configuration = _configuration(machine, policy)
        services = HostServices(
            settings, self._containment.places, files, self._disk_pool, clock, self._hear,
            boxes=boxes, offer=offer, configuration=self.configuration, has_private_mounts=not unmountable,
        )  # fmt: skip
        # What a pod leaves is free now, and a decision may be waiting for that.
        self._supervisor = Supervisor(services, lambda: self._wakeups.ring("pods"))
        self._disks = DiskWatch(self._disk_pool, clock, settings.disk_period, settings.disk_patience)
        self._policy = policy
        self._filesystems = NodeDisks(settings.node_dir, clock)
        self._observer = Observer(settings, policy, self._containment.meter, self._disks, self._filesystems, clock)
        self._alarms = MemoryAlarms(
            policy.thresholds,
            self._containment.meter.memory,
            self._wakeups,
            clock,
            self._alarm_pool,
            self._containment.watched,
        )
        self._levels = LevelWatch(self._thresholds(), self._observer.levels, self._wakeups, clock)
        pods, pool = self._supervisor, self._disk_pool
        collector = Collector(settings, policy.containers, pods.active, pods.statuses, pool, clock, boxes)
        self._disk_care = DiskCare(
            policy, self._filesystems, collector, services, self._use_layout, removes_images=removes_images
        )
        self._background = BackgroundTasks(emit, "the node")
        self._newcomers: asyncio.TimerHandle | None = None
        self._weighed: list[str] = []
        self._complaints: frozenset[str] = frozenset()
        # What this machine does not permit, one line each.
        self.lacks = self._containment.lacks
        if unmountable:
            self.lacks += (f"{unmountable}: {_SHARED}",)

    @classmethod
    async def open(
        cls,
        settings: HostSettings,
        policy: Policy,
        clock: Clock,
        emit: Emit,
        boxes: ContainerRuntime | None = None,
        offer: ImageOffer | None = None,
        *,
        removes_images: bool = True,
    ) -> HostRuntime:
        """Make the node's directories and cgroups, and take over what an earlier agent left running.

        With `boxes`, pods may run in containers, as `offer` says, and its unused images are collected.
        """
        if boxes is not None:
            import_module("jettison.runtimes.host.pods.boxes")
        make_directories(settings)
        claim = claim_directories(settings)
        try:
            host = proc.Machine()
            capacity = measure_capacity(settings, host)
            runtime = cls(settings, policy, clock, emit, capacity, host, boxes, offer, removes_images=removes_images)
        except BaseException:
            os.close(claim)
            raise
        runtime._claim = claim
        try:
            runtime.lacks += runtime._alarms.open()
            await rehearse_kill(runtime._containment.places)
            await runtime._supervisor.adopt()
            await runtime._disk_care.open(runtime._background)
        except BaseException:
            await runtime.close()
            raise
        if runtime._containment.kubepods is not None:
            runtime._background.begin(runtime._enforce(runtime._containment.kubepods))
        return runtime

    async def close(self) -> None:
        """Let go of everything; the pods live on. A node on which nothing is left takes its cgroups with it."""
        await self._background.cancel()
        self._levels.close()
        await self._alarms.close()
        await self._supervisor.close()
        await self._disk_care.close()
        await self._disks.close()
        if self._containment.oom is not None:
            self._containment.oom.close()
        self._containment.meter.close()
        for pool in (self._disk_pool, self._alarm_pool):
            pool.shutdown()
        if self._containment.kubepods is not None:
            self._containment.kubepods.remove()
        os.close(self._claim)

    def use(self, policy: Policy) -> None:
        """Watch for these thresholds from now on, with alarms at their amounts, and collect by these marks."""
        self._observer.use(policy)
        self._alarms.use(policy.thresholds)
        self._policy = policy
        self._levels.use(self._thresholds())
        self._disk_care.use(policy)

    async def observe(self) -> Snapshot:
        """One consistent instant."""
        active = self._supervisor.active()
        snapshot = await self._observer.observe(active)
        self._alarms.observed(MemoryPair(snapshot.node.memory, snapshot.node.pods_memory))
        self._levels.observed(snapshot.node)
        self._disk_care.observed(snapshot.node, is_short=self._observer.is_disk_short)
        if self._containment.oom is not None:
            self._containment.oom.sweep()
        self._weigh(snapshot)
        self._complain()
        return snapshot

    async def reclaim(self, order: Reclaim) -> Reclaimed:
        """Dead containers, and images where there is a container runtime."""
        return await self._disk_care.reclaim(order)

    @property
    def places(self) -> DiskPlaces:
        """Which filesystem is which."""
        return self._filesystems.places

    def end(self, order: Eviction) -> None:
        """Tell the pod to end, or to hurry; raises PodGone."""
        self._supervisor.end(order)

    async def evict(self, order: Eviction) -> None:
        """End the pod; raises PodGone and StillRunning."""
        await self._supervisor.evict(order)

    def endings(self) -> Sequence[EndingPod]:
        """Evictions of which not all is told."""
        return self._supervisor.endings()

    def told(self, uid: str) -> None:
        """All of the pod's eviction is on record."""
        self._supervisor.told(uid)

    def is_finished(self, uid: str) -> bool:
        """Whether nothing is left of the pod; where it went for a disk, also of its layers in a container runtime."""
        if not self._supervisor.is_finished(uid):
            return False
        boxes = self._boxes
        return (
            boxes is None
            or boxes.has_cleared(uid)
            or not any(
                each.eviction.pod.uid == uid and each.eviction.signal in _DISK_SIGNALS for each in self.endings()
            )
        )

    def alarms(self) -> AsyncIterator[Alarm]:
        """Memory, kills by the kernel, and containers that ended."""
        return self._wakeups.alarms()

    async def start(self, manifest: PodManifest) -> None:
        """Run the pod."""
        await self._supervisor.start(manifest)

    async def add(self, manifest: PodManifest) -> None:
        """Run ephemeral containers that the pod has by now."""
        await self._supervisor.add(manifest)

    async def stop(self, uid: str, grace_seconds: int | None = None) -> None:
        """End and forget the pod."""
        await self._supervisor.stop(uid, grace_seconds)

    def is_found(self, uid: str) -> bool:
        """Whether the pod runs here though its record is lost."""
        return self._supervisor.is_found(uid)

    async def reject(self, manifest: PodManifest, reason: str, message: str) -> None:
        """Remember a pod that was not admitted."""
        await self._supervisor.reject(manifest, reason, message)

    def statuses(self) -> Sequence[PodStatus]:
        """All pods, oldest first."""
        return self._supervisor.statuses()

    def probe_counts(self) -> Sequence[ProbeCount]:
        """What probes have answered."""
        return self._supervisor.probe_counts()

    def subject(self) -> NodeSubject:
        """What there is to measure, for a client that asks for everything."""
        runtime_pid = 0 if self._boxes is None else self._boxes.pid
        active, statuses = self._supervisor.active(), self._supervisor.statuses()
        places = self._containment.places
        census = places.families.census(is_quick=True) if isinstance(places, ProcessGroups) else {}
        return node_subject(self.settings, self._containment.kubepods, active, statuses, runtime_pid, census)

    def way_in(self, uid: str, container: str) -> WayIn:
        """Into a running container. Raises StartError."""
        return self._supervisor.way_in(uid, container)

    @property
    def memory_alarm(self) -> str:
        """How a shortage of memory is noticed, in words."""
        return self._alarms.source

    def machine(self) -> MachineCapacity:
        """What this node has."""
        return self._machine

    def _hear(self, fact: Fact) -> None:
        self._emit(fact)
        # Its memory is free now, and a decision may be waiting for that.
        if isinstance(fact, events.ContainerFinished):
            self._wakeups.ring("pods")
        elif isinstance(fact, events.ContainerStarted) and self._newcomers is None:
            self._newcomers = asyncio.get_running_loop().call_later(_ACQUAINTANCE, self._meet_newcomers)

    def _meet_newcomers(self) -> None:
        """Look at them before anything is the matter: the first look at a pod takes four times as long as the next."""
        self._newcomers = None
        self._wakeups.ring("pods")

    def _thresholds(self) -> tuple[Threshold, ...]:
        return self._policy.layouts[self._filesystems.layout].all

    def _use_layout(self) -> None:
        """The node's filesystems are others than was thought: watch those."""
        self._levels.use(self._thresholds())
        self._wakeups.ring("poll")

    def _weigh(self, snapshot: Snapshot) -> None:
        uids = [pod.uid for pod in snapshot.pods]
        if self._containment.kubepods is not None and uids != self._weighed:
            self._weighed = uids
            self._containment.kubepods.share(snapshot.pods)

    def _complain(self) -> None:
        """Say once of each directory, and of the memory alarms, that they cannot be had, until they can be again."""
        failures = {f"measure `{path}`": why for path, why in self._disks.failures.items()}
        if self._alarms.failure is not None:
            failures["set the kernel's memory alarms, so memory is polled"] = self._alarms.failure
        for what in failures.keys() - self._complaints:
            self._emit(events.ActionFailed(what, failures[what]))
        self._complaints = frozenset(failures)

    async def _enforce(self, kubepods: Kubepods) -> None:
        """A full node takes no limit below what is used; evictions help, and then it is tried again."""
        while refused := kubepods.enforce():
            self._emit(events.LimitsRefused(kubepods.name, "; ".join(refused)))
            await asyncio.sleep(self.settings.pace.enforcement)
        self._emit(events.LimitsEnforced(kubepods.name))


def _configuration(machine: MachineCapacity, policy: Policy) -> NodeConfiguration:
    # Whatever a configuration says, what volumes show is not asked for more often than every second.
    seconds = max(policy.config.sync_frequency, SECOND_NS) / SECOND_NS
    return NodeConfiguration(allocatable=node_allocatable(machine, policy).allocatable, period=seconds)


def _rehearse_mounts(settings: HostSettings) -> str:
    """Why processes cannot have mounts of their own, or an empty text. Raises MountError where they must."""
    staging = settings.node_dir / "mounts"
    if settings.host_files != PRIVATE:
        return rehearse_mounts(staging, closing.DISKS if settings.host_files == READ_ONLY else closing.NOTHING)
    layer = Layer(str(staging.with_name("layer")), str(settings.pods_dir))
    remove_directory(settings.node_dir, Path(layer.directory))
    try:
        why = rehearse_mounts(staging, layer=layer)
    finally:
        remove_directory(settings.node_dir, Path(layer.directory))
    if why:
        raise MountError(f"cannot keep what processes write to the host's files private: {why}")
    return ""
