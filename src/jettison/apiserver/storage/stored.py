"""An object at one version, what happened to it, and the recent changes of a resource for its watchers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from jettison.apiserver.objects.resources import Resource

Json = dict[str, Any]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_MOST_TEXT_BYTES: Final = 1024 * 1024
_TIDY_AT: Final = 1024
_version_of = attrgetter("stored.version")


class Stored:
    """An object at one version: as a value, and as the bytes that the disk and every client get.

    Neither has kind and apiVersion: those are the row's, and a list shows its items without them. The value belongs
    to the store and must not be changed; a changed object is a new value that shares what stayed the same.
    """

    __slots__ = ("_is_superseded", "_object", "body", "is_given_up", "key", "storage", "version")

    def __init__(self, storage: str, key: tuple[str, str], version: int, body: bytes, value: Json | None) -> None:
        self.storage = storage
        self.key = key
        self.version = version
        self.body = body
        self._object = value
        self._is_superseded = False
        # The disk refused it: it never existed, whatever version the store has reached since.
        self.is_given_up = False

    @classmethod
    def of(cls, storage: str, key: tuple[str, str], version: int, value: Json) -> Stored:
        """The value at a version, which is written into its metadata."""
        stamped = {"metadata": None, **value}
        stamped["metadata"] = {**value["metadata"], "resourceVersion": str(version)}
        return cls(storage, key, version, _encode(stamped), stamped)

    @property
    def object(self) -> Json:
        """The value. Of a superseded version only the bytes are kept, so it is decoded each time."""
        if self._object is not None:
            return self._object
        value: Json = _decode(self.body)
        if not self._is_superseded:
            self._object = value
        return value

    def release(self) -> None:
        """Keep the bytes only, from now on: as a value, a pod takes five times as much memory."""
        self._object = None
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
        return b'{"kind":"%s","apiVersion":"%s",%s' % (
            resource.kind.encode(),
            resource.api_version.encode(),
            self.body[1:],
        )


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
