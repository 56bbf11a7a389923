"""The thread that waits for the disk, so that the event loop does not.

A thread pool does the same for 40 µs a job in futures and locks, which a single client pays with every write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

Job = Callable[[], None]
Report = Callable[[Exception | None], None]


class Disk:
    """One job at a time, in the order in which they were given."""

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
            except Exception as failure:  # noqa: BLE001  who gave the job is told, and the next one is done
                error = failure
            loop.call_soon_threadsafe(report, error)
