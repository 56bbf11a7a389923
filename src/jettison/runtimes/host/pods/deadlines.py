"""A moment until which somebody may take his time, and which may come nearer but never move away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Deadline:
    """`at` is on the event loop's clock."""

    __slots__ = ("_moved", "at")

    def __init__(self, seconds: float) -> None:
        self.at = asyncio.get_running_loop().time() + seconds
        self._moved: asyncio.Future[None] | None = None

    def pull_in(self, seconds: float) -> None:
        """Let it be so many seconds from now, if that is sooner."""
        at = asyncio.get_running_loop().time() + seconds
        if at < self.at:
            self.at = at
            if self._moved is not None:
                self._moved.set_result(None)
                self._moved = None

    async def outlast(self, done: asyncio.Future[None], not_before: Callable[[], float] | None = None) -> bool:
        """Wait for something until the deadline, or until `not_before` if that is later; False when it did not come."""
        loop = asyncio.get_running_loop()
        while not done.done():
            end = self.at if not_before is None else max(self.at, not_before())
            if loop.time() >= end:
                return False
            if self._moved is None:
                self._moved = loop.create_future()
            await asyncio.wait((done, self._moved), timeout=end - loop.time(), return_when=asyncio.FIRST_COMPLETED)
        return True
