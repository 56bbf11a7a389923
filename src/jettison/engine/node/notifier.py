"""The kernel's memory alarm: at which usage of a cgroup a threshold would be crossed (spec §4)."""

from __future__ import annotations

from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import MemoryStats
from jettison.engine.node.thresholds import Threshold

REARM_NS = 10 * 10**9
"""An alarm is set anew once strictly more than this has passed: what is inactive changes all the time."""


def is_watched(threshold: Threshold) -> bool:
    """Only memory has an alarm."""
    return threshold.signal in (Signal.MEMORY_AVAILABLE, Signal.ALLOCATABLE_MEMORY_AVAILABLE)


def memory_alarm_usage(threshold: Threshold, memory: MemoryStats | None) -> int | None:
    """Capacity minus the threshold plus what is inactive; None when a number is missing.

    The kernel counts usage, inactive page cache included; eviction counts the working set, without it.
    """
    if memory is None or memory.usage is None or memory.working_set is None or memory.available is None:
        return None
    capacity = memory.available + memory.working_set
    return capacity - threshold.quantity(capacity).value + memory.usage - memory.working_set
