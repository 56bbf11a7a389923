"""Where the kernel's memory alarm is set (spec §4, §16 example 58)."""

from __future__ import annotations

import pytest

from jettison.engine.node.notifier import INCOMPLETE, REARM_NS, MemoryAlarm, is_watched, memory_alarm
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import MemoryStats, NodeStats
from jettison.engine.node.thresholds import Threshold
from tests.builders import GI, MI, SECOND_NS, threshold

MEMORY, ALLOCATABLE = Signal.MEMORY_AVAILABLE, Signal.ALLOCATABLE_MEMORY_AVAILABLE
NUMBERS = {"available": 3 * GI, "usage": 7 * GI, "working_set": 5 * GI}
FULL = MemoryStats(**NUMBERS)
NODE = NodeStats(memory=FULL, pods_memory=MemoryStats(None, GI, 2 * GI, 2 * GI), has_pods_container=True)


@pytest.mark.parametrize(
    ("found", "usage", "description"),
    [
        (threshold(MEMORY, "500Mi"), 10213130240, "hard memory eviction threshold"),
        (threshold(MEMORY, "500Mi", grace_s=5), 10213130240, "soft memory eviction threshold"),
        (threshold(MEMORY, "500Mi", reclaim="1Gi"), 10213130240, "hard memory eviction threshold"),
        (threshold(ALLOCATABLE, "50%"), 3 * GI // 2, "hard allocatable memory eviction threshold"),
        (threshold(ALLOCATABLE, "1Gi", grace_s=5), 2 * GI, "soft allocatable memory eviction threshold"),
    ],
)
def test_capacity_minus_threshold_plus_what_is_inactive(found: Threshold, usage: int, description: str) -> None:
    """The kernel counts page cache that eviction does not; 8Gi minus 500Mi plus 2Gi. Minimum reclaim plays no part."""
    assert memory_alarm(found, NODE) == MemoryAlarm(description, usage)


def test_less_usage_than_working_set_lowers_the_alarm() -> None:
    """Inactive memory may come out negative when the two were read at different moments."""
    node = NodeStats(memory=MemoryStats(None, 3 * GI, 4 * GI, 5 * GI))
    assert memory_alarm(threshold(MEMORY, "1Gi"), node).usage == 6 * GI


@pytest.mark.parametrize("missing", ["available", "usage", "working_set"])
def test_every_number_is_needed(missing: str) -> None:
    """Without one of them there is no alarm, and a reason."""
    node = NodeStats(memory=MemoryStats(**{name: number for name, number in NUMBERS.items() if name != missing}))
    alarm = memory_alarm(threshold(MEMORY, "1Gi"), node)
    assert (alarm.usage, alarm.error) == (None, INCOMPLETE)
    assert memory_alarm(threshold(MEMORY, "1Gi"), NodeStats()).error == INCOMPLETE


def test_a_summary_without_the_pods_container() -> None:
    """An error of its own; a container without numbers is merely incomplete."""
    absent = memory_alarm(threshold(ALLOCATABLE, "1Gi"), NodeStats(memory=FULL))
    assert absent.error == 'system container "pods" not found in metrics'
    empty = memory_alarm(threshold(ALLOCATABLE, "1Gi"), NodeStats(has_pods_container=True))
    assert empty.error == INCOMPLETE


def test_alarms_are_set_anew_every_ten_seconds() -> None:
    """What is inactive changes all the time."""
    assert REARM_NS == 10 * SECOND_NS


def test_only_memory_has_an_alarm() -> None:
    """Disks and processes are polled."""
    assert {signal for signal in Signal if is_watched(threshold(signal, "1Gi"))} == {MEMORY, ALLOCATABLE}


def test_a_negative_alarm_is_possible() -> None:
    """A threshold beyond the capacity: the kernel is asked for what it is asked for."""
    usage = memory_alarm(threshold(MEMORY, "11Gi"), NODE).usage
    assert usage == 8 * GI - 11 * GI + 2 * GI == -1024 * MI
