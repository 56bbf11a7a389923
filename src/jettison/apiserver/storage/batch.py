"""The writes that share a transaction, and with it one wait for the disk."""

from __future__ import annotations

import asyncio

from jettison.apiserver.storage.stored import Change
from jettison.errors import ApiError


class Batch:
    """What was written, and who waits for it."""

    __slots__ = ("_waiting", "changes", "failure", "is_done", "superseded")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        # Versions with the checksums of their rows.
        self.superseded: list[tuple[int, int]] = []
        self.failure: ApiError | None = None
        self.is_done = False
        # One for each who waits, so that who stops waiting does not cancel it for the others.
        self._waiting: list[asyncio.Future[None]] = []

    async def done(self) -> None:
        """Wait for the disk; raises what it refused."""
        if not self.is_done:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        if self.failure is not None:
            raise self.failure

    def end(self, failure: ApiError | None) -> None:
        """It is on disk, or was refused."""
        self.is_done, self.failure = True, failure
        if failure is not None:
            for change in self.changes:
                change.stored.is_given_up = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def holds(self, version: int) -> bool:
        """Whether the write of this version is one of them."""
        return self.changes[0].stored.version <= version <= self.changes[-1].stored.version
