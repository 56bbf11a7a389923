"""Many callers may say "look now", and one listens; calls that come while it does not listen count once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from jettison.clock import Clock
from jettison.runtimes.protocol import Alarm


class Wakeups:
    """Rings are kept until heard. The first of several is the one that is told: latency counts from there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: Alarm | None = None
        self._rung = asyncio.Event()

    def ring(self, source: str) -> None:
        """Look now."""
        if self._pending is None:
            self._pending = Alarm(source, self._clock.monotonic_ns())
            self._rung.set()

    async def alarms(self) -> AsyncIterator[Alarm]:
        """For one listener; with two, each ring is heard by one of them."""
        while True:
            await self._rung.wait()
            self._rung.clear()
            alarm, self._pending = self._pending, None
            if alarm is not None:
                yield alarm
