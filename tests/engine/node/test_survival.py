"""Whether a node survives a grace period, as a table."""

from __future__ import annotations

import pytest

from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.survival import Trend, Trends, fatal, follow
from tests.builders import GI, MI

MEMORY, PODS = Signal.MEMORY_AVAILABLE, Signal.ALLOCATABLE_MEMORY_AVAILABLE
SECOND = 10**9


def trends(*looks: tuple[float, int], signal: Signal = MEMORY) -> Trends:
    """After looks at these seconds, with so many MiB available."""
    found: Trends = {}
    for at_s, available in looks:
        found = follow(found, {signal: Reading(available * MI, GI, round(at_s * SECOND))})
    return found


@pytest.mark.parametrize(
    ("available", "fall", "left_s", "is_fatal"),
    [
        # 150 MiB a second and two seconds to go: it would last for half a second, and less.
        (98, 150, 2.0, False),
        (90, 150, 2.0, True),
        (38, 150, 1.6, True),
        # There is enough for what is left of its time.
        (38, 150, 0.2, False),
        (500, 150, 2.0, False),
        # The end is far: it keeps its time for now.
        (200, 10, 30.0, False),
        (20, 10, 30.0, True),
        # Little is left, but it hardly falls, or not at all.
        (10, 1, 2.0, False),
        (10, 0, 30.0, False),
        (0, 1, 2.0, True),
        (-5, 1, 2.0, True),
        # Its time is up: the kill is under way anyway.
        (10, 150, 0.0, False),
    ],
)
def test_which_fall_a_node_does_not_survive(available: int, fall: int, left_s: float, is_fatal: bool) -> None:
    trend = Trend(MEMORY, Reading(available * MI, GI, 0), fall * MI)
    assert fatal({MEMORY: trend}, round(left_s * SECOND)) == (trend if is_fatal else None)


def test_a_fall_is_measured_between_two_looks() -> None:
    assert trends((0, 100))[MEMORY].fall_per_second == 0
    assert trends((0, 100), (0.1, 85))[MEMORY].fall_per_second == 150 * MI
    assert trends((0, 100), (0.1, 115))[MEMORY].fall_per_second == 0


def test_half_of_an_earlier_fall_is_still_believed() -> None:
    assert trends((0, 100), (0.1, 85), (0.2, 85))[MEMORY].fall_per_second == 75 * MI


def test_looks_that_are_too_close_are_one_look() -> None:
    """Pages are charged in batches: half a MiB within half a millisecond is no gigabyte a second."""
    found = trends((0, 100), (0.1, 99), (0.1005, 98))
    assert found == trends((0, 100), (0.1, 99))
    assert trends((0, 100), (0.1, 99), (0.1005, 98), (0.2, 98))[MEMORY].fall_per_second == 10 * MI


def test_the_pods_own_limit_counts_as_the_nodes_memory_does() -> None:
    """There the OOM killer strikes as well."""
    assert fatal(trends((0, 100), (0.1, 50), signal=PODS), SECOND) is not None
    assert trends((0, 100), signal=Signal.NODEFS_AVAILABLE) == {}


def test_a_reading_without_a_time_says_nothing_about_a_fall() -> None:
    found = follow({}, {MEMORY: Reading(100 * MI, GI, None)})
    assert follow(found, {MEMORY: Reading(MI, GI, None)})[MEMORY].fall_per_second == 0
