"""A runtime whose world is a script: for the loop's own logic, where real pressure would only add waiting.

It keeps the contract of runtimes (`tests/runtimes/test_contract.py`), so that it promises nothing that a real one does
not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jettison.agent.agent import AgentStep
from jettison.engine.config.allocatable import MachineCapacity
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Outcome, Reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.pressure import History
from jettison.engine.node.snapshot import (
    ContainerUsage,
    FsStats,
    Layout,
    MemoryStats,
    NodeStats,
    PodUsage,
    ProcessStats,
    Snapshot,
    VolumeUsage,
)
from jettison.engine.pods.pod import Container, Pod
from jettison.errors import JettisonError, ObservationError, PodGone
from jettison.events import Fact
from jettison.runtimes.protocol import Alarm, EndingPod, PodManifest, PodStatus, Reclaimed

MI = 2**20
CAPACITY = 4096 * MI


class HandClock:
    """Moves when told to; `ahead_ns` is by how much the wall clock was set."""

    def __init__(self) -> None:
        self.time_ns = 1_000_000_000_000
        self.ahead_ns = 0

    def now_ns(self) -> int:
        return self.time_ns + self.ahead_ns

    def monotonic_ns(self) -> int:
        return self.time_ns

    def steady_ns(self) -> int:
        return self.time_ns

    def pass_seconds(self, seconds: float) -> None:
        self.time_ns += round(seconds * 10**9)


class Facts:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.taken: list[Fact] = []

    def take(self, fact: Fact, time_ns: int) -> None:
        self.taken.append(fact)

    def names(self) -> list[str]:
        return [type(fact).__name__ for fact in self.taken]


class Records:
    """A recorder that remembers."""

    def __init__(self) -> None:
        self.steps: list[Outcome] = []
        self.effects: list[bool] = []
        self.instead: list[list[str]] = []
        self.histories: list[History] = []
        self.policies: list[Policy] = []
        self.rehearsals = 0
        # Names of facts that an earlier agent has written, by uid.
        self.said: dict[str, set[str]] = {}

    def step(self, step: AgentStep) -> None:
        self.steps.append(step.outcome)
        self.effects.append(step.has_effect)
        self.instead.append(list(step.instead))

    def prepare(self, snapshot: Snapshot, *, is_urgent: bool) -> None:
        self.rehearsals += is_urgent

    def settle(self) -> None:
        pass

    def history(self, history: History) -> None:
        self.histories.append(history)

    def use(self, policy: Policy) -> None:
        self.policies.append(policy)

    def said_of(self, uid: str) -> set[str]:
        return self.said.get(uid, set())


def pod(name: str, *, priority: int = 0, grace: int | None = 30) -> Pod:
    """A BestEffort pod with one container."""
    return Pod(name, uid=f"uid-{name}", priority=priority, grace_seconds=grace, containers=(Container("main"),))


@dataclass
class ScriptedRuntime:
    """Memory and pods are set by the test; evictions end when the test says so. It keeps the contract of runtimes."""

    clock: HandClock
    pods: list[Pod]
    available: int = 1000 * MI
    used: dict[str, int] = field(default_factory=dict)
    # What each has in a volume `cache`.
    cached: dict[str, int] = field(default_factory=dict)
    disk_available: int = CAPACITY
    layout: Layout = field(default_factory=Layout)
    fails_to_observe: bool = False
    evictions: list[Eviction] = field(default_factory=list)
    # All processes of these pods have.
    ended: set[str] = field(default_factory=set)
    # Something of these pods is left after their end: they stay until the test says otherwise.
    unfinished: set[str] = field(default_factory=set)
    # What the next order raises.
    refusal: JettisonError | None = None
    # Those that were told to end; what an earlier agent has left is put here by the test.
    under_way: dict[str, EndingPod] = field(default_factory=dict)
    # By uid, those that do not stop before the test says so.
    lingering: set[str] = field(default_factory=set)
    told_uids: list[str] = field(default_factory=list)
    alarms_rung: asyncio.Queue[Alarm] = field(default_factory=asyncio.Queue)

    async def observe(self) -> Snapshot:
        if self.fails_to_observe:
            raise ObservationError("no numbers today")
        memory = MemoryStats(self.clock.steady_ns(), self.available, None, CAPACITY - self.available)
        usages = {
            each.uid: PodUsage(
                self.used.get(each.name, MI),
                1,
                None,
                [ContainerUsage(one.name, self.used.get(each.name, MI)) for one in each.containers],
                [VolumeUsage("cache", self.cached[each.name])] if each.name in self.cached else [],
            )
            for each in self._present()
        }
        disk = FsStats(self.clock.steady_ns(), self.disk_available, CAPACITY, 0, 1000, 1000, 0)
        processes = ProcessStats(self.clock.steady_ns(), 1000, 1)
        node = NodeStats("node1", memory, fs=disk, container_fs=disk, processes=processes)
        return Snapshot(self.clock.steady_ns(), node, tuple(self._present()), usages, self.layout)

    async def reclaim(self, order: Reclaim) -> Reclaimed:
        return Reclaimed()

    def end(self, order: Eviction) -> None:
        self.evictions.append(order)
        if self.refusal is not None:
            raise self.refusal
        uid, now_ns = order.pod.uid, self.clock.monotonic_ns()
        known = self.under_way.get(uid)
        if known is None and uid not in {each.uid for each in self._present()}:
            raise PodGone(uid)
        if known is not None and known.stopped_ns is not None:
            raise PodGone(uid)
        self.under_way[uid] = EndingPod(order, now_ns, now_ns if known is None else known.began_ns)
        if uid not in self.lingering:
            self.let_stop(uid)

    async def evict(self, order: Eviction) -> None:
        self.end(order)

    def let_stop(self, uid: str) -> None:
        """The last container of a pod that was told to end has stopped."""
        self.lingering.discard(uid)
        self.ended.add(uid)
        self.under_way[uid] = replace(self.under_way[uid], stopped_ns=self.clock.monotonic_ns())

    def endings(self) -> Sequence[EndingPod]:
        return list(self.under_way.values())

    def told(self, uid: str) -> None:
        self.told_uids.append(uid)
        self.under_way.pop(uid, None)

    def is_finished(self, uid: str) -> bool:
        is_here = uid in {each.uid for each in self.pods} and uid not in self.ended
        return uid not in self.unfinished and uid not in self.lingering and not is_here

    def _present(self) -> list[Pod]:
        return [each for each in self.pods if each.uid not in self.ended - self.unfinished]

    def ring(self, source: str) -> None:
        self.alarms_rung.put_nowait(Alarm(source, self.clock.monotonic_ns()))

    async def alarms(self) -> AsyncIterator[Alarm]:
        while True:
            yield await self.alarms_rung.get()


class ScriptedHost(ScriptedRuntime):
    """It also starts pods: they run at once, and end when they are told to."""

    def __init__(self) -> None:
        super().__init__(HandClock(), [])
        self.running: list[PodStatus] = []
        self.rejections: list[tuple[str, str, str]] = []
        # Names of pods that were given ephemeral containers.
        self.added: list[str] = []
        # Uids of pods that run without a record.
        self.found: set[str] = set()
        # Uids of pods that stay when they are told to end, until a later order gives them less time.
        self.deaf: set[str] = set()
        self._hurried = asyncio.Event()

    async def start(self, manifest: PodManifest) -> None:
        self.pods.append(manifest.pod)
        self.running.append(PodStatus(manifest.pod, "Running", document=manifest.document))

    async def add(self, manifest: PodManifest) -> None:
        self._set(manifest.pod.uid, document=manifest.document)
        self.added.append(manifest.pod.name)

    async def stop(self, uid: str, grace_seconds: int | None = None) -> None:
        self.pods = [each for each in self.pods if each.uid != uid]
        self.running = [each for each in self.running if each.pod.uid != uid]

    def end(self, order: Eviction) -> None:
        uid = order.pod.uid
        if uid in self.deaf and uid not in self.ended:
            self.lingering.add(uid)
        super().end(order)
        if uid in self.lingering:
            self._set(uid, is_ending=True)
            graces = [each.grace_seconds or 0 for each in self.evictions if each.pod.uid == uid]
            if graces[-1] < graces[0]:
                self.let_stop(uid)
                self._hurried.set()
        if uid not in self.lingering:
            self._set(uid, is_ending=False, phase="Failed", reason=order.reason, message=order.message)

    async def evict(self, order: Eviction) -> None:
        self.end(order)
        if order.pod.uid in self.lingering:
            await self._hurried.wait()

    def is_found(self, uid: str) -> bool:
        return uid in self.found

    async def reject(self, manifest: PodManifest, reason: str, message: str) -> None:
        self.rejections.append((manifest.pod.name, reason, message))
        self.running.append(PodStatus(manifest.pod, "Failed", reason, message, document=manifest.document))

    def statuses(self) -> list[PodStatus]:
        return self.running

    def machine(self) -> MachineCapacity:
        return MachineCapacity(cores=2, memory=CAPACITY)

    def _set(self, uid: str, **changes: Any) -> None:
        self.running = [replace(each, **changes) if each.pod.uid == uid else each for each in self.running]
