"""From readings to pressure: which thresholds are crossed, met and starved, which conditions hold (spec §5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jettison.engine.node.history import History
from jettison.engine.node.signals import ROWS, TABLE, Condition, Resource, Signal
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.thresholds import Threshold

Readings = Mapping[Signal, Reading]

_POSITION = {row.signal: position for position, row in enumerate(TABLE)}


@dataclass(frozen=True, slots=True)
class Pressure:
    """The state after one reading of all signals."""

    first_observed: Mapping[Threshold, int]
    met: tuple[Threshold, ...]
    condition_observed: Mapping[Condition, int]
    conditions: frozenset[Condition]
    # Met, and by readings newer than last time: what a step acts on. Unordered.
    starved: tuple[Threshold, ...]


def assess(
    thresholds: Sequence[Threshold], history: History, readings: Readings, now_ns: int, transition_ns: int
) -> Pressure:
    """One pass of steps 8 to 15. Conditions follow what is crossed, at once; evictions wait for the grace period."""
    crossed = _crossed(thresholds, readings)
    crossed += [
        each for each in _unresolved(history.met, readings) if not any(each.is_same(other) for other in crossed)
    ]
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
    return [each for each in thresholds if each.signal in readings and each.is_crossed(readings[each.signal])]


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
