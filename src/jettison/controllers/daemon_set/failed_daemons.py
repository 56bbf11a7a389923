"""How soon a failed daemon pod may be replaced: a node that rejects its pod would else be given one after the other."""

from __future__ import annotations

from typing import Final, NamedTuple

from jettison.clock import Clock

FIRST_NS: Final = 10**9
LONGEST_NS: Final = 900 * 10**9

Failing = tuple[str, int, str]
"""Uid and observed generation of the set, and the node: a changed set gets a new chance."""


class _Wait(NamedTuple):
    since_ns: int
    length_ns: int


class FailedDaemons:
    """A second after the first failure, twice as long after each further, 15 minutes at most; anew after a restart."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits: dict[Failing, _Wait] = {}

    def left_ns(self, failing: Failing) -> int:
        """How long the failed pod must stay; 0: not any more."""
        wait = self._waits.get(failing)
        return 0 if wait is None else max(wait.since_ns + wait.length_ns - self._clock.monotonic_ns(), 0)

    def note(self, failing: Failing) -> None:
        """It is being replaced: the next failure waits longer. What has been quiet for long is forgotten."""
        now_ns = self._clock.monotonic_ns()
        self._waits = {key: each for key, each in self._waits.items() if now_ns - each.since_ns <= 2 * LONGEST_NS}
        known = self._waits.get(failing)
        length_ns = FIRST_NS if known is None else min(2 * known.length_ns, LONGEST_NS)
        self._waits[failing] = _Wait(now_ns, length_ns)
