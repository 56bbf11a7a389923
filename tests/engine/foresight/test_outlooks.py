"""Headroom, time left and the pods that would go, for each signal."""

from __future__ import annotations

from dataclasses import replace

from jettison.engine.foresight.cases import Case, play
from jettison.engine.foresight.outlooks import outlooks
from jettison.engine.foresight.trends import Series
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import PodUsage
from tests.builders import GI, MI, SECOND_NS, memory_used, node, pod, policy, snapshot

PODS = [pod("a"), pod("b", 5), pod("c", memory="1Gi"), pod("d", 2 * 10**9), pod("e")]
USED = {"a": memory_used(100 * MI), "b": memory_used(200 * MI), "c": memory_used(GI), "d": memory_used(GI)}
CASE = Case(
    policy({"memory.available": "500Mi"}, {"memory.available": "1Gi"}, reclaim={"memory.available": "50Mi"}),
    History(),
    snapshot(0, node(memory=2 * GI, capacity=8 * GI), PODS, USED),
)
FALLING = {Signal.MEMORY_AVAILABLE: Series(8 * GI, [(n * 10 * SECOND_NS, 3 * GI - n * 10 * MI) for n in range(30)])}


def test_thresholds_pods_and_what_each_frees() -> None:
    (found,) = outlooks(CASE, FALLING)

    hard, soft = found.thresholds
    assert (hard.amount, hard.headroom) == (500 * MI, 2 * GI - 500 * MI)
    assert soft.headroom == GI
    assert soft.time_left is not None
    assert soft.time_left.likely_ns == 1024 * SECOND_NS
    # Without statistics first, then above the request; the critical pod is not among them.
    assert [(each.candidate.pod.name, each.frees) for each in found.going] == [
        ("e", None),
        ("a", 100 * MI),
        ("b", 200 * MI),
    ]
    # e frees nothing that was measured, a frees 100Mi, which is more than the minimum reclaim.
    assert found.needed == 2


def test_without_a_past_there_is_no_trend() -> None:
    (found,) = outlooks(CASE, {})
    assert found.slope is None
    assert [each.time_left for each in found.thresholds] == [None, None]


def test_the_past_of_another_size_does_not_count() -> None:
    other = {Signal.MEMORY_AVAILABLE: replace(FALLING[Signal.MEMORY_AVAILABLE], capacity=GI)}
    (found,) = outlooks(CASE, other)
    assert found.slope is None


def test_all_pods_may_not_be_enough() -> None:
    case = replace(CASE, snapshot=snapshot(0, node(memory=MI, capacity=8 * GI), [pod("a")], {"a": PodUsage(MI)}))
    (found,) = outlooks(case, {})
    assert (found.needed, found.thresholds[0].time_left is not None) == (None, True)


def test_the_first_one_is_the_one_that_goes() -> None:
    """When the threshold is crossed, `decide` takes the pod that stood first in the outlook."""
    starved = replace(CASE, snapshot=snapshot(0, node(memory=400 * MI, capacity=8 * GI), PODS, USED))
    assert play(starved).pods[0].name == outlooks(CASE, {})[0].going[0].candidate.pod.name
