"""What Docker or Podman keeps on its disk besides what runs: images, containers that have ended, the cache of builds.

Everything here is asked for by the operator, by `jettison gc` or by a setting of the guard; a guard by itself removes
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import msgspec

from jettison.clock import Clock
from jettison.engine.config.policy import ContainerCollection, Policy
from jettison.engine.node.dead_containers import DeadContainer, Sandbox
from jettison.engine.node.signals import Reclaimable
from jettison.engine.node.snapshot import FsStats
from jettison.errors import ContainerRuntimeError, ObservationError, RuntimeFailure
from jettison.events import Emit
from jettison.manifests.times import time_or_none
from jettison.runtimes.adopted.engine_socket import EngineSocket, said
from jettison.runtimes.adopted.rules import PROTECT
from jettison.runtimes.adopted.settings import AdoptedSettings
from jettison.runtimes.containers import NO_CONTAINERS, HeldImage
from jettison.runtimes.machine.garbage import BuildCache, Garbage, GarbageKind, Leftovers
from jettison.runtimes.machine.image_collector import ImageCollector
from jettison.runtimes.machine.node_disks import StorageDirs, read_stats
from jettison.runtimes.protocol import Reclaimed
from jettison.runtimes.workloads import PlacedStore

# Seconds beyond those of a question: to delete layers of some gigabytes takes a busy disk a while.
_WORK = 60.0
_PRUNING = 600.0
# One that ended, was made and not started, or could not be removed.
_DEAD = frozenset({"exited", "created", "dead", "stopped"})
_DAY_NS = 86_400 * 10**9
_MOST_NAMES, _LONGEST_NAME = 8, 512
_NO_TAG = "<none>:<none>"


class _Image(msgspec.Struct, rename="pascal"):
    id: str
    parent_id: str = ""
    repo_tags: list[str] | None = None
    repo_digests: list[str] | None = None
    size: int = 0
    labels: dict[str, str] | None = None


class _Container(msgspec.Struct, rename="pascal"):
    id: str
    image_id: str = msgspec.field(default="", name="ImageID")
    names: list[str] | None = None
    state: str = ""
    created: int = 0


class _Ended(msgspec.Struct, rename="pascal"):
    finished_at: str = ""


class _Inspected(msgspec.Struct, rename="pascal"):
    state: _Ended = msgspec.field(default_factory=_Ended)


class _Measured(msgspec.Struct, rename="pascal"):
    size_rw: int = 0


class _Cached(msgspec.Struct, rename="pascal"):
    size: int = 0
    in_use: bool = False


class _Usage(msgspec.Struct, rename="pascal"):
    build_cache: list[_Cached] | None = None


_IMAGES = msgspec.json.Decoder(list[_Image])
_CONTAINERS = msgspec.json.Decoder(list[_Container])
_INSPECT = msgspec.json.Decoder(_Inspected)
_SIZE = msgspec.json.Decoder(_Measured)
_USAGE = msgspec.json.Decoder(_Usage)


class EngineStore:
    """One engine. All calls raise UnreachableError, ObservationError and ContainerRuntimeError."""

    def __init__(self, path: Path, owners: frozenset[int]) -> None:
        self._socket = EngineSocket(path, owners)
        # Where it keeps everything, once it has said so.
        self.top: Path | None = None
        self._names: dict[str, tuple[str, ...]] = {}
        self._parents: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The socket."""
        return str(self._socket.path)

    def let_go(self) -> None:
        """Every question has a connection of its own: nothing is open."""

    async def storage(self) -> StorageDirs | None:
        """Where it keeps everything."""
        found = await self._socket.storage()
        self.top = Path(found.images)
        return found

    async def held_images(self) -> list[HeldImage]:
        """All that it shows; layers between them go with the last image that has them."""
        if self.top is None:
            await self.storage()
        found = await self._socket.ask(_IMAGES, "/images/json")
        self._names = {each.id: _tags(each) for each in found}
        self._parents = {each.id: each.parent_id for each in found}
        return [
            HeldImage(
                each.id,
                _shown(self._names[each.id] or tuple(each.repo_digests or ())),
                each.size,
                (each.labels or {}).get(PROTECT) == "true",
            )
            for each in found
        ]

    async def used_images(self, without: Collection[str] = NO_CONTAINERS) -> frozenset[str]:
        """Those of containers, and those that they were built on."""
        found = set[str]()
        for each in await self._containers():
            image = "" if each.id in without else each.image_id
            while image and image not in found:
                found.add(image)
                image = self._parents.get(image, "")
        return frozenset(found)

    async def remove_image(self, image: str) -> None:
        """By each of its tags, without force: what has come to be used meanwhile stays."""
        for name in self._names.get(image) or (image,):
            await self._delete(f"/images/{quote(name, safe='')}", f"image `{name[:_LONGEST_NAME]}`")

    async def leftovers(self) -> Leftovers:
        """Containers that have ended; each counts from when it did. There are no sandboxes."""
        dead, names = list[DeadContainer](), dict[str, str]()
        for each in await self._containers():
            if each.state.lower() not in _DEAD:
                continue
            ended_ns = await self._ended_ns(each)
            if ended_ns is not None:
                dead.append(DeadContainer(each.id, each.id, each.id, ended_ns))
                names[each.id] = (each.names or [each.id])[0].removeprefix("/")[:_LONGEST_NAME]
        return Leftovers(dead, names)

    async def written(self, containers: Collection[str]) -> Mapping[str, int]:
        """One after the other: the engine walks over each. One that it does not tell of in time is left out."""
        found = dict[str, int]()
        for each in containers:
            path = f"/containers/{quote(each, safe='')}/json?size=1"
            with suppress(RuntimeFailure):
                status, body = await self._socket.exchange("GET", path, _WORK)
                found[each] = max(self._socket.decoded(_SIZE, path, status, body).size_rw, 0)
        return found

    async def remove(self, container: DeadContainer) -> None:
        """Its anonymous volumes stay: they may hold data."""
        await self._delete(f"/containers/{quote(container.id, safe='')}", f"container `{container.id[:12]}`")

    async def remove_sandbox(self, sandbox: Sandbox) -> None:
        """There are none."""
        raise ContainerRuntimeError(f"{self.name} has no sandbox `{sandbox.id}`", 0)

    async def build_cache(self) -> BuildCache | None:
        """None where the engine keeps none: Podman's is among its images."""
        if await self._socket.kind() == "podman":
            return None
        found = (await self._socket.ask(_USAGE, "/system/df")).build_cache or []
        idle = [each for each in found if not each.in_use]
        return BuildCache(len(idle), sum(each.size for each in idle))

    async def clear_build_cache(self) -> None:
        """All that no build uses now."""
        status, body = await self._socket.exchange("POST", "/build/prune?all=1", _PRUNING)
        if status != 200:
            raise ContainerRuntimeError(f"{self.name}: cannot clear the build cache: {said(status, body)}", status)

    async def _containers(self) -> list[_Container]:
        return await self._socket.ask(_CONTAINERS, "/containers/json?all=1")

    async def _ended_ns(self, container: _Container) -> int | None:
        path = f"/containers/{quote(container.id, safe='')}/json"
        status, body = await self._socket.exchange("GET", path)
        if status == 404:
            return None
        ended = self._socket.decoded(_INSPECT, path, status, body).state.finished_at
        # One that was never started ended in the year 1.
        return max(time_or_none(ended) or 0, container.created * 10**9)

    async def _delete(self, path: str, what: str) -> None:
        status, body = await self._socket.exchange("DELETE", path, _WORK)
        if status not in (200, 204, 404):
            raise ContainerRuntimeError(f"cannot remove {what}: {said(status, body)}", status)


