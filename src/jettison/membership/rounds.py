"""Something done for ever: in its time, sooner when it is woken, later while it fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from jettison import events
from jettison.errors import JettisonError
from jettison.events import Emit

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 7.0
"""As a kubelet that cannot renew its lease."""


class Rounds:
    """One kind of work. What keeps it from being done is said once, until it succeeds or fails otherwise."""

    def __init__(self, what: str, work: Callable[[], Awaitable[None]], seconds: float, emit: Emit) -> None:
        self._what = what
        self._work = work
        self._seconds = seconds
        self._emit = emit
        self._woken = asyncio.Event()
        self._complaint = ""

    def wake(self) -> None:
        """There is something to do. A round that is under way is followed by another; after a failure it waits."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            self._woken.clear()
            if await self._attempt():
                pause = _FIRST_PAUSE
                await self._rest()
            else:
                await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311  no secret
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _attempt(self) -> bool:
        try:
            await self._work()
        except JettisonError as error:
            return self._failed(str(error))
        except Exception as error:  # noqa: BLE001  a bug in here must not end the pods of a node that is cut off
            return self._failed(f"{type(error).__name__}: {error}")
        self._complaint = ""
        return True

    def _failed(self, why: str) -> bool:
        if why != self._complaint:
            self._complaint = why
            self._emit(events.ActionFailed(self._what, why))
        return False

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._woken.wait()
        except TimeoutError:
            return
