"""Work on the side is neither forgotten nor silent."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise

import pytest

from jettison.events import ActionFailed, Fact
from jettison.runtimes.machine.background_tasks import BackgroundTasks, LoopTurns


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


def test_one_step_is_taken_in_each_round_of_the_loop_the_urgent_ones_first() -> None:
    taken: list[str] = []

    async def waits(turns: LoopTurns, name: str) -> None:
        await turns.next()
        taken.append(name)

    async def run() -> None:
        turns = LoopTurns()
        for name in "abc":
            turns.soon(partial(taken.append, name))
        waiting = [asyncio.create_task(waits(turns, name)) for name in "de"]
        cancelled = asyncio.create_task(waits(turns, "x"))
        turns.soon(lambda: taken.append("urgent"), is_urgent=True)
        seen = []
        for _ in range(12):
            seen.append(len(taken))
            await asyncio.sleep(0)
            cancelled.cancel()
        await asyncio.wait(waiting)
        assert taken == ["urgent", *"abcde"]
        assert all(later - sooner <= 1 for sooner, later in pairwise(seen))

    asyncio.run(run())


@pytest.mark.parametrize("rounds", range(5))
def test_a_step_that_comes_while_a_task_has_its_turn_waits_for_the_next_round(rounds: int) -> None:
    taken: list[str] = []

    async def waits(turns: LoopTurns) -> None:
        await turns.next()
        taken.append("task")

    async def run() -> None:
        turns = LoopTurns()
        task = asyncio.create_task(waits(turns))
        for _ in range(rounds):
            await asyncio.sleep(0)
        turns.soon(lambda: taken.append("step"))
        seen = []
        for _ in range(10):
            seen.append(len(taken))
            await asyncio.sleep(0)
        await task
        assert sorted(taken) == ["step", "task"]
        assert all(later - sooner <= 1 for sooner, later in pairwise(seen))

    asyncio.run(run())


def test_a_step_that_fails_takes_no_other_step_with_it() -> None:
    taken: list[str] = []

    async def run() -> None:
        turns, failed = LoopTurns(), list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context["exception"]))
        turns.soon(lambda: 1 // 0)
        turns.soon(lambda: taken.append("next"))
        await turns.next()
        assert taken == ["next"]
        assert [type(each) for each in failed] == [ZeroDivisionError]

    asyncio.run(run())
