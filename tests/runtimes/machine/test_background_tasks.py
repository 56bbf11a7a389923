"""Work on the side is neither forgotten nor silent."""

from __future__ import annotations

import asyncio

from jettison.events import ActionFailed, Fact
from jettison.runtimes.machine.background_tasks import BackgroundTasks


def test_what_fails_unforeseen_becomes_a_fact() -> None:
    async def fails() -> None:
        raise ZeroDivisionError("oh")

    async def run() -> None:
        facts: list[Fact] = []
        task = BackgroundTasks(facts.append, "pod x").begin(fails())
        await asyncio.wait([task])
        assert facts == [ActionFailed("look after pod x", "ZeroDivisionError: oh")]

    asyncio.run(run())


def test_everything_can_be_cancelled_and_that_is_no_failure() -> None:
    async def run() -> None:
        facts: list[Fact] = []
        background = BackgroundTasks(facts.append, "pod x")
        task = background.begin(asyncio.sleep(60))
        await asyncio.sleep(0)
        await background.cancel()
        assert task.cancelled()
        assert not facts

    asyncio.run(run())
