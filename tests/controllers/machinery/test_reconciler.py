"""Workers and their patience."""

from __future__ import annotations

import asyncio
import logging

import pytest

from jettison.controllers.machinery.reconciler import Postponed, Reconciler
from jettison.errors import ApiError

Key = tuple[str, str]


def test_what_was_postponed_in_between_does_not_make_a_failure_the_first_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = 0

    async def reconcile(key: Key) -> None:
        nonlocal calls
        calls += 1
        if calls % 2:
            raise ApiError("no")
        raise Postponed(0.001)

    async def scene() -> None:
        reconciler: Reconciler[Key] = Reconciler("test", reconcile)
        running = asyncio.create_task(reconciler.run())
        reconciler.queue.add(("default", "a"))
        await asyncio.sleep(0.7)
        running.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    # 5 ms, and twice as long each time: seven failures take 0.6 s.
    assert 6 <= calls <= 16
    assert "test: default/a: no; trying again in 0.010 s" in caplog.text
