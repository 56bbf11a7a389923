"""Something has changed: look again."""

from __future__ import annotations

import asyncio


class Wake:
    """An `asyncio.Event` for one waiter, who may also get tired of waiting.

    Of these there is one for each pod, asleep nearly all the time: 250 bytes instead of 1,300.
    """

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Stays until it is cleared."""
        self._is_set = True
        self._end_waiting()

    def clear(self) -> None:
        """From here on a change is news again."""
        self._is_set = False

    async def wait(self, seconds: float | None = None) -> None:
        """Until it is set, or so many seconds."""
        if self._is_set:
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, self._end_waiting)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _end_waiting(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
