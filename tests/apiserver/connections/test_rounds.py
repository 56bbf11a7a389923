"""One user's requests leave room in every round of the loop for those of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from jettison.apiserver.connections.rounds import UserRounds

SMALL, LARGE = 100, 64 * 1024


def play(scenario: Callable[[UserRounds, list[str]], Coroutine[Any, Any, None]]) -> list[str]:
    begun: list[str] = []

    async def run() -> None:
        await scenario(UserRounds(), begun)

    asyncio.run(run())
    return begun


async def request(rounds: UserRounds, begun: list[str], user: str, size: int, number: int = 0) -> None:
    await rounds.turn(user, size)
    begun.append(f"{user} {number}" if number else user)


def flood(rounds: UserRounds, begun: list[str], user: str, size: int, count: int) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(request(rounds, begun, user, size, number + 1)) for number in range(count)]


def test_a_request_of_another_user_comes_before_most_of_a_flood() -> None:
    async def scenario(rounds: UserRounds, begun: list[str]) -> None:
        tasks = flood(rounds, begun, "greedy", SMALL, 200)
        await asyncio.sleep(0)
        await request(rounds, begun, "other", SMALL)
        assert len(begun) < 40
        await asyncio.gather(*tasks)

    begun = play(scenario)
    assert [each for each in begun if each != "other"] == [f"greedy {number + 1}" for number in range(200)]


def test_of_large_bodies_there_is_one_in_a_round() -> None:
    async def scenario(rounds: UserRounds, begun: list[str]) -> None:
        tasks = flood(rounds, begun, "greedy", LARGE, 10)
        for number in range(5):
            await asyncio.sleep(0)
            # The first round only starts the tasks.
            assert len(begun) <= number + 1
        await asyncio.gather(*tasks)
        assert len(begun) == 10

    play(scenario)


def test_requests_whose_clients_have_gone_take_no_turn() -> None:
    async def scenario(rounds: UserRounds, begun: list[str]) -> None:
        tasks = flood(rounds, begun, "greedy", LARGE, 50)
        await asyncio.sleep(0)
        for each in tasks[1:-1]:
            each.cancel()
        async with asyncio.timeout(5):
            for _ in range(6):
                await asyncio.sleep(0)
        assert begun == ["greedy 1", "greedy 50"]

    play(scenario)


def test_a_user_that_is_alone_and_does_little_never_waits() -> None:
    async def scenario(rounds: UserRounds, begun: list[str]) -> None:
        for number in range(50):
            turn = rounds.turn("quiet", SMALL)
            try:
                turn.send(None)
            except StopIteration:
                begun.append(str(number))
            await asyncio.sleep(0)

    assert len(play(scenario)) == 50
