"""Which pod is next? The one with the highest priority, then the one that has waited longest.

A pod that fits nowhere is put aside until something happens that could help it. It then waits its turn, longer after
each failure, but only while other pods want to be tried.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jettison.engine.scheduling.pods import Key

FIRST_BACK_OFF_SECONDS: Final = 1.0
LONGEST_BACK_OFF_SECONDS: Final = 10.0


@dataclass(slots=True)
class _Entry:
    priority: int
    number: int
    failures: int = 0
    # Not before, in the loop's time.
    due: float = 0.0


class SchedulingQueue:
    """Keys of pods. For one event loop; each key that is taken is given back with `done`, `park` or `retry`."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry] = {}
        # Of each heap only those keys count that are in the set beside it: leaving is cheap, and noticed when taken.
        self._active: list[tuple[int, int, Key]] = []
        self._is_active: set[Key] = set()
        self._waiting: list[tuple[float, int, Key]] = []
        self._is_waiting: set[Key] = set()
        self._parked: set[Key] = set()
        # Being tried, and how often something had happened when that began.
        self._taken: dict[Key, int] = {}
        self._again: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self.happenings = 0
        """How often something happened that could help: while it is the same, a failure is the same."""
        self._numbers = itertools.count()
        self._wake = asyncio.Event()

    def add(self, key: Key, priority: int) -> None:
        """A new pod, or one that is another now: it is tried as soon as its turn comes."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(priority, next(self._numbers))
        entry.priority, entry.failures = priority, 0
        if key in self._taken:
            self._again.add(key)
        elif key not in self._is_active:
            self._parked.discard(key)
            self._is_waiting.discard(key)
            self._end_timer(key)
            self._activate(key, entry)

    def remove(self, key: Key) -> None:
        """There is nothing to be done about it any more."""
        self._entries.pop(key, None)
        for names in (self._is_active, self._is_waiting, self._parked, self._again):
            names.discard(key)
        self._end_timer(key)

    def stir(self) -> None:
        """Something happened that could help pods that were put aside."""
        self.happenings += 1
        self._wait(self._parked)
        self._parked = set()

    async def take(self) -> Key:
        """The next key."""
        while True:
            now = asyncio.get_running_loop().time()
            self._end_waiting(until=now)
            key = self._pop_active()
            if key is None:
                # All at once, so that the most important of them is first.
                self._end_waiting(until=math.inf)
                key = self._pop_active()
            if key is not None:
                self._taken[key] = self.happenings
                return key
            self._wake.clear()
            await self._wake.wait()

    def done(self, key: Key) -> None:
        """It has what it needs."""
        if self._finish(key):
            self._entries.pop(key, None)

    def park(self, key: Key) -> None:
        """It cannot be helped; what happened while that was found out may have changed it already."""
        is_stale = self._taken.get(key) != self.happenings
        if not self._finish(key):
            return
        entry = self._entries.get(key)
        if entry is not None:
            self._delay(entry)
            if is_stale:
                self._wait((key,))
            else:
                self._parked.add(key)

    def retry(self, key: Key) -> float:
        """Nothing was found out, because the server did not answer or refused: again after a pause, of so many seconds.

        Whatever happens meanwhile: that its own room became free would wake it at once, in an endless loop.
        """
        seconds = 0.0
        if self._finish(key) and (entry := self._entries.get(key)):
            seconds = self._delay(entry)
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(seconds, self._ring, key)
        return seconds

    def close(self) -> None:
        """No timer rings any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _delay(self, entry: _Entry) -> float:
        # Beyond 20 failures the power is only a large number.
        seconds = min(FIRST_BACK_OFF_SECONDS * 2.0 ** min(entry.failures, 20), LONGEST_BACK_OFF_SECONDS)
        entry.failures += 1
        entry.due = asyncio.get_running_loop().time() + seconds
        return seconds

    def _finish(self, key: Key) -> bool:
        """Whether the result still counts: a pod that has changed meanwhile is tried once more."""
        self._taken.pop(key, None)
        if key not in self._again:
            return True
        self._again.discard(key)
        self._activate(key, self._entries[key])
        return False

    def _activate(self, key: Key, entry: _Entry) -> None:
        self._is_active.add(key)
        heapq.heappush(self._active, (-entry.priority, entry.number, key))
        self._wake.set()

    def _wait(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if (entry := self._entries.get(key)) is not None:
                self._is_waiting.add(key)
                heapq.heappush(self._waiting, (entry.due, entry.number, key))
                self._wake.set()

    def _end_waiting(self, until: float) -> None:
        while self._waiting and self._waiting[0][0] <= until:
            _, _, key = heapq.heappop(self._waiting)
            if key in self._is_waiting:
                self._is_waiting.discard(key)
                self._activate(key, self._entries[key])

    def _pop_active(self) -> Key | None:
        while self._active:
            _, _, key = heapq.heappop(self._active)
            if key in self._is_active:
                self._is_active.discard(key)
                return key
        return None

    def _ring(self, key: Key) -> None:
        del self._timers[key]
        self._activate(key, self._entries[key])

    def _end_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
