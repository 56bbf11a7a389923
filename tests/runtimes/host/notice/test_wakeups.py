from __future__ import annotations

import asyncio

import pytest

from jettison.clock import SystemClock
from jettison.runtimes.host.notice.wakeups import Bell


def test_rings_are_kept_until_heard_and_several_count_once() -> None:
    async def scenario() -> None:
        clock = SystemClock()
        bell = Bell(clock)
        before = clock.monotonic_ns()
        bell.ring("memcg")
        after = clock.monotonic_ns()
        bell.ring("poll")
        alarms = bell.alarms()
        first = await anext(alarms)
        assert first.source == "memcg"
        assert before <= first.raised_ns <= after
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(alarms), 0.01)

    asyncio.run(scenario())


def test_a_ring_while_the_listener_is_busy_is_heard_next() -> None:
    async def scenario() -> None:
        bell = Bell(SystemClock())
        bell.ring("memcg")
        heard = []
        async for alarm in bell.alarms():
            heard.append(alarm.source)
            if len(heard) == 2:
                break
            bell.ring("oom")
        assert heard == ["memcg", "oom"]

    asyncio.run(scenario())
