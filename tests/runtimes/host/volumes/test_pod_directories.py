"""A place is vacated, however long that takes and whatever is refused meanwhile."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from jettison import events
from jettison.errors import SignalError
from jettison.runtimes.host.cgroups.places import Door, Kill, Place
from tests.runtimes.host.nodes import needs_root
from tests.runtimes.host.scenes import SLEEPS, Scene, container, manifest, play, until

pytestmark = needs_root


class Difficult:
    """A real place that refuses some times first."""

    environment: dict[str, str] = {}  # noqa: RUF012  the protocol's
    is_the_kernels = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self.name = place.name
        self.kills = 0
        self.removals = 0

    @property
    def exists(self) -> bool:
        return self._place.exists

    def create(self) -> None:
        self._place.create()

    @property
    def door(self) -> Door:
        return self._place.door

    def lead(self, pid: int, *, is_copy: bool = False) -> None:
        self._place.lead(pid, is_copy=is_copy)

    def processes(self) -> frozenset[int]:
        return self._place.processes()

    def unreaped(self) -> int:
        return 0

    def oom_kills(self) -> int | None:
        return None

    def kill(self) -> frozenset[int]:
        return self._place.kill()

    def watch(self) -> None:
        self._place.watch()

    def tell_kill(self) -> None:
        self._place.tell_kill()

    def unwatch(self) -> None:
        self._place.unwatch()

    async def empty(self, timeout: float, kill: Kill | None = None) -> frozenset[int]:
        self.kills += 1
        if self.kills == 1:
            raise SignalError("too many open files")
        if self.kills == 2:
            return self.processes()
        return await self._place.empty(timeout, kill)

    def remove(self) -> bool:
        self.removals += 1
        return self.removals > 2 and self._place.remove()


def test_nothing_but_success_ends_it(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(container(SLEEPS), restartPolicy="Never"))
        pid = scene.pid()
        difficult = Difficult(scene.places.of_container(scene.status().pod, "c"))
        async with asyncio.timeout(30):
            await scene.services.vacate(difficult, partial(events.ActionFailed, "end it"))
        assert (difficult.kills, difficult.removals) == (5, 3)
        assert not difficult.exists
        assert scene.said(events.ActionFailed) == [
            events.ActionFailed("end it", "too many open files"),
            events.ActionFailed("end it", f"these processes do not die: {pid}"),
        ]

    play(tmp_path, scenario)


def test_what_a_thread_has_begun_is_waited_for_even_by_the_cancelled(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            may_end.wait(10)
            ended.set()
            raise SignalError("no process hears this")

        waiting = asyncio.create_task(scene.services.wait_for(work))
        await until(begun.is_set)
        waiting.cancel()
        await asyncio.sleep(0.05)
        assert not waiting.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert ended.is_set()

    play(tmp_path, scenario)


def test_what_no_thread_has_begun_is_not_begun_any_more(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        may_end = threading.Event()
        done: list[int] = []
        busy = [asyncio.create_task(scene.services.wait_for(may_end.wait, 10)) for _ in range(2)]
        queued = asyncio.create_task(scene.services.wait_for(done.append, 1))
        await asyncio.sleep(0.05)
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await queued
        may_end.set()
        await asyncio.gather(*busy)
        assert not done

    play(tmp_path, scenario)


def test_a_place_that_is_gone_is_vacant(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        difficult = Difficult(scene.places.of_container(manifest(container(SLEEPS)).pod, "c"))
        await scene.services.vacate(difficult, partial(events.ActionFailed, "end no process"))
        assert difficult.kills == 0

    play(tmp_path, scenario)
