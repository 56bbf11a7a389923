"""Second chances: later each time, and none under pressure."""

from __future__ import annotations

import pytest

from jettison.agent.pods.readmission import (
    DELAY,
    FIRST_DELAY_NS,
    FORGIVEN_NS,
    LIVES,
    LONGEST_DELAY_NS,
    Life,
    Readmission,
    prospect_text,
)
from jettison.engine.pods.pod import Pod
from jettison.runtimes.protocol import PodStatus

SECOND = 10**9


def test_no_pod_comes_back_under_pressure() -> None:
    """The delay may be over; while something is short the pod waits."""
    chances = Readmission()
    chances.evicted("default/a", 0)
    assert chances.due(3600 * SECOND, is_under_pressure=True) == []
    assert chances.due(3600 * SECOND, is_under_pressure=False) == ["default/a"]


def test_each_eviction_doubles_the_delay() -> None:
    """10 s, 20 s, 40 s … up to five minutes: a leak cannot cause a storm."""
    chances, now, delays = Readmission(), 0, []
    for _ in range(8):
        chances.evicted("default/a", now)
        delay = next(
            seconds for seconds in range(1, 1000) if chances.due(now + seconds * SECOND, is_under_pressure=False)
        )
        delays.append(delay)
        now += (delay + 1) * SECOND
    assert delays == [10, 20, 40, 80, 160, 300, 300, 300]
    assert delays[-1] * SECOND == LONGEST_DELAY_NS
    assert chances.lives == {"default/a": Life(8, LONGEST_DELAY_NS)}


def test_good_behaviour_is_forgiven() -> None:
    """A pod that ran for ten minutes starts over with the first delay."""
    chances = Readmission()
    chances.evicted("default/a", 0)
    chances.due(10 * SECOND, is_under_pressure=False)
    evicted_again = 10 * SECOND + FORGIVEN_NS
    chances.evicted("default/a", evicted_again)
    assert chances.due(evicted_again + 9 * SECOND, is_under_pressure=False) == []
    assert chances.due(evicted_again + 10 * SECOND, is_under_pressure=False) == ["default/a"]


@pytest.mark.parametrize(
    ("annotations", "life"),
    [
        ({}, Life()),
        ({LIVES: "3", DELAY: "40"}, Life(3, 40 * SECOND)),
        ({LIVES: "3"}, Life(3, FIRST_DELAY_NS)),
        ({LIVES: "3", DELAY: "0"}, Life(3, 0)),
        ({LIVES: "3", DELAY: "999999999"}, Life(3, LONGEST_DELAY_NS)),
        ({LIVES: "-3"}, Life()),
        ({LIVES: "3", DELAY: "٣"}, Life()),
        ({LIVES: "9" * 30}, Life()),
        (None, Life()),
    ],
)
def test_a_life_is_read_from_a_document(annotations: dict[str, str] | None, life: Life) -> None:
    """Whatever is written there; and what a manifest says of itself is not passed on."""
    assert Life.of({"metadata": {"annotations": annotations}}) == life
    assert Life().mark({"x": "y", **(annotations or {})}) == {"x": "y"}


def test_of_two_records_the_later_life_counts() -> None:
    chances = Readmission()
    for number in (0, 2, 1):
        chances.recall("default/a", Life(number), 0)
    assert chances.lives == {"default/a": Life(2)}


def test_an_evicted_pod_is_counted_once() -> None:
    """The pod stays Failed for all to see, so it is reported at every look; the delay does not start over."""
    chances = Readmission()
    chances.evicted("default/a", 0)
    chances.evicted("default/a", 9 * SECOND)
    assert chances.due(10 * SECOND, is_under_pressure=False) == ["default/a"]


def test_a_pod_that_never_ran_waits_for_nothing_but_the_pressure() -> None:
    """However often it is turned away; and its first real eviction has the first delay."""
    chances = Readmission()
    for now in range(5):
        chances.evicted("default/a", now * SECOND, has_run=False)
        assert chances.due(now * SECOND, is_under_pressure=True) == []
        assert chances.due(now * SECOND, is_under_pressure=False) == ["default/a"]
    chances.evicted("default/a", 10 * SECOND)
    assert chances.due(19 * SECOND, is_under_pressure=False) == []
    assert chances.due(20 * SECOND, is_under_pressure=False) == ["default/a"]


REJECTED = "Pod was rejected: The node had condition: [{}]. "
FOR_GOOD = (
    "does not come back by itself: `jettison restart` or a changed manifest brings it back, "
    "and so does an agent with --readmit"
)


@pytest.mark.parametrize(
    ("status", "plain", "readmitting"),
    [
        (("Running", "", "", 1), "", ""),
        (("Failed", "", "", 1), "", ""),
        (("Failed", "DeadlineExceeded", "", 1), "", ""),
        (
            ("Failed", "Evicted", REJECTED.format("MemoryPressure"), None),
            "never ran, and comes back when MemoryPressure ends",
            "never ran, and comes back when MemoryPressure ends",
        ),
        (
            ("Failed", "Evicted", REJECTED.format("DiskPressure PIDPressure"), None),
            "never ran, and comes back when DiskPressure and PIDPressure end",
            "never ran, and comes back when DiskPressure and PIDPressure end",
        ),
        (
            ("Failed", "Evicted", "The node was low on resource: memory. ", 1),
            FOR_GOOD,
            "comes back 10 s after it went, or when the pressure is over if that is later",
        ),
        (
            ("Failed", "OutOfmemory", "", None),
            FOR_GOOD,
            "comes back 10 s after it went, or when the pressure is over if that is later",
        ),
    ],
)
def test_a_prospect_in_words(status: tuple[str, str, str, int | None], plain: str, readmitting: str) -> None:
    phase, reason, message, started_ns = status
    found = PodStatus(Pod("a"), phase, reason, message, started_ns=started_ns)
    assert prospect_text(found, readmits=False) == plain
    assert prospect_text(found, readmits=True) == readmitting


def test_a_prospect_knows_how_long_the_delay_will_be() -> None:
    document = {"metadata": {"annotations": {LIVES: "2", DELAY: "20"}}}
    found = PodStatus(Pod("a"), "Failed", "Evicted", started_ns=1, document=document)
    assert prospect_text(found, readmits=True).startswith("comes back 40 s after")
    assert prospect_text(found, readmits=True, lasted_ns=FORGIVEN_NS).startswith("comes back 10 s after")
