"""An object at one version, and what happened to it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from jettison.apiserver.objects.resources import Resource

Json = dict[str, Any]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


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
