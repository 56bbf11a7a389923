"""Slopes with their uncertainty, and the time to a threshold as a range."""

from __future__ import annotations

from random import Random

import pytest

from jettison.engine.foresight.trends import (
    LEAST_SAMPLES,
    Fall,
    Slope,
    TimeLeft,
    falls,
    largest_fall,
    slope_of,
    steepest_fall,
    time_left,
)
from tests.builders import MI, SECOND_NS


def samples(rate: float, count: int = 60, every_s: int = 10, noise: int = 0) -> list[tuple[int, int]]:
    """Readings that change by `rate` bytes a second from 8 GiB on."""
    chance = Random(7)
    return [
        (place * every_s * SECOND_NS, 2**33 + round(rate * place * every_s) + chance.randint(-noise, noise))
        for place in range(count)
    ]


@pytest.mark.parametrize("rate", [-2 * MI, 0, 3 * MI])
def test_a_line_has_its_slope_and_no_uncertainty(rate: int) -> None:
    found = slope_of(samples(rate))
    assert found is not None
    assert (found.per_second, found.low, found.high) == (rate, rate, rate)
    assert (found.samples, found.span_ns) == (60, 590 * SECOND_NS)


def test_noise_widens_the_range_around_the_truth() -> None:
    quiet, loud = slope_of(samples(-2 * MI, noise=10 * MI)), slope_of(samples(-2 * MI, noise=200 * MI))
    assert quiet is not None
    assert loud is not None
    assert quiet.low < -2 * MI < quiet.high
    assert loud.high - loud.low > 3 * (quiet.high - quiet.low)


def test_a_burst_does_not_move_it() -> None:
    """A tenth of the readings is 4 GiB too low."""
    bent = [(at, number - (2**32 if place % 10 == 5 else 0)) for place, (at, number) in enumerate(samples(-MI))]
    found = slope_of(bent)
    assert found is not None
    assert found.per_second == pytest.approx(-MI, rel=0.05)


@pytest.mark.parametrize(
    "few",
    [[], samples(-MI, 1), samples(-MI, LEAST_SAMPLES - 1), samples(-MI, 30, every_s=0), samples(-MI, 15, every_s=1)],
)
def test_too_little_data_is_no_trend(few: list[tuple[int, int]]) -> None:
    assert slope_of(few) is None


def test_many_samples_are_thinned_out() -> None:
    found = slope_of(samples(-MI, 20_000))
    assert found is not None
    assert (found.per_second, found.samples) == (-MI, 20_000)


@pytest.mark.parametrize(
    ("headroom", "rates", "expected"),
    [
        (100, (-20.0, -10.0, -5.0), TimeLeft(5 * SECOND_NS, 10 * SECOND_NS, 20 * SECOND_NS)),
        (100, (-20.0, -10.0, 1.0), TimeLeft(5 * SECOND_NS, 10 * SECOND_NS, None)),
        (100, (-20.0, 0.0, 1.0), TimeLeft(5 * SECOND_NS, None, None)),
        (100, (0.0, 0.0, 1.0), TimeLeft(None, None, None)),
        (0, (5.0, 6.0, 7.0), TimeLeft(0, 0, 0)),
        (-5, (5.0, 6.0, 7.0), TimeLeft(0, 0, 0)),
        # Not within a year.
        (10**18, (-1.0, -1.0, -1.0), TimeLeft(None, None, None)),
    ],
)
def test_the_time_to_a_threshold_is_a_range(
    headroom: int, rates: tuple[float, float, float], expected: TimeLeft
) -> None:
    low, middle, high = rates
    found = time_left(headroom, Slope(middle, low, high, 60, 600))
    assert found == expected


def test_falls_between_two_looks() -> None:
    seen = [(0, 100), (SECOND_NS, 90), (11 * SECOND_NS, 40), (12 * SECOND_NS, 60), (12 * SECOND_NS, 10)]
    assert falls(seen) == [Fall(10, SECOND_NS, SECOND_NS), Fall(50, 10 * SECOND_NS, 11 * SECOND_NS)]
    assert steepest_fall(seen) == Fall(10, SECOND_NS, SECOND_NS)
    assert largest_fall(seen) == Fall(50, 10 * SECOND_NS, 11 * SECOND_NS)
    assert Fall(10, 3 * SECOND_NS, 0).per_second == 4
    assert steepest_fall([]) is None
