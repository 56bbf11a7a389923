"""The recent changes of one resource, in order, for all its watchers.

A watcher keeps a place in the feed and no copy of anything, so a thousand watchers that lag cost as much as one. The
store bounds the feed; a watcher whose place has been forgotten must list again. Texts that watchers send are encoded
once and kept here for the next watcher that asks for the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Final

from jettison.apiserver.storage.stored import Change

_MOST_TEXT_BYTES: Final = 1024 * 1024
_TIDY_AT: Final = 1024
_version_of = attrgetter("stored.version")


class Feed:
    """Places are numbers that only grow: `first` is that of the oldest change here, `end` that of the next to come."""

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
