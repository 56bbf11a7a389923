from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jettison.events import OutOfMemoryKill
from jettison.runtimes.host.cgroups.oom import OomWatch
from tests.builders import container, pod
from tests.runtimes.host.nodes import SLEEPS, Node, descriptors, needs_root, node, python, running, settings

pytestmark = needs_root

SMALL = replace(pod("small"), containers=(container("c", {"memory": "16Mi"}), container("d")))
# A child takes too much and is killed; the program itself lives on.
GREEDY = python("""
if os.fork() == 0:
    x = bytearray(40_000_000)
    os._exit(0)
os.wait()
""")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.002)


def test_a_kill_is_told_with_pod_and_container_and_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        with node(settings(tmp_path)) as made:
            made.kubepods.of_pod(SMALL).create()
            greedy, quiet = (made.kubepods.of_container(SMALL, name) for name in "cd")
            greedy.create()
            quiet.create()
            with running(quiet, SLEEPS), running(greedy, GREEDY):
                await until(lambda: bool(made.facts))
                await asyncio.sleep(0.3)  # the later looks find nothing new
                assert made.facts == [OutOfMemoryKill(SMALL, "c", 1)]
                assert made.rings == 1
                assert (greedy.oom_kills(), quiet.oom_kills()) == (1, 0)
            made.oom.close()

    asyncio.run(scenario())


def test_a_kill_that_no_alarm_told_of_is_found_before_the_cgroup_goes(tmp_path: Path) -> None:
    async def scenario() -> None:
        with node(settings(tmp_path)) as made:
            pod_place = made.kubepods.of_pod(SMALL)
            pod_place.create()
            place = made.kubepods.of_container(SMALL, "c")
            place.create()
            # The loop does not run in here, so no alarm can ring.
            with running(place, GREEDY):
                assert made.facts == []
            pod_place.unwatch()
            assert pod_place.remove()
            assert made.facts == [OutOfMemoryKill(SMALL, "c", 1)]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_kill_whose_cgroup_the_runtime_has_removed_is_told_once(tmp_path: Path, *, is_seen: bool) -> None:
    """Its runtime says that the container died of it."""

    async def scenario() -> None:
        with node(settings(tmp_path)) as made:
            made.kubepods.of_pod(SMALL).create()
            place = made.kubepods.of_box(SMALL, "c", "0123")
            place.create()
            with running(place, GREEDY):
                if is_seen:
                    await until(lambda: bool(made.facts))
            while not place.remove():
                await asyncio.sleep(0.002)
            place.tell_kill()
            place.tell_kill()
            await asyncio.sleep(0.3)  # the alarm of a removed cgroup rings
            place.unwatch()
            assert made.facts == [OutOfMemoryKill(SMALL, "c", 1)]
            made.oom.close()

    asyncio.run(scenario())


def test_a_container_found_running_is_watched_without_its_past(tmp_path: Path) -> None:
    async def scenario() -> None:
        with node(settings(tmp_path)) as made:
            place = made.kubepods.of_container(SMALL, "c")
            place.create()
            with running(place, GREEDY) as pid:
                made.oom.close()  # the agent dies, and another comes
                await asyncio.sleep(0.05)
                place.lead(pid)
                made.oom.sweep()
                assert made.facts == []
            made.oom.close()

    asyncio.run(scenario())


def test_nothing_stays_open(tmp_path: Path) -> None:
    def one(made: Node) -> None:
        place = made.kubepods.of_container(SMALL, "c")
        place.create()
        place.lead(os.getpid())
        place.unwatch()
        assert place.remove()

    async def scenario() -> None:
        with node(settings(tmp_path)) as made:
            one(made)
            before = descriptors()
            for _ in range(5):
                one(made)
            assert descriptors() == before

    asyncio.run(scenario())


def test_when_the_machine_has_killed_all_containers_are_looked_at(tmp_path: Path) -> None:
    async def scenario() -> None:
        with node(settings(tmp_path)) as made:
            place = made.kubepods.of_container(SMALL, "c")
            place.create()
            with running(place, GREEDY):  # no alarm rings meanwhile, as when the whole machine runs out
                made.oom.sweep()
                assert made.facts == [OutOfMemoryKill(SMALL, "c", 1)]
                made.oom.sweep()
                assert len(made.facts) == 1
            made.oom.close()

    asyncio.run(scenario())


LOGGED = "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),mems_allowed=0,global_oom,task_memcg=/{},"


def test_a_kill_outside_of_pods_is_the_nodes_own(tmp_path: Path) -> None:
    """The machine's count says that there was one, the kernel's log says which; one in a pod is the pod's alone."""
    vmstat, kmsg = tmp_path / "vmstat", tmp_path / "kmsg"
    vmstat.write_text("nr_free_pages 1\noom_kill 5\n")
    kmsg.write_text("")

    async def scenario() -> None:
        with node(settings(tmp_path)) as made:
            watch = OomWatch(made.kubepods.mounts, made.facts.append, lambda: None, tmp_path, kmsg)
            inside = made.kubepods.container_cgroup(SMALL, "c")
            watch.follow(inside, SMALL, "c")
            with kmsg.open("a") as log:
                log.write(LOGGED.format("system.slice/db") + "task=mysqld,pid=4711,uid=0\n")
                log.write(LOGGED.format(inside) + "task=python,pid=4712,uid=0\n")
            watch.sweep()
            assert made.facts == []  # the count has not changed, so the log is not read
            vmstat.write_text("nr_free_pages 1\noom_kill 7\n")
            watch.sweep()
            watch.sweep()
            assert made.facts == [OutOfMemoryKill(None, "", 1, "mysqld", 4711)]
            watch.close()

    asyncio.run(scenario())
