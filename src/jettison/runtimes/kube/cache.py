"""All objects of one kind, as the server last told: one list, then a watch, and another list where that breaks.

Every controller that needs a kind shares one cache of it. What is in it is old by some milliseconds: a write that
depends on it must carry the resourceVersion it was decided on.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from jettison.clock import Clock
from jettison.errors import ApiError, ConnectionBroken, ManifestError, RuntimeFailure
from jettison.runtimes.kube.answers import BOOKMARK, DELETED, weight_of
from jettison.runtimes.kube.client import Document, KubeClient, WatchEvent
from jettison.runtimes.kube.kinds import Kind

Key = tuple[str, str]
"""Namespace and name; the namespace is empty where the kind has none."""

RESYNC_SECONDS: Final = 45.0
"""How often listeners hear of every object again. Kubernetes does it every 12 to 24 hours, which suits 5,000 nodes."""

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
# Seconds; shorter ones that tell nothing count as failures, as with client-go.
_SHORTEST_WATCH: Final = 1.0
_EXPIRED: Final = 410
# Digits; those of Kubernetes have 64 bits.
_LONGEST_VERSION: Final = 21

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Change:
    """What became of an object. Without `old` it is new, without `new` it is gone; a resync has the same twice.

    Twenty-three listeners hear of every change of a pod, and most of them ask the same: that is found out once.
    """

    __slots__ = ("_found", "is_resync", "keeps_spec", "key", "new", "newest", "old")

    def __init__(self, old: Document | None, new: Document | None) -> None:
        newest = new or old
        if newest is None:
            raise ValueError("a change without an object")
        self.old = old
        self.new = new
        # As it is, or as it was last.
        self.newest: Document = newest
        self.key = key_of(newest)
        # Nothing happened: this is the regular look at everything.
        self.is_resync = old is new
        # The same object, with the spec that it had, which `_sharing` keeps: nine of ten changes are such.
        self.keeps_spec = (
            old is not None
            and new is not None
            and old.get("spec") is new.get("spec")
            and old["metadata"].get("uid") == new["metadata"].get("uid")
        )
        self._found: dict[Callable[[Change], Any], Any] = {}

    def once(self, find: Callable[[Change], T]) -> T:
        """What `find` says of this change, which is asked once whatever the number of listeners."""
        if find not in self._found:
            self._found[find] = find(self)
        found: T = self._found[find]
        return found

    def differs(self, part: Callable[[Document], object]) -> bool:
        """Whether that part of the object is another; where there was or is none it always is."""
        return self.old is None or self.new is None or part(self.old) != part(self.new)


Listener = Callable[[Change], None]


def key_of(document: Document) -> Key:
    """Where the object is found."""
    metadata = document["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


class Cache:
    """One kind. Objects are shared: they are never changed, only replaced."""

    def __init__(
        self,
        client: KubeClient,
        kind: Kind,
        namespace: str,
        clock: Clock,
        resync_seconds: float,
        fields: str = "",
        pauses: tuple[float, float] = (_FIRST_PAUSE, _LONGEST_PAUSE),
    ) -> None:
        """`pauses` are the first and the longest after a failure, in seconds."""
        self._client = client
        self._kind = kind
        self._namespace = namespace
        # Only objects of which this is true, such as `spec.nodeName=n1`.
        self._fields = fields
        self._clock = clock
        self._resync_seconds = resync_seconds
        self._objects: dict[Key, Document] = {}
        # Bytes that they take together.
        self._weight = 0
        self._listeners: list[Listener] = []
        self._indexes: dict[Callable[[Cache], Any], Any] = {}
        self._is_listed = asyncio.Event()
        self._complaint = ""
        # Why the server could not be followed; empty while it can.
        self._outage = ""
        self._first_pause, self._longest_pause = pauses
        self._pause = self._first_pause
        self.listed_ns = 0
        """When the last list was begun: whatever was so before is known."""
        self.is_listing = False
        """Whether listeners hear what a list has, or has not; else it is what the server tells of."""

    def __iter__(self) -> Iterator[Document]:
        return iter(tuple(self._objects.values()))

    def get(self, key: Key) -> Document | None:
        """One object, if the server told of it."""
        return self._objects.get(key)

    def listen(self, listener: Listener) -> None:
        """Be told of every change from now on, and of everything at a resync. A listener must not fail or wait."""
        self._listeners.append(listener)

    def index(self, make: Callable[[Cache], T]) -> T:
        """What `make` keeps of the objects here. It is made once for each `make`."""
        if make not in self._indexes:
            self._indexes[make] = make(self)
        found: T = self._indexes[make]
        return found

    @property
    def is_listed(self) -> bool:
        """Whether there was a first complete list."""
        return self._is_listed.is_set()

    async def listed(self) -> None:
        """Return when there was a first complete list."""
        await self._is_listed.wait()

    async def run(self) -> None:
        """Follow the server until cancelled; while it does not answer, the last known objects stay."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_up())
            group.create_task(self._resync())

    async def _keep_up(self) -> None:
        while True:
            try:
                since = await self._list()
                while True:
                    since = await self._follow(since)
            except (ApiError, RuntimeFailure, ManifestError) as error:
                if not (isinstance(error, ApiError) and error.code == _EXPIRED):
                    self._say_of_outage(str(error))
                await asyncio.sleep(self._pause * random.uniform(0.5, 1))  # noqa: S311  no secret
                self._pause = min(2 * self._pause, self._longest_pause)

    def _say_of_outage(self, why: str) -> None:
        """Once for each reason, however long it lasts, and when it is over."""
        if why == self._outage:
            return
        self._outage = why
        if why:
            _log.warning("%s: %s; trying again", self._kind.plural, why)
        else:
            _log.info("%s: the server tells of them again", self._kind.plural)

    async def _list(self) -> str:
        begun_ns = self._clock.now_ns()
        listing = await self._client.list(self._kind, self._namespace, fields=self._fields)
        self.listed_ns = begun_ns
        self.is_listing = True
        try:
            self._take({key_of(each): _without_owners_of_fields(each) for each in listing.items})
        finally:
            self.is_listing = False
        self._is_listed.set()
        return listing.resource_version

    async def list_again(self) -> list[Document]:
        """What the server would list now; what is known stays as it is."""
        return (await self._client.list(self._kind, self._namespace, fields=self._fields)).items

    def _take(self, found: Mapping[Key, Document]) -> None:
        gone = [(key, old) for key, old in self._objects.items() if key not in found]
        for key, old in gone:
            self._store(key, Change(old, None))
        for key, new in found.items():
            known = self._objects.get(key)
            if known is None or _version(known) != _version(new):
                self._store(key, Change(known, new))

    async def _follow(self, since: str) -> str:
        """Until the server ends the watch, as it does every few minutes; the version to go on from.

        A list that is answered is no sign that the server can be followed: where only watches fail, lists would be
        asked for without a pause.
        """
        begun, has_told = asyncio.get_running_loop().time(), False
        async for events in self._client.watch(self._kind, since, self._namespace, fields=self._fields):
            _check_age(events, since)
            for kind, document in events:
                if kind == BOOKMARK:
                    continue
                key = key_of(document)
                known = self._objects.get(key)
                if kind != DELETED:
                    self._store(key, Change(known, _sharing(document, known)))
                elif known is not None:
                    self._store(key, Change(document, None))
            since, has_told = _version(events[-1].object), True
            self._is_followed()
        if not has_told and asyncio.get_running_loop().time() - begun < _SHORTEST_WATCH:
            raise ConnectionBroken("the server ended the watch at once")
        # A server that is stopping may take watches only to end them.
        await asyncio.sleep(self._first_pause)
        return since

    def _is_followed(self) -> None:
        self._pause = self._first_pause
        self._say_of_outage("")

    def _store(self, key: Key, change: Change) -> None:
        more = weight_of(change.new) - weight_of(self._objects.get(key))
        if change.new is None:
            self._objects.pop(key, None)
        elif key not in self._objects and len(self._objects) >= self._client.most_objects:
            raise ManifestError(f"the server tells of more than {self._client.most_objects} of them")
        elif more > 0 and self._weight + more > self._client.most_weight:
            raise ManifestError(f"what the server tells of takes more than {self._client.most_weight} bytes of memory")
        else:
            self._objects[key] = change.new
        self._weight += more
        self._tell(change)

    def _tell(self, change: Change) -> None:
        """A listener that fails at an object which makes no sense ends neither the cache nor what the others hear: with
        the cache of its pods a node would end.
        """
        for listener in self._listeners:
            try:
                listener(change)
            except Exception as error:  # noqa: BLE001  whatever a server sends
                complaint = f"{type(error).__name__}: {error}"
                if complaint != self._complaint:
                    self._complaint = complaint
                    _log.warning("%s %s makes no sense: %s", self._kind.plural, "/".join(change.key), complaint)

    async def _resync(self) -> None:
        await self._is_listed.wait()
        while True:
            # Not all caches at the same moment.
            await asyncio.sleep(self._resync_seconds * random.uniform(0.75, 1.25))  # noqa: S311  no secret
            for document in self:
                self._tell(Change(document, document))


