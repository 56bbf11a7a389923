"""Unused images removed by the engine's rules (spec §7.2, §7.3), whichever program keeps them.

What is known of an image's age and use is kept in memory, as a kubelet keeps it: an agent that has just come has seen
no image in use yet, and the minimum age protects all of them from it. Runtimes free the space of what they remove a
moment later, so what was freed is measured once it stops growing, and never added up from recorded sizes: layers that
images share would count several times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from jettison import events
from jettison.clock import Clock
from jettison.engine.config.policy import ImageCollection
from jettison.engine.node.image_collection import (
    Collected,
    Image,
    PresentImage,
    collect_images,
    detect_images,
    free_space,
    is_collecting,
)
from jettison.engine.node.image_collection import Collection as Conversation
from jettison.engine.node.signals import Reclaimable
from jettison.engine.node.snapshot import FsStats
from jettison.errors import RuntimeFailure
from jettison.events import Emit
from jettison.runtimes.containers import NO_CONTAINERS, HeldImage, ImageStore
from jettison.runtimes.protocol import Reclaimed
from jettison.values import frozen


class Settling(NamedTuple):
    """How long free space is awaited, in seconds. containerd has given back 100 MB one second after it had answered."""

    # Between two looks.
    look: float = 0.05
    # It must stand still for so long.
    still: float = 0.4
    # Its first growth may take so long, and all of it.
    first: float = 2.0
    longest: float = 10.0


SETTLING = Settling()


IMAGES_SECONDS = 300.0
"""How often images are collected when the disk is in no need of it; the kubelet's period."""


@frozen
class ImageChoice:
    """What the rules say of one image now; `why` is for people."""

    image: HeldImage
    goes: bool
    why: str


class Freed(NamedTuple):
    """What a collection came to; bytes are those that the filesystem has gained, None where that is not known."""

    images: int
    measured: int | None
    result: Collected


