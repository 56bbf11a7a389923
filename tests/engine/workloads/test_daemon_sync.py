"""Nodes and their daemon pods: what each needs, what an update may take away, and what the status says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.workloads.daemon_placement import NOT_HERE, Placement
from jettison.engine.workloads.daemon_sync import (
    Counts,
    DaemonPod,
    Needs,
    counts_of,
    is_of_interest,
    needs_of,
    update_in_place,
    update_with_surge,
)

RUNS = Placement(should_run=True, may_stay=True)
STAYS = Placement(should_run=False, may_stay=True)
GOOD = DaemonPod("good", "good", "1", "Running", is_ready=True, is_available=True)
OLD = replace(GOOD, uid="old", name="old", is_updated=False)
STARTING = replace(GOOD, uid="starting", name="starting", is_ready=False, is_available=False)
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
        (RUNS, (replace(GOOD, uid="b", created="2"), GOOD), Needs(surplus=(replace(GOOD, uid="b", created="2"),))),
        # Who has a node is elder than who waits for one.
        (
            RUNS,
            (replace(GOOD, created="0", is_scheduled=False), OLD),
            Needs(surplus=(replace(GOOD, created="0", is_scheduled=False),)),
        ),
    ],
)
def test_a_node_has_one(placement: Placement, pods: tuple[DaemonPod, ...], needs: Needs) -> None:
    assert needs_of(placement, pods, surges=False) == needs


@pytest.mark.parametrize(
    ("pods", "needs"),
    [
        ((GOING,), Needs(creates=True)),
        ((OLD, STARTING), Needs()),
        ((OLD, GOOD), Needs(surplus=(OLD,))),
        ((replace(OLD, is_ready=False), STARTING), Needs(surplus=(replace(OLD, is_ready=False),))),
        ((GOOD, replace(GOOD, uid="b", created="2")), Needs(surplus=(replace(GOOD, uid="b", created="2"),))),
    ],
)
def test_with_a_surge_it_may_have_an_old_and_a_new_one(pods: tuple[DaemonPod, ...], needs: Needs) -> None:
    assert needs_of(RUNS, pods, surges=True) == needs


def test_one_that_has_ended_and_is_deleted_holds_no_place() -> None:
    assert not is_of_interest(replace(FAILED, is_terminating=True))
    assert is_of_interest(FAILED)
    assert is_of_interest(GOING)


def test_the_numbers() -> None:
    placements = {"a": RUNS, "b": RUNS, "c": RUNS, "d": STAYS, "e": NOT_HERE}
    pods = {"a": [GOOD], "b": [replace(OLD, is_available=False)], "d": [GOOD]}
    assert counts_of(placements, pods) == Counts(desired=3, current=2, misscheduled=1, ready=2, updated=1, available=1)


def test_broken_old_pods_go_whatever_the_limit() -> None:
    broken = replace(OLD, uid="broken", is_available=False)
    assert update_in_place({"a": [broken], "b": [OLD]}, 1).delete == (broken,)
    assert update_in_place({"a": [], "b": [OLD]}, 1).delete == ()
    assert update_in_place({"a": [GOOD], "b": [OLD]}, 1).delete == (OLD,)


STATES = st.sampled_from([GOOD, OLD, STARTING, GOING, replace(OLD, is_available=False)])


@given(st.lists(st.lists(STATES, max_size=2), max_size=8), st.integers(1, 4))
def test_an_update_takes_no_more_than_it_may(nodes: list[list[DaemonPod]], limit: int) -> None:
    """Of nodes that serve, it leaves all but `limit` serving, counting those that do not serve already."""
    pods = {str(index): found for index, found in enumerate(nodes)}
    gone = sum(each.is_available for each in update_in_place(pods, limit).delete)
    serving = sum(len(found) == 1 and found[0].is_available and not found[0].is_terminating for found in nodes)
    assert gone == 0 or len(nodes) - (serving - gone) <= limit


def test_a_surge_makes_first_and_deletes_when_the_heir_serves() -> None:
    pods = {"a": [OLD], "b": [OLD], "c": [OLD, GOOD], "d": [OLD, STARTING]}
    placements = dict.fromkeys(pods, RUNS)
    update = update_with_surge(pods, placements, 2, 4)
    assert update.create_on == ("a",)
    assert update.delete == (OLD,)


def test_where_the_set_no_longer_belongs_the_old_pod_waits_for_the_others() -> None:
    pods = {"left": [OLD], "new": [STARTING]}
    placements = {"left": STAYS, "new": RUNS}
    assert update_with_surge(pods, placements, 1, 1).delete == ()
    assert update_with_surge({**pods, "new": [GOOD]}, placements, 1, 1).delete == (OLD,)
