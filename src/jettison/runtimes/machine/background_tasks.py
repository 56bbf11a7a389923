"""Work that goes on beside its caller, and is not forgotten: not when it fails, not when all is to end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jettison import events
from jettison.errors import RuntimeFailure


class BackgroundTasks:
    """Tasks that belong to one owner. `whose` names that owner in messages."""

    __slots__ = ("_emit", "_tasks", "_whose")

    def __init__(self, emit: events.Emit, whose: str) -> None:
        self._emit = emit
        self._whose = whose
        # A list: there is rarely more than one, and an empty set takes 216 bytes.
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let it run. An unexpected exception becomes a fact instead of vanishing with the task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._finished)
        return task

    async def cancel(self) -> None:
        """Stop everything that is under way."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.remove(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._emit(events.ActionFailed(f"look after {self._whose}", f"{type(error).__name__}: {error}"))


class LoopTurns:
    """Steps that hold up the loop for a fraction of a millisecond each: one in each of its rounds, so that an alarm
    waits for one of them and not for sixty. They come in the order in which they were asked for.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Returns when it is the caller's turn, which lasts until it waits for something."""
        async with self._lock:
            await asyncio.sleep(0)


def staffed_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """A pool whose threads are there already. To begin one is a fork for the kernel, which lets none happen while a
    process moves into a cgroup: a loop that begins one later waits for that, up to 70 ms.
    """
    pool, may_go = ThreadPoolExecutor(threads, name), threading.Event()
    for _ in range(threads):
        pool.submit(may_go.wait)
    may_go.set()
    return pool


async def until_one_ends(*work: Coroutine[Any, Any, Any]) -> None:
    """Do all of it; when the first is done, cancel the rest and raise what it raised."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def succeeded(work: Awaitable[None], errors: list[str]) -> bool:
    """Whether it did; why not is added to the errors, and the caller goes on with the next."""
    try:
        await work
    except RuntimeFailure as failure:
        errors.append(str(failure))
        return False
    return True
