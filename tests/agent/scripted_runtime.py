"""A runtime whose world is a script: for the loop's own logic, where real pressure would only add waiting.

It keeps the contract of runtimes (`tests/runtimes/test_contract.py`), so that it promises nothing that a real one does
not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jettison.engine.config.allocatable import MachineCapacity
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Outcome, Reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.history import History
from jettison.engine.node.snapshot import (
    ContainerUsage,
    FsStats,
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
from jettison.runtimes.protocol import Alarm, PodManifest, PodStatus, Reclaimed, Untold

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

    def step(
        self,
        before: History,
        snapshot: Snapshot,
        outcome: Outcome,
        alarm: Alarm | None,
        *,
        has_effect: bool,
        instead: Sequence[str] = (),
    ) -> None:
        self.steps.append(outcome)
        self.effects.append(has_effect)
        self.instead.append(list(instead))

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
    fails_to_observe: bool = False
    evictions: list[Eviction] = field(default_factory=list)
    # All processes of these pods have.
    ended: set[str] = field(default_factory=set)
    # Something of these pods is left after their end: they stay until the test says otherwise.
    unfinished: set[str] = field(default_factory=set)
    # What the next eviction raises instead of ending.
    refusal: JettisonError | None = None
    # What an earlier agent has left.
    left: list[Untold] = field(default_factory=list)
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
        disk = FsStats(self.clock.steady_ns(), CAPACITY, CAPACITY, 0, 1000, 1000, 0)
        node = NodeStats("node1", memory, fs=disk, processes=ProcessStats(self.clock.steady_ns(), 1000, 1))
        return Snapshot(self.clock.steady_ns(), node, tuple(self._present()), usages)

    async def reclaim(self, order: Reclaim) -> Reclaimed:
        return Reclaimed()

    async def evict(self, order: Eviction) -> None:
        self.evictions.append(order)
        if self.refusal is not None:
            raise self.refusal
        known = {each.uid for each in self._present()} | {each.eviction.pod.uid for each in self.left}
        if order.pod.uid not in known:
            raise PodGone(order.pod.uid)
        self.ended.add(order.pod.uid)

    def untold(self) -> Sequence[Untold]:
        ended = [each for each in self.evictions if each.pod.uid in self.ended - set(self.told_uids)]
        return [*self.left, *(Untold(each, self.clock.monotonic_ns(), has_stopped=True) for each in ended)]

    def told(self, uid: str) -> None:
        self.told_uids.append(uid)
        self.left = [each for each in self.left if each.eviction.pod.uid != uid]

    def is_finished(self, uid: str) -> bool:
        told = {each.pod.uid for each in self.evictions} | {each.eviction.pod.uid for each in self.left}
        return uid not in self.unfinished and uid not in {each.uid for each in self.pods} - told - set(self.told_uids)

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
        # Uids of pods that run without a record.
        self.found: set[str] = set()
        # Uids of pods that stay when they are told to end, until a later order gives them less time.
        self.deaf: set[str] = set()
        self._hurried = asyncio.Event()

    async def start(self, manifest: PodManifest) -> None:
        self.pods.append(manifest.pod)
        self.running.append(PodStatus(manifest.pod, "Running", document=manifest.document))

    async def stop(self, uid: str, grace_seconds: int | None = None) -> None:
        self.pods = [each for each in self.pods if each.uid != uid]
        self.running = [each for each in self.running if each.pod.uid != uid]

    async def evict(self, order: Eviction) -> None:
        uid = order.pod.uid
        if uid in self.deaf and uid not in self.ended:
            self._set(uid, is_ending=True)
            self.evictions.append(order)
            graces = [each.grace_seconds or 0 for each in self.evictions if each.pod.uid == uid]
            if graces[-1] < graces[0]:
                self._hurried.set()
            await self._hurried.wait()
            self.ended.add(uid)
        else:
            await super().evict(order)
        self._set(order.pod.uid, is_ending=False, phase="Failed", reason=order.reason, message=order.message)

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
