"""Predictions against what came."""

from __future__ import annotations

import pytest

from jettison.relief.scoring import Prediction, Score, SeenEnd, score

SECOND = 10**9
HOLDS = 600 * SECOND


def predicted(at: int, uid: str) -> Prediction:
    return Prediction(at * SECOND, uid, f"default/{uid}")


def ended(at: int, uid: str, *, is_relief: bool = False) -> SeenEnd:
    return SeenEnd(at * SECOND, uid, f"default/{uid}", "Evicted", is_relief)


def scored(predictions: list[Prediction], ends: list[SeenEnd], until: int = 100_000) -> Score:
    return score(predictions, ends, until * SECOND, HOLDS)


@pytest.mark.parametrize(
    ("predictions", "ends", "until", "expected"),
    [
        ([predicted(0, "a")], [ended(10, "a")], 9_999, (1, 0, 0, 0, 0)),
        ([], [ended(10, "a")], 9_999, (0, 1, 0, 0, 0)),
        ([predicted(0, "a")], [], 9_999, (0, 0, 1, 0, 0)),
        ([predicted(0, "a")], [], 599, (0, 0, 0, 1, 0)),
        ([predicted(0, "a")], [ended(601, "a")], 9_999, (0, 1, 1, 0, 0)),
        ([predicted(20, "a")], [ended(10, "a")], 9_999, (0, 1, 1, 0, 0)),
        ([predicted(0, "a")], [ended(10, "b")], 9_999, (0, 1, 1, 0, 0)),
        ([predicted(0, "a")], [ended(10, "a", is_relief=True)], 9_999, (0, 0, 0, 0, 1)),
        # One prediction is one hit: a container that is killed twice was predicted once.
        ([predicted(0, "a")], [ended(10, "a"), ended(20, "a")], 9_999, (1, 1, 0, 0, 0)),
        ([predicted(0, "a"), predicted(5_000, "a")], [ended(10, "a"), ended(5_010, "a")], 9_999, (2, 0, 0, 0, 0)),
    ],
)
def test_the_score(
    predictions: list[Prediction], ends: list[SeenEnd], until: int, expected: tuple[int, int, int, int, int]
) -> None:
    found = scored(predictions, ends, until)
    assert expected == tuple(
        len(each) for each in (found.hits, found.misses, found.false_alarms, found.pending, found.relieved)
    )


def test_the_same_pod_at_every_look_is_one_prediction_and_leads_from_the_first() -> None:
    looks = [predicted(at, "a") for at in range(0, 2_000, 10)]
    found = scored(looks, [ended(2_005, "a")])
    assert [hit.lead_ns for hit in found.hits] == [2_005 * SECOND]
    assert (found.false_alarms, found.precision, found.recall, found.median_lead_ns) == ([], 1, 1, 2_005 * SECOND)


def test_nothing_is_no_score() -> None:
    found = scored([], [])
    assert (found.precision, found.recall, found.median_lead_ns) == (None, None, None)
