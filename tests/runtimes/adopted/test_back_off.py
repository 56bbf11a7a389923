"""The same workload is not stopped again and again, and a machine is not emptied by mistake."""

from __future__ import annotations

from jettison.runtimes.adopted.back_off import FORGET_NS, SECOND_NS, StopBackOff


def test_each_stop_spares_it_twice_as_long_up_to_five_minutes() -> None:
    """A container that its engine restarts at once."""
    back_off, now, spared = StopBackOff(), 0, []
    for _ in range(8):
        back_off.stopped("web", now)
        spared.append(back_off.spared_for_ns("web", now) // SECOND_NS)
        now += back_off.spared_for_ns("web", now)
        assert back_off.spared_for_ns("web", now) == 0
    assert spared == [10, 20, 40, 80, 160, 300, 300, 300]
    assert back_off.spared_for_ns("another", now) == 0


def test_an_hour_without_a_stop_is_forgiven() -> None:
    """Counted from the last stop."""
    back_off = StopBackOff()
    for now in (0, 1, 2):
        back_off.stopped("web", now)
    back_off.stopped("web", FORGET_NS + 2)
    assert back_off.spared_for_ns("web", FORGET_NS + 2) == 10 * SECOND_NS


def test_names_that_never_come_back_are_forgotten() -> None:
    """A machine that runs for years meets millions of names."""
    back_off = StopBackOff(most_a_minute=10**6)
    for number in range(1000):
        back_off.stopped(f"job-{number}", number)
    back_off.stopped("last", FORGET_NS + 1000)
    assert len(back_off._by_name) == 1


def test_the_breaker_opens_for_a_minute() -> None:
    """Whatever the thresholds say."""
    back_off = StopBackOff(most_a_minute=2)
    back_off.stopped("a", 0)
    assert not back_off.is_open(1)
    back_off.stopped("b", 30 * SECOND_NS)
    assert back_off.is_open(31 * SECOND_NS)
    assert back_off.is_open(60 * SECOND_NS - 1)
    assert not back_off.is_open(60 * SECOND_NS)
