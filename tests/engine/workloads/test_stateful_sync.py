"""Which ordinal is next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.pods.api_pod import REVISION_LABEL, ApiPod
from jettison.engine.workloads.stateful_sync import (
    MOST_STEPS,
    Cause,
    Create,
    Delete,
    StatefulCounts,
    StatefulGoal,
    Step,
    counts_of,
    identifiable,
    is_updated,
    next_steps,
)

NOW_NS = 2 * 10**9
GOAL = StatefulGoal(replicas=3, revision="new", min_ready_seconds=1, now_ns=NOW_NS)
PARALLEL = replace(GOAL, is_parallel=True)


def _pods(*states: str) -> dict[int, ApiPod]:
    """By ordinal; `-`: missing, `a`: available, `r`: only Ready, `s`: starting, `f`: failed, `t`: terminating.

    A capital letter is of the old revision.
    """
    made = {}
    for ordinal, state in enumerate(states):
        small = state.lower()
        if small == "-":
            continue
        made[ordinal] = ApiPod(
            f"web-{ordinal}",
            labels={REVISION_LABEL: "new" if state == small else "old"},
            phase="Failed" if small == "f" else "Running",
            is_terminating=small == "t",
            is_ready=small in "art",
            ready_since_ns=NOW_NS if small == "r" else 1,
        )
    return made


@pytest.mark.parametrize(
    ("states", "steps"),
    [
        ("---", [Create(0)]),
        ("a--", [Create(1)]),
        ("r--", []),
        ("s--", []),
        ("t--", []),
        ("aaa", []),
        ("-aa", [Create(0)]),
        ("afa", [Delete(1, Cause.ENDED)]),
        ("fsa", [Delete(0, Cause.ENDED)]),
        ("aaaaa", [Delete(4, Cause.SCALED_DOWN)]),
        ("aaaat", []),
        ("asaaa", []),
        # Of sick ones beyond the size only the lowest may go; a healthy one above it may in any case.
        ("aaasa", [Delete(4, Cause.SCALED_DOWN)]),
        ("aaas", [Delete(3, Cause.SCALED_DOWN)]),
        ("aaass", []),
        ("AAA", [Delete(2, Cause.OUTDATED)]),
        ("AAa", [Delete(1, Cause.OUTDATED)]),
        ("AAs", []),
        ("AAf", [Delete(2, Cause.ENDED)]),
        ("AAAA", [Delete(3, Cause.SCALED_DOWN)]),
    ],
)
def test_in_order(states: str, steps: list[Step]) -> None:
    assert next_steps(GOAL, _pods(*states)) == steps


@pytest.mark.parametrize(
    ("states", "steps"),
    [
        ("---", [Create(0), Create(1), Create(2)]),
        ("s-s", [Create(1)]),
        ("f-a", [Delete(0, Cause.ENDED), Create(1)]),
        ("saaaat", [Delete(4, Cause.SCALED_DOWN), Delete(3, Cause.SCALED_DOWN)]),
        ("AAA", [Delete(2, Cause.OUTDATED)]),
        ("AAs", []),
        ("AAF", [Delete(2, Cause.ENDED)]),
        ("AA-", [Create(2)]),
    ],
)
def test_in_parallel(states: str, steps: list[Step]) -> None:
    assert next_steps(PARALLEL, _pods(*states)) == steps


@pytest.mark.parametrize(
    ("partition", "states", "steps"),
    [
        (2, "AAA", [Delete(2, Cause.OUTDATED)]),
        (2, "AAa", []),
        (3, "AAA", []),
        (9, "AAA", []),
        (None, "AAA", []),
        (None, "AFA", [Delete(1, Cause.ENDED)]),
    ],
)
def test_a_partition_keeps_those_below_it(partition: int | None, states: str, steps: list[Step]) -> None:
    assert next_steps(replace(GOAL, partition=partition), _pods(*states)) == steps


@pytest.mark.parametrize(
    ("states", "ordered", "parallel"), [("aaaa", 3, 3), ("asa", 1, 3), ("af-", 1, 1), ("-ta", 0, 2)]
)
def test_labels_of_the_place_are_given_as_far_as_nothing_is_waited_for(
    states: str, ordered: int, parallel: int
) -> None:
    assert len(identifiable(GOAL, _pods(*states))) == ordered
    assert len(identifiable(PARALLEL, _pods(*states))) == parallel


def test_ordinals_may_begin_anywhere() -> None:
    goal = replace(GOAL, start=1, replicas=2)
    assert next_steps(goal, _pods("a")) == [Create(1)]
    assert next_steps(goal, _pods(*"aaa")) == [Delete(0, Cause.SCALED_DOWN)]


def test_a_boundless_wish_is_granted_in_pieces() -> None:
    boundless = StatefulGoal(2**31 - 1, "new")
    assert next_steps(boundless, {}) == [Create(0)]
    assert len(next_steps(replace(boundless, is_parallel=True), {})) == MOST_STEPS


@given(st.lists(st.sampled_from("-arstfARSTF"), max_size=7), st.integers(0, 5), st.integers(0, 4))
def test_in_order_it_is_one_step_at_a_time(states: list[str], replicas: int, partition: int) -> None:
    """And never one that takes a second pod while another is not there to serve."""
    pods = _pods(*states)
    goal = replace(GOAL, replicas=replicas, partition=partition)
    steps = next_steps(goal, pods)
    assert len(steps) <= 1
    for step in steps:
        if isinstance(step, Delete) and step.cause is not Cause.ENDED:
            assert all(ordinal in pods and goal.is_serving(pods[ordinal]) for ordinal in goal.ordinals)


def test_the_numbers() -> None:
    counts = counts_of(GOAL, list(_pods(*"aArTf").values()), "old")
    assert counts == StatefulCounts(replicas=5, ready=4, available=3, current=1, updated=3)
    pair = replace(GOAL, replicas=2)
    done = counts_of(GOAL, list(_pods(*"aa").values()), "old")
    assert is_updated(done, pair)
    assert not is_updated(done, replace(pair, partition=None))
    assert not is_updated(counts_of(GOAL, list(_pods(*"aA").values()), "old"), pair)


def test_a_pod_that_comes_back_as_it_was() -> None:
    goal = replace(GOAL, start=5, kept=2)
    assert [goal.keeps(ordinal) for ordinal in goal.ordinals] == [True, True, False]
    assert not GOAL.keeps(0)
