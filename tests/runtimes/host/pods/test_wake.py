"""One waiter, woken by a change or by the clock."""

from __future__ import annotations

import asyncio

import pytest

from jettison.runtimes.host.pods.wake import Wake


def test_who_waits_is_woken_by_a_change() -> None:
    async def scenario() -> None:
        wake = Wake()
        waiting = asyncio.create_task(wake.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        wake.set()
        wake.set()
        await asyncio.wait_for(waiting, 1)

    asyncio.run(scenario())


def test_a_change_is_not_missed_while_nobody_waits() -> None:
    async def scenario() -> None:
        wake = Wake()
        wake.set()
        await asyncio.wait_for(wake.wait(), 1)
        await asyncio.wait_for(wake.wait(), 1)
        wake.clear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wake.wait(), 0.01)

    asyncio.run(scenario())


def test_waiting_has_an_end() -> None:
    """And its timer does not end the next waiting."""

    async def scenario() -> None:
        wake = Wake()
        await asyncio.wait_for(wake.wait(0.001), 1)
        await asyncio.wait_for(wake.wait(0), 1)
        waiting = asyncio.create_task(wake.wait(0.05))
        await asyncio.sleep(0)
        wake.set()
        await waiting
        wake.clear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wake.wait(), 0.1)

    asyncio.run(scenario())


def test_a_waiter_may_be_cancelled() -> None:
    async def scenario() -> None:
        wake = Wake()
        waiting = asyncio.create_task(wake.wait(5))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        wake.set()
        await asyncio.wait_for(wake.wait(), 1)

    asyncio.run(scenario())
