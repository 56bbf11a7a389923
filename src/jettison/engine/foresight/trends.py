"""Where readings are going: a slope with its uncertainty, the time to a threshold as a range, and the steepest falls.

The slope is Theil and Sen's: the median of the slopes between all pairs of samples. A burst or a single wrong reading
does not move it. Its range is the one that holds 90 % of such slopes where samples err independently; readings of a
node do not quite, so it is a hint and no promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from jettison.values import frozen

Sample = tuple[int, int]
"""A time in nanoseconds, and what was available then."""

LEAST_SAMPLES = 6
LEAST_SPAN_NS = 20 * 10**9
"""With fewer samples, or closer ones, there is no trend."""

_MOST_SAMPLES = 240
# Of a normal distribution: 90 % lie within so many standard deviations.
_DEVIATIONS = 1.645
# Nothing is foretold beyond this.
_FAR_NS = 365 * 24 * 3600 * 10**9


@frozen
class Series:
    """One signal over time, oldest first."""

    capacity: int
    samples: Sequence[Sample]

    def since(self, time_ns: int) -> Series:
        """The part from a moment on."""
        return Series(self.capacity, [each for each in self.samples if each[0] >= time_ns])

    def until(self, time_ns: int) -> Series:
        """The part up to a moment."""
        return Series(self.capacity, [each for each in self.samples if each[0] <= time_ns])


@frozen
class Slope:
    """Units a second; `low` and `high` are what it may be as well. Negative: less is available every second."""

    per_second: float
    low: float
    high: float
    samples: int
    span_ns: int


def slope_of(samples: Sequence[Sample]) -> Slope | None:
    """None where there is too little to tell."""
    span_ns = samples[-1][0] - samples[0][0] if samples else 0
    if len(samples) < LEAST_SAMPLES or span_ns < LEAST_SPAN_NS:
        return None
    chosen = _spread(samples)
    slopes = sorted(
        (later[1] - earlier[1]) * 1e9 / (later[0] - earlier[0])
        for place, earlier in enumerate(chosen)
        for later in chosen[place + 1 :]
        if later[0] > earlier[0]
    )
    if not slopes:
        return None
    count = len(chosen)
    # Kendall's variance of the number of pairs that are in order.
    width = _DEVIATIONS * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    last = len(slopes) - 1
    low = slopes[max(math.floor((last - width) / 2), 0)]
    high = slopes[min(math.ceil((last + width) / 2), last)]
    middle = slopes[last // 2] if len(slopes) % 2 else (slopes[last // 2] + slopes[last // 2 + 1]) / 2
    return Slope(middle, low, high, len(samples), span_ns)


def _spread(samples: Sequence[Sample]) -> Sequence[Sample]:
    """At most so many, evenly, with the first and the last: pairs grow with the square."""
    if len(samples) <= _MOST_SAMPLES:
        return samples
    step = (len(samples) - 1) / (_MOST_SAMPLES - 1)
    return [samples[round(place * step)] for place in range(_MOST_SAMPLES)]


@frozen
class TimeLeft:
    """Until a threshold is crossed, in nanoseconds. None: not at this rate, or not within a year."""

    soonest_ns: int | None
    likely_ns: int | None
    latest_ns: int | None


def time_left(headroom: int, slope: Slope) -> TimeLeft:
    """0 where it is crossed."""
    return TimeLeft(*(_reached_ns(headroom, rate) for rate in (slope.low, slope.per_second, slope.high)))


def _reached_ns(headroom: int, rate: float) -> int | None:
    if headroom <= 0:
        return 0
    if rate >= 0:
        return None
    length = headroom / -rate * 1e9
    return round(length) if length <= _FAR_NS else None


@frozen
class Fall:
    """How much less was available at a later look."""

    amount: int
    passed_ns: int
    at_ns: int

    @property
    def per_second(self) -> int:
        """Rounded up."""
        return -(-self.amount * 10**9 // self.passed_ns)


def falls(samples: Sequence[Sample]) -> list[Fall]:
    """Between two looks in a row, wherever less was available at the later one."""
    return [
        Fall(earlier[1] - later[1], later[0] - earlier[0], later[0])
        for earlier, later in pairwise(samples)
        if earlier[1] > later[1] and later[0] > earlier[0]
    ]


def steepest_fall(samples: Sequence[Sample]) -> Fall | None:
    """By its rate; None where nothing fell."""
    return max(falls(samples), key=lambda fall: fall.amount / fall.passed_ns, default=None)


def largest_fall(samples: Sequence[Sample]) -> Fall | None:
    """By its amount; None where nothing fell."""
    return max(falls(samples), key=lambda fall: fall.amount, default=None)
