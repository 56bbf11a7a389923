"""A ConfigMap or Secret that has not been taken apart.

To take one apart takes up to 4 MB and some milliseconds. So its text is in a file in memory, and what needs the values
of a large one takes them out of it in another process.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

import msgspec

from jettison.errors import ContentError, ManifestError
from jettison.manifests.kept_objects import object_values
from jettison.values import frozen

MOST_BYTES: Final = 1024 * 1024
"""Of all values of one object, as in Kubernetes."""

LARGEST_TEXT: Final = 2 * MOST_BYTES
"""Base64, quotes and metadata with managedFields come on top of the values."""

FIELD_WEIGHT: Final = 300
"""What a key of an object costs beside the bytes of its value: it becomes a path, a file and a part of a digest."""

_MOST_KEYS: Final = 4000
_FIELD: Final = b'":'
_DECODER: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PARTS: tuple[str, ...] = ("data", "stringData", "binaryData")


@frozen
class KeptObject:
    """The values of a ConfigMap or Secret; `binary` are those of a ConfigMap that may be no text."""

    data: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    binary: Mapping[str, bytes] = field(default_factory=dict, repr=False)


class KeptText:
    """The JSON of one object: `title` is its kind, `label` what a complaint about it begins with."""

    def __init__(self, title: str, label: str) -> None:
        self.title = title
        self.label = label
        self.descriptor = os.memfd_create("jettison-object")
        self.begin()

    def begin(self) -> Callable[[bytes], None]:
        """Nothing has come yet; returns what takes each piece of the text. Raises OSError."""
        os.ftruncate(self.descriptor, 0)
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        self.size = self._fields = 0
        self._digest = hashlib.blake2b(digest_size=32)
        return self._take

    def _take(self, piece: bytes) -> None:
        self._fields += piece.count(_FIELD)
        self.size += len(piece)
        self._digest.update(piece)
        os.write(self.descriptor, piece)

    @property
    def weight(self) -> int:
        """Bytes of its text, and FIELD_WEIGHT for each key."""
        return self.size + FIELD_WEIGHT * self._fields

    @property
    def digest(self) -> bytes:
        """Of its text."""
        return self._digest.digest()

    def take_apart(self) -> KeptObject:
        """Its values. Raises ContentError."""
        return take_apart(os.pread(self.descriptor, LARGEST_TEXT, 0), self.title, self.label)

    def close(self) -> None:
        """Give the memory back."""
        os.close(self.descriptor)


def take_apart(text: bytes, title: str, label: str) -> KeptObject:
    """The values in the text of an object. Raises ContentError."""
    try:
        if text.count(_FIELD) > 2 * _MOST_KEYS:
            raise ManifestError(f"more than {2 * _MOST_KEYS} fields")
        return _decoded(text, title)
    except ManifestError as error:
        raise ContentError(f"{label}: {error}") from error


def _decoded(text: bytes, title: str) -> KeptObject:
    try:
        parts = _DECODER.decode(text)
        found = {key: msgspec.json.decode(parts[key]) for key in _PARTS if key in parts}
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ManifestError(f"the answer is no object: {error}") from error
    return KeptObject(*object_values({"kind": title, **found}, MOST_BYTES))
