"""Workers and their patience, and the keys that they take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable

import pytest

from jettison.controllers.garbage.owners import Item
from jettison.controllers.machinery.reconciler import LONGEST_BACK_OFF_SECONDS, Postponed, Reconciler, WorkQueue
from jettison.errors import ApiError
from jettison.runtimes.kube.kinds import NODES, PODS, Kind

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


@pytest.mark.parametrize(
    ("key", "named"),
    [
        (("default", "a"), "default/a"),
        (("", "node-1"), "node-1"),
        (Item(PODS, ("default", "a")), "pods default/a"),
        (Item(Kind("apps", "replicasets"), ("default", "a")), "replicasets.apps default/a"),
        (Item(NODES, ("", "node-1")), "nodes node-1"),
    ],
)
def test_an_object_that_fails_is_named_as_kubectl_names_it(
    key: Hashable, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Garbage collection looks after objects of all kinds."""

    async def reconcile(_: Hashable) -> None:
        raise ApiError("no")

    async def scene() -> None:
        reconciler: Reconciler[Hashable] = Reconciler("test", reconcile)
        running = asyncio.create_task(reconciler.run())
        reconciler.queue.add(key)
        await asyncio.sleep(0.05)
        running.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    assert f"test: {named}: no; trying again" in caplog.text


async def _taken(queue: WorkQueue[str], count: int) -> list[str]:
    return [await queue.take() for _ in range(count)]


async def _is_idle(queue: WorkQueue[str]) -> bool:
    """Whether a worker that comes now would have to wait."""
    taking = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    return taking.cancel()


def test_a_key_named_often_is_taken_once() -> None:
    async def scene() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for key in "abacab":
            queue.add(key)
        assert await _taken(queue, 3) == ["a", "b", "c"]
        assert await _is_idle(queue)

    asyncio.run(scene())


def test_a_key_is_not_taken_by_two_at_a_time() -> None:
    """Added while a worker has it, a key comes again after that worker is done."""

    async def scene() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        assert await queue.take() == "a"
        queue.add("a")
        queue.add("b")
        assert await queue.take() == "b"
        assert await _is_idle(queue)
        queue.done("a")
        assert await queue.take() == "a"

    asyncio.run(scene())


def test_a_key_wakes_one_worker_and_another_where_that_one_is_cancelled() -> None:
    async def scene() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first, second, third = (asyncio.create_task(queue.take()) for _ in range(3))
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await asyncio.wait_for(second, 30) == "a"
        assert third.cancel()

    asyncio.run(scene())


def test_of_several_times_the_earliest_counts() -> None:
    async def scene() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 30)
        queue.add_after("a", 0.02)
        queue.add_after("a", 60)
        queue.add_after("b", 0.01)
        async with asyncio.timeout(30):
            assert await _taken(queue, 2) == ["b", "a"]
        assert await _is_idle(queue)
        queue.close()

    asyncio.run(scene())


def test_failures_in_a_row_wait_longer_and_success_forgets_them() -> None:
    async def scene() -> None:
        queue: WorkQueue[str] = WorkQueue()
        assert [queue.retry("a") for _ in range(4)] == [0.005, 0.01, 0.02, 0.04]
        assert queue.retry("b") == 0.005
        for _ in range(100):
            longest = queue.retry("a")
        assert longest == LONGEST_BACK_OFF_SECONDS
        queue.forget("a")
        assert queue.retry("a") == 0.005
        queue.close()

    asyncio.run(scene())
