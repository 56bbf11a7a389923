"""How much something uses over time: lines that bend now and then.

A curve is asked for the piece that begins at a moment of its own time: where it starts, how fast it rises, and how long
that holds. Amounts are bytes, inodes or processes; rates are the same a second; times are nanoseconds since the start
of the container. Exact sums need no rounding: an amount is counted in 10⁻⁹, which is what a rate gains in a nanosecond.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from jettison.values import frozen

SECOND_NS = 10**9
NANO = 10**9


class Stretch(NamedTuple):
    """A straight line: an amount in 10⁻⁹ at its beginning, a rate a second, and its length; None: it never bends."""

    nanos: int
    rate: int = 0
    length_ns: int | None = None


class Curve(Protocol):
    """What a container uses as it grows older."""

    def piece(self, age_ns: int) -> Stretch:
        """From this age on."""


@frozen
class Constant:
    """Always the same."""

    amount: int

    def piece(self, age_ns: int) -> Stretch:  # noqa: ARG002  it never changes
        """All of it."""
        return Stretch(self.amount * NANO)


@frozen
class Ramp:
    """From one amount to another within a time, and then that."""

    start: int
    end: int
    over_ns: int

    def piece(self, age_ns: int) -> Stretch:
        """The slope, or what comes after it."""
        if age_ns >= self.over_ns:
            return Stretch(self.end * NANO)
        rate = _rate(self.end - self.start, self.over_ns)
        return Stretch(self.start * NANO + rate * age_ns, rate, self.over_ns - age_ns)


@frozen
class Leak:
    """So much more a second, without end or up to a most."""

    start: int
    rate: int
    most: int | None = None

    def piece(self, age_ns: int) -> Stretch:
        """The slope, or the most."""
        nanos = self.start * NANO + self.rate * age_ns
        if self.most is None:
            return Stretch(nanos, self.rate)
        left = self.most * NANO - nanos
        if left <= 0 or self.rate <= 0:
            return Stretch(self.most * NANO if left <= 0 else nanos)
        return Stretch(nanos, self.rate, -(-left // self.rate))


@frozen
class Sawtooth:
    """From low to high within a period, and back at once; again and again."""

    low: int
    high: int
    period_ns: int
    # By how much of a period it begins later: not all pods of a kind collect garbage at one moment.
    shift_ns: int = 0

    def piece(self, age_ns: int) -> Stretch:
        """The rest of this tooth."""
        within = (age_ns + self.shift_ns) % self.period_ns
        rate = _rate(self.high - self.low, self.period_ns)
        return Stretch(self.low * NANO + rate * within, rate, self.period_ns - within)


@frozen
class Burst:
    """A base, and at each interval a peak for some time."""

    base: int
    peak: int
    every_ns: int
    for_ns: int
    # When the first one comes.
    shift_ns: int = 0

    def piece(self, age_ns: int) -> Stretch:
        """The rest of this peak, or of the calm before the next."""
        if age_ns < self.shift_ns:
            return Stretch(self.base * NANO, 0, self.shift_ns - age_ns)
        within = (age_ns - self.shift_ns) % self.every_ns
        if within < self.for_ns:
            return Stretch(self.peak * NANO, 0, self.for_ns - within)
        return Stretch(self.base * NANO, 0, self.every_ns - within)


@frozen
class Points:
    """What was measured: lines between points, and the last amount from then on."""

    ages_ns: Sequence[int]
    amounts: Sequence[int]

    def piece(self, age_ns: int) -> Stretch:
        """From here to the next point."""
        index = bisect_right(self.ages_ns, age_ns)
        if index == 0:
            return Stretch(self.amounts[0] * NANO, 0, self.ages_ns[0] - age_ns)
        if index == len(self.ages_ns):
            return Stretch(self.amounts[-1] * NANO)
        begin_ns, end_ns = self.ages_ns[index - 1], self.ages_ns[index]
        rate = _rate(self.amounts[index] - self.amounts[index - 1], end_ns - begin_ns)
        return Stretch(self.amounts[index - 1] * NANO + rate * (age_ns - begin_ns), rate, end_ns - age_ns)


@frozen
class Scaled:
    """Another curve, larger or smaller by some millionths."""

    curve: Curve
    millionths: int

    def piece(self, age_ns: int) -> Stretch:
        """Of the other, scaled."""
        nanos, rate, length_ns = self.curve.piece(age_ns)
        return Stretch(nanos * self.millionths // 10**6, rate * self.millionths // 10**6, length_ns)


def _rate(amount: int, over_ns: int) -> int:
    """A whole number a second; what that loses is made good where the line bends."""
    return amount * SECOND_NS // over_ns
