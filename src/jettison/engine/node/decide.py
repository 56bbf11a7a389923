"""The core call: `decide(policy, history, snapshot)` says what to do now, why, and what to remember (spec §5).

The decision is one of three. `Nothing`. `Reclaim`: free node resources, observe again, ask again with the history that
came with the order. `Evict`: end pods, in this order. The agent calls nothing else in the hot path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, overload

from jettison.engine.node import facts as say
from jettison.engine.node.evictions import HARD_GRACE, Eviction, soft_grace
from jettison.engine.node.facts import Fact
from jettison.engine.node.local_storage import over_limit
from jettison.engine.node.pressure import History, Pressure, Readings, assess, in_order, still_starved
from jettison.engine.node.ranking import Ranking, rank
from jettison.engine.node.signals import ROWS, Condition, Reclaimable, readings
from jettison.engine.node.snapshot import Reading, Snapshot
from jettison.engine.node.thresholds import Threshold
from jettison.engine.node.wording import PressureWording
from jettison.engine.pods.pod import Pod
from jettison.values import frozen

if TYPE_CHECKING:
    # Only for its name: reading a configuration takes longer to import than deciding.
    from jettison.engine.config.policy import Policy


@frozen
class Nothing:
    """Leave everything as it is."""

    why: str


_NOT_STARVED = Nothing("no resources are starved")


@frozen
class Evict:
    """End pods. For pressure the evictions are tried in order until one is done; for limits all of them are due."""

    evictions: Sequence[Eviction]
    at_most_one: bool
    ranking: Ranking | None = None
    starved: Threshold | None = None
    reading: Reading | None = None


@frozen
class Reclaim:
    """Free these, in this order; if the node is starved after that, do what stands under `otherwise`.

    The eviction is decided on before the reclaim, from the same snapshot: upstream, too, ranks and words it by what it
    measured before.
    """

    what: tuple[Reclaimable, ...]
    starved: Threshold
    reading: Reading
    otherwise: Evict | Nothing
    otherwise_facts: tuple[Fact, ...]


Decision = Nothing | Reclaim | Evict


@frozen
class Outcome:
    """What to remember, what to do, what to say."""

    history: History
    decision: Decision
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class PressureEvictions(Sequence[Eviction]):
    """The ranked pods that may be evicted, as orders; at least one. Each is worded when it is looked at: mostly the
    first only.
    """

    ranking: Ranking
    starved: Threshold
    reading: Reading
    snapshot: Snapshot = field(compare=False)
    max_pod_grace: int = 0
    kills_hard_at_once: bool = False

    def __len__(self) -> int:
        return sum(not pod.is_critical for _, pod, _ in self.ranking.entries)

    def __iter__(self) -> Iterator[Eviction]:
        first = self._first
        for _, pod, _ in self.ranking.entries:
            if not pod.is_critical:
                yield first if pod is first.pod else self._worded(pod)

    @cached_property
    def _first(self) -> Eviction:
        """Cached, because the recorder and the agent both ask for it."""
        return self._worded(next(pod for _, pod, _ in self.ranking.entries if not pod.is_critical))

    @cached_property
    def _wording(self) -> PressureWording:
        is_at_once = self.starved.is_hard and self.kills_hard_at_once
        quantity = self.starved.quantity(self.reading.capacity)
        return PressureWording(self.starved.signal, quantity, self.reading, is_at_once=is_at_once)

    def _worded(self, pod: Pod) -> Eviction:
        grace = HARD_GRACE if self.starved.is_hard else soft_grace(pod, self.max_pod_grace)
        return self._wording.eviction(pod, self.snapshot.usages.get(pod.uid), grace)

    @overload
    def __getitem__(self, index: int) -> Eviction: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Eviction]: ...
    def __getitem__(self, index: int | slice) -> Eviction | Sequence[Eviction]:
        return self._first if index == 0 else list(self)[index]


def decide(policy: Policy, history: History, snapshot: Snapshot) -> Outcome:
    """One step. After a `Reclaim`, call again with the new history and a snapshot taken after it."""
    if history.reclaiming is not None:
        return _after_reclaim(policy, history, history.reclaiming, snapshot)
    if not policy.thresholds and not policy.isolates_local_storage:
        return Outcome(history, Nothing("no thresholds are set and local storage is not limited"))
    derived = policy.layouts[snapshot.layout]
    thresholds = derived.all if history.knows_layout else derived.first
    found = readings(snapshot.node)
    pressure = assess(thresholds, history, found, snapshot.now_ns, policy.transition_ns)
    after = History(
        True, pressure.first_observed, pressure.met, pressure.condition_observed, pressure.conditions, found
    )
    facts = tuple(_news(history, pressure, found)) if _has_news(history, pressure) else ()
    if policy.isolates_local_storage:
        over = over_limit(snapshot.pods, snapshot.usages, snapshot.layout)
        if over:
            return Outcome(after, Evict(over, at_most_one=False), facts)
    if not pressure.starved:
        return Outcome(after, _NOT_STARVED, facts)
    return _relieve(policy, after, snapshot, pressure.starved, facts)


def _relieve(
    policy: Policy, history: History, snapshot: Snapshot, starved: Sequence[Threshold], facts: tuple[Fact, ...]
) -> Outcome:
    worst = in_order(starved, hard_before_soft=policy.switches.hard_before_soft)[0]
    row = ROWS[worst.signal]
    reading = history.readings[worst.signal]
    facts = (*facts, say.ReclaimAttempted(worst.signal, row.resource))
    evict, evict_facts = _evict(policy, snapshot, worst, starved, history.readings)
    what = row.reclaims[snapshot.layout.disks]
    if not what:
        return Outcome(history, evict, (*facts, *evict_facts))
    order = Reclaim(what, worst, reading, evict, evict_facts)
    return Outcome(replace(history, reclaiming=order), order, facts)


def _after_reclaim(policy: Policy, history: History, reclaim: Reclaim, snapshot: Snapshot) -> Outcome:
    history = replace(history, reclaiming=None)
    found = readings(snapshot.node)
    if policy.switches.recheck_starved_only:
        resource = ROWS[reclaim.starved.signal].resource
        looked_at = [each for each in history.met if ROWS[each.signal].resource is resource]
    else:
        looked_at = list(policy.layouts[snapshot.layout].all)
    if still_starved(looked_at, found):
        return Outcome(history, reclaim.otherwise, reclaim.otherwise_facts)
    signal = reclaim.starved.signal
    fact = say.ReclaimSufficed(signal, ROWS[signal].resource)
    return Outcome(history, Nothing("freeing node resources was enough"), (fact,))


def give_up_reclaim(history: History) -> Outcome:
    """The node could not be observed after a reclaim, so it is not known whether it sufficed."""
    reclaim = history.reclaiming
    if reclaim is None:
        return Outcome(history, Nothing("no reclaim was under way"))
    return Outcome(replace(history, reclaiming=None), reclaim.otherwise, reclaim.otherwise_facts)


def _evict(
    policy: Policy, snapshot: Snapshot, worst: Threshold, starved: Sequence[Threshold], found: Readings
) -> tuple[Evict | Nothing, tuple[Fact, ...]]:
    if not snapshot.pods:
        why = "eviction thresholds have been met, but no pods are active to evict"
        return Nothing(why), (say.NothingToEvict(worst.signal, why),)
    ranking = rank(
        worst.signal,
        snapshot.pods,
        snapshot.usages,
        snapshot.layout,
        inodes_by_inodes=policy.switches.rank_inodes_by_inodes,
    )
    ages = {each.signal: snapshot.now_ns - seen for each in starved if (seen := found[each.signal].time_ns) is not None}
    facts: list[Fact] = [say.PodsRanked(worst.signal, len(ranking), ages)]
    for pod in ranking.pods:
        if not pod.is_critical:
            reading = found[worst.signal]
            evictions = PressureEvictions(
                ranking, worst, reading, snapshot, policy.max_pod_grace, policy.switches.kill_hard_at_once
            )
            return Evict(evictions, True, ranking, worst, reading), tuple(facts)
        facts.append(say.CriticalPodSpared(pod))
    why = "unable to evict any pods from the node"
    return Nothing(why), (*facts, say.NothingToEvict(worst.signal, why))


def _has_news(history: History, pressure: Pressure) -> bool:
    """False in calm, as most looks are: nothing is crossed, nothing was, and the conditions are the same."""
    return bool(pressure.first_observed or history.first_observed) or pressure.conditions != history.conditions


def _news(history: History, pressure: Pressure, found: Readings) -> Iterator[Fact]:
    for threshold in pressure.first_observed:
        if threshold not in history.first_observed:
            yield say.ThresholdCrossed(threshold, found[threshold.signal])
    for threshold in pressure.met:
        if threshold not in history.met:
            yield say.ThresholdMet(threshold, found[threshold.signal])
    for threshold in history.first_observed:
        if threshold not in pressure.first_observed:
            yield say.ThresholdResolved(threshold)
    for condition in Condition:
        if (condition in pressure.conditions) != (condition in history.conditions):
            yield say.ConditionChanged(condition, condition in pressure.conditions)
