"""Where objects live: an append-only log on disk (`log`), and the current state in memory.

Every write gets the next number of one counter, its resourceVersion, and becomes a row of the log. Reading the log from
its beginning gives the state; its tail is what watches resume from, also after a restart.

Two views of the state keep two promises. The *head* holds writes at once, and the next write builds on it: changes are
made one after another without waiting for the disk, so none is ever based on an outdated object. What readers and
watchers see is only what is *durable*: a version that was shown is never taken back, whatever happens to the machine.

Durability is shared: all writes of one turn of the event loop, and all that arrive while the disk is busy, go into one
transaction (600 µs for one write, 2 ms for a hundred). A write is acknowledged when the transaction that holds it is on
disk.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from jettison.apiserver.http.statuses import expired, internal_error, not_found, too_large
from jettison.apiserver.objects.ownership.records import Entries
from jettison.apiserver.objects.resources import Resource
from jettison.apiserver.storage.disk import Batch, Disk, DiskReserve, is_disk_full
from jettison.apiserver.storage.indexes import Key, ListIndexes, Lookup, list_order
from jettison.apiserver.storage.log import FILE, Log, Row
from jettison.apiserver.storage.lost import lost_objects
from jettison.apiserver.storage.private_files import lock_folder, make_private_folder
from jettison.apiserver.storage.stored import DECODED, Change, ChangeType, Feed, Json, Stored
from jettison.clock import SYSTEM_CLOCK, Clock
from jettison.errors import ApiError

Listener = Callable[[Change], None]
Items = list[Stored]
Changes = list[Change]
Tracking = Callable[[Entries, Json, Json], Entries]
"""The entries after a write, from those before it, the former value and the new one."""

HISTORY: Final = 10_000
"""How many changes a watch may lag behind; with usual pods that is 15 MB."""

HISTORY_BYTES: Final = 16 * 1024 * 1024
"""The same limit for large objects."""

LEAST_HISTORY: Final = 64
"""Kept whatever their size, or a client that lists and then watches would never catch up with a busy writer."""

_KINDS: Final = tuple(ChangeType)

_MOST_COMPACTED: Final = 64 * 1024 * 1024
"""Compacting takes a fifth of a second for this much, and as much memory again."""

_DECODED_BYTES: Final = 1024 * 1024
"""Of superseded versions that stay decoded for a moment: a watch with a selector asks what an object was before."""

_DELETED_AT_ONCE: Final = 128
"""Rows that are superseded and too old to be watched. They lie in the order of their versions, so that many together
take a few pages, and one at a time takes a page each. So many take 1 ms, for which all writes wait.
"""

_FORGOTTEN_AT_ONCE: Final = 64
_FEWEST: Final = 256
"""Changes that are kept for watches on a full disk, too."""

_WAY_OUT: Final = "write it anew or delete it; what is left of it is in the table `quarantine` of the store"

_log = logging.getLogger(__name__)


class _Shelf:
    """The durable objects of one resource, and their keys in the order that lists have."""

    __slots__ = ("feed", "indexes", "keys", "listeners", "objects")

    def __init__(self) -> None:
        self.objects: dict[Key, Stored] = {}
        self.keys: list[Key] = []
        self.indexes = ListIndexes()
        self.feed = Feed()
        self.listeners: set[Listener] = set()

    def apply(self, change: Change) -> None:
        key = change.stored.key
        if change.type is ChangeType.DELETED:
            # What was set aside is in no list, and can be deleted all the same.
            if self.objects.pop(key, None) is not None:
                del self.keys[bisect_left(self.keys, list_order(key), key=list_order)]
                self.indexes.remove(key)
            return
        if key not in self.objects:
            insort(self.keys, key, key=list_order)
        self.objects[key] = change.stored
        self.indexes.change(change.stored)

    def select(self, namespace: str | None, lookup: Lookup | None = None) -> list[Stored]:
        if lookup is not None:
            found = self.indexes.keys(lookup, self.objects.values())
            return [self.objects[key] for key in sorted(found, key=list_order) if namespace in (None, key[0])]
        keys = self.keys
        if namespace is not None:
            # No name is empty, and U+0000 is in none: this is the whole namespace and nothing else.
            begin, end = (
                bisect_left(keys, (each, ""), key=list_order) for each in (f"{namespace}/", f"{namespace}/\0")
            )
            keys = keys[begin:end]
        return [self.objects[key] for key in keys]

    def after(self, namespace: str | None, key: Key) -> Stored | None:
        place = bisect_right(self.keys, list_order(key), key=list_order)
        if place == len(self.keys) or namespace not in (None, self.keys[place][0]):
            return None
        return self.objects[self.keys[place]]


class _Packed:
    """All rows of a store in one block; the current ones in the order of lists; and the history, each change as its
    kind, its row and the row before.
    """

    def __init__(self) -> None:
        self.rows = bytearray()
        self.ends = array("Q")
        self.current = array("q")
        self.history = array("q")


class Store:
    """All objects of one state directory. Lives in one event loop; nothing here may be called from another thread."""

    def __init__(
        self,
        folder: Path,
        history: int = HISTORY,
        clock: Clock = SYSTEM_CLOCK,
        *,
        history_bytes: int = HISTORY_BYTES,
        least_history: int = LEAST_HISTORY,
        patience_seconds: float = 3.0,
    ) -> None:
        """`patience_seconds`: how long a read waits for a version that is still to come."""
        make_private_folder(folder)
        self._lock = lock_folder(folder)
        try:
            self._log = Log(folder / FILE)
            self.reserve = DiskReserve(folder, folder / f"{FILE}-wal", clock)
        except BaseException:
            os.close(self._lock)
            raise
        self._disk = Disk()
        self._shelves: defaultdict[str, _Shelf] = defaultdict(_Shelf)
        self._history: deque[Change] = deque()
        self._history_limit = history
        self._most_history_bytes = history_bytes
        self._least_history = least_history
        self.patience_seconds = patience_seconds
        self._history_bytes = 0
        # With their sizes.
        self._decoded: deque[tuple[Stored, int]] = deque()
        self._decoded_bytes = 0
        # What is written but not durable yet; None is a removal.
        self._ahead: dict[tuple[str, Key], tuple[int, Stored | None]] = {}
        self._open: Batch | None = None
        self._committing: Batch | None = None
        self._superseded: list[tuple[int, int]] = []
        self._least_deleted = min(_DELETED_AT_ONCE, history // 16)
        self._has_tidied = False
        # Objects whose newest state is damaged. They are in no list, and a client that asks for one gets an error.
        self.set_aside: set[tuple[str, Key]] = set()
        try:
            self._load()
        except BaseException:
            self._log.close()
            os.close(self._lock)
            raise

    def _load(self) -> None:
        content = self._log.read()
        self.set_aside = {(storage, (namespace, name)) for storage, namespace, name in content.aside}
        rows = content.rows
        if content.damaged:
            lost = lost_objects(content)
            rows = [row for row in rows if (row.storage, (row.namespace, row.name)) not in lost]
            older = [row for row in content.rows if (row.storage, (row.namespace, row.name)) in lost]
            self._log.set_aside([(storage, *key) for storage, key in lost], content.damaged, older)
            self.set_aside |= lost
        for storage, key in sorted(self.set_aside):
            _log.error("%s is damaged and set aside: %s", shown(storage, key), _WAY_OUT)
        self._oldest = self._log.seal.oldest
        # No client can have seen what the server made before it served: a watch from there is refused.
        self.begun = 0
        self.version = self._oldest
        for row in rows:
            self._take(row)
        self.version = self._last = self._log.seal.version
        self._forget_old()

    def _take(self, row: Row) -> None:
        shelf = self._shelves[row.storage]
        key = (sys.intern(row.namespace), row.name)
        previous = shelf.objects.get(key)
        key = key if previous is None else previous.key
        stored = Stored.read(row.storage, key, row.version, row.body)
        kind = ChangeType.DELETED if row.is_removal else ChangeType.MODIFIED if previous else ChangeType.ADDED
        change = Change(kind, stored, previous)
        shelf.apply(change)
        if previous is not None:
            previous.release()
        if row.version > self._oldest:
            self._remember(change)

    def _remember(self, change: Change) -> bool:
        """Whether watchers are told of it. They are not when something damaged is deleted: it was in no list."""
        is_told = change.type is not ChangeType.DELETED or change.previous is not None
        if is_told:
            self._history.append(change)
            self._history_bytes += change.stored.size
            self._shelves[change.stored.storage].feed.append(change)
        else:
            self._superseded.append((change.stored.version, _checksum(change.stored, is_removal=True)))
        return is_told

    # Reading: only what is durable.

    def get(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        """The object, or None."""
        return self._shelves[resource.storage].objects.get((namespace, name))

    def list(self, resource: Resource, namespace: str | None = None, lookup: Lookup | None = None) -> tuple[Items, int]:
        """All of them, or those of one namespace, in the order of lists; and the version this is true for.

        With a lookup only those that satisfy it, found by an index.
        """
        return self._shelves[resource.storage].select(namespace, lookup), self.version

    def list_at(self, resource: Resource, namespace: str | None, version: int) -> Items:
        """As `list`, as it was at a version. Raises 410 when what happened since is no longer known."""
        if version < self._oldest:
            raise expired("The resourceVersion for the provided list is too old.")
        past = {stored.key: stored for stored in self._shelves[resource.storage].select(namespace)}
        for change in reversed(self._history):
            if change.stored.version <= version:
                break
            if change.stored.storage != resource.storage or namespace not in (None, change.stored.key[0]):
                continue
            if change.previous is None:
                past.pop(change.stored.key, None)
            else:
                past[change.stored.key] = change.previous
        return [past[key] for key in sorted(past, key=list_order)]

    def compact(self) -> None:
        """Copy all objects and changes into one block and out of it again, so that they lie side by side, undecoded.

        An object that was written while thousands of connections were open lies between their memory, and keeps a page
        or, in Python's own allocator, a megabyte from being given back: 35 MiB after 2,000 watches.
        """
        most = sum(stored.size for shelf in self._shelves.values() for stored in shelf.objects.values())
        if most > _MOST_COMPACTED:
            return
        packed = self._packed()
        DECODED.clear()
        self._history.clear()
        self._decoded.clear()
        self._decoded_bytes = 0
        for shelf in self._shelves.values():
            shelf.objects, shelf.keys = {}, []
            shelf.indexes.forget()
            shelf.feed.empty()
        self._unpack(packed)

    def _packed(self) -> _Packed:
        packed, places = _Packed(), dict[int, int]()

        def place(stored: Stored | None) -> int:
            if stored is None:
                return -1
            if id(stored) not in places:
                places[id(stored)] = len(packed.ends)
                is_current = self._shelves[stored.storage].objects.get(stored.key) is stored
                row = (stored.storage, *stored.key, stored.version, is_current, stored.body)
                packed.rows += msgspec.msgpack.encode(row)
                packed.ends.append(len(packed.rows))
            return places[id(stored)]

        for shelf in self._shelves.values():
            packed.current.extend(place(shelf.objects[key]) for key in shelf.keys)
        for change in self._history:
            kind = _KINDS.index(change.type)
            packed.history.extend((kind, place(change.stored), place(change.previous)))
        return packed

    def _unpack(self, packed: _Packed) -> None:
        stored: list[Stored] = []
        keys: dict[Key, Key] = {}
        start = 0
        for end in packed.ends:
            row = msgspec.msgpack.decode(memoryview(packed.rows)[start:end])
            storage, namespace, name, version, is_current, body = row
            key = keys.setdefault((namespace, name), (sys.intern(namespace), name))
            stored.append(Stored.read(sys.intern(storage), key, version, body))
            if not is_current:
                stored[-1].release()
            start = end
        for place in packed.current:
            shelf, each = self._shelves[stored[place].storage], stored[place]
            shelf.objects[each.key] = each
            shelf.keys.append(each.key)
        places = iter(packed.history)
        for kind, place, previous in zip(places, places, places, strict=True):
            change = Change(_KINDS[kind], stored[place], None if previous < 0 else stored[previous])
            self._history.append(change)
            self._shelves[change.stored.storage].feed.refill(change)

    def counts(self) -> dict[str, int]:
        """How many objects there are, by the name that they are stored under."""
        return {storage: len(shelf.objects) for storage, shelf in self._shelves.items()}

    @property
    def oldest(self) -> int:
        """The version after which everything that happened is told to watches: what is known, since the beginning."""
        return max(self._oldest, self.begun)

    def next_after(self, resource: Resource, namespace: str | None, key: Key) -> Stored | None:
        """The object that a list shows behind the key, which need not exist any more."""
        return self._shelves[resource.storage].after(namespace, key)

    def feed(self, resource: Resource) -> Feed:
        """What happens to the objects of a resource."""
        return self._shelves[resource.storage].feed

    def place_after(self, resource: Resource, since: int) -> int:
        """Where in the feed the changes after a version begin; raises 410 when `since` is too old."""
        if since < self.oldest:
            raise expired(f"too old resource version: {since} ({self.oldest})")
        return self._shelves[resource.storage].feed.place_after(since)

    def follow(self, resource: Resource, since: int, listener: Listener) -> Changes:
        """What happened after a version, and from now on a call for each change; raises 410 when `since` is too old.

        For parts of the server itself, which hear of a change before any client does. The listener is called in the
        order of versions, in the event loop, and must not raise.
        """
        shelf = self._shelves[resource.storage]
        missed = [shelf.feed[place] for place in range(self.place_after(resource, since), shelf.feed.end)]
        shelf.listeners.add(listener)
        return missed

    def unfollow(self, resource: Resource, listener: Listener) -> None:
        """No more calls."""
        self._shelves[resource.storage].listeners.discard(listener)

    @property
    def failure(self) -> str:
        """Why nothing can be written before the next start; empty if it can."""
        return self._log.failure

    # Writing: on the head, at once; `durable` then waits for the disk.

    def head(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        """The object as the next write will find it. Not for answers: it may not be durable yet."""
        key = (namespace, name)
        ahead = self._ahead.get((resource.storage, key))
        return ahead[1] if ahead is not None else self._shelves[resource.storage].objects.get(key)

    def put(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        value: Json,
        *,
        managed: Entries | None = None,
        most_bytes: int | None = None,
        is_for_removal: bool = False,
    ) -> Stored:
        """Write the object, new or in place of the one there is. A value that changes nothing is no write.

        `managed` says which client owns which field, where the write changes that.

        `value` keeps the resourceVersion it came with, so that the two can be compared. With `most_bytes`, an object
        that grows beyond them is refused with 413. The server's own writes have none: whatever is stored can be
        evicted, bound and deleted. On a full disk only objects that are being deleted may change, and what
        `is_for_removal` says is written for a deletion.
        """
        previous = self.head(resource, namespace, name)
        if managed is None:
            managed = previous.managed if previous is not None else ()
        if previous is not None and previous.object == value and previous.managed == managed:
            return previous
        self._look_at_reserve()
        if self.reserve.is_full and not is_for_removal and not _is_leaving(previous):
            raise self.reserve.refusal()
        # One key for all versions of an object, and one text for all of a namespace: 200 bytes less for each.
        key = (sys.intern(namespace), name) if previous is None else previous.key
        stored = Stored.of(resource.storage, key, self._last + 1, value, managed)
        if most_bytes is not None and stored.size > most_bytes and (previous is None or stored.size > previous.size):
            raise too_large(most_bytes)
        return self._write(stored, previous, is_removal=False)

    def amend(self, previous: Stored, value: Json, tracking: Tracking, last: Stored | None) -> Stored:
        """Write an object, made of what is stored, for deletions; `previous` is its head.

        `last` is what the caller wrote the last time, and has shown to no client. If that is the head and not on its
        way to the disk yet, the value takes its place, with its version: both become durable together, or neither.
        So it is encoded, and its owners are noted, when its bytes are asked for.
        """
        self._look_at_reserve()
        if previous is last and self._open is not None and self._open.holds(last.version):
            before = self._open.before(last)
            stored = _amended(before, last.version, value, tracking)
            self._open.replace(stored)
            self._ahead[stored.storage, stored.key] = (stored.version, stored)
            return stored
        return self._write(_amended(previous, self._last + 1, value, tracking), previous, is_removal=False)

    def _look_at_reserve(self) -> None:
        """What comes after the first write of a batch becomes durable with it, or is refused with it."""
        if self._open is None:
            self.reserve.look()

    def remove(self, resource: Resource, namespace: str, name: str, last: Json | None = None) -> Stored:
        """Remove the object; the answer is its last state, at the version of the removal.

        A change that ends the object gives that state itself, as `last`.
        """
        previous = self.head(resource, namespace, name)
        if previous is None and not self.is_set_aside(resource, namespace, name):
            raise not_found(resource, name)
        value = last or (previous.object if previous is not None else {"metadata": {}})
        managed = previous.managed if previous is not None else ()
        stored = Stored.of(resource.storage, (namespace, name), self._last + 1, value, managed)
        return self._write(stored, previous, is_removal=True)

    def is_set_aside(self, resource: Resource, namespace: str, name: str) -> bool:
        """Whether it is damaged, and not written anew since."""
        return (resource.storage, (namespace, name)) in self.set_aside

    def missing(self, resource: Resource, namespace: str, name: str) -> ApiError:
        """The error for an object that is not there. One that is set aside is not gone: a 404 would let the garbage
        collector delete its dependents, and a node end the pod.
        """
        if self.is_set_aside(resource, namespace, name):
            return internal_error(f"{shown(resource.storage, (namespace, name))} is damaged and set aside: {_WAY_OUT}")
        return not_found(resource, name)

    async def durable(self, stored: Stored) -> Stored:
        """Wait until the version is on disk. Until then no client may see it."""
        if stored.is_given_up:
            raise internal_error("the write was given up together with an earlier one")
        if stored.version > self.version:
            batch = next((each for each in (self._committing, self._open) if each and each.holds(stored.version)), None)
            if batch is None:
                raise internal_error("the write was given up together with an earlier one")
            await batch.done()
        return stored

    async def settled(self) -> None:
        """Wait until everything that was written so far is on disk."""
        batch = self._open or self._committing
        if batch is not None:
            await batch.done()

    async def close(self) -> None:
        """Wait for the writes that are under way, then let go of the directory."""
        while (batch := self._committing or self._open) is not None:
            with suppress(ApiError):  # its requests were told
                await batch.done()
        self._disk.close()
        self._log.close()
        self.reserve.close()
        os.close(self._lock)

    def _write(self, stored: Stored, previous: Stored | None, *, is_removal: bool) -> Stored:
        if self.failure:
            raise internal_error(f"the store cannot write: {self.failure}")
        self._last = stored.version
        kind = ChangeType.DELETED if is_removal else ChangeType.MODIFIED if previous else ChangeType.ADDED
        if self._open is None:
            self._open = Batch()
            if self._committing is None:
                asyncio.get_running_loop().call_soon(self._flush)
        self._open.changes.append(Change(kind, stored, previous))
        self._ahead[stored.storage, stored.key] = (stored.version, None if is_removal else stored)
        return stored

    def _flush(self) -> None:
        batch, self._open = self._open, None
        if batch is None:
            return
        self._committing = batch
        # Until they are deleted they are history, which the store still has after a restart.
        is_worth_it = len(self._superseded) >= self._least_deleted and not self._log.is_long
        if is_worth_it or self.reserve.is_full:
            batch.superseded, self._superseded = self._superseded, []
            batch.oldest = self._oldest
        else:
            batch.oldest = self._log.seal.oldest
        self._attempt(batch)

    def _attempt(self, batch: Batch) -> None:
        try:
            rows = [_row_of(stored, is_removal=kind is ChangeType.DELETED) for kind, stored, _ in batch.changes]
            keys = [(row.storage, row.namespace, row.name) for row in rows] if self.set_aside else []
            checksums = self._log.append(rows, batch.superseded, batch.oldest, keys)
            for change, checksum in zip(batch.changes, checksums, strict=True):
                change.stored.checksum = checksum
            # Rows that go have to be read first, and a long log takes long to move: both are for the thread.
            if not batch.superseded and not self._log.is_long:
                self._log.commit()
                if self._log.begin_flush(self._flushed):
                    return
        except Exception as error:  # noqa: BLE001  whatever it is, the requests of the batch must get an answer
            self._committed(error)
            return
        self._disk.do(self._log.persist, self._committed)

    def _flushed(self, error: OSError | None) -> None:
        if error is None:
            self._log.acknowledge()
            self._committed(None)
        else:
            self._disk.do(self._log.rescue, self._committed)

    def _committed(self, error: Exception | None) -> None:
        can_retry = error is not None and is_disk_full(error) and not self.failure
        if can_retry and self._committing is not None and self._free_space():
            # The batch was accepted before the disk was known to be full, or is for removal.
            self._attempt(self._committing)
            return
        self._has_tidied = False
        if error is not None:
            self._give_up(error)
            return
        batch, self._committing = self._committing, None
        assert batch is not None
        for change in batch.changes:
            self._publish(change)
        self._forget_old()
        batch.end(None)
        self._flush()

    def _free_space(self) -> bool:
        """Whether to try once more: with some of the reserve, or when it is used up, with the WAL begun again."""
        self._log.rollback()
        if self.reserve.claim():
            return True
        if self._has_tidied:
            return False
        self._has_tidied = True
        self.reserve.release()
        return self._log.tidy()

    def _publish(self, change: Change) -> None:
        stored = change.stored
        shelf = self._shelves[stored.storage]
        shelf.apply(change)
        self.version = stored.version
        is_told = self._remember(change)
        if self._ahead[stored.storage, stored.key][0] == stored.version:
            del self._ahead[stored.storage, stored.key]
        if self.set_aside:
            self.set_aside.discard((stored.storage, stored.key))
        for listener in tuple(shelf.listeners) if is_told else ():
            try:
                listener(change)
            except Exception:  # noqa: BLE001  what is on disk must be in memory, also if a listener fails
                _log.exception("a listener failed at version %d", stored.version)
        if change.previous is not None:
            self._release(change.previous)

    def _release(self, superseded: Stored) -> None:
        """Keep the value a little longer than its version: watches hear of the change only now."""
        size = superseded.size
        self._decoded.append((superseded, size))
        self._decoded_bytes += size
        while self._decoded_bytes > _DECODED_BYTES:
            oldest, size = self._decoded.popleft()
            self._decoded_bytes -= size
            oldest.release()

    def _forget_old(self) -> None:
        limit = self._history_limit
        if self.reserve.is_full:
            # What deletions write is to fit into what is free in the file itself.
            limit = min(limit, max(len(self._history) - _FORGOTTEN_AT_ONCE, _FEWEST))
        while len(self._history) > limit or (
            self._history_bytes > self._most_history_bytes and len(self._history) > self._least_history
        ):
            change = self._history.popleft()
            self._history_bytes -= change.stored.size
            self._shelves[change.stored.storage].feed.forget_first()
            self._oldest = change.stored.version
            if change.previous is not None:
                self._superseded.append((change.previous.version, _checksum(change.previous)))
            if change.type is ChangeType.DELETED:
                self._superseded.append((change.stored.version, _checksum(change.stored, is_removal=True)))

    def _give_up(self, error: Exception) -> None:
        """The disk refused: these writes are undone, with those built on them. Their versions are not used again."""
        self._log.rollback()
        failure = internal_error(f"the store cannot write: {error}")
        for batch in (self._committing, self._open):
            if batch is not None:
                self._superseded += batch.superseded
                batch.end(failure)
        self._committing = self._open = None
        self._ahead.clear()


def _amended(before: Stored, version: int, value: Json, tracking: Tracking) -> Stored:
    def managed() -> Entries:
        return tracking(before.managed, before.object, value)

    return Stored.unencoded(before.storage, before.key, version, value, managed)


def _is_leaving(stored: Stored | None) -> bool:
    return stored is not None and "deletionTimestamp" in stored.metadata


def shown(storage: str, key: Key) -> str:
    """As a person would write it: `pods default/web`."""
    return f"`{storage} {'/'.join(part for part in key if part)}`"


def _row_of(stored: Stored, *, is_removal: bool = False) -> Row:
    return Row(stored.version, stored.storage, *stored.key, is_removal, stored.body)


def _checksum(stored: Stored, *, is_removal: bool = False) -> int:
    """Of its row: known where this process has written it, and has not compacted its memory since."""
    return stored.checksum if stored.checksum is not None else _row_of(stored, is_removal=is_removal).checksum
