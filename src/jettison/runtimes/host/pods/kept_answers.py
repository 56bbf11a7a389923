"""An answer that is given again as long as it would be the same.

Statuses are asked for every second and change a few times a day; to make them anew for 110 pods takes 3 ms each time,
which is most of what an idle agent may use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Generic, TypeVar

T = TypeVar("T")


class KeptAnswer(Generic[T]):
    """Made from parts that are replaced and never changed, so that the same objects mean the same answer."""

    __slots__ = ("_answer", "_parts")

    def __init__(self) -> None:
        self._parts: Sequence[object] | None = None
        self._answer: T | None = None

    def get(self, parts: Sequence[object], make: Callable[[], T]) -> T:
        """The answer to these parts."""
        kept = self._parts
        if self._answer is None or kept is None or len(kept) != len(parts) or not all(map(is_, kept, parts)):
            self._parts, self._answer = parts, make()
        return self._answer
