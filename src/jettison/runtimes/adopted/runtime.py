"""The machine as a runtime of workloads that others started: found, measured, and stopped when the agent says so.

Sources are asked every two seconds. One that does not answer costs nothing but news: what it last told of counts on as
long as its cgroups are there, and a stop that its engine does not carry out is finished through the cgroup.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from jettison import events
from jettison.clock import Clock, Instant
from jettison.engine.config.allocatable import MachineCapacity
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Reclaim
from jettison.engine.node.evictions import Eviction, kill_wait
from jettison.engine.node.snapshot import (
    ContainerUsage,
    MemoryStats,
    NodeStats,
    PodUsage,
    ProcessStats,
    Snapshot,
)
from jettison.engine.node.thresholds import Threshold
from jettison.engine.pods.pod import FAILED, RUNNING, Pod
from jettison.errors import (
    EvictionRefused,
    InputError,
    ObservationError,
    PodGone,
    RuntimeFailure,
    StillRunning,
    WriteError,
)
from jettison.events import Emit
from jettison.manifests.pod_writer import pod_document
from jettison.runtimes.adopted.back_off import StopBackOff
from jettison.runtimes.adopted.cgroup_trees import CgroupTree
from jettison.runtimes.adopted.container_engine import ContainerEngine
from jettison.runtimes.adopted.engine_store import EngineCollector
from jettison.runtimes.adopted.inventory import Inventory
from jettison.runtimes.adopted.pods import AdoptedPod
from jettison.runtimes.adopted.rules import GuardRules, Stop
from jettison.runtimes.adopted.settings import AdoptedSettings
from jettison.runtimes.adopted.stopping import Stopper, StoppingPod, grace_ns, living, load, save
from jettison.runtimes.linux import proc
from jettison.runtimes.linux.cgroups import tree as cgroup_tree
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, Hierarchy, discover
from jettison.runtimes.linux.cgroups.usage import UsageReader
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.runtimes.machine.alarms import MemoryAlarms, Wakeups, Watched
from jettison.runtimes.machine.background_tasks import BackgroundTasks
from jettison.runtimes.machine.disks import DiskWatch
from jettison.runtimes.machine.level_watch import LevelWatch
from jettison.runtimes.machine.node_disks import DiskPlaces, NodeDisks, StorageDirs
from jettison.runtimes.machine.outlook import MemoryPair
from jettison.runtimes.protocol import Alarm, ContainerStatus, EndingPod, PodStatus, Reclaimed
from jettison.runtimes.stats import KUBELET, RUNTIME, NodeSubject, PodSubject, StatsSubject
from jettison.runtimes.workloads import AdoptedWorkload, WorkloadSource

LOOK_SECONDS = 2.0
"""Between two looks for workloads; a list of 100 containers takes an engine 30 ms."""

PATIENCE = 0.5
"""Seconds that a decision waits for engines to tell of a container that has just come."""

MakeSources = Callable[[Hierarchy], Awaitable[Sequence[WorkloadSource]]]
"""Sources that are in other packages; the hierarchy is that of memory."""

# Evicted pods that are still shown.
_MOST_REMEMBERED = 100
_DISK_PERIOD, _DISK_PATIENCE = 10.0, 5.0
# Engines are asked for their directories once a minute.
_LOOKS_TO_DISKS = 30


class AdoptedRuntime:
    """Made by `open`. Workloads outlive it."""

    def __init__(
        self,
        settings: AdoptedSettings,
        policy: Policy,
        clock: Clock,
        emit: Emit,
        mounts: CgroupMounts,
        memory: Hierarchy,
        more: Sequence[WorkloadSource] = (),
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._emit = emit
        self._memory_tree = memory
        self._wakeups = Wakeups(clock)
        self._disk_pool = ThreadPoolExecutor(1, "jettison-disk")
        self._alarm_pool = ThreadPoolExecutor(1, "jettison-alarm")
        owners = frozenset({0, os.geteuid()})
        sources: list[WorkloadSource] = [ContainerEngine(path, memory, owners) for path in settings.sockets]
        self._sources = [*sources, *more, *(CgroupTree(pattern, memory) for pattern in settings.rules.cgroups)]
        self._inventory = Inventory(self._sources, settings.rules, settings.shipped, memory, emit, settings.cgroup)
        self._stopper = Stopper(mounts, memory, clock, emit)
        self._back_off = StopBackOff(settings.most_a_minute)
        self._stopping: dict[str, StoppingPod] = {}
        # One look at a time.
        self._looking = asyncio.Lock()
        self._evicted: dict[str, PodStatus] = {}
        self._host = proc.Machine()
        self._total = settings.memory or self._host.memory().total
        self._reader = UsageReader(mounts)
        self._disks = DiskWatch(self._disk_pool, clock, _DISK_PERIOD, _DISK_PATIENCE)
        where = Watched(pressure=PROC / "pressure" / "memory")
        if settings.cgroup and not memory.is_unified:
            where = Watched(pods=memory.mount_point / settings.cgroup)
        self._alarms = MemoryAlarms(policy.thresholds, self._memory_pair, self._wakeups, clock, self._alarm_pool, where)
        self._policy = policy
        self._filesystems = NodeDisks(settings.node_dir, clock)
        self._levels = LevelWatch(self._thresholds(), self._node, self._wakeups, clock)
        self._collectors = [
            EngineCollector(each.store, settings, policy, clock, emit)
            for each in self._sources
            if each.store is not None
        ]
        self._background = BackgroundTasks(emit, "the guarded workloads")
        self.lacks: tuple[str, ...] = ()

    @classmethod
    async def open(
        cls, settings: AdoptedSettings, policy: Policy, clock: Clock, emit: Emit, more: MakeSources | None = None
    ) -> AdoptedRuntime:
        """Find what runs, also by `more` sources. Raises InputError where there is nothing to guard by."""
        if not settings.sockets and not settings.rules.cgroups and more is None:
            raise InputError(
                "nothing to guard: no container engine was found, and no rule names cgroups; --socket names an engine, "
                "--cgroup a cgroup"
            )
        mounts = discover()
        memory = mounts.holding("memory")
        if memory is None:
            raise InputError("cannot guard: the memory controller of cgroups is not mounted")
        memory.check_within(settings.cgroup)
        runtime = cls(settings, policy, clock, emit, mounts, memory, () if more is None else await more(memory))
        runtime.lacks = runtime._alarms.open()
        await runtime._inventory.look()
        await runtime._find_filesystems()
        runtime._recall()
        runtime._background.begin(runtime._look_for_ever())
        if settings.collects_images:
            for each in runtime._collectors:
                runtime._background.begin(each.images.keep_for_ever())
        return runtime

    async def close(self) -> None:
        """Let go of everything. A stop that is under way is left to the engine that was asked for it."""
        await self._background.cancel()
        self._levels.close()
        await self._alarms.close()
        await self._disks.close()
        self._reader.close()
        self._host.close()
        for source in self._sources:
            source.close()
        for pool in (self._disk_pool, self._alarm_pool):
            pool.shutdown()

    def use(self, policy: Policy) -> None:
        """Watch for these thresholds from now on."""
        self._alarms.use(policy.thresholds)
        self._policy = policy
        self._levels.use(self._thresholds())
        for each in self._collectors:
            each.images.use(policy.images)

    async def observe(self) -> Snapshot:
        """One consistent instant."""
        if self._inventory.has_strangers():
            await self._look()
        pair = self._memory_pair()
        node = self._node()._replace(memory=pair.node)
        counts = {each.pod.uid: self._living(each) for each in self._inventory.pods}
        pods = [each for each in self._inventory.pods if counts[each.pod.uid]]
        self._disks.want({path: is_log for pod in pods for each in pod.workloads for path, is_log in _targets(each)})
        await self._disks.refresh()
        usages = {each.pod.uid: self._usage(each, counts[each.pod.uid]) for each in pods}
        layout = self._filesystems.layout
        snapshot = Snapshot(self._clock.steady_ns(), node, [each.pod for each in pods], usages, layout)
        self._alarms.observed(pair)
        self._levels.observed(node)
        return snapshot

    async def reclaim(self, order: Reclaim) -> Reclaimed:
        """Nothing, unless the operator said so: images and dead containers belong to their engines."""
        done = Reclaimed()
        for what in order.what:
            for each in self._collectors:
                done = done.and_also(await each.reclaim(what))
        return done

    def end(self, order: Eviction) -> None:
        """Tell the pod to end, or to hurry. Raises PodGone and EvictionRefused."""
        self._begin(order)

    async def evict(self, order: Eviction) -> None:
        """The same; returns when it has ended. Raises StillRunning, too."""
        stopping = self._begin(order)
        seconds = kill_wait(order.grace_seconds, stopping.adopted.pod.grace_seconds)
        try:
            async with asyncio.timeout(seconds):
                await stopping.stopped.wait()
        except TimeoutError:
            raise StillRunning(f"`{order.pod}` has not stopped within {seconds} s") from None

    def _begin(self, order: Eviction) -> StoppingPod:
        now_ns, uid = self._clock.monotonic_ns(), order.pod.uid
        known = self._stopping.get(uid)
        if known is not None and known.stopped_ns is None:
            known.hurry(order, now_ns)
            return known
        adopted = next((each for each in self._inventory.pods if each.pod.uid == uid), None)
        if adopted is None or not self._living(adopted):
            raise PodGone(f"there is no `{order.pod}` to be stopped")
        if adopted.is_protected:
            raise EvictionRefused(f"`{order.pod}` is protected")
        spared_ns = self._back_off.spared_for_ns(str(adopted.pod), now_ns)
        if spared_ns:
            # To stop another in its place would cost innocent ones their lives, one after the other.
            seconds = -(-spared_ns // 10**9)
            raise EvictionRefused(
                f"`{order.pod}` was stopped and came back: it is left alone for {seconds} s more, and nothing goes "
                "in its place"
            )
        if self._back_off.is_open(now_ns):
            most = self._settings.most_a_minute
            raise EvictionRefused(
                f"{most} workloads were stopped within a minute, and no more are: look at this machine"
            )
        stopping = StoppingPod(adopted, order, now_ns, now_ns, now_ns + grace_ns(adopted, order))
        self._follow(stopping)
        return stopping

    def _follow(self, stopping: StoppingPod) -> None:
        """On record first: an agent that comes after this one must not take a second victim meanwhile."""
        self._stopping[stopping.adopted.pod.uid] = stopping
        self._save()
        self._back_off.stopped(str(stopping.adopted.pod), stopping.began_ns)
        self._background.begin(self._stopper.stop(stopping, self._inventory.source, self._ended))

    def _save(self) -> None:
        try:
            save(self._settings.records, self._stopping.values(), Instant.of(self._clock))
        except WriteError as failure:
            # What is decided is done, also when the disk does not take the record.
            self._emit(events.ActionFailed("record what is being stopped", str(failure)))

    def _recall(self) -> None:
        """Go on with what an earlier agent has begun. What has ended meanwhile is told of as ended."""
        try:
            records = load(self._settings.records)
        except ObservationError as failure:
            self._emit(events.ActionFailed("recall what was being stopped", str(failure)))
            return
        now = Instant.of(self._clock)
        for record in records:
            found = next((each for each in self._inventory.pods if each.pod.uid == record.uid), None)
            pod = Pod(record.name, record.namespace, record.uid) if found is None else found.pod
            adopted = found or AdoptedPod(pod, (), Stop.CGROUP, is_protected=False)
            # At most as long as it was given, whatever became of the clock on the wall.
            left_ns = min(max(record.until_ns - now.wall_ns, 0), record.until_ns - record.began_ns)
            began_ns = now.monotonic_ns - min(max(now.wall_ns - record.began_ns, 0), now.monotonic_ns)
            order = record.order.eviction(pod)
            self._follow(StoppingPod(adopted, order, began_ns, began_ns, now.monotonic_ns + left_ns))

    def _ended(self, stopping: StoppingPod) -> None:
        order, pod = stopping.order, stopping.adopted.pod
        self._evicted[pod.uid] = PodStatus(
            pod,
            FAILED,
            order.reason,
            order.message,
            tuple(order.conditions_after(())),
            started_ns=_started_ns(stopping.adopted),
            document=pod_document(pod),
        )
        for uid in list(self._evicted)[:-_MOST_REMEMBERED]:
            del self._evicted[uid]
        self._wakeups.ring("pods")

    def endings(self) -> Sequence[EndingPod]:
        """Stops that were begun and not told to their end."""
        return [
            EndingPod(each.order, each.ordered_ns, each.began_ns, each.stopped_ns)
            for each in self._stopping.values()
            if not each.is_told
        ]

    def told(self, uid: str) -> None:
        """All of the pod's eviction is on record."""
        stopping = self._stopping.get(uid)
        if stopping is not None:
            stopping.is_told = True
            if stopping.stopped_ns is not None:
                del self._stopping[uid]
            self._save()

    def is_finished(self, uid: str) -> bool:
        """Whether no process of it is left."""
        stopping = self._stopping.get(uid)
        if stopping is not None:
            return stopping.stopped_ns is not None
        return not any(each.pod.uid == uid and self._living(each) for each in self._inventory.pods)

    def alarms(self) -> AsyncIterator[Alarm]:
        """Memory, and workloads that came or ended."""
        return self._wakeups.alarms()

    def statuses(self) -> Sequence[PodStatus]:
        """Everything that runs, and what was evicted last and has not come back."""
        running = [self._status(each) for each in self._inventory.pods if self._living(each)]
        back = {each.pod.uid for each in running}
        return [*running, *(status for uid, status in self._evicted.items() if uid not in back)]

    def subject(self) -> NodeSubject:
        """What there is to measure in detail. A pod of several containers has no cgroup of its own."""
        system = {KUBELET: StatsSubject(None, (os.getpid(),))}
        engines = sorted({each.pid for each in self._sources if each.pid is not None})
        if engines:
            system[RUNTIME] = StatsSubject(None, tuple(engines))
        pods = [_pod_subject(each, self._process_of(each)) for each in self._inventory.pods if self._living(each)]
        return NodeSubject(StatsSubject(self._settings.cgroup), system, pods)

    def _process_of(self, adopted: AdoptedPod) -> int:
        """One that lives in it, whose network is the pod's."""
        found = (cgroup_tree.processes(self._memory_tree.mount_point / each.cgroup) for each in adopted.workloads)
        return next((pid for pids in found for pid in pids), 0)

    def pods(self) -> Sequence[AdoptedPod]:
        """Everything that was found, as it was found."""
        return self._inventory.pods

    def engines(self) -> Mapping[str, str]:
        """Container engines and runtimes, and why each does not answer; empty for one that does."""
        return {each.name: self._inventory.lacks.get(each.name, "") for each in self._sources if each.is_engine}

    def machine(self) -> MachineCapacity:
        """The whole."""
        return MachineCapacity(cores=os.cpu_count() or 1, memory=self._total, pids=self._host.most_tasks())

    @property
    def memory_alarm(self) -> str:
        """How a shortage of memory is noticed, in words."""
        return self._alarms.source

    def use_rules(self, rules: GuardRules) -> None:
        """From now on."""
        self._inventory.use(rules)

    @property
    def places(self) -> DiskPlaces:
        """Which filesystem is which."""
        return self._filesystems.places

    def _thresholds(self) -> tuple[Threshold, ...]:
        return self._policy.layouts[self._filesystems.layout].all

    async def _find_filesystems(self) -> None:
        """Where the engines keep their images. One that does not answer says nothing, and is asked again."""
        named = list[StorageDirs]()
        for source in self._sources:
            try:
                found = await source.storage()
            except RuntimeFailure:
                continue  # the inventory says so
            named += [] if found is None else [found]
        loop = asyncio.get_running_loop()
        try:
            places = await loop.run_in_executor(self._disk_pool, self._filesystems.find, named)
        except ObservationError as failure:
            self._emit(events.ActionFailed("find the filesystem of images", str(failure)))
            return
        if not named:
            return
        before, self._filesystems.places = self._filesystems.places, places
        if not places.are_as(before):
            self._levels.use(self._thresholds())
            self._wakeups.ring("poll")

    async def _look_for_ever(self) -> None:
        looks = 0
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            looks += 1
            if looks % _LOOKS_TO_DISKS == 0:
                await self._find_filesystems()
            async with self._looking:
                if await self._inventory.look():
                    self._wakeups.ring("pods")
                self._stop_the_rest()

    async def _look(self) -> None:
        """A look that a decision waits for, but not for long."""
        try:
            async with asyncio.timeout(PATIENCE), self._looking:
                await self._inventory.look()
                self._stop_the_rest()
        except TimeoutError:
            # What its engine does not tell of now it may tell of at the next look.
            return

    def _stop_the_rest(self) -> None:
        """A container that has come to a pod which is being stopped goes with it, when its time is over."""
        for each in self._inventory.pods:
            stopping = self._stopping.get(each.pod.uid)
            if stopping is not None and stopping.stopped_ns is None:
                stopping.join(each)

    def _is_stopping(self, adopted: AdoptedPod) -> bool:
        stopping = self._stopping.get(adopted.pod.uid)
        return stopping is not None and stopping.stopped_ns is None

    def _living(self, adopted: AdoptedPod) -> int:
        return living(self._memory_tree, adopted)

    def _status(self, adopted: AdoptedPod) -> PodStatus:
        return PodStatus(
            adopted.pod,
            RUNNING,
            containers=tuple(
                ContainerStatus(
                    container.name,
                    "running",
                    started_ns=workload.started_ns,
                    is_ready=True,
                    is_started=True,
                    container_id=f"{workload.kind}://{workload.id}",
                )
                for workload, container in zip(adopted.workloads, adopted.pod.containers, strict=True)
            ),
            started_ns=_started_ns(adopted),
            is_ending=self._is_stopping(adopted),
            document=pod_document(adopted.pod),
        )

    def _memory_pair(self) -> MemoryPair:
        found = self._reader.memory(self._settings.cgroup)
        if found is None:
            raise ObservationError(f"cannot measure memory: cgroup `{self._settings.cgroup}` is gone")
        available = self._total - found.working_set
        stats = MemoryStats(self._clock.steady_ns(), available, found.usage, found.working_set)
        # The counter of the root is late by up to half a second; that of any other cgroup is exact, and has alarms.
        return MemoryPair(stats, stats if self._settings.cgroup else None)

    def _node(self) -> NodeStats:
        node, images, layers = self._filesystems.read()
        processes = ProcessStats(self._clock.steady_ns(), self._host.most_tasks(), self._host.tasks())
        return NodeStats(self._settings.node_name, fs=node, image_fs=images, container_fs=layers, processes=processes)

    def _usage(self, adopted: AdoptedPod, processes: int) -> PodUsage:
        containers = [
            self._container(workload, container.name)
            for workload, container in zip(adopted.workloads, adopted.pod.containers, strict=True)
        ]
        sizes = [size for each in containers for size in (each.rootfs_bytes, each.logs_bytes) if size is not None]
        memory = [each.working_set for each in containers if each.working_set is not None]
        return PodUsage(sum(memory) if memory else None, processes, sum(sizes) if sizes else None, containers, [])

    def _container(self, workload: AdoptedWorkload, name: str) -> ContainerUsage:
        memory = self._reader.memory(workload.cgroup)
        rootfs, logs = self._disks.usages.get(workload.writable_dir), self._disks.usages.get(workload.log_dir)
        return ContainerUsage(
            name,
            None if memory is None else memory.working_set,
            None if rootfs is None else rootfs.size,
            None if rootfs is None else rootfs.inodes,
            None if logs is None else logs.size,
            None if logs is None else logs.inodes,
        )


def _targets(workload: AdoptedWorkload) -> list[tuple[str, bool]]:
    return [(path, is_log) for path, is_log in ((workload.writable_dir, False), (workload.log_dir, True)) if path]


def _started_ns(adopted: AdoptedPod) -> int | None:
    return min((each.started_ns for each in adopted.workloads if each.started_ns is not None), default=None)


def _pod_subject(adopted: AdoptedPod, pid: int) -> PodSubject:
    containers = {
        container.name: StatsSubject(workload.cgroup, started_ns=workload.started_ns)
        for workload, container in zip(adopted.workloads, adopted.pod.containers, strict=True)
    }
    alone = next(iter(containers.values())) if len(containers) == 1 else StatsSubject(None)
    return PodSubject(adopted.pod.uid, alone._replace(started_ns=_started_ns(adopted)), containers, pid)