def _tags(image: _Image) -> tuple[str, ...]:
    return tuple(each for each in image.repo_tags or () if each != _NO_TAG)


def _shown(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each[:_LONGEST_NAME] for each in names[:_MOST_NAMES])


class EngineCollector:
    """Images of one engine or runtime, and what has ended in an engine, for a guard: nothing goes that its settings do
    not name.

    The kubelet's rules, over what an engine keeps: images as `machine/image_collector` has them; a container goes for a
    starved disk a day after it ended, because its layer may hold what its user still wants.
    """

    def __init__(self, store: PlacedStore, settings: AdoptedSettings, policy: Policy, clock: Clock, emit: Emit) -> None:
        self._settings = settings
        self._store = store
        self._has_pods = not isinstance(store, EngineStore)
        self._clock = clock
        self.images = ImageCollector(store, policy.images, clock, emit, self._space, settings.keep_images)
        containers = ContainerCollection(minimum_age_ns=_DAY_NS)
        self._containers = Garbage(store, policy.images, containers, clock, (GarbageKind.CONTAINERS,))

    async def reclaim(self, what: Reclaimable) -> Reclaimed:
        """For a starved disk. Failures are in the answer."""
        if what is Reclaimable.IMAGES and self._settings.collects_images:
            return await self.images.reclaim()
        # Those of pods are removed by the program that has made the pods.
        if what is Reclaimable.CONTAINERS and self._settings.collects_containers and not self._has_pods:
            try:
                done = await self._containers.clear()
            except RuntimeFailure as failure:
                return Reclaimed(errors=(f"cannot collect containers: {failure}",))
            return Reclaimed(containers=len(done.items), freed_bytes=done.gained or 0, errors=done.errors)
        return Reclaimed()

    def _space(self) -> FsStats | None:
        """Of the engine's own directory, which it has named by now."""
        try:
            return None if self._store.top is None else read_stats(self._store.top, self._clock)
        except ObservationError:
            return None  # what cannot be read has no capacity, and the collection says so