def _check_age(events: Sequence[WatchEvent], since: str) -> None:
    """A server that was set up anew, or from an old copy, knows nothing of the version that we ask it to go on from. It
    says nothing until it gets there, but its bookmarks tell where it is.
    """
    for event in events:
        version = _version(event.object)
        if event.kind == BOOKMARK and _is_number(version) and _is_number(since) and int(version) < int(since):
            message = f"the server is at version {version} and was at {since} before"
            raise ApiError(message, code=_EXPIRED, reason="Expired")


def _version(document: Document) -> str:
    return document["metadata"].get("resourceVersion") or ""


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit() and len(version) < _LONGEST_VERSION


def _without_owners_of_fields(document: Document) -> Document:
    """As watches tell of it, see `answers`."""
    document["metadata"].pop("managedFields", None)
    return document


def _sharing(new: Document, old: Document | None) -> Document:
    """Of ten changes nine are of the status. A spec that stayed the same stays the same object: `is` tells so. So do
    labels and owners, which most listeners compare.
    """
    if old is None:
        return new
    spec = old.get("spec")
    if spec is not None and spec == new.get("spec"):
        new["spec"] = spec
    before, after = old["metadata"], new["metadata"]
    for part in ("labels", "ownerReferences"):
        kept = before.get(part)
        if kept is not None and kept == after.get(part):
            after[part] = kept
    return new


