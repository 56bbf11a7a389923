"""Disk, inodes and process ids, by numbers that a test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from jettison.clock import SystemClock
from jettison.engine.config.policy import Policy
from jettison.engine.node.snapshot import FsStats, NodeStats, ProcessStats
from jettison.errors import ObservationError
from jettison.runtimes.machine.alarms import Wakeups
from jettison.runtimes.machine.level_watch import LevelWatch
from tests.builders import GI, MI, policy

RULES = policy(
    {"nodefs.available": "1Gi", "nodefs.inodesFree": "1000", "pid.available": "100", "memory.available": "1Gi"}
)


class Scene:
    """A node, and what watches it."""

    def __init__(self, rules: Policy) -> None:
        self.available, self.inodes, self.processes = 100 * GI, 10_000_000, 100
        self.is_broken = False
        self.looks = 0
        clock = SystemClock()
        self.wakeups = Wakeups(clock)
        self.watch = LevelWatch(rules.thresholds, self.measure, self.wakeups, clock)

    def measure(self) -> NodeStats:
        self.looks += 1
        if self.is_broken:
            raise ObservationError("gone")
        disk = FsStats(1, self.available, 200 * GI, 0, self.inodes, 20_000_000, 0)
        return NodeStats(
            "n", fs=disk, image_fs=disk, container_fs=disk, processes=ProcessStats(1, 32_000, self.processes)
        )

    def observe(self) -> None:
        self.watch.observed(self.measure())

    async def rings(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return (await anext(self.wakeups.alarms())).source == "poll"
        except TimeoutError:
            return False


def play(scenario: Callable[[Scene], Awaitable[None]], rules: Policy = RULES) -> None:
    async def run() -> None:
        scene = Scene(rules)
        await scenario(scene)
        scene.watch.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("near", "over"),
    [
        ({"available": GI + 50 * MI}, {"available": GI - 1}),
        ({"inodes": 5000}, {"inodes": 999}),
        ({"processes": 31_500}, {"processes": 31_901}),
    ],
)
def test_what_is_crossed_is_told_once_and_soon(near: dict[str, int], over: dict[str, int]) -> None:
    async def scenario(scene: Scene) -> None:
        for name, value in near.items():
            setattr(scene, name, value)
        scene.observe()
        assert not await scene.rings(0.3)
        for name, value in over.items():
            setattr(scene, name, value)
        assert await scene.rings(2)
        scene.observe()
        assert not await scene.rings(1.3)

    play(scenario)


def test_it_is_looked_at_more_often_while_it_vanishes() -> None:
    async def scenario(scene: Scene) -> None:
        scene.observe()
        await asyncio.sleep(0.3)
        assert scene.looks == 1, "there is plenty"
        scene.available = GI + 20 * MI
        scene.observe()
        await asyncio.sleep(2)  # that was a leap, and is forgotten by and by
        scene.looks = 0
        await asyncio.sleep(1)
        assert 1 <= scene.looks <= 10
        scene.looks = 0
        for _ in range(100):
            scene.available -= 190 * 1024
            await asyncio.sleep(0.01)
        assert scene.looks >= 12

    play(scenario)


def test_what_cannot_be_measured_is_left_to_the_agent_and_looked_at_later() -> None:
    async def scenario(scene: Scene) -> None:
        scene.available = GI + MI
        scene.observe()
        scene.is_broken = True
        assert not await scene.rings(0.4)
        assert scene.looks == 2

    play(scenario)


def test_memory_is_watched_elsewhere() -> None:
    async def scenario(scene: Scene) -> None:
        scene.observe()
        assert not await scene.rings(0.05)
        assert scene.looks == 1, "it looks by itself"

    play(scenario, policy({"memory.available": "1Gi"}))


def test_other_thresholds_are_watched_from_the_moment_they_are_given() -> None:
    async def scenario(scene: Scene) -> None:
        scene.available = 5 * GI
        scene.observe()
        assert not await scene.rings(0.3)
        scene.watch.use(policy({"nodefs.available": "10Gi"}).thresholds)
        assert await scene.rings(5)
        scene.watch.use(policy({"nodefs.available": "1Gi"}).thresholds)
        scene.available = GI - 1
        assert await scene.rings(15)
        scene.watch.use(())
        looks = scene.looks
        assert not await scene.rings(0.3)
        assert scene.looks == looks

    play(scenario)
