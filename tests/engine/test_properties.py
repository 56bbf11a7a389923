"""What holds for every node, every pod and every policy, not only for chosen examples."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jettison.engine.config.kubelet_config import Source, assemble, to_document
from jettison.engine.config.kubelet_fields import KubeletConfig
from jettison.engine.config.policy import KUBELET, Policy, build_policy
from jettison.engine.node.decide import Evict, Outcome, Reclaim, decide
from jettison.engine.node.local_storage import over_limit
from jettison.engine.node.pressure import History
from jettison.engine.node.ranking import rank
from jettison.engine.node.signals import Condition, Signal, readings
from jettison.engine.node.snapshot import Layout, NodeStats, PodUsage, Snapshot
from jettison.engine.numbers.durations import duration_text, parse_duration
from jettison.engine.numbers.quantity import ZERO, Quantity, parse
from jettison.engine.pods.admission import ADMITTED, admit_under_pressure
from jettison.engine.pods.oom_scores import oom_score_adjustments
from jettison.engine.pods.pod import Pod, Qos, requests
from jettison.engine.pods.preemption import MissingResource, victims
from jettison.errors import PolicyError
from tests.builders import MI
from tests.strategies import (
    crowds,
    kubelet_documents,
    layouts,
    nodes,
    pod_lists,
    pods,
    policies,
    quantities,
    quantity_texts,
    snapshots,
)

signals = st.sampled_from(Signal)


@given(quantities)
@example(parse("9" * 10_000))
@example(parse("1e4096"))
def test_a_quantity_survives_printing_and_parsing(quantity: Quantity) -> None:
    """What was written, and what is canonical, both read back as the same number.

    From 10²¹ on upstream has no suffix left and prints none, so such a number does not survive.
    """
    assert parse(str(quantity)) == quantity or abs(quantity.nanos) >= 10**30
    assert str(parse(str(quantity))) == str(quantity)


@given(quantity_texts())
def test_a_canonical_text_is_its_own_canonical_text(text: str) -> None:
    """Printing twice changes nothing."""
    once = str(parse(text) + ZERO)
    assert str(parse(once) + ZERO) == once


@given(quantities, quantities)
def test_addition_and_subtraction_undo_each_other(one: Quantity, other: Quantity) -> None:
    """Exactly; and comparison agrees with subtraction."""
    assert (one + other) - other == one
    assert one + other == other + one
    assert (one < other) is ((one - other).sign < 0)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_duration_survives_printing_and_parsing(nanoseconds: int) -> None:
    """To the nanosecond."""
    assert parse_duration(duration_text(nanoseconds)) == nanoseconds


@given(kubelet_documents())
def test_a_configuration_survives_printing_and_parsing(document: dict[str, object]) -> None:
    """Read, printed and read: the same effective values, whatever was set and whatever was not."""
    config = assemble(Source("first", document))
    again = assemble(Source("second", to_document(config)))
    assert again == config


@given(kubelet_documents())
def test_a_policy_survives_printing_and_parsing(document: dict[str, object]) -> None:
    """The same policy, or the same complaints."""
    config = assemble(Source("first", document))
    printed = assemble(Source("second", to_document(config)))
    assert _policy_or_complaints(printed) == _policy_or_complaints(config)


def _policy_or_complaints(config: KubeletConfig) -> Policy | list[tuple[str, str]]:
    try:
        return build_policy(config)
    except PolicyError as error:
        return [(each.key, each.text) for each in error.complaints]


@given(signals, crowds(), layouts, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_is_total_and_stable(
    signal: Signal, crowd: tuple[list[Pod], dict[str, PodUsage]], layout: Layout, by_inodes: bool, chance: Random
) -> None:
    """Every pod stands in it once, and no order of the input makes another order."""
    found, usages = crowd
    ordered = rank(signal, found, usages, layout, inodes_by_inodes=by_inodes).pods
    assert sorted(ordered, key=id) == sorted(found, key=id)
    shuffled = list(found)
    chance.shuffle(shuffled)
    assert rank(signal, shuffled, usages, layout, inodes_by_inodes=by_inodes).pods == ordered


@given(signals, crowds(), layouts, st.data())
def test_a_higher_priority_never_goes_earlier(
    signal: Signal, crowd: tuple[list[Pod], dict[str, PodUsage]], layout: Layout, data: st.DataObject
) -> None:
    """Raising one pod's priority moves it back or leaves it where it is, and the others keep their order."""
    found, usages = crowd
    if not found:
        return
    index = data.draw(st.integers(0, len(found) - 1))
    chosen = found[index]
    raised = replace(chosen, priority=chosen.effective_priority + data.draw(st.integers(1, 2000)))
    before = [each.uid for each in rank(signal, found, usages, layout).pods]
    after = [each.uid for each in rank(signal, [*found[:index], raised, *found[index + 1 :]], usages, layout).pods]
    assert after.index(chosen.uid) >= before.index(chosen.uid)
    assert [uid for uid in after if uid != chosen.uid] == [uid for uid in before if uid != chosen.uid]


@given(crowds(), layouts, st.data())
def test_using_more_memory_never_goes_later(
    crowd: tuple[list[Pod], dict[str, PodUsage]], layout: Layout, data: st.DataObject
) -> None:
    """For memory: a pod that uses more stands no further back than before."""
    found, usages = crowd
    measured = [each.uid for each in found if each.uid in usages]
    if not measured:
        return
    uid = data.draw(st.sampled_from(measured))
    more = usages[uid]._replace(working_set=(usages[uid].working_set or 0) + data.draw(st.integers(1, 100 * MI)))
    before = [each.uid for each in rank(Signal.MEMORY_AVAILABLE, found, usages, layout).pods]
    after = [each.uid for each in rank(Signal.MEMORY_AVAILABLE, found, usages | {uid: more}, layout).pods]
    assert after.index(uid) <= before.index(uid)


