"""Thresholds from what a node went through: how fast it used up what it had, and how long evictions took.

A threshold must keep free what is used up from the last look that saw nothing until a pod has ended: the steepest fall
on record, for as long as noticing, deciding and ending take at worst. A pod that did not need the time before SIGKILL
says nothing about the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jettison.engine.foresight.trends import LEAST_SAMPLES, LEAST_SPAN_NS, Fall, Series, steepest_fall
from jettison.engine.node.evictions import RUNTIME_MINIMUM
from jettison.engine.node.signals import Signal
from jettison.engine.node.survival import FLOOR
from jettison.engine.numbers.durations import SECOND_NS
from jettison.values import frozen

TICK_NS = 10 * SECOND_NS
"""Between two looks of a kubelet."""

LEAST_END_NS = RUNTIME_MINIMUM * SECOND_NS
"""What a pod may take in any case: so long a runtime waits before SIGKILL."""

_MI = 2**20
_BYTES = (
    Signal.MEMORY_AVAILABLE,
    Signal.NODEFS_AVAILABLE,
    Signal.IMAGEFS_AVAILABLE,
    Signal.CONTAINERFS_AVAILABLE,
)
# An operator cannot set these: they follow from others.
_DERIVED = (
    Signal.ALLOCATABLE_MEMORY_AVAILABLE,
    Signal.CONTAINERFS_AVAILABLE,
    Signal.CONTAINERFS_INODES_FREE,
)


@frozen
class Reaction:
    """How long it takes from the moment of need until a pod has ended, at worst; and what of that was measured."""

    noticed_ns: int
    told_ns: int
    ended_ns: int
    # Evictions on record.
    evictions: int

    @property
    def total_ns(self) -> int:
        """All of it."""
        return self.noticed_ns + self.told_ns + self.ended_ns


def reaction_of(told_ns: Sequence[int], ended_ns: Sequence[int], *, has_alarms: bool) -> Reaction:
    """From what is on record. With alarms the first length holds from the alarm on; without, a tick goes before."""
    return Reaction(
        0 if has_alarms else TICK_NS, max(told_ns, default=0), max(LEAST_END_NS, *ended_ns, 0), len(ended_ns)
    )


@frozen
class Recommendation:
    """One signal."""

    signal: Signal
    capacity: int
    fall: Fall | None
    samples: int
    span_ns: int
    # None where nothing fell: then there is nothing to go by.
    amount: int | None


def recommend(past: Mapping[Signal, Series], reaction: Reaction) -> list[Recommendation]:
    """Every signal that can be set and has enough readings."""
    found = []
    for signal in Signal:
        series = past.get(signal)
        if signal in _DERIVED or series is None or len(series.samples) < LEAST_SAMPLES:
            continue
        span_ns = series.samples[-1][0] - series.samples[0][0]
        if span_ns < LEAST_SPAN_NS:
            continue
        fall = steepest_fall(series.samples)
        amount = None if fall is None else _amount(signal, fall, reaction, series.capacity)
        found.append(Recommendation(signal, series.capacity, fall, len(series.samples), span_ns, amount))
    return found


def _amount(signal: Signal, fall: Fall, reaction: Reaction, capacity: int) -> int:
    """Rounded up to whole Mi for bytes; memory keeps what counts as gone on top. Never all that there is."""
    amount = -(-fall.per_second * reaction.total_ns // SECOND_NS)
    if signal is Signal.MEMORY_AVAILABLE:
        amount += FLOOR
    if signal in _BYTES:
        amount = -(-amount // _MI) * _MI
    return max(min(amount, capacity // 2), 1)
