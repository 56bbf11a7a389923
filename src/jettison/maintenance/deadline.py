"""A timeout that holds: one moment for everything that is done for a node."""

from __future__ import annotations

import asyncio

from jettison.engine.numbers.durations import SECOND_NS, duration_text


class Deadline:
    """Begins when it is made; 0 ns never ends. To be made inside a running event loop."""

    def __init__(self, timeout_ns: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = None if timeout_ns == 0 else self._loop.time() + timeout_ns / SECOND_NS
        self.text = duration_text(timeout_ns)

    @property
    def has_passed(self) -> bool:
        """Is it too late to begin anything?"""
        return self._at is not None and self._loop.time() >= self._at

    def limit(self) -> asyncio.Timeout:
        """For `async with`: a TimeoutError ends whatever is awaited inside when the moment comes."""
        return asyncio.timeout_at(self._at)

    async def pause(self, seconds: float) -> None:
        """Sleep, but not beyond the end."""
        left = seconds if self._at is None else min(seconds, self._at - self._loop.time())
        await asyncio.sleep(max(left, 0))