def _run(policy: Policy, first: Snapshot, second: Snapshot) -> list[Outcome]:
    """Two steps, the later one second; a reclaim is judged by the second snapshot."""
    later = replace(second, now_ns=first.now_ns + second.now_ns)
    outcomes = [decide(policy, History(), first)]
    outcomes.append(decide(policy, outcomes[-1].history, later))
    return outcomes


@given(policies(), snapshots(), snapshots())
def test_deciding_twice_is_deciding_once(policy: Policy, first: Snapshot, second: Snapshot) -> None:
    """No clock, no chance, no memory of its own: the same world gives the same outcome."""
    assert _run(policy, first, second) == _run(policy, first, second)


@given(policies(), snapshots(), snapshots())
def test_no_eviction_without_a_reason(policy: Policy, first: Snapshot, second: Snapshot) -> None:
    """A pod goes for a threshold that is met and was read below its target, or because it is over a limit."""
    for outcome, view in zip(_run(policy, first, second), (first, second), strict=True):
        decision = outcome.decision
        if isinstance(decision, Reclaim):
            assert decision.starved in outcome.history.met
            assert decision.starved.is_unresolved(decision.reading)
        if not isinstance(decision, Evict):
            continue
        assert decision.evictions
        assert not any(each.pod.is_critical for each in decision.evictions)
        if decision.starved is None:
            assert policy.isolates_local_storage
            assert decision.evictions == over_limit(view.pods, view.usages, view.layout)
        else:
            assert decision.reading is not None
            assert decision.starved in outcome.history.met
            assert decision.starved.is_unresolved(decision.reading)
            assert (
                decision.starved in policy.layouts[view.layout].all
                or decision.starved in policy.layouts[first.layout].all
            )


@given(policies(), snapshots(), snapshots())
def test_a_reported_condition_was_observed(policy: Policy, first: Snapshot, second: Snapshot) -> None:
    """Within the transition period, and whatever is met now is reported unless that period is zero."""
    for outcome in _run(policy, first, second):
        history = outcome.history
        assert history.conditions <= set(history.condition_observed)
        assert set(history.met) <= set(history.first_observed)


@given(policies(KUBELET), nodes, layouts)
def test_a_node_with_everything_free_is_left_alone(policy: Policy, node: NodeStats, layout: Layout) -> None:
    """Available equal to capacity crosses nothing, whatever the thresholds; an empty node evicts no pod."""
    view = Snapshot(0, node, [], {}, layout)
    crossed = {
        each.signal
        for each in policy.thresholds
        if (reading := readings(node).get(each.signal)) is not None and each.is_crossed(reading)
    }
    outcome = decide(policy, History(), view)
    assert not isinstance(outcome.decision, Evict)
    if not crossed:
        assert not isinstance(outcome.decision, Reclaim)
        assert outcome.history.conditions == frozenset()


@given(pods(), st.integers(1, 2**40))
def test_oom_scores_stay_in_their_ranges(pod: Pod, capacity: int) -> None:
    """Guaranteed below Burstable below BestEffort, and none outside what the kernel takes."""
    scores = set(oom_score_adjustments(pod, capacity).values())
    if pod.is_node_critical or pod.qos == Qos.GUARANTEED:
        assert scores <= {-997}
    elif pod.qos == Qos.BEST_EFFORT:
        assert scores <= {1000}
    else:
        # Above 1000 only where containers ask for more than their pod, as upstream computes it.
        assert all(score >= 3 and score != 1000 for score in scores)


@given(pods())
def test_a_pods_request_covers_each_of_its_containers(pod: Pod) -> None:
    """Unless the pod itself says otherwise: init containers run before, sidecars with the others."""
    total = requests(replace(pod, resources=None))
    for container in (*pod.containers, *pod.init_containers):
        for name, amount in container.requests.items():
            assert amount <= total[name]


@given(pods(), st.lists(st.sampled_from(Condition), unique=True))
def test_admission_never_turns_critical_pods_away(pod: Pod, conditions: list[Condition]) -> None:
    """And turns no pod away without pressure; more pressure never admits more."""
    admission = admit_under_pressure(pod, conditions)
    if pod.is_critical or not conditions:
        assert admission == ADMITTED
    if not admission.is_admitted:
        assert not admit_under_pressure(pod, list(Condition)).is_admitted


@given(pod_lists(), st.lists(st.tuples(st.sampled_from(["cpu", "memory", "pods"]), st.integers(1, 10**9)), max_size=3))
def test_preemption_frees_enough_or_ends_no_pod(found: list[Pod], wanted: list[tuple[str, int]]) -> None:
    """Victims are preemptable and different; if some are left over, their end would not have been enough."""
    incoming = Pod("incoming", priority=2_000_001_000)
    result = victims(incoming, found, [MissingResource(*each) for each in wanted])
    assert len({id(each) for each in result.pods}) == len(result.pods)
    assert {id(each) for each in result.pods} <= {id(each) for each in found}
    if result.refusal is not None:
        assert result.pods == ()


def test_the_strategies_reach_every_kind_of_decision() -> None:
    """A property over snapshots that never evict would prove nothing."""
    seen: set[str] = set()

    @given(policies(), snapshots(), snapshots())
    @settings(max_examples=150)
    def look(policy: Policy, first: Snapshot, second: Snapshot) -> None:
        for outcome in _run(policy, first, second):
            decision = outcome.decision
            seen.add(type(decision).__name__)
            if isinstance(decision, Evict):
                seen.add("limits" if decision.starved is None else "pressure")

    look()
    assert seen == {"Nothing", "Reclaim", "Evict", "limits", "pressure"}
