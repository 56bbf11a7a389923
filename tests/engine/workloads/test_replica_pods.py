"""Which pods count, since when, and which is deleted first."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.numbers.durations import SECOND_NS
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.workloads.replica_pods import deletion_order, next_available_ns

NOW = 10**6 * SECOND_NS
READY = ApiPod(
    "p",
    uid="u",
    node="n",
    phase="Running",
    is_ready=True,
    ready_since_ns=NOW - 10 * SECOND_NS,
    created_ns=NOW // 2,
)

COUNTED = [
    (READY, True, False),
    (replace(READY, phase="Pending"), True, False),
    (replace(READY, phase=""), True, False),
    (replace(READY, phase="Failed"), False, False),
    (replace(READY, phase="Succeeded"), False, False),
    (replace(READY, is_terminating=True), False, True),
    (replace(READY, is_terminating=True, phase="Failed"), False, False),
]


@pytest.mark.parametrize(("pod", "is_active", "is_leaving"), COUNTED)
def test_what_counts(pod: ApiPod, is_active: bool, is_leaving: bool) -> None:
    assert (pod.is_active, pod.is_leaving) == (is_active, is_leaving)


AVAILABLE = [
    (READY, 0, True),
    (READY, 10, True),
    (READY, 11, False),
    (replace(READY, is_ready=False), 0, False),
    # Ready in the future, by a clock that goes wrong: where no time is asked for, the clock does not count.
    (replace(READY, ready_since_ns=NOW + SECOND_NS), 0, True),
    (replace(READY, ready_since_ns=NOW + SECOND_NS), 1, False),
    # Ready, and no time was written.
    (replace(READY, ready_since_ns=0), 0, True),
    (replace(READY, ready_since_ns=0), 1, False),
]


@pytest.mark.parametrize(("pod", "min_ready", "is_available"), AVAILABLE)
def test_ready_for_long_enough(pod: ApiPod, min_ready: int, is_available: bool) -> None:
    assert pod.is_available(min_ready, NOW) is is_available


def test_the_next_one_to_become_available() -> None:
    pods = [READY, replace(READY, ready_since_ns=NOW - 3 * SECOND_NS), replace(READY, is_ready=False)]
    assert next_available_ns(pods, 10, NOW) == NOW + 7 * SECOND_NS
    assert next_available_ns(pods, 5, NOW) == NOW + 2 * SECOND_NS
    assert next_available_ns(pods, 3, NOW) is None
    assert next_available_ns(pods, 0, NOW) is None


# From the first to go to the last; every one before every later one.
ORDER = [
    replace(READY, name="unassigned", node=""),
    replace(READY, name="pending", phase="Pending"),
    replace(READY, name="unknown", phase="Unknown"),
    replace(READY, name="unready", is_ready=False, ready_since_ns=0),
    replace(READY, name="cheap", deletion_cost=-1),
    replace(READY, name="crowded", node="crowd"),
    replace(READY, name="ready without a time", ready_since_ns=0),
    replace(READY, name="just ready", ready_since_ns=NOW - SECOND_NS),
    replace(READY, name="restarted", most_restarts=(3, 0)),
    replace(READY, name="sidecar restarted", most_restarts=(0, 3)),
    replace(READY, name="young", created_ns=NOW - 8 * SECOND_NS),
    READY,
    replace(READY, name="dear", deletion_cost=1),
]


def test_which_pod_is_missed_least() -> None:
    names = [each.name for each in ORDER]
    neighbours = {"n": 1, "crowd": 2}
    for shuffled in (ORDER, ORDER[::-1], ORDER[::2] + ORDER[1::2]):
        assert [each.name for each in deletion_order(shuffled, neighbours, NOW)] == names


def test_of_about_the_same_age_the_uid_decides() -> None:
    """1,000 and 900 seconds are the same power of two (of nanoseconds), 1,000 and 100 are not."""
    old = replace(READY, name="old", uid="a", ready_since_ns=NOW - 1000 * SECOND_NS)
    similar = replace(old, name="similar", uid="b", ready_since_ns=NOW - 900 * SECOND_NS)
    young = replace(old, name="young", uid="c", ready_since_ns=NOW - 100 * SECOND_NS)
    for pods in itertools.permutations([old, similar, young]):
        assert [each.name for each in deletion_order(pods, {}, NOW)] == ["young", "old", "similar"]


@given(
    st.lists(
        st.builds(
            ApiPod,
            name=st.text(max_size=2),
            uid=st.text(max_size=2),
            node=st.sampled_from(["", "a", "b"]),
            phase=st.sampled_from(["", "Pending", "Running", "Unknown", "odd"]),
            is_ready=st.booleans(),
            ready_since_ns=st.integers(0, 2 * NOW),
            created_ns=st.integers(0, 2 * NOW),
            deletion_cost=st.integers(-2, 2),
        )
    )
)
def test_no_pod_is_lost_or_doubled(pods: list[ApiPod]) -> None:
    ordered = deletion_order(pods, {"a": 2}, NOW)
    assert sorted(map(repr, ordered)) == sorted(map(repr, pods))
