"""Group commit: the writes that share a transaction, and the thread that waits for the disk.

The event loop does not wait: it takes the next requests meanwhile, whose writes are the next batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from jettison.apiserver.storage.stored import Change
from jettison.errors import ApiError

Job = Callable[[], None]
Report = Callable[[Exception | None], None]


class Batch:
    """What was written, and the requests that wait for it."""

    __slots__ = ("_waiting", "changes", "failure", "is_done", "superseded")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        # Versions with the checksums of their rows.
        self.superseded: list[tuple[int, int]] = []
        self.failure: ApiError | None = None
        self.is_done = False
        # One for each request, so that one that stops waiting does not cancel it for the others.
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


class Disk:
    """The thread: one job at a time, in the order in which they were given.

    A thread pool does the same for 40 µs a job in futures and locks, which a single client pays with every write.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[asyncio.AbstractEventLoop, Job, Report] | None] = SimpleQueue()
        # It begins with the first job: a store that is only read needs none, and there may be no event loop yet.
        self._thread: Thread | None = None

    def do(self, job: Job, report: Report) -> None:
        """Have it done; `report` is called in this event loop, with the error if there was one."""
        if self._thread is None:
            self._thread = Thread(target=self._work, name="store", daemon=True)
            self._thread.start()
        self._jobs.put((asyncio.get_running_loop(), job, report))

    def close(self) -> None:
        """To be called when all jobs are reported."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (given := self._jobs.get()) is not None:
            loop, job, report = given
            error: Exception | None = None
            try:
                job()
            except Exception as failure:  # noqa: BLE001  the job's owner is told, and the next job is done
                error = failure
            loop.call_soon_threadsafe(report, error)
