"""Work that is asked for without end gets a share of the time."""

from __future__ import annotations

import pytest

from jettison.clock import SystemClock
from jettison.controllers.disruption.disruption import (
    BURST_NS,
    LONGEST_REST_NS,
    REST,
    REST_OF_ALL,
    SHORTEST_REST_NS,
    Pace,
)

MS = 10**6


class StoppedClock(SystemClock):
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 5 * 10**9

    def monotonic_ns(self) -> int:
        return self.now


class Worker:
    def __init__(self) -> None:
        self.clock = StoppedClock()
        self.pace: Pace[str] = Pace(self.clock)

    def work(self, key: str, duration_ns: int) -> None:
        with self.pace.working(key):
            self.clock.now += duration_ns

    def wait_ms(self, key: str) -> float:
        return self.pace.wait_seconds(key) * 1e3


@pytest.mark.parametrize(
    ("duration_ns", "rest_ns"),
    [(1, SHORTEST_REST_NS), (20 * MS, REST * 20 * MS)],
)
def test_rest_follows_work_that_goes_on(duration_ns: int, rest_ns: int) -> None:
    """A few times in a row no key waits; then every piece of work is followed by its rest."""
    worker = Worker()
    for _ in range(BURST_NS // rest_ns):
        assert worker.wait_ms("a") <= 0
        worker.work("a", duration_ns)
    while worker.wait_ms("a") <= 0:
        worker.work("a", duration_ns)
    for _ in range(3):
        worker.clock.now += round(worker.wait_ms("a") * MS)
        worker.work("a", duration_ns)
        assert worker.wait_ms("a") == pytest.approx((rest_ns - duration_ns) / MS)


def test_nobody_rests_for_longer_than_a_second() -> None:
    worker = Worker()
    worker.work("a", 10**9)
    assert worker.wait_ms("a") == LONGEST_REST_NS / MS


def test_many_keys_share_a_quarter_of_the_time() -> None:
    worker = Worker()
    keys = [str(number) for number in range(100)]
    for key in keys:
        assert worker.wait_ms(key) <= 0, "one that was left alone does not wait"
        worker.work(key, 4 * MS)
    assert worker.wait_ms("0") == 4 + REST_OF_ALL * 400 - 400 - BURST_NS / MS
    worker.clock.now += 10**9
    assert all(worker.wait_ms(key) <= 0 for key in keys)


def test_what_is_no_more_is_forgotten() -> None:
    worker = Worker()
    worker.work("a", 200 * MS)
    assert worker.wait_ms("a") > 0
    worker.pace.forget("a")
    assert worker.wait_ms("a") <= 0
