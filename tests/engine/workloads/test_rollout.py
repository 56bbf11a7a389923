"""Sizes during a rollout: what the documentation of Kubernetes promises holds for every mixture of limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.workloads.rollout import (
    Generation,
    Resize,
    Rollout,
    grown,
    recreating,
    rolling,
    shared_out,
    shrunk,
)

LIMITS = [
    (10, "25%", "25%", Rollout(10, 3, 2)),
    (4, 1, 1, Rollout(4, 1, 1)),
    # Both come to nothing: one may be unavailable, or nothing would ever move.
    (1, 0, "25%", Rollout(1, 0, 1)),
    (3, "0%", "1%", Rollout(3, 0, 1)),
    (2, "1%", 0, Rollout(2, 1, 0)),
    (2, 0, 5, Rollout(2, 0, 2)),
    (0, "25%", "25%", Rollout(0, 0, 0)),
    (1, None, None, Rollout(1, 0, 1)),
]


@pytest.mark.parametrize(("replicas", "surge", "unavailable", "expected"), LIMITS)
def test_surge_is_rounded_up_and_unavailability_down(
    replicas: int, surge: int | str | None, unavailable: int | str | None, expected: Rollout
) -> None:
    assert rolling(replicas, surge, unavailable) == expected


def test_recreate_asks_for_all_at_once() -> None:
    assert grown(recreating(5), Generation("new", 0), []) == 5


ROOM = [
    # Nothing is there yet: all of it.
    (rolling(10, 3, 2), 0, 0, 10),
    # The surge is the room.
    (rolling(10, 3, 2), 0, 10, 3),
    (rolling(10, 3, 2), 3, 8, 5),
    # Above the limit already, after a scaling down.
    (rolling(10, 3, 2), 4, 10, 4),
    # Never more than wanted.
    (rolling(3, 5, 0), 0, 2, 3),
]


@pytest.mark.parametrize(("rollout", "new", "old", "expected"), ROOM)
def test_the_new_generation_grows_into_the_room(rollout: Rollout, new: int, old: int, expected: int) -> None:
    every = [Generation("new", new), Generation("old", old)]
    assert grown(rollout, every[0], every) == expected


def test_old_pods_that_do_not_work_go_first() -> None:
    """From the oldest set on; only then those that do work, as far as enough stay available."""
    old = [Generation("b", 4, available=4, created="2"), Generation("a", 3, available=1, created="1")]
    # Of 3 + 7 pods 8 must stay available, or become so: room for the two that do not work, and for no other.
    assert shrunk(rolling(8, 2, 0), Generation("new", 3, available=3), old) == [Resize("a", 1)]
    # Two of those that work may go as well, the oldest first.
    assert shrunk(rolling(8, 2, 2), Generation("new", 3, available=3), old) == [
        Resize("a", 1),
        Resize("a", 0),
        Resize("b", 3),
    ]


def test_a_broken_new_generation_does_not_eat_up_the_old_one() -> None:
    old = [Generation("old", 8, available=8)]
    assert shrunk(rolling(10, 3, 2), Generation("new", 5, available=0), old) == []
    # One more old pod fails: still nothing, or it would go on until all are gone.
    assert shrunk(rolling(10, 3, 2), Generation("new", 5, available=0), [replace(old[0], available=7)]) == []


def test_going_back_takes_the_broken_ones_away() -> None:
    broken = [Generation("broken", 5, available=0)]
    assert shrunk(rolling(10, 3, 2), Generation("good", 8, available=7), broken) == [Resize("broken", 1)]


@given(
    replicas=st.integers(1, 30),
    surge=st.one_of(st.integers(0, 10), st.integers(0, 100).map("{}%".format)),
    unavailable=st.one_of(st.integers(0, 10), st.integers(0, 100).map("{}%".format)),
    old_sizes=st.lists(st.integers(0, 30), max_size=3),
    chances=st.randoms(use_true_random=False),
)
def test_every_rollout_ends_and_keeps_its_limits(
    replicas: int, surge: int | str, unavailable: int | str, old_sizes: list[int], chances: object
) -> None:
    """Pods become available in any order, and the rest is decided over and over."""
    assert hasattr(chances, "randint")
    rollout = rolling(replicas, surge, unavailable)
    total = sum(old_sizes)
    new = Generation("new", 0, created="9")
    old = [Generation(f"o{index}", size, size, str(index)) for index, size in enumerate(old_sizes)]
    for _ in range(20 * (replicas + total + 1)):
        if new.replicas == replicas == new.available and not any(each.replicas for each in old):
            return
        before = new.available + sum(each.available for each in old)
        size = grown(rollout, new, [new, *old])
        asked = size + sum(each.replicas for each in old)
        assert asked <= max(rollout.max_total, new.replicas + sum(each.replicas for each in old))
        new = replace(new, replicas=size)
        for resize in shrunk(rollout, new, old):
            assert resize.replicas >= 0
            # Those that are not available are the first to go.
            old = [
                replace(each, replicas=resize.replicas, available=min(each.available, resize.replicas))
                if each.name == resize.name
                else each
                for each in old
            ]
        after = new.available + sum(each.available for each in old)
        assert after >= min(before, rollout.min_available)
        new = replace(new, available=min(new.replicas, new.available + chances.randint(1, 3)))
    pytest.fail("the rollout does not end")


SHARES = [
    # In the middle of a rollout of 10 with a surge of 3: 8 old and 5 new ones. 5 more are shared out 3 to 2.
    (rolling(15, 3, 2), {"old": (8, 13), "new": (5, 13)}, {"old": 11, "new": 7}),
    (rolling(5, 3, 2), {"old": (8, 13), "new": (5, 13)}, {"old": 5, "new": 3}),
    (rolling(0, 3, 2), {"old": (8, 13), "new": (5, 13)}, {"old": 0, "new": 0}),
    # Nothing to add: no set changes.
    (rolling(10, 3, 2), {"old": (8, 13), "new": (5, 13)}, {"old": 8, "new": 5}),
    # Equal sizes: what rounding leaves is the newer one's when growing, and taken from the older one when shrinking.
    (rolling(7, 0, 1), {"old": (3, 6), "new": (3, 6)}, {"old": 3, "new": 4}),
    (rolling(5, 0, 1), {"old": (3, 6), "new": (3, 6)}, {"old": 2, "new": 3}),
    # A set that does not know the former total takes the pods there are.
    (rolling(20, 0, 1), {"old": (5, None), "new": (5, None)}, {"old": 10, "new": 10}),
    # A set without pods gets none.
    (rolling(15, 3, 2), {"old": (13, 13), "new": (0, 13)}, {"old": 18}),
]


@pytest.mark.parametrize(("rollout", "sets", "expected"), SHARES)
def test_a_scaling_is_shared_out(
    rollout: Rollout, sets: dict[str, tuple[int, int | None]], expected: dict[str, int]
) -> None:
    created = {"old": "1", "new": "2"}
    every = [Generation(name, size, created=created[name], max_replicas=most) for name, (size, most) in sets.items()]
    assert {each.name: each.replicas for each in shared_out(rollout, every, 10)} == expected


@given(
    replicas=st.integers(0, 50),
    surge=st.integers(0, 10),
    sizes=st.lists(st.tuples(st.integers(1, 40), st.one_of(st.none(), st.integers(0, 20))), min_size=2, max_size=5),
)
def test_what_is_shared_out_is_all_there_is(replicas: int, surge: int, sizes: list[tuple[int, int | None]]) -> None:
    """Shrinking may stop short of it: what rounding left is taken from the largest, which cannot give more than all."""
    rollout = rolling(replicas, surge, 1)
    before = sum(size for size, _ in sizes)
    every = [
        Generation(str(index), size, max_replicas=None if more is None else before + more)
        for index, (size, more) in enumerate(sizes)
    ]
    shared = shared_out(rollout, every, before)
    assert all(each.replicas >= 0 for each in shared)
    after = sum(each.replicas for each in shared)
    allowed = rollout.max_total if replicas else 0
    assert after == allowed if allowed >= before else allowed <= after <= before


def test_pods_that_a_set_is_about_to_lose_are_not_given_up_twice() -> None:
    """It was told to have 3 and still shows 4: with 2 new ones available only 2 more may go, not 3."""
    rollout = rolling(4, 1, 1)
    resizes = shrunk(rollout, Generation("new", 2, 2), [Generation("old", 3, 4)])
    assert resizes == [Resize("old", 1)]
