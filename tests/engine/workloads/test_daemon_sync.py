"""Nodes and their daemon pods: what each needs, what an update may take away, and what the status says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.pods.api_pod import GENERATION_LABEL, REVISION_LABEL, ApiPod
from jettison.engine.scheduling.placement import Taint
from jettison.engine.workloads.daemon_sync import (
    AUTOMATIC_TOLERATIONS,
    NOT_HERE,
    Counts,
    DaemonGoal,
    Needs,
    Placement,
    counts_of,
    is_of_interest,
    needs_of,
    place_daemon,
    update_in_place,
    update_with_surge,
)

RUNS = Placement(should_run=True, may_stay=True)
STAYS = Placement(should_run=False, may_stay=True)
GOAL = DaemonGoal("new", min_ready_seconds=1, now_ns=2 * 10**9)
SURGE = replace(GOAL, surges=True)
GOOD = ApiPod(
    "good",
    uid="good",
    labels={REVISION_LABEL: "new"},
    node="n",
    phase="Running",
    is_ready=True,
    ready_since_ns=1,
    created_ns=1,
)
OLD = replace(GOOD, uid="old", name="old", labels={REVISION_LABEL: "old"})
STARTING = replace(GOOD, uid="starting", name="starting", is_ready=False)
JUST_READY_NS = GOAL.now_ns
GOING = replace(GOOD, uid="going", is_terminating=True)
FAILED = replace(STARTING, uid="failed", phase="Failed")


@pytest.mark.parametrize(
    ("placement", "pods", "needs"),
    [
        (RUNS, (), Needs(creates=True)),
        (STAYS, (), Needs()),
        (RUNS, (GOOD,), Needs()),
        (STAYS, (GOOD,), Needs()),
        (NOT_HERE, (GOOD, GOING), Needs(surplus=(GOOD,))),
        (RUNS, (FAILED,), Needs(ended=(FAILED,))),
        # The next one comes when this one has gone.
        (RUNS, (GOING,), Needs()),
        (RUNS, (replace(GOOD, uid="b", created_ns=2), GOOD), Needs(surplus=(replace(GOOD, uid="b", created_ns=2),))),
        # A pod with a node is older than one that waits for a node.
        (
            RUNS,
            (replace(GOOD, created_ns=0, node=""), OLD),
            Needs(surplus=(replace(GOOD, created_ns=0, node=""),)),
        ),
    ],
)
def test_a_node_has_one(placement: Placement, pods: tuple[ApiPod, ...], needs: Needs) -> None:
    assert needs_of(GOAL, placement, pods) == needs


@pytest.mark.parametrize(
    ("pods", "needs"),
    [
        ((GOING,), Needs(creates=True)),
        ((OLD, STARTING), Needs()),
        ((OLD, GOOD), Needs(surplus=(OLD,))),
        ((replace(OLD, is_ready=False), STARTING), Needs(surplus=(replace(OLD, is_ready=False),))),
        ((GOOD, replace(GOOD, uid="b", created_ns=2)), Needs(surplus=(replace(GOOD, uid="b", created_ns=2),))),
    ],
)
def test_with_a_surge_it_may_have_an_old_and_a_new_one(pods: tuple[ApiPod, ...], needs: Needs) -> None:
    assert needs_of(SURGE, RUNS, pods) == needs


def test_the_generation_of_the_template_is_as_good_as_its_revision() -> None:
    adopted = replace(OLD, labels={**OLD.labels, GENERATION_LABEL: "3"})
    assert DaemonGoal("new", generation="3").is_updated(adopted)
    assert not DaemonGoal("new", generation="4").is_updated(adopted)
    assert not DaemonGoal("new").is_updated(OLD)


def test_one_that_has_ended_and_is_deleted_holds_no_place() -> None:
    assert not is_of_interest(replace(FAILED, is_terminating=True))
    assert is_of_interest(FAILED)
    assert is_of_interest(GOING)


def test_the_numbers() -> None:
    placements = {"a": RUNS, "b": RUNS, "c": RUNS, "d": STAYS, "e": NOT_HERE}
    pods = {"a": [GOOD], "b": [replace(OLD, ready_since_ns=JUST_READY_NS)], "d": [GOOD]}
    assert counts_of(GOAL, placements, pods) == Counts(
        desired=3, current=2, misscheduled=1, ready=2, updated=1, available=1
    )


def test_broken_old_pods_go_whatever_the_limit() -> None:
    broken = replace(OLD, uid="broken", ready_since_ns=JUST_READY_NS)
    assert update_in_place(GOAL, {"a": [broken], "b": [OLD]}, 1).delete == (broken,)
    assert update_in_place(GOAL, {"a": [], "b": [OLD]}, 1).delete == ()
    assert update_in_place(GOAL, {"a": [GOOD], "b": [OLD]}, 1).delete == (OLD,)


STATES = st.sampled_from([GOOD, OLD, STARTING, GOING, replace(OLD, ready_since_ns=JUST_READY_NS)])


@given(st.lists(st.lists(STATES, max_size=2), max_size=8), st.integers(1, 4))
def test_an_update_takes_no_more_than_it_may(nodes: list[list[ApiPod]], limit: int) -> None:
    """Of nodes that serve, it leaves all but `limit` serving, counting those that do not serve already."""
    pods = {str(index): found for index, found in enumerate(nodes)}
    gone = sum(GOAL.is_available(each) for each in update_in_place(GOAL, pods, limit).delete)
    staying = [[each for each in found if not each.is_terminating] for found in nodes]
    serving = sum(len(found) == 1 and GOAL.is_available(found[0]) for found in staying)
    assert gone == 0 or len(nodes) - (serving - gone) <= limit


def test_a_surge_makes_first_and_deletes_when_the_heir_serves() -> None:
    pods = {"a": [OLD], "b": [OLD], "c": [OLD, GOOD], "d": [OLD, STARTING]}
    placements = dict.fromkeys(pods, RUNS)
    update = update_with_surge(GOAL, pods, placements, 2, 4)
    assert update.create_on == ("a",)
    assert update.delete == (OLD,)


def test_where_the_set_no_longer_belongs_the_old_pod_waits_for_the_others() -> None:
    pods = {"left": [OLD], "new": [STARTING]}
    placements = {"left": STAYS, "new": RUNS}
    assert update_with_surge(GOAL, pods, placements, 1, 1).delete == ()
    assert update_with_surge(GOAL, {**pods, "new": [GOOD]}, placements, 1, 1).delete == (OLD,)


@pytest.mark.parametrize(
    ("taint", "placement"),
    [
        (None, RUNS),
        (Taint("bad", "", "NoSchedule"), STAYS),
        (Taint("bad", "", "NoExecute"), NOT_HERE),
        (Taint("bad", "", "PreferNoSchedule"), RUNS),
        (Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"), RUNS),
        (Taint("node.kubernetes.io/memory-pressure", "", "NoSchedule"), RUNS),
        (Taint("node.kubernetes.io/not-ready", "", "NoExecute"), RUNS),
        # Surprise: a node that is not ready also has this one, so it gets no new daemon pod until it is.
        (Taint("node.kubernetes.io/not-ready", "", "NoSchedule"), STAYS),
        (Taint("node.kubernetes.io/network-unavailable", "", "NoSchedule"), STAYS),
    ],
)
def test_taints_decide(taint: Taint | None, placement: Placement) -> None:
    taints = [] if taint is None else [taint]
    assert place_daemon(taints, AUTOMATIC_TOLERATIONS, is_chosen=True) == placement


def test_a_node_that_was_not_chosen_has_none() -> None:
    assert place_daemon([], AUTOMATIC_TOLERATIONS, is_chosen=False) == NOT_HERE
