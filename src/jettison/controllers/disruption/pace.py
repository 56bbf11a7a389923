"""Keeps work that is asked for without end to a share of the time, so that others have theirs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from jettison.clock import Clock

REST: Final = 10
"""How many times as long as the work took the same key is left alone afterwards."""

REST_OF_ALL: Final = 3
"""And how many times as long all keys together are, so that many of them leave three quarters of the time."""

SHORTEST_REST_NS: Final = 100 * 10**6
LONGEST_REST_NS: Final = 10**9
"""Work takes longer where there is much else to do; whoever waits for it should not notice."""

BURST_NS: Final = 500 * 10**6
"""So much rest may be owed before anybody waits: a budget is right at once while pods come up one after another."""

K = TypeVar("K", bound=Hashable)


class Pace(Generic[K]):
    """When each key was worked on, and for how long. A key that was left alone for a second waits for nobody."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ended_ns: dict[K, int] = {}
        self._rested_ns: dict[K, int] = {}
        self._all_rested_ns = 0

    def wait_seconds(self, key: K) -> float:
        """How long to leave it alone; 0 or less: not at all."""
        rested_ns = min(max(self._rested_ns.get(key, 0), self._all_rested_ns) - BURST_NS, self._latest_ns(key))
        return (rested_ns - self._clock.monotonic_ns()) / 1e9

    def forget(self, key: K) -> None:
        """It is no more."""
        self._ended_ns.pop(key, None)
        self._rested_ns.pop(key, None)

    @contextmanager
    def working(self, key: K) -> Iterator[None]:
        """Around the work."""
        began_ns = self._clock.monotonic_ns()
        try:
            yield
        finally:
            ended_ns = self._clock.monotonic_ns()
            spent_ns = ended_ns - began_ns
            self._ended_ns[key] = ended_ns
            owed_ns = max(REST * spent_ns, SHORTEST_REST_NS)
            self._rested_ns[key] = max(self._rested_ns.get(key, 0), ended_ns) + owed_ns
            self._all_rested_ns = max(self._all_rested_ns, ended_ns) + REST_OF_ALL * spent_ns

    def _latest_ns(self, key: K) -> int:
        ended_ns = self._ended_ns.get(key)
        return 0 if ended_ns is None else ended_ns + LONGEST_REST_NS
