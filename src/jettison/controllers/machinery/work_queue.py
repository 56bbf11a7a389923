"""Keys that are still to be reconciled. A key that is added ten times is taken once, and never by two workers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

FIRST_BACK_OFF_SECONDS: Final = 0.005
LONGEST_BACK_OFF_SECONDS: Final = 60.0
"""Kubernetes goes up to 1000 s; here the resync would come in between anyway."""

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys in the order in which they were first named. For one event loop."""

    def __init__(self) -> None:
        self._ready: deque[K] = deque()
        # Named and not yet taken, be it in `_ready` or, while a worker has the key, waiting for `done`.
        self._named: set[K] = set()
        self._taken: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether nothing can be taken at the moment."""
        return not self._ready

    def add(self, key: K) -> None:
        """Look at it as soon as possible. Named while it is being looked at, it comes again."""
        if key in self._named:
            return
        self._named.add(key)
        if key not in self._taken:
            self._ready.append(key)
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Look at it in so many seconds; of several such wishes the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._ring, key)

    def retry(self, key: K) -> float:
        """Look at it again, later with each failure in a row; in how many seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # Beyond 20 failures the power is only a large number.
        seconds = min(FIRST_BACK_OFF_SECONDS * 2.0 ** min(failures, 20), LONGEST_BACK_OFF_SECONDS)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """It went well: the next failure is the first again."""
        self._failures.pop(key, None)

    async def take(self) -> K:
        """The next key; a worker that takes it must call `done`."""
        while self.is_idle:
            self._wake.clear()
            await self._wake.wait()
        key = self._ready.popleft()
        self._named.discard(key)
        self._taken.add(key)
        return key

    def done(self, key: K) -> None:
        """Others may take it again, if it was named meanwhile."""
        self._taken.discard(key)
        if key in self._named:
            self._ready.append(key)
            self._wake.set()

    def close(self) -> None:
        """No timer rings any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _ring(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)
