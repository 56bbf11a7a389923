"""A runtime whose world is a script: for the loop's own logic, where real pressure would only add waiting.

The real runtimes are tested by the contract and by the live tests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Outcome, Reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.history import History
from jettison.engine.node.snapshot import ContainerUsage, MemoryStats, NodeStats, PodUsage, Snapshot, VolumeUsage
from jettison.engine.pods.pod import Container, Pod
from jettison.errors import JettisonError, ObservationError
from jettison.events import Fact
from jettison.runtimes.protocol import Alarm, Reclaimed, Untold

MI = 2**20


class HandClock:
    """Moves when told to; `ahead_ns` is by how much somebody has set the wall clock."""

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
    """Memory and pods are set by the test; evictions end when the test says so."""

    clock: HandClock
    pods: list[Pod]
    available: int = 1000 * MI
    used: dict[str, int] = field(default_factory=dict)
    # What each has in a volume `cache`.
    cached: dict[str, int] = field(default_factory=dict)
    fails_to_observe: bool = False
    evictions: list[Eviction] = field(default_factory=list)
    unfinished: set[str] = field(default_factory=set)
    # What the next eviction raises instead of ending.
    refusal: JettisonError | None = None
    # What an earlier agent has left.
    left: list[Untold] = field(default_factory=list)
    told_uids: list[str] = field(default_factory=list)

    async def observe(self) -> Snapshot:
        if self.fails_to_observe:
            raise ObservationError("no numbers today")
        memory = MemoryStats(self.clock.steady_ns(), self.available, None, 4000 * MI - self.available)
        usages = {
            each.uid: PodUsage(
                self.used.get(each.name, MI),
                1,
                None,
                [ContainerUsage("main", self.used.get(each.name, MI))],
                [VolumeUsage("cache", self.cached[each.name])] if each.name in self.cached else [],
            )
            for each in self.pods
        }
        return Snapshot(self.clock.steady_ns(), NodeStats("node1", memory=memory), tuple(self.pods), usages)

    async def reclaim(self, order: Reclaim) -> Reclaimed:
        return Reclaimed()

    async def evict(self, order: Eviction) -> None:
        self.evictions.append(order)
        if self.refusal is not None:
            raise self.refusal

    def untold(self) -> Sequence[Untold]:
        return self.left

    def told(self, uid: str) -> None:
        self.told_uids.append(uid)

    def is_finished(self, uid: str) -> bool:
        return uid not in self.unfinished

    async def alarms(self) -> AsyncIterator[Alarm]:
        alarms: Sequence[Alarm] = ()
        for alarm in alarms:
            yield alarm
