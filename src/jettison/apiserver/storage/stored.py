"""An object at one version, what happened to it, and the recent changes of a resource for its watchers."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from jettison.apiserver.objects.ownership.records import Entries, encoded, entries_in
from jettison.apiserver.objects.resources import Resource

Json = dict[str, Any]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_METADATA: Final = b'{"metadata":{'
_METADATA_BYTES: Final = len(_METADATA)
_MANAGED: Final = b'{"metadata":{"managedFields":['
_MOST_TEXT_BYTES: Final = 1024 * 1024
MOST_VALUE_BYTES: Final = 11_500_000
"""Bytes of objects that stay decoded, the latest ones: 57 MB in memory, 7,500 small pods. To decode one again takes
10 to 25 µs.
"""

_TIDY_AT: Final = 1024
_version_of = attrgetter("stored.version")
# The beginnings of objects that were read last, with their entries: in a log of ten thousand pods most rows begin as
# one of those just before them, and to read the entries takes most of the time that a row takes.
_recent_heads: deque[tuple[bytes, Entries]] = deque(maxlen=4)


class DecodedObjects:
    """The objects of this process that are decoded, in the order in which that was done. As a value, a pod takes five
    times as much memory as its bytes, so the first ones are forgotten when there are too many.
    """

    def __init__(self, most_bytes: int = MOST_VALUE_BYTES) -> None:
        self._most_bytes = most_bytes
        self._decoded: OrderedDict[Stored, None] = OrderedDict()
        self._bytes = 0

    def add(self, stored: Stored) -> None:
        """It has a value now, and bytes."""
        self._decoded[stored] = None
        self._bytes += stored.size
        while self._bytes > self._most_bytes:
            first = self._decoded.popitem(last=False)[0]
            self._bytes -= first.size
            first.forget_value()

    def has_room(self, size: int) -> bool:
        """For so many bytes more."""
        return self._bytes + size <= self._most_bytes

    def clear(self) -> None:
        """Forget all."""
        decoded, self._decoded, self._bytes = self._decoded, OrderedDict(), 0
        for each in decoded:
            each.forget_value()

    def discard(self, stored: Stored) -> None:
        """Its value is not needed any more."""
        if self._decoded.pop(stored, self) is None:
            self._bytes -= stored.size


DECODED: Final = DecodedObjects()


class Stored:
    """An object at one version: as a value, and as the bytes that the disk and every client get.

    Neither has kind and apiVersion: those are the row's, and a list shows its items without them. The value belongs
    to the store and must not be changed; a changed object is a new value that shares what stayed the same. It is
    without `metadata.managedFields`, which is as long as the rest and often the same: the bytes are put together from
    both when they are asked for.
    """

    __slots__ = (
        "_bare",
        "_is_superseded",
        "_managed",
        "_object",
        "checksum",
        "is_given_up",
        "key",
        "storage",
        "version",
    )

    def __init__(
        self,
        storage: str,
        key: tuple[str, str],
        version: int,
        bare: bytes,
        managed: Entries | Callable[[], Entries],
        value: Json | None,
    ) -> None:
        self.storage = storage
        self.key = key
        self.version = version
        # Empty where it was not encoded yet.
        self._bare = bare
        # What makes them, where they were not asked for yet.
        self._managed = managed
        # Of its row on disk, once that is written.
        self.checksum: int | None = None
        self._object = value
        if value is not None and bare:
            DECODED.add(self)
        self._is_superseded = False
        # The disk refused it: it never existed, whatever version the store has reached since.
        self.is_given_up = False

    @classmethod
    def of(cls, storage: str, key: tuple[str, str], version: int, value: Json, managed: Entries = ()) -> Stored:
        """The value at a version, which is written into its metadata. What cannot be encoded is an error here."""
        stamped = _stamped(value, version)
        return cls(storage, key, version, _encode(stamped), managed, stamped)

    @classmethod
    def unencoded(
        cls, storage: str, key: tuple[str, str], version: int, value: Json, managed: Callable[[], Entries]
    ) -> Stored:
        """The same for a value that is made of stored ones, and may be replaced before it is on disk: it is encoded
        when its bytes are asked for, and `managed` too.
        """
        return cls(storage, key, version, b"", managed, _stamped(value, version))

    @classmethod
    def read(cls, storage: str, key: tuple[str, str], version: int, body: bytes) -> Stored:
        """From the bytes that were written."""
        if not body.startswith(_MANAGED):
            return cls(storage, key, version, body, (), None)
        for head, managed in _recent_heads:
            if body.startswith(head):
                return cls(storage, key, version, _METADATA + body[len(head) :], managed, None)
        managed = entries_in(body)
        head = _head(managed)
        if body.startswith(head):
            _recent_heads.append((head, managed))
            return cls(storage, key, version, _METADATA + body[len(head) :], managed, None)
        value = _decode(body)
        value["metadata"].pop("managedFields", None)
        return cls(storage, key, version, _encode(value), managed, None)

    @property
    def managed(self) -> Entries:
        """Which client owns which field."""
        managed = self._managed
        if not isinstance(managed, tuple):
            managed = self._managed = managed()
        return managed

    @property
    def body(self) -> bytes:
        """The whole object."""
        bare, managed = self._bare or self.bare, self.managed
        return _head(managed) + bare[_METADATA_BYTES:] if managed else bare

    @property
    def bare(self) -> bytes:
        """The object without its entries."""
        if not self._bare:
            self._bare = _encode(self._object)
            DECODED.add(self)
        return self._bare

    @property
    def size(self) -> int:
        """What it takes in memory, about: of bytes that are shared with others, nothing."""
        return len(self._bare or self.bare)

    @property
    def object(self) -> Json:
        """The value. Of a superseded version only the bytes are kept, so it is decoded each time."""
        if self._object is not None:
            return self._object
        value: Json = _decode(self.bare)
        if not self._is_superseded:
            self._object = value
            DECODED.add(self)
        return value

    def passing_object(self) -> Json:
        """The value for one look: what is not decoded stays bytes."""
        if self._object is not None:
            return self._object
        value: Json = _decode(self.bare)
        return value

    def listed_object(self) -> Json:
        """The value for a look at all objects, which may be repeated soon: it is kept where no other has to go."""
        return self.object if self._object is None and DECODED.has_room(self.size) else self.passing_object()

    def forget_value(self) -> None:
        """Keep the bytes only, until the value is asked for again."""
        self._object = None

    def release(self) -> None:
        """Keep the bytes only, from now on."""
        self._bare = self.bare
        DECODED.discard(self)
        self.forget_value()
        self._is_superseded = True

    @property
    def metadata(self) -> Json:
        """`object["metadata"]`."""
        metadata: Json = self.object["metadata"]
        return metadata

    @property
    def uid(self) -> str:
        """What tells an object from another one of the same name."""
        uid: str = self.metadata["uid"]
        return uid

    def document(self, resource: Resource) -> bytes:
        """As a single object is shown: with kind and apiVersion."""
        return _opening(resource) + self.body[1:]


@cache
def _opening(resource: Resource) -> bytes:
    """How every object of a resource begins; a resource is a row of a table."""
    return b'{"kind":"%s","apiVersion":"%s",' % (resource.kind.encode(), resource.api_version.encode())


def _stamped(value: Json, version: int) -> Json:
    """With the metadata in front, where `_head` wants it."""
    stamped = {"metadata": None, **value}
    stamped["metadata"] = {**value["metadata"], "resourceVersion": str(version)}
    return stamped


def _head(managed: Entries) -> bytes:
    """The beginning of an object with entries. An object is never without a version, so that something follows."""
    return b'{"metadata":{"managedFields":%s,' % encoded(managed)


class ChangeType(StrEnum):
    """What a watch calls it."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(NamedTuple):
    """A durable write. A removal's `stored` is the object as it was last, at the version of the removal."""

    type: ChangeType
    stored: Stored
    previous: Stored | None


