"""Deadlines come nearer and never move away."""

from __future__ import annotations

import asyncio

from jettison.runtimes.host.pods.deadlines import Deadline


def test_what_comes_in_time_is_waited_for() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        loop.call_later(0.01, done.set_result, None)
        assert await Deadline(10).outlast(done)
        assert await Deadline(-1).outlast(done)

    asyncio.run(run())


def test_what_does_not_come_is_given_up_at_the_deadline() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        never: asyncio.Future[None] = loop.create_future()
        before = loop.time()
        assert not await Deadline(0.03).outlast(never)
        assert loop.time() - before >= 0.029
        later = loop.time() + 0.05
        assert not await Deadline(0.0).outlast(never, lambda: later)
        assert loop.time() >= later

    asyncio.run(run())


def test_a_deadline_can_be_pulled_in_under_somebody_who_waits_but_not_pushed_out() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        never: asyncio.Future[None] = loop.create_future()
        deadline = Deadline(30)
        waiting = [asyncio.create_task(deadline.outlast(never)) for _ in range(2)]
        await asyncio.sleep(0)
        deadline.pull_in(0.02)
        deadline.pull_in(60)
        async with asyncio.timeout(5):
            assert await asyncio.gather(*waiting) == [False, False]

    asyncio.run(run())
