"""Everything on a store's disk that no container needs, planned and cleared at the operator's word.

Containers that have ended go first, by the engine's rules, then the images that are unused once those are gone, then
the cache of builds. Nothing here decides which: the rules are `engine/node/dead_containers` and `image_collection`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from jettison.clock import Clock
from jettison.engine.config.policy import ContainerCollection, ImageCollection
from jettison.engine.node.dead_containers import DeadContainer, PodState, Sandbox, plan_containers, plan_sandboxes
from jettison.errors import ObservationError
from jettison.events import Fact, ImageRemoved
from jettison.runtimes.containers import NO_CONTAINERS, ImageStore
from jettison.runtimes.linux.files.filesystems import read_filesystem
from jettison.runtimes.machine.background_tasks import succeeded
from jettison.runtimes.machine.image_collector import ImageCollector, gained
from jettison.runtimes.machine.node_disks import StorageDirs
from jettison.values import frozen


class GarbageKind(StrEnum):
    """What can be cleared."""

    CONTAINERS = "containers"
    IMAGES = "images"
    BUILD_CACHE = "build-cache"


class BuildCache(NamedTuple):
    """What no build uses now."""

    entries: int
    size: int


@frozen
class Leftovers:
    """Containers that do not run, with their names for people, sandboxes, and what may go of their pods."""

    containers: Sequence[DeadContainer]
    names: Mapping[str, str]
    sandboxes: Sequence[Sandbox] = ()
    pods: Mapping[str, PodState] = field(default_factory=dict)


class GarbageStore(ImageStore, Protocol):
    """A runtime or an engine. Every call has a deadline and raises RuntimeFailure."""

    @property
    def name(self) -> str:
        """For messages."""

    def let_go(self) -> None:
        """Of a connection, where there is one."""

    async def storage(self) -> StorageDirs | None:
        """Where it keeps images and layers."""

    async def leftovers(self) -> Leftovers:
        """What has ended."""

    async def written(self, containers: Collection[str]) -> Mapping[str, int]:
        """Bytes that each of these has written over its image; one of which that is not known is left out."""

    async def remove(self, container: DeadContainer) -> None:
        """Take it away with what it has written."""

    async def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Stop it and take it away."""

    async def build_cache(self) -> BuildCache | None:
        """None where there is none."""

    async def clear_build_cache(self) -> None:
        """All of it that no build uses."""


@frozen
class GarbageItem:
    """One thing: whether it goes, and why or why not. `size` is what its store says, None where it says nothing; layers
    of images may be shared.
    """

    kind: GarbageKind
    name: str
    size: int | None
    goes: bool
    why: str


class Cleared(NamedTuple):
    """What was removed, and the bytes that its disk has gained; None where that is not known."""

    items: tuple[GarbageItem, ...]
    gained: int | None
    errors: tuple[str, ...]


