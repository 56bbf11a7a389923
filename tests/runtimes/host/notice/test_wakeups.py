from __future__ import annotations

import asyncio

import pytest

from jettison.clock import SystemClock
from jettison.runtimes.host.notice.wakeups import Wakeups


def test_rings_are_kept_until_heard_and_several_count_once() -> None:
    async def scenario() -> None:
        clock = SystemClock()
        wakeups = Wakeups(clock)
        before = clock.monotonic_ns()
        wakeups.ring("memcg")
        after = clock.monotonic_ns()
        wakeups.ring("poll")
        alarms = wakeups.alarms()
        first = await anext(alarms)
        assert first.source == "memcg"
        assert before <= first.raised_ns <= after
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(alarms), 0.01)

    asyncio.run(scenario())


def test_a_ring_while_the_listener_is_busy_is_heard_next() -> None:
    async def scenario() -> None:
        wakeups = Wakeups(SystemClock())
        wakeups.ring("memcg")
        heard = []
        async for alarm in wakeups.alarms():
            heard.append(alarm.source)
            if len(heard) == 2:
                break
            wakeups.ring("oom")
        assert heard == ["memcg", "oom"]

    asyncio.run(scenario())