class Caches:
    """One cache for each kind that is used."""

    def __init__(self, client: KubeClient, clock: Clock, resync_seconds: float = RESYNC_SECONDS) -> None:
        self._client = client
        self._clock = clock
        self._resync_seconds = resync_seconds
        self._caches: dict[tuple[Kind, str, str], Cache] = {}

    def of(self, kind: Kind, namespace: str = "", fields: str = "") -> Cache:
        """The one of this kind; to be asked for before `run`."""
        key = kind, namespace, fields
        if key not in self._caches:
            self._caches[key] = Cache(self._client, kind, namespace, self._clock, self._resync_seconds, fields)
        return self._caches[key]

    async def listed(self) -> None:
        """Return when all of them know their objects: half a picture must not be acted on."""
        for cache in self._caches.values():
            await cache.listed()

    async def run(self) -> None:
        """Follow the server with all of them until cancelled."""
        async with asyncio.TaskGroup() as group:
            for cache in self._caches.values():
                group.create_task(cache.run())


class View(Generic[T]):
    """The objects of a cache as values, in groups such as all pods of a node. A value is made when its group is
    read: an object that changes ten times before that is read once.

    An object that cannot be read is left out and complained about: a server that has checked it is at fault.
    `replaced` is told of a value that has taken the place of another in its group, each of which may be missing, and
    `forget` of a group that has become empty.
    """

    def __init__(
        self,
        cache: Cache,
        value_of: Callable[[Document], T],
        group_of: Callable[[Document], str] | None = None,
        forget: Callable[[str], None] = lambda _: None,
        replaced: Callable[[str, T | None, T | None], None] = lambda *_: None,
    ) -> None:
        self._value_of = value_of
        self._group_of = group_of or (lambda document: key_of(document)[0])
        self._forget = forget
        self._replaced = replaced
        # Kept, not computed: the last word on a deleted object may have another group than it had.
        self._places: dict[Key, str] = {}
        self._groups: dict[str, dict[Key, T]] = {}
        self._unread: dict[str, dict[Key, Document]] = {}
        cache.listen(self._take)

    def group(self, name: str) -> Mapping[Key, T]:
        """All values of a group by key; to be read at once, it changes with the next event."""
        if name in self._unread:
            self._read(name)
        return self._groups.get(name, {})

    def values(self, group: str) -> Iterable[T]:
        """The values of a group, in the order in which they appeared."""
        return tuple(self.group(group).values())

    def _take(self, change: Change) -> None:
        if change.is_resync:
            return
        key = change.key
        name = None if change.new is None else self._group_of(change.new)
        place = self._places.pop(key, None)
        if place is not None and place != name:
            self._drop(place, key)
        if change.new is not None and name is not None:
            self._places[key] = name
            self._unread.setdefault(name, {})[key] = change.new

    def _read(self, name: str) -> None:
        unreadable: list[Key] = []
        for key, document in self._unread.pop(name).items():
            try:
                value = self._value_of(document)
            except ManifestError as error:
                _log.warning("left out: %s", error)
                unreadable.append(key)
            else:
                group = self._groups.setdefault(name, {})
                old, group[key] = group.get(key), value
                self._replaced(name, old, value)
        # Not earlier: a group that seems to be empty would be forgotten.
        for key in unreadable:
            self._drop(name, key)

    def _drop(self, name: str, key: Key) -> None:
        if (old := self._groups.get(name, {}).pop(key, None)) is not None:
            self._replaced(name, old, None)
        self._unread.get(name, {}).pop(key, None)
        groups: tuple[dict[str, Any], ...] = (self._groups, self._unread)
        for each in groups:
            if name in each and not each[name]:
                del each[name]
        if name not in self._groups and name not in self._unread:
            self._forget(name)
