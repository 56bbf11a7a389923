"""What another policy would evict from a node as it is, and thresholds from what it went through."""

from __future__ import annotations

import pytest

from jettison.engine.foresight.cases import Case
from jettison.engine.foresight.edits import evictions_now, under
from jettison.engine.foresight.recommendations import reaction_of, recommend
from jettison.engine.foresight.trends import Series
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Signal
from tests.builders import GI, MI, SECOND_NS, memory_used, node, pod, policy, snapshot

PODS = [pod("a"), pod("b"), pod("c", 5), pod("d", 2 * 10**9)]
USED = {name: memory_used(100 * MI) for name in "abcd"}
LIVE = Case(policy({"memory.available": "100Mi"}), History(), snapshot(0, node(memory=GI, capacity=4 * GI), PODS, USED))


def names(hard: str | None, soft: str | None = None, reclaim: str | None = None, *, after_grace: bool = False) -> str:
    edit = policy(
        {} if hard is None else {"memory.available": hard},
        {} if soft is None else {"memory.available": soft},
        reclaim={} if reclaim is None else {"memory.available": reclaim},
    )
    return "".join(step.pod.name for step in evictions_now(under(LIVE, edit), after_grace=after_grace))


def test_pods_go_until_nothing_is_starved() -> None:
    assert names("1Gi") == ""
    assert names("1025Mi") == "a"
    assert names("1200Mi") == "ab"
    # The critical pod stays, whatever is short.
    assert names("3Gi") == "abc"


def test_minimum_reclaim_takes_more() -> None:
    assert names("1025Mi", reclaim="50Mi") == "a"
    assert names("1025Mi", reclaim="150Mi") == "ab"


def test_soft_thresholds_take_their_time() -> None:
    assert names(None, "1100Mi") == ""
    assert names(None, "1100Mi", after_grace=True) == "a"


@pytest.mark.parametrize(
    ("rate", "has_alarms", "expected"),
    [
        # 100Mi/s for 0.2 s + 2.8 s, and 16Mi that count as gone.
        (100 * MI, True, 316 * MI),
        # 10 s before that.
        (100 * MI, False, 1316 * MI),
        (0, True, None),
        # Never more than half of what there is.
        (GI, False, 2 * GI),
    ],
)
def test_a_threshold_covers_the_steepest_fall_while_an_eviction_takes_place(
    rate: int, has_alarms: bool, expected: int | None
) -> None:
    samples = [(n * SECOND_NS, 4 * GI - max(n - 20, 0) * rate) for n in range(24)]
    reaction = reaction_of([2 * 10**8, 10**8], [28 * 10**8], has_alarms=has_alarms)

    (found,) = recommend({Signal.MEMORY_AVAILABLE: Series(4 * GI, samples)}, reaction)

    assert (found.amount, found.samples, reaction.evictions) == (expected, 24, 1)


@pytest.mark.parametrize("ended_ns", [[], [5 * 10**6]])
def test_the_next_pod_may_need_the_time_before_sigkill(ended_ns: list[int]) -> None:
    assert reaction_of([], ended_ns, has_alarms=True).total_ns == 2 * SECOND_NS


def test_without_enough_readings_nothing_is_recommended() -> None:
    reaction = reaction_of([], [], has_alarms=True)
    assert recommend({Signal.MEMORY_AVAILABLE: Series(GI, [(0, 5), (SECOND_NS, 4)])}, reaction) == []
    # What follows from another threshold cannot be set.
    series = Series(GI, [(n * SECOND_NS, GI - n) for n in range(60)])
    assert recommend({Signal.ALLOCATABLE_MEMORY_AVAILABLE: series}, reaction) == []
