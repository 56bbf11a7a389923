"""How much the events of one user may take.

Evictors and nodes may create events in every namespace, as many as they like and 64 KiB each, and an event stays for an
hour: enough for all memory and the disk. So of a user with more than its share the oldest go. Administrators, whose
token the controllers have, are not counted, and neither is what was there before the server started.
"""

from __future__ import annotations

from typing import Final

from jettison.apiserver.access.auth import User
from jettison.apiserver.objects.resources import EVENTS
from jettison.apiserver.storage.store import Store
from jettison.apiserver.storage.stored import Change, ChangeType, Stored

Key = tuple[str, str]

MOST_BYTES: Final = 8 * 1024 * 1024
"""An event of a node has 1 kB, and a busy node a few hundred events an hour."""


class EventShares:
    """By user: its events, oldest first, and their sizes."""

    def __init__(self, store: Store, most_bytes: int = MOST_BYTES) -> None:
        self._store = store
        self._most_bytes = most_bytes
        self._sizes: dict[str, dict[Key, int]] = {}
        self._sums: dict[str, int] = {}
        self._owners: dict[Key, str] = {}
        store.follow(EVENTS, store.version, self._notice)

    def add(self, user: User, stored: Stored) -> None:
        """The user has created this event. What is too much of its others is removed in the same batch."""
        if user.role == "admin":
            return
        self._forget(stored.key)
        self._owners[stored.key] = user.name
        self._count(user.name, stored)
        sizes = self._sizes[user.name]
        # Not this one, whatever its size: its client is told that it is stored.
        while self._sums[user.name] > self._most_bytes and len(sizes) > 1:
            key = next(iter(sizes))
            self._forget(key)
            if self._store.head(EVENTS, *key) is not None:
                self._store.remove(EVENTS, *key)

    def _count(self, user: str, stored: Stored) -> None:
        sizes = self._sizes.setdefault(user, {})
        self._sums[user] = self._sums.get(user, 0) + stored.size - sizes.get(stored.key, 0)
        sizes[stored.key] = stored.size

    def _forget(self, key: Key) -> None:
        user = self._owners.pop(key, None)
        if user is not None:
            self._sums[user] -= self._sizes[user].pop(key)

    def _notice(self, change: Change) -> None:
        """Events are changed and deleted by others, too."""
        key = change.stored.key
        if change.type is ChangeType.DELETED:
            # The head tells whether it was created again meanwhile.
            if self._store.head(EVENTS, *key) is None:
                self._forget(key)
        elif key in self._owners:
            self._count(self._owners[key], change.stored)
