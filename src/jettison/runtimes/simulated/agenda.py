"""What happens when, in virtual time: the one place in which it passes.

Things that are due at one moment happen in the order in which they were put down, so a run can be repeated.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final

from jettison.clock import HeldClock, Stamp

EPOCH_NS: Final = 1_767_225_600 * 10**9
"""Virtual time begins on the first of January 2026; a machine was booted a moment before."""

_BOOTED_NS: Final = 10**9

Deed = Callable[[], object]
Entry = list[Any]
"""When, a number, and the deed; None where it was cancelled, and once it is done."""

_MANY: Final = 256


class Agenda:
    """A clock, and what is due."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.clock = HeldClock(stamp(0))
        self._due: list[Entry] = []
        self._cancelled = 0
        self._number = 0

    def at(self, time_ns: int, deed: Deed) -> Entry:
        """Not before now. What is returned can be cancelled."""
        self._number += 1
        entry = [max(self.now_ns, time_ns), self._number, deed]
        heapq.heappush(self._due, entry)
        return entry

    def after(self, delay_ns: int, deed: Deed) -> Entry:
        """From now."""
        return self.at(self.now_ns + delay_ns, deed)

    def cancel(self, entry: Entry | None) -> None:
        """It will not happen; what it holds is let go of at once.

        Its place is given up when most of them are empty: a moment that is a year ahead would never come.
        """
        if entry is None or entry[2] is None:
            return
        entry[2] = None
        self._cancelled += 1
        if self._cancelled > _MANY and 2 * self._cancelled > len(self._due):
            self._due[:] = [each for each in self._due if each[2] is not None]
            heapq.heapify(self._due)
            self._cancelled = 0

    def run_until(self, end_ns: int) -> None:
        """Let everything happen that is due before or at this moment, and stop there."""
        due, pop = self._due, heapq.heappop
        while due and due[0][0] <= end_ns:
            entry = pop(due)
            time_ns, _, deed = entry
            if deed is None:
                self._cancelled -= 1
                continue
            entry[2] = None
            if time_ns != self.now_ns:
                self._move(time_ns)
            deed()
        self._move(max(end_ns, self.now_ns))

    def _move(self, time_ns: int) -> None:
        self.now_ns = time_ns
        wall_ns = EPOCH_NS + time_ns
        self.clock.stamp = Stamp(wall_ns, _BOOTED_NS + time_ns, wall_ns)


def stamp(time_ns: int) -> Stamp:
    """What the clocks of a machine show so long after the beginning; no reading of it is 0, which means unknown."""
    return Stamp(EPOCH_NS + time_ns, _BOOTED_NS + time_ns, EPOCH_NS + time_ns)