class Feed:
    """The recent changes of one resource, in order, for all its watchers.

    A watcher keeps a place in the feed and no copy of anything, so a thousand watchers that lag cost as much as one.
    The store bounds the feed; a watcher whose place has been forgotten must list again. Texts that watchers send are
    encoded once and kept here for the next watcher that asks for the same.

    Places are numbers that only grow: `first` is that of the oldest change here, `end` that of the next to come.
    """

    __slots__ = ("_changes", "_forgotten", "_texts", "_texts_bytes", "_waiting", "end", "first", "watchers")

    def __init__(self) -> None:
        self.first = self.end = 0
        self.watchers = 0
        # The first `_forgotten` of them are None: a list is cut at its beginning only now and then.
        self._changes: list[Change | None] = []
        self._forgotten = 0
        self._waiting: set[Callable[[], None]] = set()
        self._texts: dict[Hashable, bytes] = {}
        self._texts_bytes = 0

    def __getitem__(self, place: int) -> Change:
        change = self._changes[place - self.first + self._forgotten]
        assert change is not None, f"place {place} is not in the feed"
        return change

    def place_after(self, version: int) -> int:
        """The place of the first change after a version."""
        return self.first + bisect_right(self._changes, version, lo=self._forgotten, key=_version_of) - self._forgotten

    def append(self, change: Change) -> None:
        """Called by the store when the change is durable, in the order of versions."""
        self._changes.append(change)
        self.end += 1
        if self._waiting:
            waiting, self._waiting = self._waiting, set()
            for wake in waiting:
                wake()

    def forget_first(self) -> None:
        """Called by the store: the oldest change is too old."""
        self._changes[self._forgotten] = None
        self._forgotten += 1
        self.first += 1
        if self._forgotten >= _TIDY_AT:
            del self._changes[: self._forgotten]
            self._forgotten = 0

    def empty(self) -> None:
        """Called by the store before it puts back the same changes with `refill`; places stay what they are."""
        self._changes, self._forgotten = [], 0
        self._texts, self._texts_bytes = {}, 0

    def refill(self, change: Change) -> None:
        """Put back the next change."""
        self._changes.append(change)

    def wake_once(self, wake: Callable[[], None]) -> None:
        """Call it at the next change, and then no more."""
        self._waiting.add(wake)

    def do_not_wake(self, wake: Callable[[], None]) -> None:
        """The watcher does not wait any more."""
        self._waiting.discard(wake)

    def text(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """What `make` returns, or has returned for this key a short while ago."""
        text = self._texts.get(key)
        if text is None:
            self._texts[key] = text = make()
            self._texts_bytes += len(text)
            while self._texts_bytes > _MOST_TEXT_BYTES:
                oldest = next(iter(self._texts))
                self._texts_bytes -= len(self._texts.pop(oldest))
        return text
