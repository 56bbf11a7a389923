"""Evictions give way to whoever counts a budget.

Evictions write a budget without ever losing to anybody, a thousand times a second if need be. The disruption controller
reads it, counts, and writes it back with compare-and-swap: without help it would lose every time, until two thousand
grants that nobody has confirmed stop the evictions. So the first time that it loses, evictions of that budget wait for
its next attempt; not for long, because it may have been anybody, and he may not come back.
"""

from __future__ import annotations

import asyncio
from typing import Final

Key = tuple[str, str]

LONGEST_SECONDS: Final = 0.025
"""Two requests and a count of a thousand pods take ten milliseconds on a busy machine."""


class Turns:
    """For one event loop."""

    def __init__(self) -> None:
        self._given: dict[Key, asyncio.Future[None]] = {}

    def of(self, key: Key) -> asyncio.Future[None] | None:
        """Whom to wait for before this budget is spent; not to be cancelled."""
        return self._given.get(key)

    def give(self, key: Key) -> None:
        """Somebody wrote the status and was too late."""
        if key not in self._given:
            loop = asyncio.get_running_loop()
            self._given[key] = turn = loop.create_future()
            loop.call_later(LONGEST_SECONDS, self._end, key, turn)

    def end(self, key: Key) -> None:
        """The status is written."""
        turn = self._given.get(key)
        if turn is not None:
            self._end(key, turn)

    def _end(self, key: Key, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            turn.set_result(None)
            del self._given[key]