class Garbage:
    """Of one store. `tell` is called with each thing that is gone."""

    def __init__(
        self,
        store: GarbageStore,
        images: ImageCollection,
        containers: ContainerCollection,
        clock: Clock,
        kinds: Collection[GarbageKind],
        keep: Sequence[str] = (),
        tell: Callable[[GarbageItem], None] = lambda _: None,
        *,
        has_sizes: bool = False,
    ) -> None:
        """With `has_sizes` the store measures what containers have written, which takes a while where that is much."""
        self.store = store
        self._has_sizes = has_sizes
        self._policy = containers
        self._clock = clock
        self._kinds = kinds
        self._tell = tell
        self._done: list[GarbageItem] = []
        # An order of the operator is for now: no image is too young for it.
        policy = replace(images, minimum_age_ns=0)
        self._images = ImageCollector(store, policy, clock, self._hear, lambda: None, keep)

    async def plan(self) -> list[GarbageItem]:
        """Everything that there is, what goes first. Raises RuntimeFailure."""
        found, going = list[GarbageItem](), NO_CONTAINERS
        if GarbageKind.CONTAINERS in self._kinds:
            left = await self.store.leftovers()
            plan = {each.id for each in self._dead(left)}
            going = frozenset(plan)
            sizes = await self._sizes(left.containers)
            found += (_container(left, each, sizes, goes=each.id in plan) for each in left.containers)
            found += (_sandbox(each) for each in self._sandboxes(left, going))
        if GarbageKind.IMAGES in self._kinds:
            choices = await self._images.choices(going)
            found += (
                GarbageItem(
                    GarbageKind.IMAGES, _name(each.image.names, each.image.id), each.image.size, each.goes, each.why
                )
                for each in choices
            )
        if (cache := await self._cache()) is not None:
            found.append(_cached(cache))
        return sorted(found, key=lambda each: not each.goes)

    async def clear(self) -> Cleared:
        """Do it; what fails is in the answer. Raises RuntimeFailure where nothing could be begun."""
        errors, space = list[str](), _free_space(await self.store.storage())
        before, self._done = space(), []
        if GarbageKind.CONTAINERS in self._kinds:
            await self._clear_containers(errors)
        if GarbageKind.IMAGES in self._kinds:
            freed = await self._images.free()
            errors += [] if freed.result.error is None else [freed.result.error]
        cache = await self._cache()
        if cache is not None and await succeeded(self.store.clear_build_cache(), errors):
            self._say(_cached(cache))
        more = None if before is None else await gained(space, before) if self._done else 0
        return Cleared(tuple(self._done), more, tuple(errors))

    async def _clear_containers(self, errors: list[str]) -> None:
        left = await self.store.leftovers()
        dead, gone = self._dead(left), set[str]()
        sizes = await self._sizes(dead)
        for each in dead:
            if await succeeded(self.store.remove(each), errors):
                gone.add(each.id)
                self._say(_container(left, each, sizes, goes=True))
        for sandbox in self._sandboxes(left, gone):
            if await succeeded(self.store.remove_sandbox(sandbox), errors):
                self._say(_sandbox(sandbox))

    async def _sizes(self, containers: Sequence[DeadContainer]) -> Mapping[str, int]:
        return await self.store.written([each.id for each in containers]) if self._has_sizes else {}

    async def _cache(self) -> BuildCache | None:
        cache = await self.store.build_cache() if GarbageKind.BUILD_CACHE in self._kinds else None
        return cache if cache is not None and cache.entries else None

    def _dead(self, left: Leftovers) -> list[DeadContainer]:
        return plan_containers(left.containers, self._policy, self._clock.now_ns(), left.pods, is_starved=True)

    def _sandboxes(self, left: Leftovers, gone: Collection[str]) -> list[Sandbox]:
        """One whose last container goes is held by none any more."""
        held = {each.pod_uid for each in left.containers if each.id not in gone}
        return [each for each in plan_sandboxes(left.sandboxes, left.pods, is_starved=True) if each.pod_uid not in held]

    def _hear(self, fact: Fact) -> None:
        if isinstance(fact, ImageRemoved):
            self._say(GarbageItem(GarbageKind.IMAGES, _name(fact.names, fact.image), fact.size_bytes, True, "unused"))

    def _say(self, item: GarbageItem) -> None:
        self._done.append(item)
        self._tell(item)


def _container(left: Leftovers, each: DeadContainer, sizes: Mapping[str, int], *, goes: bool) -> GarbageItem:
    why = "has ended" if goes else "ended too recently, or is the last of a pod that lives"
    return GarbageItem(GarbageKind.CONTAINERS, left.names.get(each.id, each.id), sizes.get(each.id), goes, why)


def _sandbox(each: Sandbox) -> GarbageItem:
    """It writes nothing."""
    return GarbageItem(GarbageKind.CONTAINERS, f"sandbox {each.id[:12]}", 0, True, "its pod is gone")


def _cached(cache: BuildCache) -> GarbageItem:
    return GarbageItem(GarbageKind.BUILD_CACHE, f"{cache.entries} entries", cache.size, True, "no build uses it")


def _name(names: Sequence[str], image: str) -> str:
    return names[0] if names else image.removeprefix("sha256:")[:12]


def _free_space(storage: StorageDirs | None) -> Callable[[], int | None]:
    """What is available where the store keeps its images."""

    def read() -> int | None:
        try:
            found = None if storage is None else read_filesystem(Path(storage.images))
        except ObservationError:
            return None
        return None if found is None else found.available

    return read
