from __future__ import annotations

import pytest

from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import MemoryStats
from jettison.runtimes.machine.outlook import CLOSE, Growth, MemoryPair, look_ahead, poll_pause, watched
from tests.builders import GI, MI, threshold

HARD = threshold(Signal.MEMORY_AVAILABLE, "100Mi")
SOFT = threshold(Signal.MEMORY_AVAILABLE, "500Mi", grace_s=30)
ALLOCATABLE = threshold(Signal.ALLOCATABLE_MEMORY_AVAILABLE, "100Mi")
DISK = threshold(Signal.NODEFS_AVAILABLE, "10%")

SECOND = 10**9


def memory(capacity: int, usage: int, inactive: int) -> MemoryStats:
    return MemoryStats(1, capacity - (usage - inactive), usage, usage - inactive)


def test_only_memory_has_an_outlook() -> None:
    assert watched([HARD, DISK, ALLOCATABLE]) == (HARD, ALLOCATABLE)


def test_the_crossing_comes_at_todays_usage_plus_the_headroom_in_both_cgroups() -> None:
    # 8 GiB, 3 GiB used of which 1 GiB is inactive: 6 GiB available, 6 GiB - 100 MiB until the threshold.
    found = look_ahead([HARD], MemoryPair(memory(8 * GI, 3 * GI, GI), memory(8 * GI, 2 * GI, GI)))
    headroom = 6 * GI - 100 * MI
    assert found.headroom == headroom
    assert found.node_levels == {3 * GI + headroom}
    assert found.pods_levels == {2 * GI + headroom, 2 * GI + headroom - CLOSE}
    assert found.crossed == frozenset()


def test_close_to_a_crossing_there_is_only_the_line_left_to_watch() -> None:
    node = memory(8 * GI, 8 * GI - 100 * MI - CLOSE, 0)
    found = look_ahead([HARD], MemoryPair(node, node))
    assert found.is_close
    assert found.pods_levels == found.node_levels == {8 * GI - 100 * MI}
    before = memory(8 * GI, 8 * GI - 100 * MI - CLOSE - 1, 0)
    assert not look_ahead([HARD], MemoryPair(before, before)).is_close


def test_the_level_on_the_node_is_the_kubelets() -> None:
    # Worked example 58 of the spec: usage 7 GiB, working set 5 GiB, available 3 GiB, threshold 500 MiB.
    found = look_ahead([SOFT], MemoryPair(memory(8 * GI, 7 * GI, 2 * GI), None))
    assert found.node_levels == {10213130240}
    assert found.pods_levels == frozenset()


def test_page_cache_can_keep_usage_from_ever_showing_the_crossing() -> None:
    full_of_cache = memory(8 * GI, 7 * GI, 2 * GI)
    assert not look_ahead([SOFT], MemoryPair(full_of_cache, None)).is_reachable
    assert look_ahead([SOFT], MemoryPair(memory(8 * GI, 5 * GI, 0), None)).is_reachable


def test_what_is_crossed_has_no_level() -> None:
    node = memory(8 * GI, 8 * GI - 300 * MI, 0)
    found = look_ahead([HARD, SOFT], MemoryPair(node, node))
    assert found.crossed == {SOFT}
    assert found.headroom == 200 * MI
    assert len(found.node_levels) == 1


def test_to_have_exactly_the_amount_is_not_crossed() -> None:
    found = look_ahead([HARD], MemoryPair(memory(GI, GI - 100 * MI, 0), None))
    assert (found.crossed, found.headroom) == (frozenset(), 0)
    assert look_ahead([HARD], MemoryPair(memory(GI, GI - 100 * MI + 1, 0), None)).crossed == {HARD}


def test_the_pods_limit_is_watched_on_the_pods_alone() -> None:
    found = look_ahead([ALLOCATABLE], MemoryPair(memory(8 * GI, GI, 0), memory(2 * GI, GI, 0)))
    assert found.node_levels == frozenset()
    assert found.pods_levels == {2 * GI - 100 * MI, 2 * GI - 100 * MI - CLOSE}
    assert found.headroom == GI - 100 * MI


def test_without_numbers_there_is_nothing_to_look_ahead_to() -> None:
    found = look_ahead([HARD, ALLOCATABLE], MemoryPair(None, MemoryStats(1, None, GI, GI)))
    assert (found.crossed, found.headroom, found.node_levels | found.pods_levels) == (frozenset(), None, frozenset())


@pytest.mark.parametrize(
    ("headroom", "growth", "expected"),
    [
        (100 * GI, 0.0, 10.0),
        (5 * GI, 0.0, 5.0),
        (GI // 10, 0.0, 0.1),
        (MI, 0.0, 0.02),
        (0, 0.0, 0.02),
        (8 * GI, 2.0 * GI, 2.0),
        (100 * GI, 4.0 * GI, 10.0),
    ],
)
def test_the_pause_shrinks_with_the_headroom_and_with_growth(headroom: int, growth: float, expected: float) -> None:
    assert poll_pause(headroom, growth, GI, 0.02) == pytest.approx(expected, rel=0.01)


def test_the_rate_is_that_of_the_last_look_or_half_of_the_one_before() -> None:
    growth = Growth()
    growth.note(100, 0)
    assert growth.rate == 0
    growth.note(60, 2 * SECOND)
    assert growth.rate == 20
    growth.note(70, 3 * SECOND)
    assert growth.rate == 10
    growth.note(None, 4 * SECOND)
    growth.note(0, 5 * SECOND)
    assert growth.rate == 10
    growth.note(0, 5 * SECOND)
    assert growth.rate == 10
