"""Driving the engine's rules over a store: what is removed, told and measured, and what a failing store costs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from jettison.engine.config.policy import ImageCollection
from jettison.engine.node.signals import Reclaimable
from jettison.engine.node.snapshot import FsStats
from jettison.errors import ContainerRuntimeError
from jettison.events import ActionFailed, CollectionFailed, Fact, ImageRemoved
from jettison.runtimes.containers import HeldImage
from jettison.runtimes.machine.image_collector import ImageCollector, Settling
from tests.agent.scripted_runtime import HandClock

MINUTE = 60


@dataclass
class Shelf:
    """A store that frees the space of what was removed three looks later, as containerd does."""

    images: dict[str, int]
    used: set[str] = field(default_factory=set)
    pinned: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    available: int = 0
    coming: list[int] = field(default_factory=list)

    async def held_images(self) -> list[HeldImage]:
        return [HeldImage(name, (f"local/{name}:1",), size, name in self.pinned) for name, size in self.images.items()]

    async def used_images(self, without: Collection[str] = ()) -> set[str]:
        return self.used

    async def remove_image(self, image: str) -> None:
        if image in self.stuck:
            raise ContainerRuntimeError(f"{image} is busy", 2)
        self.coming += [0, 0, self.images.pop(image)]

    def space(self) -> FsStats:
        self.available += self.coming.pop(0) if self.coming else 0
        return FsStats(available=self.available, capacity=1000)


QUICK = Settling(look=0.001, still=0.05, first=0.2)


def collector(shelf: Shelf, clock: HandClock, facts: list[Fact], **policy: int) -> ImageCollector:
    return ImageCollector(shelf, ImageCollection(**policy), clock, facts.append, shelf.space, ("local/base*",), QUICK)


def test_what_is_unused_and_old_enough_goes_and_what_that_frees_is_measured() -> None:
    """Used, pinned and kept ones stay; so do all for the first two minutes."""
    shelf = Shelf({"used": 10, "pinned": 20, "base": 30, "free": 40, "more": 50}, {"used"}, {"pinned"})
    clock, facts = HandClock(), list[Fact]()
    own = collector(shelf, clock, facts)

    async def scenario() -> None:
        assert (await own.free()).images == 0
        clock.pass_seconds(2 * MINUTE)
        choices = {each.image.id: (each.goes, each.why) for each in await own.choices()}
        assert choices == {
            "free": (True, "unused"),
            "more": (True, "unused"),
            "used": (False, "in use"),
            "pinned": (False, "pinned"),
            "base": (False, "kept by name"),
        }
        done = await own.free()
        assert (done.images, done.measured, done.result.freed) == (2, 90, 90)

    asyncio.run(scenario())
    assert sorted(shelf.images) == ["base", "pinned", "used"]
    assert [(fact.image, fact.size_bytes) for fact in facts if isinstance(fact, ImageRemoved)] == [
        ("free", 40),
        ("more", 50),
    ]


def test_the_periodic_collection_goes_from_the_high_mark_to_the_low_one() -> None:
    """85 % of 1000 are used at 150 left; 80 % at 200."""
    shelf = Shelf({"a": 30, "b": 30, "c": 30}, available=150)
    clock, facts = HandClock(), list[Fact]()
    own = collector(shelf, clock, facts)

    async def scenario() -> None:
        await own.detect()
        clock.pass_seconds(2 * MINUTE)
        done = await own.collect()
        assert (done.images, done.measured, done.result.error) == (2, 60, None)
        assert (await own.collect()).images == 0

    asyncio.run(scenario())
    assert list(shelf.images) == ["c"]


def test_an_image_that_cannot_be_removed_is_an_error_and_the_others_go() -> None:
    shelf = Shelf({"a": 30, "b": 30}, stuck={"a"})
    clock = HandClock()
    own = collector(shelf, clock, [], minimum_age_ns=0)
    done = asyncio.run(own.free())
    assert (done.images, done.measured) == (1, 30)
    assert done.result.error is not None
    assert "a is busy" in done.result.error


def test_the_second_failure_in_a_row_is_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a runtime that restarts only the log tells; one that goes on failing is `ImageGCFailed`."""
    shelf, facts = Shelf({}), list[Fact]()

    async def silent() -> list[HeldImage]:
        raise ContainerRuntimeError("no answer", 4)

    monkeypatch.setattr(shelf, "held_images", silent)

    async def keep() -> None:
        task = asyncio.create_task(collector(shelf, HandClock(), facts).keep_for_ever(period_seconds=0.001))
        while len(facts) < 3:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(keep())
    failed = CollectionFailed(Reclaimable.IMAGES, "no answer")
    assert facts[:3] == [ActionFailed("collect images", "no answer"), failed, failed]
