"""Objects by a value that lists select them by: the pods of a node, the pods of an app.

Of 10,000 pods a node has ten, and without an index a list of those ten reads all of them: 69 ms. An index is made when
a list first asks for it, so that neither a start nor memory pays for those that are never asked for, and follows every
change from then on. Clients choose what is indexed, so only the few that were asked for last are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from jettison.apiserver.storage.stored import Stored

Key = tuple[str, str]
"""Namespace and name; what is in no namespace has an empty one."""
Json = Mapping[str, Any]

_MOST: Final = 8
"""Indexes of one resource. Each takes 2 MB for 10,000 objects with as many values."""

_NONE: Final[frozenset[Key]] = frozenset()


def list_order(key: Key) -> Key:
    """What sorts keys as lists do: as the texts `namespace/name`, so `a-b/x` comes before `a/x`."""
    return f"{key[0]}/", key[1]


class Lookup(NamedTuple):
    """A condition that everything in a list satisfies: what `read` takes from the object is `value`."""

    # Tells `read` from the other functions that are used for the resource.
    name: str
    read: Callable[[Json], str | None]
    value: str


class _Index:
    __slots__ = ("keys", "read", "values")

    def __init__(self, read: Callable[[Json], str | None]) -> None:
        self.read = read
        self.keys: dict[str, set[Key]] = {}
        # What each object is filed under: the state before a change need not be decoded to find it.
        self.values: dict[Key, str] = {}

    def file(self, key: Key, value: str | None) -> None:
        before = self.values.get(key)
        if before == value:
            return
        if before is not None:
            filed = self.keys[before]
            filed.discard(key)
            if not filed:
                del self.keys[before]
            del self.values[key]
        if value is not None:
            self.keys.setdefault(value, set()).add(key)
            self.values[key] = value


class ListIndexes:
    """Those of one resource."""

    __slots__ = ("_indexes",)

    def __init__(self) -> None:
        # The one that was asked for last comes last.
        self._indexes: dict[str, _Index] = {}

    def keys(self, lookup: Lookup, objects: Iterable[Stored]) -> Iterable[Key]:
        """The keys of the objects that satisfy it; `objects` are all there are."""
        index = self._indexes.pop(lookup.name, None)
        if index is None:
            index = _Index(lookup.read)
            for stored in objects:
                index.file(stored.key, lookup.read(stored.passing_object()))
        self._indexes[lookup.name] = index
        if len(self._indexes) > _MOST:
            del self._indexes[next(iter(self._indexes))]
        return index.keys.get(lookup.value, _NONE)

    def change(self, stored: Stored) -> None:
        """The object is new or another."""
        for index in self._indexes.values():
            index.file(stored.key, index.read(stored.object))

    def remove(self, key: Key) -> None:
        """The object is gone."""
        for index in self._indexes.values():
            index.file(key, None)

    def forget(self) -> None:
        """Let go of all of them; the next list makes what it needs."""
        self._indexes.clear()
