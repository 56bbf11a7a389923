"""The host as a runtime: supervision and the node put together behind the protocol that the agent knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from jettison import events
from jettison.clock import Clock
from jettison.engine.config.allocatable import MachineCapacity
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.signals import Condition, Reclaimable
from jettison.engine.node.snapshot import Snapshot
from jettison.events import Emit, Fact
from jettison.runtimes.containers import ContainerRuntime
from jettison.runtimes.host.cgroups.containment import Builder, Containment, rehearse_kill
from jettison.runtimes.host.cgroups.kubepods import Kubepods
from jettison.runtimes.host.measure.capacity import measure_capacity
from jettison.runtimes.host.measure.observer import Observer
from jettison.runtimes.host.pods.record_files import RecordFiles
from jettison.runtimes.host.processes.processes import Entrance
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.host.specs.spec import ImageOffer
from jettison.runtimes.host.supervisor import Supervisor
from jettison.runtimes.host.volumes.pod_directories import HostServices, make_directories
from jettison.runtimes.host.volumes.reclaim import Collector
from jettison.runtimes.linux import proc
from jettison.runtimes.machine.alarms import MemoryAlarms, Wakeups
from jettison.runtimes.machine.background_tasks import BackgroundTasks
from jettison.runtimes.machine.disks import ONE_FILESYSTEM, DiskWatch
from jettison.runtimes.machine.level_watch import LevelWatch
from jettison.runtimes.machine.outlook import MemoryPair
from jettison.runtimes.protocol import Alarm, EndingPod, PodManifest, PodStatus, Reclaimed

COLLECT_SECONDS = 60.0
"""How often dead containers are cleared away when the disk is in no need of it; the kubelet's period."""

ENFORCE_SECONDS = 60.0
"""How soon limits that the kernel did not take are tried again; the kubelet's period."""

# Seconds from the start of a container to the first look at it; all that start meanwhile are met together.
_ACQUAINTANCE = 0.1


class HostRuntime:
    """One node of this machine. Made by `open`; pods outlive it, and the next one finds them."""

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
    ) -> None:
        self.settings = settings
        self.conditions: frozenset[Condition] = frozenset()
        self._emit = emit
        self._machine = machine
        self._wakeups = Wakeups(clock)
        self._disk_pool = ThreadPoolExecutor(2, "jettison-disk")
        # Its own, so that an alarm never waits for a disk.
        self._alarm_pool = ThreadPoolExecutor(1, "jettison-alarm")
        build = Builder(settings, policy, machine, host, clock, self._hear, lambda: self._wakeups.ring("oom"))
        self._containment: Containment = build.build()
        files = RecordFiles(settings.records_dir, self._disk_pool, self._hear)
        services = HostServices(
            settings, self._containment.places, files, self._disk_pool, clock, self._hear, boxes=boxes, offer=offer
        )
        # What a pod leaves is free now, and a decision may be waiting for that.
        self._supervisor = Supervisor(services, lambda: self._wakeups.ring("pods"))
        self._disks = DiskWatch(self._disk_pool, clock, settings.disk_period, settings.disk_patience)
        self._observer = Observer(settings, policy, self._containment.meter, self._disks, clock)
        self._alarms = MemoryAlarms(
            policy.thresholds,
            self._containment.meter.memory,
            self._wakeups,
            clock,
            self._alarm_pool,
            self._containment.watched,
        )
        self._levels = LevelWatch(policy.layouts[ONE_FILESYSTEM].all, self._observer.levels, self._wakeups, clock)
        self._collector = Collector(
            settings, policy.containers, self._supervisor.active, self._supervisor.statuses, self._disk_pool, clock
        )
        self._background = BackgroundTasks(emit, "the node")
        self._newcomers: asyncio.TimerHandle | None = None
        self._weighed: list[str] = []
        self._complaints: frozenset[str] = frozenset()
        # What this machine does not permit, one line each.
        self.lacks = self._containment.lacks

    @classmethod
    async def open(
        cls,
        settings: HostSettings,
        policy: Policy,
        clock: Clock,
        emit: Emit,
        boxes: ContainerRuntime | None = None,
        offer: ImageOffer | None = None,
    ) -> HostRuntime:
        """Make the node's directories and cgroups, and take over what an earlier agent left running.

        With `boxes`, pods may run in containers, as `offer` says.
        """
        make_directories(settings)
        host = proc.Machine()
        runtime = cls(settings, policy, clock, emit, measure_capacity(settings, host), host, boxes, offer)
        runtime.lacks += runtime._alarms.open()
        await rehearse_kill(runtime._containment.places)
        await runtime._supervisor.adopt()
        runtime._background.begin(runtime._collect_for_ever())
        if runtime._containment.kubepods is not None:
            runtime._background.begin(runtime._enforce(runtime._containment.kubepods))
        return runtime

    async def close(self) -> None:
        """Let go of everything; the pods live on. A node on which nothing is left takes its cgroups with it."""
        await self._background.cancel()
        self._levels.close()
        await self._alarms.close()
        await self._supervisor.close()
        await self._disks.close()
        if self._containment.oom is not None:
            self._containment.oom.close()
        self._containment.meter.close()
        for pool in (self._disk_pool, self._alarm_pool):
            pool.shutdown()
        if self._containment.kubepods is not None:
            self._containment.kubepods.remove()

    def use(self, policy: Policy) -> None:
        """Watch for these thresholds from now on, with alarms at their amounts, and collect by these marks."""
        self._observer.use(policy)
        self._alarms.use(policy.thresholds)
        self._levels.use(policy.layouts[ONE_FILESYSTEM].all)
        self._collector.use(policy.containers)

    async def observe(self) -> Snapshot:
        """One consistent instant."""
        active = self._supervisor.active()
        snapshot = await self._observer.observe(active)
        self._alarms.observed(MemoryPair(snapshot.node.memory, snapshot.node.pods_memory))
        self._levels.observed(snapshot.node)
        if self._containment.oom is not None:
            self._containment.oom.sweep()
        self._weigh(snapshot)
        self._complain()
        return snapshot

    async def reclaim(self, order: Reclaim) -> Reclaimed:
        """Dead containers; there are no images on a bare host."""
        if Reclaimable.CONTAINERS not in order.what:
            return Reclaimed()
        return await self._collector.collect(is_starved=True)

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
        """Whether nothing is left of the pod."""
        return self._supervisor.is_finished(uid)

    def alarms(self) -> AsyncIterator[Alarm]:
        """Memory, kills by the kernel, and containers that ended."""
        return self._wakeups.alarms()

    async def start(self, manifest: PodManifest) -> None:
        """Run the pod."""
        await self._supervisor.start(manifest)

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

    def entrance(self, uid: str, container: str) -> Entrance:
        """Into a running container. Raises StartError."""
        return self._supervisor.entrance(uid, container)

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
            await asyncio.sleep(ENFORCE_SECONDS)
        self._emit(events.LimitsEnforced(kubepods.name))

    async def _collect_for_ever(self) -> None:
        while True:
            await asyncio.sleep(COLLECT_SECONDS)
            done = await self._collector.collect(is_starved=False)
            if done.containers:
                self._emit(events.ReclaimFinished(done.containers, done.images, done.freed_bytes))
            if done.errors:
                self._emit(events.CollectionFailed(Reclaimable.CONTAINERS, "; ".join(done.errors)))
