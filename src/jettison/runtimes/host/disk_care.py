"""What a node does about its disks besides evicting: finds them, and keeps them clear of what no pod needs.

Dead containers go every minute, unused images every five, and both when a disk is starved, before any pod. Everything
waits on the event loop or in a thread, and every call to the container runtime has a deadline: nothing here holds up a
look at the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from jettison import events
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Reclaim
from jettison.engine.node.signals import Reclaimable
from jettison.engine.node.snapshot import FsStats, NodeStats
from jettison.errors import ObservationError, RuntimeFailure
from jettison.runtimes.host.volumes.pod_directories import HostServices
from jettison.runtimes.host.volumes.reclaim import Collector
from jettison.runtimes.machine.background_tasks import BackgroundTasks
from jettison.runtimes.machine.ballast import Ballast, ballast_places
from jettison.runtimes.machine.node_disks import NodeDisks
from jettison.runtimes.protocol import Reclaimed

if TYPE_CHECKING:
    from jettison.runtimes.machine.image_collector import ImageCollector

# How long the start waits for the container runtime to tell where its images are, and how soon one that did not is
# asked again. A healthy one takes a millisecond, and the node is not guarded before.
_PATIENCE, _PAUSE = 2.0, 5.0


class DiskCare:
    """Of one node. `changed` is called when its filesystems turn out to be others than was thought."""

    def __init__(
        self,
        policy: Policy,
        filesystems: NodeDisks,
        collector: Collector,
        services: HostServices,
        changed: Callable[[], None],
        *,
        removes_images: bool = True,
    ) -> None:
        self._policy = policy
        self._filesystems = filesystems
        self._collector = collector
        self._boxes = boxes = services.boxes
        self._pool = services.pool
        self._collect_seconds = services.settings.pace.collection
        self._emit = emit = services.emit
        self._changed = changed
        self._images: ImageCollector | None = None
        if boxes is not None and removes_images:
            # Loaded only where there are images: 0.1 MB of an agent.
            from jettison.runtimes.machine.image_collector import ImageCollector  # noqa: PLC0415

            keep = services.settings.keep_images
            self._images = ImageCollector(boxes, policy.images, services.clock, emit, self._image_space, keep)
        self._lost = ""
        self._settings = services.settings
        self._ballasts: dict[Path, Ballast] = {}
        self._shifting: asyncio.Future[None] | None = None

    def use(self, policy: Policy) -> None:
        """Collect by these marks from now on."""
        self._policy = policy
        self._collector.use(policy.containers)
        if self._images is not None:
            self._images.use(policy.images)

    async def open(self, background: BackgroundTasks) -> None:
        """Find the filesystems, as far as the runtime tells of them by now, and begin to keep house."""
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._find()
        except TimeoutError:
            self._complain("the container runtime does not answer")
        await self._place_ballast()
        background.begin(self._find_until_found())
        background.begin(self._keep_containers())
        if self._images is not None:
            background.begin(self._images.keep_for_ever())

    async def close(self) -> None:
        """What was held is not needed while no agent looks."""
        if self._shifting is not None:
            await asyncio.wait([self._shifting])
        loop = asyncio.get_running_loop()
        for each in self._ballasts.values():
            await loop.run_in_executor(self._pool, each.drop)

    def observed(self, node: NodeStats, *, is_short: bool) -> None:
        """Give ballast up, or take it back, by what was just measured; in a thread, one at a time."""
        if self._shifting is not None or not self._ballasts:
            return
        own = self._filesystems.places.node
        for directory, each in self._ballasts.items():
            stats = node.fs if directory.is_relative_to(own) else node.image_fs
            work = each.is_due(stats, is_short=is_short)
            if work is not None:
                self._shifting = asyncio.get_running_loop().run_in_executor(self._pool, work)
                self._shifting.add_done_callback(self._shifted)
                return

    def _shifted(self, done: asyncio.Future[None]) -> None:
        self._shifting = None
        done.result()

    async def _place_ballast(self) -> None:
        """One on each filesystem of the node; those that are no longer of the node are dropped."""
        if not self._settings.ballast:
            return
        loop, settings = asyncio.get_running_loop(), self._settings
        places = await loop.run_in_executor(self._pool, ballast_places, self._filesystems.places, settings.node_name)
        for directory in self._ballasts.keys() - set(places):
            await loop.run_in_executor(self._pool, self._ballasts.pop(directory).drop)
        for directory in places:
            self._ballasts.setdefault(directory, Ballast(directory, settings.ballast, self._say))

    def _say(self, fact: events.Fact) -> None:
        """From the thread that works on the disk."""
        self._loop.call_soon_threadsafe(self._emit, fact)

    async def reclaim(self, order: Reclaim) -> Reclaimed:
        """What the order names, in its order. Failures are in the answer."""
        done = Reclaimed()
        for what in order.what:
            if what is Reclaimable.CONTAINERS:
                done = done.and_also(await self._collector.collect(is_starved=True))
            elif self._images is not None:
                done = done.and_also(await self._images.reclaim())
        return done

    async def _keep_containers(self) -> None:
        while True:
            await asyncio.sleep(self._collect_seconds)
            await self._find()
            done = await self._collector.collect(is_starved=False)
            if done.containers:
                self._emit(events.ReclaimFinished(done.containers, done.images, done.freed_bytes))
            if done.errors:
                self._emit(events.CollectionFailed(Reclaimable.CONTAINERS, "; ".join(done.errors)))

    async def _find_until_found(self) -> None:
        while self._lost:
            await asyncio.sleep(_PAUSE)
            await self._find()

    async def _find(self) -> None:
        """Which filesystem is which; it stays as it was where that does not come out."""
        if self._boxes is None:
            return
        loop = asyncio.get_running_loop()
        try:
            named = await self._boxes.storage()
            places = await loop.run_in_executor(self._pool, self._filesystems.find, [] if named is None else [named])
        except RuntimeFailure as failure:
            self._complain(str(failure))
            return
        self._lost = ""
        before, self._filesystems.places = self._filesystems.places, places
        if not places.are_as(before):
            self._changed()
            await self._place_ballast()

    def _complain(self, why: str) -> None:
        """Once, until it comes out."""
        if why != self._lost:
            self._emit(events.ActionFailed("find the filesystem of images", why))
        self._lost = why

    def _image_space(self) -> FsStats | None:
        try:
            return self._filesystems.read()[1]
        except ObservationError:
            return None  # the next observation meets the same and says so
