"""Work that is repeated while a node runs, and how its failures are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from jettison import events
from jettison.errors import RuntimeFailure
from jettison.events import Fact
from jettison.membership.member import Rounds


def _run(work: Callable[[], Awaitable[None]], seconds: float, until: Callable[[Rounds], Awaitable[None]]) -> list[str]:
    """What was complained about until `until` returned."""
    said: list[Fact] = []

    async def scenario() -> None:
        rounds = Rounds("try", work, seconds, said.append)
        running = asyncio.create_task(rounds.run())
        async with asyncio.timeout(30):
            await until(rounds)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
    return [fact.why for fact in said if isinstance(fact, events.ActionFailed)]


def test_it_is_done_at_once_when_it_is_woken() -> None:
    done = 0

    async def work() -> None:
        nonlocal done
        done += 1

    async def twice_more(rounds: Rounds) -> None:
        for count in (1, 2, 3):
            while done < count:
                await asyncio.sleep(0.001)
            rounds.wake()

    assert _run(work, 3600, twice_more) == []
    assert done == 3


def test_a_failure_is_told_once_and_again_after_a_success() -> None:
    """Even if it is a bug: the rounds go on."""
    outcomes = ["away", "away", "", "away", "bug"]
    left = list(outcomes)

    async def work() -> None:
        outcome = left.pop(0) if left else ""
        if outcome == "bug":
            raise KeyError(outcome)
        if outcome:
            raise RuntimeFailure(outcome)

    async def all_of_them(rounds: Rounds) -> None:
        while left:
            await asyncio.sleep(0.01)

    assert _run(work, 0.01, all_of_them) == ["away", "away", "KeyError: 'bug'"]


def test_what_is_woken_while_it_fails_waits_all_the_same() -> None:
    """Else a node whose server is away would be busy with nothing but asking for it."""
    done = 0

    async def work() -> None:
        nonlocal done
        done += 1
        raise RuntimeFailure("away")

    async def wake_a_lot(rounds: Rounds) -> None:
        for _ in range(100):
            rounds.wake()
            await asyncio.sleep(0.002)

    _run(work, 3600, wake_a_lot)
    assert done <= 3
