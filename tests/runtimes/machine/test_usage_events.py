from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jettison.clock import SystemClock
from jettison.runtimes.host.cgroups.places import CgroupPlace
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import Limits
from jettison.runtimes.machine.usage_events import UsageEvents
from tests.builders import MI
from tests.runtimes.host.nodes import descriptors, needs_memory_events, needs_root, node, running, settings
from tests.runtimes.linux.crowding import crowded

pytestmark = [needs_root, needs_memory_events]

# Takes 24 MiB a quarter of a second after it is ready.
GROWS = "import os, time; os.write(1, b'r'); time.sleep(0.25); kept = bytearray(24 << 20); time.sleep(60)"


class Listener:
    """Counts, and tells what it was told to tell."""

    def __init__(self, *, is_news: bool = True) -> None:
        self.is_news = is_news
        self.events = self.settled = 0

    def on_event(self) -> bool:
        self.events += 1
        return self.is_news

    def on_settled(self) -> None:
        self.settled += 1


async def until(holds: Callable[[], bool], seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.001)


class Scene:
    """A cgroup below a node, with alarms on it."""

    def __init__(self, directory: Path, pool: ThreadPoolExecutor, *, is_news: bool = True) -> None:
        self.directory = directory
        self.listener = Listener(is_news=is_news)
        self.events = UsageEvents(pool, SystemClock(), self.listener.on_event, self.listener.on_settled)

    def levels(self) -> list[int]:
        return sorted(level for _, level in self.events._set)

    async def aim(self, *levels: int, headroom: int = 0) -> None:
        self.events.aim({self.directory: frozenset(levels)}, headroom)
        await until(lambda: self.events.is_settled)


def run(tmp_path: Path, scenario: Callable[[Scene, CgroupPlace], object], *, is_news: bool = True) -> None:
    async def play() -> None:
        with node(settings(tmp_path)) as made, ThreadPoolExecutor(1) as pool:
            place = CgroupPlace(Cgroup(made.cgroup_parent.mounts, f"{made.kubepods.name}/podx"), Limits())
            place.create()
            directory = place.cgroup.directory("memory")
            assert directory is not None
            scene = Scene(directory, pool, is_news=is_news)
            await scenario(scene, place)  # type: ignore[misc]
            await scene.events.close()

    asyncio.run(play())


def test_a_crossing_is_told(tmp_path: Path) -> None:
    async def scenario(scene: Scene, place: CgroupPlace) -> None:
        await scene.aim(20 * MI)
        assert scene.listener.settled == 1
        with running(place, GROWS):
            assert scene.listener.events == 0
            await until(lambda: scene.listener.events > 0)

    run(tmp_path, scenario)


def test_alarms_are_moved_only_when_they_are_too_far_off(tmp_path: Path) -> None:
    async def scenario(scene: Scene, place: CgroupPlace) -> None:
        await scene.aim(64 * MI)
        await scene.aim(64 * MI + 200_000)
        assert scene.levels() == [64 * MI]
        # 3 MiB off with 64 MiB to go is near enough, with 16 it is not.
        await scene.aim(67 * MI, headroom=64 * MI)
        assert scene.levels() == [64 * MI]
        await scene.aim(67 * MI, headroom=16 * MI)
        assert scene.levels() == [67 * MI]
        scene.events._set_ns -= 11 * 10**9
        await scene.aim(68 * MI, headroom=64 * MI)
        assert scene.levels() == [68 * MI]

    run(tmp_path, scenario)


def test_of_levels_close_together_one_is_set(tmp_path: Path) -> None:
    async def scenario(scene: Scene, place: CgroupPlace) -> None:
        await scene.aim(10 * MI, 10 * MI + 1000, 30 * MI)
        assert scene.levels() == [10 * MI, 30 * MI]

    run(tmp_path, scenario)


def test_the_old_alarm_rings_until_the_new_one_is_set(tmp_path: Path) -> None:
    async def scenario(scene: Scene, place: CgroupPlace) -> None:
        await scene.aim(10 * MI)
        scene.events.aim({scene.directory: frozenset({100 * MI})}, 0)
        assert not scene.events.is_settled
        assert scene.levels() == [10 * MI]
        await until(lambda: scene.events.is_settled)
        assert scene.levels() == [100 * MI]

    run(tmp_path, scenario)


def test_an_alarm_that_rings_for_nothing_is_silenced_for_a_moment(tmp_path: Path) -> None:
    # Takes and gives back 8 MiB across the level as fast as it can.
    flutter = "import os\nos.write(1, b'r')\nwhile True: bytearray(8 << 20)[::4096]\n"

    async def scenario(scene: Scene, place: CgroupPlace) -> None:
        await scene.aim(9 * MI)
        with running(place, flutter):
            await until(lambda: scene.listener.events > 1)
            before = scene.listener.events
            await asyncio.sleep(0.2)
            assert scene.listener.events - before <= 45

    run(tmp_path, scenario, is_news=False)


def test_where_no_alarm_can_be_set_the_reason_is_kept_and_the_next_attempt_comes_later(tmp_path: Path) -> None:
    async def scenario(scene: Scene, place: CgroupPlace) -> None:
        scene.events.aim({scene.directory / "gone": frozenset({MI})}, 0)
        await until(lambda: scene.listener.settled == 1)
        assert scene.events.failure is not None
        assert "no event on" in scene.events.failure
        scene.events.aim({scene.directory: frozenset({MI})}, 0)
        await asyncio.sleep(0.1)
        assert scene.levels() == []
        scene.events._failed_ns -= 11 * 10**9
        await scene.aim(MI)
        assert scene.levels() == [MI]

    run(tmp_path, scenario)


def test_a_full_table_of_descriptors_is_a_reason_and_leaves_what_was_set(tmp_path: Path) -> None:
    async def scenario(scene: Scene, place: CgroupPlace) -> None:
        await scene.aim(64 * MI)
        with crowded(free=1):
            scene.events.aim({scene.directory: frozenset({32 * MI})}, 0)
            await until(lambda: scene.listener.settled == 2)
        assert "too many open files" in (scene.events.failure or "")
        assert scene.levels() == [64 * MI]

    run(tmp_path, scenario)


def test_nothing_stays_open_however_it_ends(tmp_path: Path) -> None:
    async def scenario(scene: Scene, place: CgroupPlace) -> None:
        before = descriptors()
        await scene.aim(10 * MI)
        scene.events.aim({scene.directory: frozenset({50 * MI})}, 0)
        await scene.events.close()  # while one is being set
        assert descriptors() == before
        assert scene.listener.settled == 1

    run(tmp_path, scenario)
