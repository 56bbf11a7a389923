"""Work that goes on beside its caller, and is not forgotten: not when it fails, not when all is to end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from jettison import events


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
