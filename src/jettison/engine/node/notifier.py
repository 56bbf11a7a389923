"""The kernel's memory alarm: at which usage of a cgroup a threshold would be crossed (spec §4)."""

from __future__ import annotations

from dataclasses import dataclass

from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import MemoryStats, NodeStats
from jettison.engine.node.thresholds import Threshold

REARM_NS = 10 * 10**9
"""An alarm is set anew once strictly more than this has passed: what is inactive changes all the time."""

INCOMPLETE = "summary was incomplete"


@dataclass(frozen=True, slots=True)
class MemoryAlarm:
    """Where to set the alarm, or why it cannot be set."""

    description: str
    usage: int | None = None
    error: str | None = None


def is_watched(threshold: Threshold) -> bool:
    """Only memory has an alarm."""
    return threshold.signal in (Signal.MEMORY_AVAILABLE, Signal.ALLOCATABLE_MEMORY_AVAILABLE)


def memory_alarm(threshold: Threshold, node: NodeStats) -> MemoryAlarm:
    """The kernel counts usage, inactive page cache included; eviction counts the working set, without it."""
    is_allocatable = threshold.signal is Signal.ALLOCATABLE_MEMORY_AVAILABLE
    kind = "hard" if threshold.is_hard else "soft"
    description = f"{kind} {'allocatable ' if is_allocatable else ''}memory eviction threshold"
    if is_allocatable and not node.has_pods_container:
        return MemoryAlarm(description, error='system container "pods" not found in metrics')
    usage = memory_alarm_usage(threshold, node.pods_memory if is_allocatable else node.memory)
    return MemoryAlarm(description, usage, INCOMPLETE if usage is None else None)


def memory_alarm_usage(threshold: Threshold, memory: MemoryStats | None) -> int | None:
    """Capacity minus the threshold plus what is inactive; None when a number is missing."""
    if memory is None or memory.usage is None or memory.working_set is None or memory.available is None:
        return None
    capacity = memory.available + memory.working_set
    return capacity - threshold.quantity(capacity).value + memory.usage - memory.working_set
