"""Answers of the server that need not be asked for again for a while. Forgotten with time, and when there are many."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from jettison.clock import Clock

MOST_ANSWERS: Final = 4096
"""Of one kind of question, some 300 bytes each: whoever names a million owners must not fill the memory with them."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentAnswers(Generic[K, V]):
    """By question. An answer counts from when it was given, however often it is looked up."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._life_ns = int(seconds * 10**9)
        # The oldest first, for all live equally long.
        self._answers: dict[K, tuple[int, V]] = {}

    def get(self, question: K) -> V | None:
        """What was answered; None where that is too long ago or was never asked."""
        given_ns, answer = self._answers.get(question, (None, None))
        return answer if given_ns is not None and self._is_fresh(given_ns) else None

    def note(self, question: K, answer: V) -> None:
        """In the place of what was answered before."""
        self._answers.pop(question, None)
        self._answers[question] = self._clock.monotonic_ns(), answer
        while len(self._answers) > MOST_ANSWERS or not self._is_fresh(next(iter(self._answers.values()))[0]):
            del self._answers[next(iter(self._answers))]

    def _is_fresh(self, given_ns: int) -> bool:
        return self._clock.monotonic_ns() - given_ns < self._life_ns
