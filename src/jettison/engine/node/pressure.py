"""From readings to pressure, and what of it is remembered between steps.

Which thresholds are crossed, met and starved, which conditions hold (spec §5). The `History` holds the grace clocks,
the conditions and the last readings, and nothing else.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from jettison.engine.node.signals import ROWS, TABLE, Condition, Resource, Signal
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.thresholds import Threshold
from jettison.values import frozen

if TYPE_CHECKING:
    from jettison.engine.node.decide import Reclaim

Readings = Mapping[Signal, Reading]

_POSITION = {row.signal: position for position, row in enumerate(TABLE)}


@frozen
class History:
    """Empty at start."""

    # The thresholds derived from the disk layout count from the second step on (spec §2.7), also if the first failed.
    knows_layout: bool = False
    # Since when each threshold is crossed without a break.
    first_observed: Mapping[Threshold, int] = field(default_factory=dict)
    # Crossed for their grace period at the last step; they stay until minimum reclaim is reached.
    met: tuple[Threshold, ...] = ()
    # Never shrinks: a condition is reported until its age reaches the transition period.
    condition_observed: Mapping[Condition, int] = field(default_factory=dict)
    conditions: frozenset[Condition] = frozenset()
    readings: Mapping[Signal, Reading] = field(default_factory=dict)
    # A reclaim was ordered and not yet judged; the next snapshot does that and begins no new step.
    reclaiming: Reclaim | None = None

    def about(self, thresholds: Container[Threshold]) -> History:
        """Without what is remembered of thresholds that are no more: other amounts, or another disk layout.

        A condition that they caused is reported until its transition period is over, as if they were resolved.
        """
        first_observed = {each: since for each, since in self.first_observed.items() if each in thresholds}
        met = tuple(each for each in self.met if each in thresholds)
        return replace(self, first_observed=first_observed, met=met, reclaiming=None)

    def unobserved(self) -> History:
        """After a look that failed: conditions keep their last value, and only the first step is over."""
        return self if self.knows_layout else replace(self, knows_layout=True)

    def shifted(self, by_ns: int) -> History:
        """The same by a clock that shows so much more. What is decided by it stays the same, too."""
        if not by_ns:
            return self
        return replace(
            self,
            first_observed={each: since + by_ns for each, since in self.first_observed.items()},
            condition_observed={each: seen + by_ns for each, seen in self.condition_observed.items()},
            readings={
                signal: reading if reading.time_ns is None else reading._replace(time_ns=reading.time_ns + by_ns)
                for signal, reading in self.readings.items()
            },
        )


@frozen
class Pressure:
    """The state after one reading of all signals."""

    first_observed: Mapping[Threshold, int]
    met: tuple[Threshold, ...]
    condition_observed: Mapping[Condition, int]
    conditions: frozenset[Condition]
    # Met, and by readings newer than last time: what a step acts on. Unordered.
    starved: tuple[Threshold, ...]


_CALM = Pressure({}, (), {}, frozenset(), ())


def assess(
    thresholds: Sequence[Threshold], history: History, readings: Readings, now_ns: int, transition_ns: int
) -> Pressure:
    """One pass of steps 8 to 15. Conditions follow what is crossed, at once; evictions wait for the grace period."""
    crossed = _crossed(thresholds, readings)
    if history.met:
        unresolved = _unresolved(history.met, readings)
        crossed += [each for each in unresolved if not any(each.is_same(other) for other in crossed)]
    if not crossed and not history.condition_observed:
        # Most looks of most nodes.
        return _CALM
    first_observed = {each: history.first_observed.get(each, now_ns) for each in crossed}
    condition_observed = {
        **history.condition_observed,
        **{ROWS[each.signal].condition: now_ns for each in crossed},
    }
    met = tuple(each for each, since in first_observed.items() if now_ns - since >= each.grace_ns)
    return Pressure(
        first_observed,
        met,
        condition_observed,
        frozenset(each for each, seen in condition_observed.items() if now_ns - seen < transition_ns),
        tuple(each for each in met if _is_fresh(each.signal, history.readings, readings)),
    )


def _crossed(thresholds: Iterable[Threshold], readings: Readings) -> list[Threshold]:
    found = []
    for each in thresholds:
        if not each.is_inert:
            reading = readings.get(each.signal)
            if reading is not None and each.is_crossed(reading):
                found.append(each)
    return found


def _unresolved(thresholds: Iterable[Threshold], readings: Readings) -> list[Threshold]:
    return [each for each in thresholds if each.signal in readings and each.is_unresolved(readings[each.signal])]


def _is_fresh(signal: Signal, before: Readings, now: Readings) -> bool:
    """The same measurement must not evict twice. A reading without a time counts as new every time."""
    if signal not in now:
        return False
    last, current = before.get(signal), now[signal]
    return last is None or current.time_ns is None or last.time_ns is None or current.time_ns > last.time_ns


def in_order(starved: Iterable[Threshold], *, hard_before_soft: bool) -> list[Threshold]:
    """Which starved threshold is served first.

    Memory goes before everything else. Upstream leaves the rest to a hash map; we put hard before soft, then the order
    of the signal table, which is always one of upstream's possible orders. With `hard_before_soft` a hard threshold of
    any resource goes before a soft one of memory, which upstream never does.
    """

    def rank(threshold: Threshold) -> tuple[bool, bool, int]:
        is_other = ROWS[threshold.signal].resource is not Resource.MEMORY
        is_soft = not threshold.is_hard
        first, second = (is_soft, is_other) if hard_before_soft else (is_other, is_soft)
        return first, second, _POSITION[threshold.signal]

    return sorted(starved, key=rank)


def still_starved(thresholds: Iterable[Threshold], readings: Readings) -> list[Threshold]:
    """After a reclaim: those not relieved beyond their minimum reclaim, soft ones included whatever their grace."""
    return _unresolved(thresholds, readings)
