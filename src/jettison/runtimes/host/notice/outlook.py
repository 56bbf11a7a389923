"""How far the node is from its next memory threshold, and at which usage a cgroup would show the crossing.

The kernel's alarms watch *usage*; thresholds are about the working set, which is usage without the inactive page cache
(spec §4). As long as memory is free the two grow alike, so the crossing comes at today's usage plus today's headroom:
in the cgroup measured, and just as well in the pods' cgroup, whose counter is exact where that of the root is late.
Once memory is full the kernel drops cache for every new page: usage stands still, the working set goes on growing, and
no usage alarm would ever ring. Such an outlook is not *reachable*, and memory has to be polled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jettison.engine.node.notifier import is_watched, memory_alarm_usage
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import MemoryStats, Reading
from jettison.engine.node.thresholds import Threshold

CLOSE = 4 * 2**20
"""Before a crossing, in bytes: 20 ms at 200 MiB/s, enough for a look at everything."""

# Charges are made in batches of 64 pages for each core, so close to its limit a cgroup stops short of it.
_MARGIN = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class MemoryPair:
    """The node's memory and that of all pods together; None where it could not be measured."""

    node: MemoryStats | None
    pods: MemoryStats | None


@dataclass(frozen=True, slots=True)
class Outlook:
    """`headroom` is how much the working set may grow until the next crossing; None when there is nothing to cross."""

    crossed: frozenset[Threshold]
    headroom: int | None
    # Usages at which to look: of the node's cgroup and of the pods'.
    node_levels: frozenset[int]
    pods_levels: frozenset[int]
    is_reachable: bool

    @property
    def is_close(self) -> bool:
        """Whether the next crossing may come at any moment."""
        return self.headroom is not None and self.headroom <= CLOSE


def watched(thresholds: Iterable[Threshold]) -> tuple[Threshold, ...]:
    """Those that are about memory."""
    return tuple(threshold for threshold in thresholds if is_watched(threshold))


def look_ahead(thresholds: Iterable[Threshold], memory: MemoryPair) -> Outlook:
    """What the numbers say about each watched threshold; one without numbers is left out."""
    crossed = set[Threshold]()
    headrooms, node_levels, pods_levels = list[int](), set[int](), set[int]()
    is_reachable = True
    for threshold in thresholds:
        is_allocatable = threshold.signal is Signal.ALLOCATABLE_MEMORY_AVAILABLE
        stats = memory.pods if is_allocatable else memory.node
        level = memory_alarm_usage(threshold, stats)
        if level is None or stats is None or stats.usage is None or stats.available is None:
            continue
        capacity = stats.available + (stats.working_set or 0)
        if threshold.is_crossed(Reading(stats.available, capacity, None)):
            crossed.add(threshold)
            continue
        headroom = max(level - stats.usage, 0)
        headrooms.append(headroom)
        is_reachable &= level <= capacity - _MARGIN
        if not is_allocatable:
            node_levels.add(level)
        if memory.pods is not None and memory.pods.usage is not None:
            line = memory.pods.usage + headroom
            pods_levels |= {line, line - CLOSE} if headroom > CLOSE else {line}
    headroom_to_next = min(headrooms, default=None)
    return Outlook(frozenset(crossed), headroom_to_next, frozenset(node_levels), frozenset(pods_levels), is_reachable)
