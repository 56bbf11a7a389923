"""How much of each round of the event loop one user may have.

The loop does whatever is ready, and then looks for more. With 90 requests of one user ready at once, of 7 ms each, the
request of another user that comes in between would wait for all of them. So a user begins only some requests in a
round; the others wait in their order, and those of other users come before them. A user that is alone loses nothing:
its next round comes at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

_MOST_IN_A_ROUND: Final = 16
"""Of small requests, 0.1 to 0.3 ms each; a round of one user takes 3 ms."""

_BYTES: Final = 2048
"""A body of so many bytes takes as long as another small request: unknown fields are 0.1 ms for each kilobyte."""


class UserRounds:
    """Of one event loop, counted by user."""

    def __init__(self) -> None:
        # What each user has had of this round, if that is not over yet.
        self._taken: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[asyncio.Future[None], int]]] = {}

    async def turn(self, user: str, size: int) -> None:
        """Wait until the user may begin another request, whose body has so many bytes."""
        cost = 1 + size // _BYTES
        taken = self._taken.get(user, 0)
        if taken < _MOST_IN_A_ROUND and user not in self._waiting:
            self._take(user, taken + cost)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append((turn, cost))
        await turn

    def _take(self, user: str, amount: int) -> None:
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._begin_next)
        self._taken[user] = amount

    def _begin_next(self) -> None:
        """Those that are told now go on in the next round, before this is called again."""
        self._taken.clear()
        for user, waiting in tuple(self._waiting.items()):
            amount = 0
            while waiting and amount < _MOST_IN_A_ROUND:
                turn, cost = waiting.popleft()
                # Its client may have gone.
                if not turn.done():
                    turn.set_result(None)
                    amount += cost
            if not waiting:
                del self._waiting[user]
            if amount:
                self._take(user, amount)
