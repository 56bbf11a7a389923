"""How far the node is from its next threshold, how fast it gets there, and how soon to look again.

The kernel's alarms watch *usage*; thresholds are about the working set, which is usage without the inactive page cache
(spec §4). As long as memory is free the two grow alike, so the crossing comes at today's usage plus today's headroom:
in the cgroup measured, and just as well in the pods' cgroup, whose counter is exact where that of the root is late.
Once memory is full the kernel drops cache for every new page: usage stands still, the working set goes on growing, and
no usage alarm would ever ring. Such an outlook is not *reachable*, and memory has to be polled.
"""

from __future__ import annotations

from collections.abc import Iterable

from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import MemoryStats, Reading
from jettison.engine.node.thresholds import Threshold, is_watched, memory_alarm_usage
from jettison.values import frozen

CLOSE = 4 * 2**20
"""Before a crossing, in bytes: 20 ms at 200 MiB/s, enough for a look at everything."""

# Charges are made in batches of 64 pages for each core, so close to its limit a cgroup stops short of it.
_MARGIN = 2 * 1024 * 1024

LONGEST_PAUSE = 10.0


@frozen
class MemoryPair:
    """The node's memory and that of all pods together; None where it could not be measured."""

    node: MemoryStats | None
    pods: MemoryStats | None


@frozen
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


class Growth:
    """Of one quantity, from its headroom at each look. Half of an earlier rate is still believed: growth is bursts."""

    __slots__ = ("_last", "rate")

    def __init__(self) -> None:
        self.rate = 0.0
        # Headroom and time.
        self._last: tuple[int, int] | None = None

    def note(self, headroom: int | None, now_ns: int) -> None:
        """What is left now; None: nothing is to be crossed."""
        if headroom is None:
            self._last = None
            return
        if self._last is not None and now_ns > self._last[1]:
            rate = (self._last[0] - headroom) * 10**9 / (now_ns - self._last[1])
            self.rate = max(rate, self.rate / 2, 0.0)
        self._last = (headroom, now_ns)


def poll_pause(headroom: int, growth: float, feared: float, shortest: float) -> float:
    """Seconds until the next look: half the time in which it would be used up at the rate seen, or all of that at the
    rate feared, because it may begin at any moment.
    """
    return min(max(headroom / max(2 * growth, feared), shortest), LONGEST_PAUSE)
