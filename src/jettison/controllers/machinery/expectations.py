"""Pods that were created or deleted and that the cache has not shown yet, so that a stale cache never acts twice.

How to use: before asking for anything, `expect` it; where the server refused, take it back with the same calls that
tell of what was seen, `saw_created` and `saw_deleted`. `follow` sees to the rest. Do nothing about an owner's pods
while `are_met` says no: the next event, or the resync after five minutes, wakes its key again.

Every controller has an instance of its own. What is in it may be lost: after a restart the first list shows it all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from jettison.clock import Clock
from jettison.runtimes.kube.cache import Cache, Change, Key
from jettison.runtimes.kube.client import Document

TIMEOUT_NS: Final = 300 * 10**9
"""After so long an event is taken for lost, and the cache for the truth."""


@dataclass(slots=True)
class _Open:
    since_ns: int
    creations: int = 0
    deletions: set[str] = field(default_factory=set)

    @property
    def is_met(self) -> bool:
        return self.creations <= 0 and not self.deletions


class Expectations:
    """By the key of the owner. Creations are counted, for a name is known only once there is an answer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[Key, _Open] = {}

    def follow(self, cache: Cache, owner_of: Callable[[Document], Key | None]) -> None:
        """Take off what the cache shows. `owner_of`: the key of an object's owner, None for another kind."""

        def listener(change: Change) -> None:
            if change.is_resync:
                return
            if change.old is None and change.new is not None and (owner := owner_of(change.new)):
                self.saw_created(owner)
            is_going = change.new is None or bool(change.new["metadata"].get("deletionTimestamp"))
            if is_going and (owner := owner_of(change.newest)):
                self.saw_deleted(owner, change.newest["metadata"]["uid"])

        cache.listen(listener)

    def expect(self, owner: Key, creations: int = 0, deletions: Iterable[str] = ()) -> None:
        """So many new ones, and the end of those with these uids. What was expected before still is."""
        found = self._open.setdefault(owner, _Open(0))
        found.since_ns = self._clock.monotonic_ns()
        found.creations += creations
        found.deletions |= set(deletions)

    def are_met(self, owner: Key) -> bool:
        """Whether the cache has shown everything, or was given long enough to."""
        found = self._open.get(owner)
        if found is None:
            return True
        if found.is_met or self._clock.monotonic_ns() - found.since_ns > TIMEOUT_NS:
            del self._open[owner]
            return True
        return False

    def saw_created(self, owner: Key, count: int = 1) -> None:
        """They are there, or are not to come. More than expected is no loan for the next time."""
        found = self._open.get(owner)
        if found is not None:
            found.creations = max(found.creations - count, 0)

    def saw_deleted(self, owner: Key, uid: str) -> None:
        """It goes or is gone, or is not to go."""
        found = self._open.get(owner)
        if found is not None:
            found.deletions.discard(uid)

    def forget(self, owner: Key) -> None:
        """The owner itself is gone."""
        self._open.pop(owner, None)
