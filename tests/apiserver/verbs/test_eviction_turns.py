"""A client that counts a budget and lost to evictions wins the next time, and does not hold evictions up for long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jettison.apiserver.verbs.eviction import Settings
from tests.apiserver.served import BUDGETS, PODS, Answer, Served

Json = dict[str, Any]


def evict(api: Served, name: str) -> asyncio.Task[Answer]:
    return asyncio.create_task(api.ask("POST", f"{PODS}/{name}/eviction", {"metadata": {"name": name}}))


async def lose(api: Served, name: str = "pdb") -> None:
    """Write a status that was counted from an older budget."""
    stale = (await api.ask("GET", f"{BUDGETS}/{name}")).body
    assert (await evict(api, "first")).code == 201
    assert (await api.ask("PUT", f"{BUDGETS}/{name}/status", stale)).code == 409


def served(folder: Path, turn_seconds: float) -> Served:
    api = Served(folder, Settings(turn_seconds=turn_seconds))
    for name in ("first", "second"):
        api.pod(name)
    api.pod("free", labels={"app": "other"})
    api.budget(minAvailable=1, status={"disruptionsAllowed": 5, "currentHealthy": 6, "desiredHealthy": 1})
    return api


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Served]:
    api = served(tmp_path / "cluster", turn_seconds=30.0)
    yield api
    api.close()


def test_an_eviction_waits_for_the_next_count(guarded: Served) -> None:
    async def work() -> None:
        await lose(guarded)
        waiting = evict(guarded, "second")
        assert (await evict(guarded, "free")).code == 201
        assert not waiting.done()
        fresh = (await guarded.ask("GET", f"{BUDGETS}/pdb")).body
        fresh["status"]["disruptionsAllowed"] = 1
        assert (await guarded.ask("PUT", f"{BUDGETS}/pdb/status", fresh)).code == 200
        assert (await waiting).code == 201
        left = (await guarded.ask("GET", f"{BUDGETS}/pdb")).body["status"]
        assert (left["disruptionsAllowed"], sorted(left["disruptedPods"])) == (0, ["first", "second"])

    guarded.run(work())


def test_what_the_count_withdraws_is_refused(guarded: Served) -> None:
    async def work() -> None:
        await lose(guarded)
        waiting = evict(guarded, "second")
        fresh = (await guarded.ask("GET", f"{BUDGETS}/pdb")).body
        fresh["status"]["disruptionsAllowed"] = 0
        assert (await guarded.ask("PUT", f"{BUDGETS}/pdb/status", fresh)).code == 200
        assert (await waiting).code == 429

    guarded.run(work())


def test_a_turn_that_is_not_taken_ends(tmp_path: Path) -> None:
    api = served(tmp_path / "cluster", turn_seconds=0.05)

    async def work() -> None:
        await lose(api)
        assert (await asyncio.wait_for(evict(api, "second"), 30)).code == 201

    api.run(work())
    api.close()


def test_a_client_that_stops_waiting_does_not_wake_the_others(guarded: Served) -> None:
    async def work() -> None:
        await lose(guarded)
        waiting = [evict(guarded, "second") for _ in range(2)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        await asyncio.sleep(0.05)
        assert not waiting[1].done()
        fresh = (await guarded.ask("GET", f"{BUDGETS}/pdb")).body
        assert (await guarded.ask("PUT", f"{BUDGETS}/pdb/status", fresh)).code == 200
        assert (await waiting[1]).code == 201

    guarded.run(work())
