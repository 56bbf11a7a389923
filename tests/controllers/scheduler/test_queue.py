"""Which pod is next: by importance, then by age; pods that failed wait for something to happen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from jettison.controllers.scheduler.queue import SchedulingQueue
from jettison.engine.scheduling.pods import Key

A, B, C = ("ns", "a"), ("ns", "b"), ("ns", "c")


def _play(scene: Callable[[SchedulingQueue], Awaitable[None]]) -> None:
    async def staged() -> None:
        queue = SchedulingQueue()
        await asyncio.wait_for(scene(queue), 60)
        queue.close()

    asyncio.run(staged())


async def _is_idle(queue: SchedulingQueue) -> bool:
    try:
        await asyncio.wait_for(queue.take(), 0.05)
    except TimeoutError:
        return True
    return False


async def _taken(queue: SchedulingQueue, count: int) -> list[Key]:
    return [await queue.take() for _ in range(count)]


def test_the_most_important_first_then_the_oldest() -> None:
    """Named twice is named once."""

    async def scene(queue: SchedulingQueue) -> None:
        queue.add(A, 0)
        queue.add(B, 5)
        queue.add(C, 5)
        queue.add(A, 0)
        assert await _taken(queue, 3) == [B, C, A]
        assert await _is_idle(queue)

    _play(scene)


def test_what_failed_comes_back_when_something_happens() -> None:
    """Not before; and at once, if no other pod waits. The most important is first again."""

    async def scene(queue: SchedulingQueue) -> None:
        queue.add(A, 0)
        queue.add(B, 1)
        for key in await _taken(queue, 2):
            queue.park(key)
        assert await _is_idle(queue)
        queue.stir()
        assert await _taken(queue, 2) == [B, A]

    _play(scene)


def test_what_happens_during_a_try_is_not_missed() -> None:
    """It may have been decided on what was before."""

    async def scene(queue: SchedulingQueue) -> None:
        queue.add(A, 0)
        assert await queue.take() == A
        queue.stir()
        queue.park(A)
        assert await queue.take() == A
        queue.park(A)
        assert await _is_idle(queue)

    _play(scene)


def test_what_failed_lets_others_go_first() -> None:
    """While others want to be tried, a failure costs a second; importance does not help against that."""

    async def scene(queue: SchedulingQueue) -> None:
        queue.add(A, 9)
        queue.park(await queue.take())
        queue.stir()
        queue.add(B, 0)
        assert await _taken(queue, 2) == [B, A]

    _play(scene)


def test_a_pod_that_changes_during_a_try_is_tried_again() -> None:
    """Whatever came of the try."""

    async def scene(queue: SchedulingQueue) -> None:
        for end in (queue.done, queue.park, queue.retry):
            queue.add(A, 0)
            assert await queue.take() == A
            queue.add(A, 0)
            assert await _is_idle(queue)
            end(A)
            assert await queue.take() == A
            queue.done(A)
            assert await _is_idle(queue)

    _play(scene)


def test_what_is_removed_does_not_come_back() -> None:
    """From wherever it is; but its successor of the same name does."""

    async def scene(queue: SchedulingQueue) -> None:
        queue.add(A, 0)
        queue.remove(A)
        assert await _is_idle(queue)
        queue.add(A, 0)
        queue.park(await queue.take())
        queue.remove(A)
        queue.stir()
        assert await _is_idle(queue)
        queue.add(A, 0)
        await queue.take()
        queue.remove(A)
        queue.park(A)
        queue.stir()
        assert await _is_idle(queue)
        queue.add(A, 0)
        assert await queue.take() == A

    _play(scene)


def test_a_silent_server_is_asked_again_after_a_pause() -> None:
    """And not sooner, whatever happens; each pause is twice as long, up to ten seconds."""

    async def scene(queue: SchedulingQueue) -> None:
        queue.add(A, 0)
        await queue.take()
        assert queue.retry(A) == 1.0
        assert await _is_idle(queue)
        assert await queue.take() == A
        pauses = []
        for _ in range(5):
            pauses.append(queue.retry(A))
            queue.stir()
            assert await _is_idle(queue)
            queue._timers[A].cancel()
            queue._ring(A)
            assert await queue.take() == A
        assert pauses == [2.0, 4.0, 8.0, 10.0, 10.0]
        queue.retry(A)
        queue.add(A, 0)
        assert await queue.take() == A
        assert not queue._timers

    _play(scene)
