from __future__ import annotations

import pytest

from jettison.runtimes.host.notice.growth import Growth, poll_pause
from tests.builders import GI, MI

SECOND = 10**9


@pytest.mark.parametrize(
    ("headroom", "growth", "expected"),
    [
        (100 * GI, 0.0, 10.0),
        (5 * GI, 0.0, 5.0),
        (GI // 10, 0.0, 0.1),
        (MI, 0.0, 0.02),
        (0, 0.0, 0.02),
        (8 * GI, 2.0 * GI, 2.0),
        (100 * GI, 4.0 * GI, 10.0),
    ],
)
def test_the_pause_shrinks_with_the_headroom_and_with_growth(headroom: int, growth: float, expected: float) -> None:
    assert poll_pause(headroom, growth, GI, 0.02) == pytest.approx(expected, rel=0.01)


def test_the_rate_is_that_of_the_last_look_or_half_of_the_one_before() -> None:
    growth = Growth()
    growth.note(100, 0)
    assert growth.rate == 0
    growth.note(60, 2 * SECOND)
    assert growth.rate == 20
    growth.note(70, 3 * SECOND)
    assert growth.rate == 10
    growth.note(None, 4 * SECOND)
    growth.note(0, 5 * SECOND)
    assert growth.rate == 10
    growth.note(0, 5 * SECOND)
    assert growth.rate == 10
