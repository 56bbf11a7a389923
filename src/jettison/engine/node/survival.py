"""Whether a node survives a grace period: what memory is left, how fast it falls, and how long a pod may still take.

A kubelet that has told a pod to end waits, whatever happens meanwhile. A pod that does not hear SIGTERM and goes on
taking 150 MiB a second then meets the kernel's OOM killer, which may choose any other process of the node. With the
switch `cut_grace_short` the agent looks again during the grace period, and kills when waiting on would be the end.
"""

from __future__ import annotations

from collections.abc import Mapping

from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Reading
from jettison.values import frozen

Readings = Mapping[Signal, Reading]

HORIZON_NS = 500 * 10**6
"""A pod keeps its grace period until memory would be gone in so little time: five looks, of which a busy machine may
miss some."""

FLOOR = 16 * 2**20
"""Bytes that count as gone: charges are made in batches, and to kill a process takes some milliseconds, too."""

# Between two looks that are closer than this a batch of pages would pass for a rate.
_SHORTEST_NS = 50 * 10**6

_MEMORY = (Signal.MEMORY_AVAILABLE, Signal.ALLOCATABLE_MEMORY_AVAILABLE)


@frozen
class Trend:
    """One signal's last reading, and by how many bytes a second it has been falling."""

    signal: Signal
    reading: Reading
    fall_per_second: int = 0


Trends = Mapping[Signal, Trend]


def follow(before: Trends, readings: Readings) -> Trends:
    """The trends after another look. Half of an earlier fall is still believed: pods take memory in bursts."""
    return {signal: _next(before.get(signal), signal, readings[signal]) for signal in _MEMORY if signal in readings}


def _next(before: Trend | None, signal: Signal, reading: Reading) -> Trend:
    if before is None or before.reading.time_ns is None or reading.time_ns is None:
        return Trend(signal, reading)
    passed_ns = reading.time_ns - before.reading.time_ns
    if 0 <= passed_ns < _SHORTEST_NS:
        return before
    fall = (before.reading.available - reading.available) * 10**9 // max(passed_ns, 1)
    return Trend(signal, reading, max(fall, before.fall_per_second // 2, 0))


def fatal(trends: Trends, left_ns: int) -> Trend | None:
    """The trend that the node would not survive if a pod took all the time that it has left; None when it would.

    Such a pod may go on until memory is all but gone: the rest of its time is worth something as long as there is any.
    """
    for trend in trends.values():
        available, fall = trend.reading.available, trend.fall_per_second
        is_fatal = available * 10**9 < fall * left_ns
        is_close = (available - FLOOR) * 10**9 < fall * min(left_ns, HORIZON_NS)
        if is_fatal and is_close:
            return trend
    return None
