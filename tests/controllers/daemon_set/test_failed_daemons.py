"""How long a failed daemon pod must stay."""

from __future__ import annotations

from jettison.controllers.daemon_set.failed_daemons import FIRST_NS, LONGEST_NS, FailedDaemons
from tests.controllers.staging import ForwardClock

SECOND_NS = 10**9
NODE = ("uid", 1, "node")


def _left(failed: FailedDaemons, key: tuple[str, int, str] = NODE) -> float:
    """In seconds, to the tenth: the machine's clock goes on."""
    return round(failed.left_ns(key) / SECOND_NS, 1)


def test_each_failure_waits_twice_as_long() -> None:
    clock = ForwardClock()
    failed = FailedDaemons(clock)
    assert failed.left_ns(NODE) == 0
    for seconds in (1, 2, 4, 8):
        failed.note(NODE)
        assert _left(failed) == seconds
        clock.forward(seconds)
        assert failed.left_ns(NODE) == 0
    assert FIRST_NS == SECOND_NS


def test_another_node_and_a_changed_set_have_waits_of_their_own() -> None:
    failed = FailedDaemons(ForwardClock())
    failed.note(NODE)
    assert failed.left_ns(("uid", 1, "other")) == 0
    assert failed.left_ns(("uid", 2, "node")) == 0


def test_it_ends_somewhere_and_is_forgotten() -> None:
    clock = ForwardClock()
    failed = FailedDaemons(clock)
    for _ in range(20):
        failed.note(NODE)
    assert _left(failed) == LONGEST_NS / SECOND_NS
    clock.forward(2 * LONGEST_NS / SECOND_NS + 1)
    failed.note(NODE)
    assert _left(failed) == 1
