"""What time it is, and how long ago something was, when the clock was set meanwhile."""

from __future__ import annotations

import time

import pytest

from jettison.clock import Instant, SystemClock, to_next_beat

HOUR = 3600 * 10**9


def test_the_steady_clock_does_not_follow_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, real = SystemClock(), time.time_ns
    before = clock.steady_ns()
    assert abs(before - clock.now_ns()) < HOUR
    monkeypatch.setattr(time, "time_ns", lambda: real() + 24 * HOUR)
    assert 0 <= clock.steady_ns() - before < HOUR
    assert clock.now_ns() - before > 23 * HOUR
    assert SystemClock().steady_ns() - clock.steady_ns() < HOUR


@pytest.mark.parametrize(
    ("wall_ns", "is_same_boot", "age_ns"),
    [
        (10 * HOUR, True, HOUR),
        (12 * HOUR, True, 0),
        (1 * HOUR, True, 2 * HOUR),
        (10 * HOUR, False, 2 * HOUR),
        (12 * HOUR, False, 2 * HOUR),
        (1 * HOUR, False, 10 * HOUR),
    ],
)
def test_no_age_is_believed_that_cannot_be(wall_ns: int, is_same_boot: bool, age_ns: int) -> None:
    """It is 11 o'clock, and the machine was booted two hours ago."""
    assert Instant(11 * HOUR, 2 * HOUR).age_ns(wall_ns, is_same_boot=is_same_boot) == age_ns


def test_those_with_one_period_wake_together() -> None:
    """Whenever each of them began to wait."""
    assert [now + to_next_beat(now, 0.5) for now in (7.0, 7.125, 7.375, 7.5)] == [7.5, 7.5, 7.5, 8.0]
