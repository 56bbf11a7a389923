"""What was asked is not asked again for a while, and is forgotten after that."""

from __future__ import annotations

from jettison.controllers.garbage.owner_bonds import MOST_ANSWERS, RecentAnswers
from tests.controllers.staging import StandingClock


def test_an_answer_is_good_for_its_time_only() -> None:
    """Counted from when it was given: looking it up makes it no younger."""
    clock = StandingClock()
    answers: RecentAnswers[str, int] = RecentAnswers(clock, 10.0)
    assert answers.get("q") is None
    answers.note("q", 1)
    clock.forward(9.5)
    assert answers.get("q") == 1
    clock.forward(0.5)
    assert answers.get("q") is None
    answers.note("q", 2)
    assert answers.get("q") == 2


def test_the_latest_answer_counts() -> None:
    clock = StandingClock()
    answers: RecentAnswers[str, int] = RecentAnswers(clock, 10.0)
    answers.note("q", 1)
    clock.forward(6)
    answers.note("q", 2)
    clock.forward(6)
    assert answers.get("q") == 2


def test_there_are_never_more_than_so_many() -> None:
    """The oldest make room."""
    clock = StandingClock()
    answers: RecentAnswers[int, int] = RecentAnswers(clock, 10.0)
    for number in range(3 * MOST_ANSWERS):
        answers.note(number, number)
    assert len(answers._answers) == MOST_ANSWERS
    assert answers.get(2 * MOST_ANSWERS - 1) is None
    assert answers.get(2 * MOST_ANSWERS) == 2 * MOST_ANSWERS
    clock.forward(10)
    answers.note(-1, 1)
    assert len(answers._answers) == 1
