"""The core call: whole steps, one after another (spec §5, §16 examples 17, 19 to 21, 24 to 29, 47 to 49)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.config.policy import Policy
from jettison.engine.node import facts as say
from jettison.engine.node.decide import Evict, Nothing, Outcome, Reclaim, decide, give_up_reclaim
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Condition, Reclaimable, Resource, Signal
from jettison.engine.node.snapshot import NodeStats, PodUsage, Snapshot, VolumeUsage
from jettison.engine.numbers.quantity import parse
from jettison.engine.pods.pod import Pod, Volume
from tests.builders import (
    DEDICATED,
    GI,
    MI,
    SECOND_NS,
    filesystem,
    memory_used,
    node,
    pod,
    policy,
    snapshot,
)

A = replace(pod("a", memory="100Mi"), grace_seconds=30)
LOW_MEMORY = node(memory=500 * MI)
LOW_DISK = node(fs=filesystem(5 * GI))
HARD_MEMORY = policy({"memory.available": "1Gi"})
HARD_DISK = policy({"nodefs.available": "10Gi"})


class Steps:
    """Steps of one node that share a history."""

    def __init__(self, wishes: Policy, *pods: Pod, history: History | None = None) -> None:
        self.policy = wishes
        self.pods = pods or (A,)
        self.history = history or History()

    def step(self, at_s: float, stats: NodeStats) -> Outcome:
        usages = {each.uid: memory_used(250 * MI) for each in self.pods}
        outcome = decide(self.policy, self.history, snapshot(at_s, stats, self.pods, usages))
        self.history = outcome.history
        return outcome


def evicted(outcome: Outcome) -> Evict:
    assert isinstance(outcome.decision, Evict), outcome.decision
    return outcome.decision


def reclaimed(outcome: Outcome) -> Reclaim:
    assert isinstance(outcome.decision, Reclaim), outcome.decision
    return outcome.decision


def idle(outcome: Outcome) -> str:
    assert isinstance(outcome.decision, Nothing), outcome.decision
    return outcome.decision.why


def test_a_soft_threshold_from_beginning_to_end() -> None:
    """The grace period, the override, the window of minimum reclaim with its odd message, the transition period."""
    wishes = policy(
        soft={"memory.available": "1Gi"}, reclaim={"memory.available": "512Mi"}, evictionMaxPodGracePeriod=10
    )
    steps = Steps(wishes)
    assert idle(steps.step(0, node(memory=900 * MI))) == "no resources are starved"
    assert steps.history.conditions == {Condition.MEMORY_PRESSURE}
    idle(steps.step(29, node(memory=900 * MI)))
    first = evicted(steps.step(30, node(memory=900 * MI)))
    assert (first.evictions[0].grace_seconds, first.at_most_one) == (10, True)
    again = evicted(steps.step(40, node(memory=1200 * MI)))
    assert "Threshold quantity: 1Gi, available: 1200Mi. " in again.evictions[0].message
    idle(steps.step(50, node(memory=1600 * MI)))
    idle(steps.step(60, node(memory=1200 * MI)))
    steps.step(339, node(memory=1200 * MI))
    assert steps.history.conditions == {Condition.MEMORY_PRESSURE}
    last = steps.step(340, node(memory=1200 * MI))
    assert last.facts == (say.ConditionChanged(Condition.MEMORY_PRESSURE, is_true=False),)


def test_a_hard_threshold_evicts_at_once_with_one_second() -> None:
    """Whatever the pod asked for."""
    order = evicted(Steps(HARD_MEMORY).step(0, LOW_MEMORY))
    assert order.evictions[0].grace_seconds == 1
    assert order.starved is not None
    assert order.starved.is_hard


def test_the_same_reading_evicts_once() -> None:
    """A later time evicts again; nothing is said about an attempt in between."""
    steps = Steps(HARD_MEMORY)
    evicted(steps.step(0, node(memory=0, time_s=100)))
    second = steps.step(10, node(memory=0, time_s=100))
    assert idle(second) == "no resources are starved"
    assert not any(isinstance(fact, say.ReclaimAttempted) for fact in second.facts)
    evicted(steps.step(20, node(memory=0, time_s=101)))


def test_a_transition_period_of_zero_evicts_without_a_condition() -> None:
    """Set by flag; in a file zero would mean five minutes."""
    wishes = policy({"memory.available": "1Gi"}, flags=[("eviction-pressure-transition-period", "0s")])
    steps = Steps(wishes)
    evicted(steps.step(0, LOW_MEMORY))
    assert steps.history.conditions == frozenset()


def test_conditions_outlast_a_failed_observation() -> None:
    """Without a snapshot there is no step, so the history is as it was, for an hour if need be."""
    steps = Steps(HARD_DISK)
    steps.step(0, LOW_DISK)
    before = steps.history
    assert before.conditions == {Condition.DISK_PRESSURE}
    later = give_up_reclaim(before).history
    assert later.conditions == before.conditions


def test_derived_thresholds_count_from_the_second_step() -> None:
    """hard nodefs 10Gi and 1Gi left on containerfs: nothing at first, then a pod goes for containerfs."""
    starving = node(fs=filesystem(50 * GI), container_fs=filesystem(GI))
    steps = Steps(HARD_DISK)
    idle(steps.step(0, starving))
    assert steps.history.conditions == frozenset()
    order = reclaimed(steps.step(10, starving))
    assert order.starved.signal is Signal.CONTAINERFS_AVAILABLE
    message = evicted(steps.step(10, starving)).evictions[0].message
    assert message.startswith(
        "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 1Gi. "
    )


def test_derived_thresholds_count_from_the_second_step_even_if_the_first_failed() -> None:
    """Upstream asks for the disk layout before it asks for numbers."""
    steps = Steps(HARD_DISK, history=History().unobserved())
    order = reclaimed(steps.step(0, node(fs=filesystem(50 * GI), container_fs=filesystem(GI))))
    assert order.starved.signal is Signal.CONTAINERFS_AVAILABLE


@pytest.mark.parametrize(
    ("hard", "soft", "reclaim", "memory", "suffices"),
    [
        ({}, {}, {}, 100 * GI, True),
        ({}, {"memory.available": "1Gi"}, {}, 500 * MI, False),
        ({"memory.available": "100Mi"}, {}, {"memory.available": "400Mi"}, 300 * MI, False),
        ({"memory.available": "100Mi"}, {}, {"memory.available": "100Mi"}, 300 * MI, True),
    ],
)
def test_a_reclaim_suffices_only_if_nothing_at_all_is_low(
    hard: dict[str, str], soft: dict[str, str], reclaim: dict[str, str], memory: int, suffices: bool
) -> None:
    """A soft threshold in its grace period or an unmet minimum reclaim of memory evicts a pod for disk."""
    wishes = policy({"nodefs.available": "10Gi"} | hard, soft, grace="10m", reclaim=reclaim)
    steps = Steps(wishes)
    first = steps.step(0, node(memory=memory, fs=filesystem(5 * GI)))
    assert reclaimed(first).what == (Reclaimable.CONTAINERS, Reclaimable.IMAGES)
    assert say.ReclaimAttempted(Signal.NODEFS_AVAILABLE, Resource.EPHEMERAL_STORAGE) in first.facts
    second = steps.step(1, node(memory=memory, fs=filesystem(50 * GI)))
    if suffices:
        assert idle(second) == "freeing node resources was enough"
        assert second.facts == (say.ReclaimSufficed(Signal.NODEFS_AVAILABLE, Resource.EPHEMERAL_STORAGE),)
    else:
        assert "available: 5Gi. " in evicted(second).evictions[0].message
    assert steps.history.conditions >= {Condition.DISK_PRESSURE}
    assert steps.history.reclaiming is None


def test_a_reclaim_that_does_not_suffice() -> None:
    """The order, the ranking and the message are those of before the reclaim."""
    steps = Steps(HARD_DISK)
    planned = reclaimed(steps.step(0, LOW_DISK)).otherwise
    assert evicted(steps.step(1, node(fs=filesystem(6 * GI)))) == planned


def test_a_reclaim_that_could_not_be_judged() -> None:
    """Observation failed afterwards, so it did not suffice."""
    steps = Steps(HARD_DISK)
    order = reclaimed(steps.step(0, LOW_DISK))
    outcome = give_up_reclaim(steps.history)
    assert outcome.decision == order.otherwise
    assert outcome.history.reclaiming is None
    assert idle(give_up_reclaim(outcome.history)) == "no reclaim was under way"


def test_with_a_dedicated_image_filesystem_nodefs_has_nothing_to_free() -> None:
    """Straight to the pods, ranked by logs and local volumes."""
    outcome = decide(HARD_DISK, History(), snapshot(0, LOW_DISK, [A], {}, DEDICATED))
    assert evicted(outcome).evictions[0].pod is A


def test_pods_over_their_limits_go_before_and_instead() -> None:
    """All of them, and no pod goes for memory in that step though it is below its hard threshold."""
    over = [pod(name, volumes=[Volume("v", is_local=True, size_limit=parse("1Mi"))]) for name in "abc"]
    held = {"a": 2, "b": 1, "c": 3}
    usages = {name: PodUsage(volumes=[VolumeUsage("v", size * MI)]) for name, size in held.items()}
    outcome = decide(HARD_MEMORY, History(), snapshot(0, LOW_MEMORY, over, usages))
    order = evicted(outcome)
    assert [each.pod.name for each in order.evictions] == ["a", "c"]
    assert (order.at_most_one, order.ranking, order.starved) == (False, None, None)
    assert outcome.history.conditions == {Condition.MEMORY_PRESSURE}
    unlimited = policy({"memory.available": "1Gi"}, localStorageCapacityIsolation=False)
    assert evicted(decide(unlimited, History(), snapshot(0, LOW_MEMORY, over, usages))).at_most_one


def test_critical_pods_are_passed_over() -> None:
    """They stand in the ranking, where a reader sees them, and get no order."""
    first = pod("critical", 2_000_000_000)
    second = replace(pod("static"), is_static=True, priority=2_000_000_000)
    outcome = Steps(HARD_MEMORY, A, second, first).step(0, LOW_MEMORY)
    order = evicted(outcome)
    assert [each.pod.name for each in order.evictions] == ["a"]
    assert order.ranking is not None
    assert len(order.ranking) == 3


def test_critical_pods_that_would_have_gone_first() -> None:
    """They have no statistics, so they rank first and are spared one after the other."""
    spared = [pod("x", 2_000_000_000), replace(pod("y"), is_mirror=True)]
    outcome = decide(HARD_MEMORY, History(), snapshot(0, LOW_MEMORY, [A, *spared], {"a": memory_used(5)}))
    assert [fact.pod.name for fact in outcome.facts if isinstance(fact, say.CriticalPodSpared)] == ["y", "x"]
    assert evicted(outcome).evictions[0].pod is A


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ([], "eviction thresholds have been met, but no pods are active to evict"),
        ([pod("x", 2_000_000_000)], "unable to evict any pods from the node"),
    ],
)
def test_when_no_pod_can_go(pods: list[Pod], why: str) -> None:
    """A fact says so; the condition is reported all the same."""
    outcome = decide(HARD_MEMORY, History(), snapshot(0, LOW_MEMORY, pods))
    assert idle(outcome) == why
    assert say.NothingToEvict(Signal.MEMORY_AVAILABLE, why) in outcome.facts
    assert outcome.history.conditions == {Condition.MEMORY_PRESSURE}


def test_without_thresholds_and_limits_there_is_nothing_to_do() -> None:
    """Not even to remember."""
    wishes = policy(localStorageCapacityIsolation=False)
    outcome = decide(wishes, History(), snapshot(0, LOW_MEMORY, [A]))
    assert idle(outcome) == "no thresholds are set and local storage is not limited"
    assert outcome.history == History()


def test_memory_goes_before_disk_and_hard_before_soft() -> None:
    """Everything is low at once; one pod goes, for hard memory."""
    wishes = policy(
        {"memory.available": "1Gi", "nodefs.available": "10Gi", "pid.available": "5%"},
        {"memory.available": "2Gi"},
        grace="0.000000001s",
    )
    steps = Steps(wishes)
    everything = node(memory=500 * MI, fs=filesystem(GI), pids_left=100)
    steps.step(0, everything)
    order = evicted(steps.step(10, everything))
    assert str(order.starved) == "memory.available<1Gi"
    assert steps.history.conditions == frozenset(Condition)


def test_facts_of_a_threshold_from_crossing_to_resolution() -> None:
    """Crossed, met and resolved are said once each, and so is the condition."""
    steps = Steps(policy(soft={"memory.available": "1Gi"}))
    kinds = [
        [type(fact).__name__ for fact in steps.step(at_s, node(memory=memory * MI)).facts]
        for at_s, memory in [(0, 900), (10, 900), (30, 900), (40, 900), (50, 2000)]
    ]
    assert kinds == [
        ["ThresholdCrossed", "ConditionChanged"],
        [],
        ["ThresholdMet", "ReclaimAttempted", "PodsRanked"],
        ["ReclaimAttempted", "PodsRanked"],
        ["ThresholdResolved"],
    ]


def test_the_age_of_readings_is_told() -> None:
    """For each starved signal that has a time; the metric needs it."""
    outcome = Steps(HARD_MEMORY).step(100, node(memory=0, time_s=93))
    (ranked,) = (fact for fact in outcome.facts if isinstance(fact, say.PodsRanked))
    assert ranked == say.PodsRanked(Signal.MEMORY_AVAILABLE, 1, {Signal.MEMORY_AVAILABLE: 7 * SECOND_NS})


def test_evictions_are_a_sequence_of_all_that_may_go() -> None:
    """Mostly the first only is looked at, but the first may fail."""
    spared = pod("spared", 2_000_000_000)
    order = evicted(Steps(HARD_MEMORY, A, spared, pod("b", 5), pod("c", 9)).step(0, LOW_MEMORY))
    assert len(order.evictions) == 3
    assert [each.pod.name for each in order.evictions] == ["a", "b", "c"]
    assert order.evictions[0] == next(iter(order.evictions))
    assert order.evictions[-1].pod.name == "c"
    assert [each.pod.name for each in order.evictions[1:]] == ["b", "c"]
    with pytest.raises(IndexError):
        order.evictions[3]


def test_a_snapshot_is_not_touched() -> None:
    """A step takes the world as a value: the order of its pods is the caller's."""
    pods = [pod("z", 5), pod("a", -5)]
    view = Snapshot(0, LOW_MEMORY, pods)
    decide(HARD_MEMORY, History(), view)
    assert [each.name for each in pods] == ["z", "a"]
