"""How fast something is used up, and how soon to look again."""

from __future__ import annotations

LONGEST_PAUSE = 10.0


class Growth:
    """Of one quantity, from its headroom at each look. Half of an earlier rate is still believed: growth is bursts."""

    __slots__ = ("_last", "rate")

    def __init__(self) -> None:
        self.rate = 0.0
        # Headroom and time.
        self._last: tuple[int, int] | None = None

    def note(self, headroom: int | None, now_ns: int) -> None:
        """What is left now; None: nothing is to be crossed."""
        if headroom is None:
            self._last = None
            return
        if self._last is not None and now_ns > self._last[1]:
            rate = (self._last[0] - headroom) * 10**9 / (now_ns - self._last[1])
            self.rate = max(rate, self.rate / 2, 0.0)
        self._last = (headroom, now_ns)


def poll_pause(headroom: int, growth: float, feared: float, shortest: float) -> float:
    """Seconds until the next look: half the time in which it would be used up at the rate seen, or all of that at the
    rate feared, because it may begin at any moment.
    """
    return min(max(headroom / max(2 * growth, feared), shortest), LONGEST_PAUSE)
