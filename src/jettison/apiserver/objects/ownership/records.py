"""The entries of `metadata.managedFields`: one per client and way of writing, with the fields that it owns.

An object's entries are as long as its spec, and those of pods from one template are the same but for their times. So
each text of fields is in memory once, and an entry is a small tuple that refers to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from sys import intern
from typing import Any, Final, NamedTuple

import msgspec

from jettison.apiserver.objects.ownership.field_sets import FieldSet, is_field_set

APPLY: Final = "Apply"
UPDATE: Final = "Update"
_TYPE: Final = "FieldsV1"
_MOST_TEXTS: Final = 4096
_MOST_TEXT_BYTES: Final = 4 * 1024 * 1024
_LONGEST_SHARED: Final = 16 * 1024
_MOST_ENCODED: Final = 512

_encode = msgspec.json.Encoder().encode
# With the steps in order, so that equal sets are equal texts.
_encode_fields = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


class Entry(NamedTuple):
    """The fields of one client; `fields` is the text of a field set."""

    manager: str
    operation: str
    api_version: str
    time: str
    subresource: str
    fields: bytes

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What tells it from others. An apply is of the same client whatever the version it comes in."""
        return self.manager, self.operation, "" if self.operation == APPLY else self.api_version, self.subresource

    @property
    def field_set(self) -> FieldSet:
        """The fields as a set."""
        found: FieldSet = _decode(self.fields)
        return found


Entries = tuple[Entry, ...]


class _Texts:
    """Texts of field sets, each once, as long as they are not too many."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}
        self._bytes = 0

    def shared(self, text: bytes) -> bytes:
        """This text, or an equal one that is known already."""
        known = self._known.get(text)
        if known is not None or len(text) > _LONGEST_SHARED:
            return known or text
        if len(self._known) >= _MOST_TEXTS or self._bytes + len(text) > _MOST_TEXT_BYTES:
            # Those in use stay with their entries; new ones are shared from now on.
            self._known, self._bytes = {}, 0
        self._known[text] = text
        self._bytes += len(text)
        return text


_texts: Final = _Texts()


def entry(manager: str, operation: str, api_version: str, time: str, subresource: str, fields: FieldSet) -> Entry:
    """An entry over these fields."""
    text = _texts.shared(_encode_fields(fields))
    return Entry(intern(manager), intern(operation), intern(api_version), time, intern(subresource), text)


def sorted_entries(entries: Iterable[Entry]) -> Entries:
    """In the order in which objects show them."""
    return tuple(sorted(entries, key=lambda each: (each.operation, each.time, *each[:1], each.api_version, each[4])))


def known_entries(entries: Entries, group: str) -> dict[tuple[str, str, str, str], Entry]:
    """Of two that cannot be told apart the last one counts; one of another group than the object's cannot be read."""
    return {each.identity: each for each in entries if each.api_version.rpartition("/")[0] == group}


class _Shown(msgspec.Struct, omit_defaults=True):
    manager: str = ""
    operation: str = ""
    apiVersion: str = ""  # noqa: N815  as objects have it
    time: str | None = None
    fieldsType: str = ""  # noqa: N815  as objects have it
    fieldsV1: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815  as objects have it
    subresource: str = ""


class _Metadata(msgspec.Struct):
    managedFields: list[_Shown] = msgspec.field(default_factory=list)  # noqa: N815  as objects have it


class _Object(msgspec.Struct):
    metadata: _Metadata


_shown_object = msgspec.json.Decoder(_Object).decode


def encoded(entries: Entries) -> bytes:
    """As `metadata.managedFields` has them."""
    # Those of a budget that many pods are evicted through grow with each.
    is_short = sum(len(each.fields) for each in entries) <= _LONGEST_SHARED
    return _known_text(entries) if is_short else _text(entries)


def _text(entries: Entries) -> bytes:
    return _encode(
        [
            _Shown(
                each.manager, each.operation, each.api_version, each.time or None, _TYPE,
                msgspec.Raw(each.fields), each.subresource,
            )
            for each in entries
        ]
    )  # fmt: skip


_known_text: Final = lru_cache(_MOST_ENCODED)(_text)


def entries_in(body: bytes) -> Entries:
    """The entries of an object that was written by `encoded`."""
    found = _shown_object(body).metadata.managedFields
    return tuple(
        Entry(
            intern(each.manager), intern(each.operation), intern(each.apiVersion), each.time or "",
            intern(each.subresource), _texts.shared(bytes(each.fieldsV1)),
        )
        for each in found
    )  # fmt: skip


def entries_of(listed: Any) -> Entries | None:
    """What a client says that they are; None where it makes no sense, which counts as nothing said."""
    entries = []
    for each in listed:
        if each.get("operation") not in (APPLY, UPDATE) or not each.get("apiVersion"):
            return None
        if each.get("fieldsType") != _TYPE or not is_field_set(each.get("fieldsV1") or {}):
            return None
        made = entry(
            each.get("manager", ""), each["operation"], each["apiVersion"], each.get("time") or "",
            each.get("subresource", ""), each.get("fieldsV1") or {},
        )  # fmt: skip
        entries.append(made)
    return sorted_entries(entries)


def documents(entries: Entries) -> list[dict[str, Any]]:
    """As values, for answers that are not made of stored bytes."""
    found: list[dict[str, Any]] = _decode(encoded(entries))
    return found
