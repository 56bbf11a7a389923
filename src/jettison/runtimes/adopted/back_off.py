"""Not to stop the same workload again and again, and not to empty a machine by mistake.

A container whose engine restarts it comes back a second after it was stopped, and would be the first to go again. So
each stop spares it for a while, twice as long every time, until it has been left alone for an hour. Nothing is stopped
in its place meanwhile: others would go one after the other for what they did not do. And there is a breaker: after so
many stops within a minute nothing more is stopped, whatever the thresholds say, and an alert is all that is left;
something is wrong then that no eviction mends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

SECOND_NS = 10**9
FIRST_NS = 10 * SECOND_NS
LONGEST_NS = 300 * SECOND_NS
FORGET_NS = 3600 * SECOND_NS
WINDOW_NS = 60 * SECOND_NS
MOST_A_MINUTE = 10
"""Where the operator says nothing else."""


@dataclass(slots=True)
class _Stops:
    count: int
    last_ns: int

    @property
    def spared_ns(self) -> int:
        return min(FIRST_NS << min(self.count - 1, 10), LONGEST_NS)


@dataclass(slots=True)
class StopBackOff:
    """Times are on the monotonic clock. A workload is known by its name, because a restarted one may have a new id."""

    most_a_minute: int = MOST_A_MINUTE
    _by_name: dict[str, _Stops] = field(default_factory=dict)
    _recent: deque[int] = field(default_factory=deque)

    def stopped(self, name: str, now_ns: int) -> None:
        """One was stopped."""
        stops = self._by_name.get(name)
        if stops is None or now_ns - stops.last_ns >= FORGET_NS:
            self._by_name[name] = _Stops(1, now_ns)
        else:
            stops.count, stops.last_ns = stops.count + 1, now_ns
        self._recent.append(now_ns)
        for each in [each for each, known in self._by_name.items() if now_ns - known.last_ns >= FORGET_NS]:
            del self._by_name[each]

    def spared_for_ns(self, name: str, now_ns: int) -> int:
        """How much longer it may not be stopped; 0 when it may."""
        stops = self._by_name.get(name)
        return 0 if stops is None else max(stops.last_ns + stops.spared_ns - now_ns, 0)

    def is_open(self, now_ns: int) -> bool:
        """Whether the breaker holds back every further stop."""
        while self._recent and now_ns - self._recent[0] >= WINDOW_NS:
            self._recent.popleft()
        return len(self._recent) >= self.most_a_minute
