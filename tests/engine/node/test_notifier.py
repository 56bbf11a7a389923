"""Where the kernel's memory alarm is set (spec §4, §16 example 58)."""

from __future__ import annotations

import pytest

from jettison.engine.node.notifier import REARM_NS, is_watched, memory_alarm_usage
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import MemoryStats
from jettison.engine.node.thresholds import Threshold
from tests.builders import GI, MI, SECOND_NS, threshold

MEMORY, ALLOCATABLE = Signal.MEMORY_AVAILABLE, Signal.ALLOCATABLE_MEMORY_AVAILABLE
NUMBERS = {"available": 3 * GI, "usage": 7 * GI, "working_set": 5 * GI}
FULL = MemoryStats(**NUMBERS)


@pytest.mark.parametrize(
    ("found", "usage"),
    [
        (threshold(MEMORY, "500Mi"), 10213130240),
        (threshold(MEMORY, "500Mi", grace_s=5), 10213130240),
        (threshold(MEMORY, "500Mi", reclaim="1Gi"), 10213130240),
        (threshold(MEMORY, "50%"), 6 * GI),
    ],
)
def test_capacity_minus_threshold_plus_what_is_inactive(found: Threshold, usage: int) -> None:
    """The kernel counts page cache that eviction does not; 8Gi minus 500Mi plus 2Gi. Minimum reclaim plays no part."""
    assert memory_alarm_usage(found, FULL) == usage


def test_less_usage_than_working_set_lowers_the_alarm() -> None:
    """Inactive memory may come out negative when the two were read at different moments."""
    assert memory_alarm_usage(threshold(MEMORY, "1Gi"), MemoryStats(None, 3 * GI, 4 * GI, 5 * GI)) == 6 * GI


@pytest.mark.parametrize("missing", ["available", "usage", "working_set"])
def test_every_number_is_needed(missing: str) -> None:
    """Without one of them there is no alarm."""
    stats = MemoryStats(**{name: number for name, number in NUMBERS.items() if name != missing})
    assert memory_alarm_usage(threshold(MEMORY, "1Gi"), stats) is None
    assert memory_alarm_usage(threshold(MEMORY, "1Gi"), None) is None


def test_alarms_are_set_anew_every_ten_seconds() -> None:
    """What is inactive changes all the time."""
    assert REARM_NS == 10 * SECOND_NS


def test_only_memory_has_an_alarm() -> None:
    """Disks and processes are polled."""
    assert {signal for signal in Signal if is_watched(threshold(signal, "1Gi"))} == {MEMORY, ALLOCATABLE}


def test_a_negative_alarm_is_possible() -> None:
    """A threshold beyond the capacity: the kernel is asked for what it is asked for."""
    usage = memory_alarm_usage(threshold(MEMORY, "11Gi"), FULL)
    assert usage == 8 * GI - 11 * GI + 2 * GI == -1024 * MI
