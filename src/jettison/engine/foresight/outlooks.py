"""What comes next: for each signal its headroom, its trend, the time to its thresholds, and the pods that would go."""

from __future__ import annotations

from collections.abc import Mapping

from jettison.engine.foresight.cases import Case, amount_of
from jettison.engine.foresight.trends import Series, Slope, TimeLeft, slope_of, time_left
from jettison.engine.node.ranking import Candidate, rank
from jettison.engine.node.signals import Signal, readings
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.thresholds import Threshold
from jettison.engine.numbers.quantity import NANO
from jettison.values import frozen


@frozen
class ThresholdOutlook:
    """One threshold: what is left above it, and when that may be gone."""

    threshold: Threshold
    amount: int
    # Negative where it is crossed.
    headroom: int
    # None where there is too little data for a trend.
    time_left: TimeLeft | None


@frozen
class Successor:
    """A pod in its turn, and what its end gives back; None without statistics."""

    candidate: Candidate
    frees: int | None


@frozen
class SignalOutlook:
    """One signal."""

    signal: Signal
    reading: Reading
    slope: Slope | None
    thresholds: tuple[ThresholdOutlook, ...]
    # First, second, third; critical pods are not among them.
    going: tuple[Successor, ...]
    # How many would have to go, were the first threshold just crossed, until it is resolved; None: all are not enough.
    needed: int | None


def outlooks(case: Case, past: Mapping[Signal, Series], most: int = 3) -> list[SignalOutlook]:
    """Every signal that was measured and has a threshold."""
    found = readings(case.snapshot.node)
    guards = [each for each in case.policy.layouts[case.snapshot.layout].all if not each.is_inert]
    return [
        _outlook(
            case, signal, found[signal], [each for each in guards if each.signal is signal], past.get(signal), most
        )
        for signal in Signal
        if signal in found and any(each.signal is signal for each in guards)
    ]


def _outlook(
    case: Case, signal: Signal, reading: Reading, guards: list[Threshold], series: Series | None, most: int
) -> SignalOutlook:
    slope = None if series is None or series.capacity != reading.capacity else slope_of(series.samples)
    thresholds = []
    for guard in guards:
        amount = -(-guard.quantity(reading.capacity).nanos // NANO)
        headroom = reading.available - amount
        left = None if slope is None and headroom > 0 else _left(headroom, slope)
        thresholds.append(ThresholdOutlook(guard, amount, headroom, left))
    snapshot = case.snapshot
    inodes = case.policy.switches.rank_inodes_by_inodes
    ranking = rank(signal, snapshot.pods, snapshot.usages, snapshot.layout, inodes_by_inodes=inodes)
    order = [each for each in ranking if not each.pod.is_critical and each.pod.uid not in case.going]
    frees = [amount_of(each.pod, snapshot.usages.get(each.pod.uid), signal, snapshot) for each in order]
    first = max(guards, key=lambda each: each.quantity(reading.capacity).nanos)
    successors = tuple(Successor(each, free) for each, free in zip(order[:most], frees, strict=False))
    return SignalOutlook(signal, reading, slope, tuple(thresholds), successors, _needed(first, reading, frees))


def _left(headroom: int, slope: Slope | None) -> TimeLeft:
    return TimeLeft(0, 0, 0) if slope is None else time_left(headroom, slope)


def _needed(guard: Threshold, reading: Reading, frees: list[int | None]) -> int | None:
    """From just below the threshold, or from where it is if that is lower."""
    available = min(reading.available, -(-guard.quantity(reading.capacity).nanos // NANO) - 1)
    for count, free in enumerate(frees, 1):
        available += free or 0
        if not guard.is_unresolved(Reading(available, reading.capacity, None)):
            return count
    return None
