"""Work that goes on beside its caller, and is not forgotten: not when it fails, not when all is to end."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar, cast

from jettison import events
from jettison.errors import JettisonError, RuntimeFailure

T = TypeVar("T")


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
    waits for one of them and not for sixty. They come in the order in which they were asked for, the urgent ones first.
    """

    __slots__ = ("_is_due", "_urgent", "_usual")

    def __init__(self) -> None:
        # Steps, and what tells a task that its turn has come.
        self._urgent: deque[Callable[[], object] | asyncio.Future[None]] = deque()
        self._usual: deque[Callable[[], object] | asyncio.Future[None]] = deque()
        self._is_due = False

    def soon(self, step: Callable[[], object], *, is_urgent: bool = False) -> None:
        """Have it called when it is its turn."""
        self._add(self._urgent if is_urgent else self._usual, step)

    async def next(self) -> None:
        """Returns when it is the caller's turn, which lasts until it waits for something."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._add(self._usual, turn)
        await turn

    def _add(
        self,
        queue: deque[Callable[[], object] | asyncio.Future[None]],
        step: Callable[[], object] | asyncio.Future[None],
    ) -> None:
        queue.append(step)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._take)

    def _take(self) -> None:
        queue = self._urgent or self._usual
        if not queue:
            self._is_due = False
            return
        loop, step = asyncio.get_running_loop(), queue.popleft()
        if isinstance(step, asyncio.Future):
            if not step.cancelled():
                step.set_result(None)
            # The task has the next round, and whatever comes after it the one after that.
            loop.call_soon(loop.call_soon, self._take)
            return
        self._is_due = bool(self._urgent or self._usual)
        if self._is_due:
            loop.call_soon(self._take)
        step()


def staffed_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """A pool whose threads are there already. To begin one is a fork for the kernel, which lets none happen while a
    process moves into a cgroup: a loop that begins one later waits for that, up to 70 ms.
    """
    pool, may_go = ThreadPoolExecutor(threads, name), threading.Event()
    for _ in range(threads):
        pool.submit(may_go.wait)
    may_go.set()
    return pool


async def in_own_thread(work: Callable[[], T], unwanted: Callable[[T], object] = lambda _: None) -> T:
    """Do what may never come to an end: in a pool it would keep a thread from all others.

    Cancelled, this returns at once, and what comes of the work is `unwanted`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, failure: Exception | None) -> None:
        if failure is None and done.done():
            unwanted(cast("T", result))
        elif failure is None:
            done.set_result(cast("T", result))
        elif not done.done():
            done.set_exception(failure)

    def run() -> None:
        # A bug: the thread's own traceback tells of it.
        result: T | None = None
        failure: Exception | None = RuntimeError("the thread has failed")
        try:
            result, failure = work(), None
        except (OSError, JettisonError) as error:
            failure = error
        finally:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, daemon=True).start()
    return await done


def promptly(work: Callable[[], T]) -> T:
    """With the priority of the main thread, which otherwise may wait: a thread that gets no processor keeps the
    interpreter meanwhile. It is for work of less than a millisecond that waits for nothing but the kernel.
    """
    main = os.getpid()
    policy = os.sched_getscheduler(main)
    if os.sched_getscheduler(0) != policy:
        with suppress(PermissionError):  # then without
            os.sched_setscheduler(0, policy, os.sched_getparam(main))
    return work()


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