class ImageCollector:
    """Of one store. One collection at a time. `space` reads the filesystem that the images are on."""

    def __init__(
        self,
        store: ImageStore,
        policy: ImageCollection,
        clock: Clock,
        emit: Emit,
        space: Callable[[], FsStats | None],
        keep: Sequence[str] = (),
        settling: Settling = SETTLING,
    ) -> None:
        self._store = store
        self._policy = policy
        self._clock = clock
        self._emit = emit
        self._space = space
        # Patterns of names that stay, whatever else holds.
        self._keep = keep
        self._settling = settling
        self._records: dict[str, Image] = {}
        self._names: dict[str, HeldImage] = {}
        self._turn = asyncio.Lock()
        self._began_ns = clock.steady_ns()

    def use(self, policy: ImageCollection) -> None:
        """From the next collection on."""
        self._policy = policy

    async def detect(self) -> None:
        """Look which images there are and which are in use. Raises RuntimeFailure."""
        async with self._turn:
            await self._detected()

    async def _detected(self, without: Collection[str] = NO_CONTAINERS) -> Collection[Image]:
        held = await self._store.held_images()
        used = await self._store.used_images(without)
        self._names = {each.id: each for each in held}
        present = [PresentImage(each.id, each.size, each.is_pinned or self._is_kept(each)) for each in held]
        self._records = detect_images(self._records, present, used, self._clock.steady_ns())
        return self._records.values()

    async def collect(self) -> Freed:
        """Images unused for too long, and from the high mark down to the low one. Raises RuntimeFailure."""
        async with self._turn:
            images, space = await self._detected(), self._space() or FsStats()
            now_ns = self._clock.steady_ns()
            plan = collect_images(images, self._policy, now_ns, self._began_ns, space.capacity, space.available)
            return await self._carry_out(plan)

    async def free(self) -> Freed:
        """All that are unused and old enough: what a starved disk asks for. Raises RuntimeFailure."""
        async with self._turn:
            images = await self._detected()
            return await self._carry_out(free_space(images, self._policy, self._clock.steady_ns()))

    async def choices(self, without: Collection[str] = NO_CONTAINERS) -> list[ImageChoice]:
        """What `free` would do once these containers are gone, image by image. Raises RuntimeFailure."""
        async with self._turn:
            images = list(await self._detected(without))
        now_ns = self._clock.steady_ns()
        plan, order = free_space(images, self._policy, now_ns), list[str]()
        try:
            removal = next(plan)
            while True:
                order.append(removal.image.id)
                removal = plan.send(None)
        except StopIteration:
            left = [each for each in images if each.id not in order]
        return [ImageChoice(self._names[each], True, "unused") for each in order] + [
            ImageChoice(self._names[each.id], False, self._why_kept(each)) for each in left
        ]

    async def reclaim(self) -> Reclaimed:
        """The same as `free` for a starved disk. Failures are in the answer."""
        try:
            done = await self.free()
        except RuntimeFailure as failure:
            return Reclaimed(errors=(f"cannot collect images: {failure}",))
        error = done.result.error
        return Reclaimed(images=done.images, freed_bytes=done.measured or 0, errors=() if error is None else (error,))

    async def keep_for_ever(self, *, period_seconds: float = IMAGES_SECONDS) -> None:
        """Collect every five minutes, the first time now.

        The first failure in a row is only logged, as a kubelet does: a runtime that restarts is no news.
        """
        failures = 0
        while True:
            why = await self._collect_in_time()
            failures = failures + 1 if why else 0
            if failures > 1:
                self._emit(events.CollectionFailed(Reclaimable.IMAGES, why))
            elif why:
                self._emit(events.ActionFailed("collect images", why))
            await asyncio.sleep(period_seconds)

    async def _collect_in_time(self) -> str:
        """Why it failed; empty where it did not."""
        try:
            if not is_collecting(self._policy):
                # What is seen today may go for a starved disk tomorrow.
                await self.detect()
                return ""
            done = await self.collect()
        except RuntimeFailure as failure:
            return str(failure)
        if done.images:
            self._emit(events.ReclaimFinished(0, done.images, done.measured or 0))
        if done.result.event is not None:
            self._emit(events.CollectionFailed(Reclaimable.IMAGES, done.result.error or "", done.result.event))
        return done.result.error or ""

    def _why_kept(self, image: Image) -> str:
        if image.is_used:
            return "in use"
        if image.is_pinned:
            return "kept by name" if self._is_kept(self._names[image.id]) else "pinned"
        return "younger than imageMinimumGCAge"

    def _is_kept(self, image: HeldImage) -> bool:
        return any(fnmatchcase(name, pattern) for name in image.names for pattern in self._keep)

    async def _carry_out(self, plan: Conversation) -> Freed:
        before, count = self._available(), 0
        try:
            removal = next(plan)
            while True:
                failure = await self._remove(removal.image)
                if failure is None:
                    count += 1
                    names = self._names[removal.image.id].names
                    self._emit(events.ImageRemoved(removal.image.id, names, removal.image.size, removal.reason))
                removal = plan.send(failure)
        except StopIteration as end:
            result: Collected = end.value
        return Freed(count, await self._gained(before) if count else 0, result)

    async def _remove(self, image: Image) -> str | None:
        try:
            await self._store.remove_image(image.id)
        except RuntimeFailure as failure:
            return str(failure)
        self._records.pop(image.id, None)
        return None

    async def _gained(self, before: int | None) -> int | None:
        return None if before is None else await gained(self._available, before, self._settling)

    def _available(self) -> int | None:
        found = self._space()
        return None if found is None else found.available


async def gained(available: Callable[[], int | None], before: int, settling: Settling = SETTLING) -> int:
    """Bytes that have become free since there were `before`; returns when no more come, which takes at most 10 s."""
    loop = asyncio.get_running_loop()
    began, grew, most = loop.time(), None, before
    while (now := loop.time()) - began < settling.longest:
        found = available()
        if found is not None and found > most:
            most, grew = found, now
        if now - (began if grew is None else grew) >= (settling.first if grew is None else settling.still):
            break
        await asyncio.sleep(settling.look)
    return most - before
