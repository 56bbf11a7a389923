"""Watches: changes of objects, streamed to any number of clients.

A watcher holds nothing but its place: in the feed of its resource, and before that in the list of its objects. What it
sends next is looked up when its client has read what came before, in pieces of 12 KiB, or of up to 60 where few watch.
A client that does not read therefore costs no memory but the buffers of its connection, which is closed after a while
(`connections`); one that reads too slowly loses the watch when the feed has forgotten its place.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from jettison.apiserver.http import forms
from jettison.apiserver.http.forms import form_of, metadata_of
from jettison.apiserver.http.presenting import document, encode, whole
from jettison.apiserver.http.requests import Request, Target, boolean, integer, invalid_options
from jettison.apiserver.http.statuses import bad_request, expired, failure_status
from jettison.apiserver.objects import tables
from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, unsupported
from jettison.apiserver.storage.indexes import list_order
from jettison.apiserver.storage.store import Store
from jettison.apiserver.storage.stored import Change, ChangeType, Stored
from jettison.apiserver.verbs.listing import Selection, selection_of, wait_for_version, watched_version
from jettison.clock import Clock
from jettison.engine.labels.field_selectors import FieldSelector, FieldTerm
from jettison.engine.labels.matching import FieldMatcher
from jettison.errors import ApiError

FEW_WATCHERS: Final = 5
"""So many watchers of a resource have pieces of the smallest size. Fewer share what these would hold: every piece is a
call of the kernel, a wake-up of the client and some 50 function calls, and an eviction is 5 kB of events.
"""

UNHURRIED_WATCHERS: Final = 100
"""Beyond so many, pieces are sent less often, in proportion: 2,000 watchers would leave no time to write."""


class WatchPace(NamedTuple):
    """How much is told at once, and how often."""

    # What is taken from the feed at once, and a little more. A connection buffers at most two pieces.
    piece_bytes: int = 12 * 1024
    # Changes that come every millisecond are sent every twenty: a piece costs as much as twenty events. The first event
    # after a pause is sent at once.
    seconds: float = 0.02
    bookmark_seconds: float = 60.0


PACE: Final = WatchPace()

_OPENINGS: Final = {kind: b'{"type":"%s","object":' % kind.value.encode() for kind in ChangeType}
_INITIAL_END: Final = "k8s.io/initial-events-end"
_SECOND_NS: Final = 10**9
_LONGEST_SELECTORS: Final = 2000


class Watcher:
    """One watch. Make it with `open_watch`; then `chunks` until they end, then `close`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        request: Request,
        target: Target,
        pace: WatchPace = PACE,
    ) -> None:
        self._pace = pace
        self._store = store
        self._clock = clock
        resource = self._resource = target.resource
        self._namespace = target.namespace or None
        # Numbers come first, also the one that means nothing here.
        self.asked_seconds = integer(request, "timeoutSeconds")
        integer(request, "limit")
        _check_selectors(request)
        self._selection: Selection = _named(target.name, selection_of(request, resource, _check_options))
        self._name = self._selection.name
        self._takes_all = self._selection.is_everything
        # What the version says is looked at before the form, as upstream.
        self.asked_version = watched_version(request)
        self._include = request.parameter("includeObject")
        self._form = form_of(request)
        if self._form.shape == forms.TABLE:
            tables.check_include(self._include)
        self._shown_as = (resource.api_version, self._form.shape, self._form.api_version)
        self._has_columns = False
        self._is_bookmarked = request.is_set("allowWatchBookmarks")
        self._feed = store.feed(resource)
        self._place = 0
        self._since = 0
        # Up to which version the client has been told.
        self._version = store.version
        # The key of the last object that was sent while the existing ones are sent; None when all are.
        self._told: tuple[str, str] | None = None
        self._refusal: ApiError | None = None
        self._is_over = False
        self._wake = asyncio.Event()

    def begin(self, since: int | None) -> None:
        """Start with all objects (None), or with the changes after a version.

        A client that takes bookmarks is told when it has seen all objects, whether or not it has asked for that.
        """
        if since is None:
            self._told = (self._namespace or "", "")
            self._place = self._feed.end
            return
        self._since = self._version = since
        try:
            self._place = self._store.place_after(self._resource, since)
        except ApiError as error:
            self._refusal = error

    def close(self) -> None:
        """No more events."""
        self._is_over = True
        self._feed.do_not_wake(self._wake.set)
        self._wake.set()

    async def chunks(self, seconds: float) -> AsyncIterator[bytes]:
        """The stream, as fast as the client reads it; ends after some time, or when the client lags too far."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        next_bookmark = loop.time() + min(self._pace.bookmark_seconds, max(seconds - 2, 1))
        next_chunk = loop.time()
        self._feed.watchers += 1
        try:
            while True:
                now = loop.time()
                if self._has_more and now < next_chunk:
                    await asyncio.sleep(next_chunk - now)
                    continue
                lines = self._shapely_lines()
                size = self._pace.piece_bytes * max(1, FEW_WATCHERS // self._feed.watchers)
                # The last line may be longer than what was left of the piece.
                most = size * 4 // 3
                while loop.time() < end and (piece := _piece(lines, size)):
                    for start in range(0, len(piece), most):
                        yield piece[start : start + most]
                    next_chunk = loop.time() + self._pace.seconds * max(1.0, self._feed.watchers / UNHURRIED_WATCHERS)
                now = loop.time()
                if self._is_over or now >= end or self._refusal is not None:
                    return
                if self._is_bookmarked and now >= next_bookmark:
                    next_bookmark = now + self._pace.bookmark_seconds
                    yield self._bookmark({})
                elif not self._has_more:
                    await self._wait((min(end, next_bookmark) if self._is_bookmarked else end) - now)
        finally:
            self._feed.watchers -= 1

    @property
    def _has_more(self) -> bool:
        return self._place < self._feed.end

    async def _wait(self, seconds: float) -> None:
        """For a change, the end or the timeout."""
        self._wake.clear()
        self._feed.wake_once(self._wake.set)
        timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
            self._feed.do_not_wake(self._wake.set)

    def _shapely_lines(self) -> Iterator[bytes]:
        """All events to send. An object cannot be shown as a list: Kubernetes breaks off where the first one is due."""
        if self._form.shape != forms.METADATA_LIST:
            return self._lines()
        if next(self._lines(), None) is not None:
            self._is_over = True
        return iter(())

    def _lines(self) -> Iterator[bytes]:
        """All events to send. Any time may pass between two of them: each is read from the store when it is sent.

        While the existing objects are sent, in the order of a list, changes of those already sent come in between; the
        others are sent in the state that they have by then.
        """
        while not self._is_over:
            if self._refusal is None and self._place < self._feed.first:
                self._refusal = expired(f"too old resource version: {self._version} ({self._store.oldest})")
            if self._refusal is not None:
                # The headers have said 200: a watch reports its own end as an event.
                yield b'{"type":"ERROR","object":%s}\n' % encode(failure_status(self._refusal))
                return
            if self._place < self._feed.end:
                change = self._feed[self._place]
                self._place += 1
                self._version = change.stored.version
                if self._told is None or list_order(change.stored.key) <= list_order(self._told):
                    line = self._changed(change)
                    if line is not None:
                        yield line
            elif self._told is None:
                return
            elif (stored := self._store.next_after(self._resource, self._namespace, self._told)) is not None:
                self._told = stored.key
                if self._name in (None, stored.key[1]) and self._takes(stored):
                    yield self._line(ChangeType.ADDED, stored)
            else:
                self._told = None
                if self._is_bookmarked:
                    yield self._bookmark({_INITIAL_END: "true"})

    def _takes(self, stored: Stored) -> bool:
        return self._takes_all or self._selection.takes(stored.object)

    def _changed(self, change: Change) -> bytes | None:
        """What the client is told of it."""
        kind, stored, previous = change
        namespace, name = stored.key
        if self._namespace not in (None, namespace) or self._name not in (None, name):
            return None
        if stored.version <= self._since:
            return None  # the client has seen it, on a server that was ahead of this one
        if not self._takes_all:
            was = previous is not None and self._selection.takes(previous.object)
            is_now = kind is not ChangeType.DELETED and self._selection.takes(stored.object)
            if not was and not is_now:
                return None
            if not is_now and kind is not ChangeType.DELETED and previous is not None:
                # It no longer matches: sent as deleted, as it last matched, at the version of the change.
                version, last = stored.version, previous
                return self._text(
                    ChangeType.DELETED,
                    version,
                    lambda: self._line(
                        ChangeType.DELETED, Stored.of(last.storage, last.key, version, last.object, last.managed)
                    ),
                )
            kind = ChangeType.DELETED if not is_now else ChangeType.MODIFIED if was else ChangeType.ADDED
        if self._feed.watchers == 1:
            return self._line(kind, stored)
        return self._text(kind, stored.version, partial(self._line, kind, stored))

    def _text(self, kind: ChangeType, version: int, make: Callable[[], bytes]) -> bytes:
        """One text for all watchers that send the same; a version belongs to one change."""
        drawn: Hashable = None
        if self._form.shape == forms.TABLE:
            # Rows say how old an object is.
            drawn = (self._include, self._has_columns, self._clock.now_ns() // _SECOND_NS)
        key = (version, kind, self._shown_as, drawn)
        text = self._feed.text(key, make)
        self._has_columns = True
        return text

    def _line(self, kind: ChangeType, stored: Stored) -> bytes:
        return b"%s%s}\n" % (_OPENINGS[kind], self._shown(stored))

    def _shown(self, stored: Stored) -> bytes:
        match self._form.shape:
            case forms.TABLE:
                return self._table([whole(stored)], stored.version)
            case forms.METADATA:
                return encode(metadata_of(whole(stored), self._form.api_version, self._resource.inner_annotation))
        return document(self._resource, stored)

    def _table(self, objects: list[dict[str, Any]], version: int) -> bytes:
        drawn = tables.render(
            self._resource,
            objects,
            self._clock.now_ns(),
            metadata={"resourceVersion": str(version)},
            include_object=self._include,
            has_columns=not self._has_columns,
            api_version=self._form.api_version,
        )
        self._has_columns = True
        return encode(drawn)

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        version = self._store.version
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if annotations:
            metadata["annotations"] = annotations
        match self._form.shape:
            case forms.TABLE:
                shown = self._table([], version)
            case forms.METADATA:
                shown = encode(metadata_of({"metadata": metadata}, self._form.api_version))
            case _:
                kind = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
                shown = encode({**kind, "metadata": metadata})
        return b'{"type":"BOOKMARK","object":%s}\n' % shown


def _piece(lines: Iterator[bytes], least_bytes: int) -> bytes:
    """The next lines, as many as make a piece; a long one is a piece of its own."""
    parts, size = [], 0
    for line in lines:
        parts.append(line)
        size += len(line)
        if size >= least_bytes:
            break
    return b"".join(parts)


async def open_watch(
    store: Store, clock: Clock, request: Request, target: Target, pace: WatchPace = PACE
) -> tuple[Watcher, float]:
    """A watch that has begun, and how long it lasts; or what is wrong with the request."""
    watcher = Watcher(store, clock, request, target, pace)
    wants_initial = _check_options(request)
    since = watcher.asked_version
    seconds = watcher.asked_seconds or random.randint(1800, 3600)  # noqa: S311  no secret
    if wants_initial:
        await wait_for_version(store, since)
    is_fresh = since == 0 if wants_initial is None else wants_initial
    watcher.begin(None if is_fresh else since)
    return watcher, float(max(seconds, 0))


def _named(name: str, selection: Selection) -> Selection:
    """A path may name the one object that is watched; a selector beside it can only say the same."""
    if not name:
        return selection
    if selection.fields.is_empty:
        fields = FieldSelector((FieldTerm("metadata.name", name),))
        return replace(selection, fields=fields, field_matcher=FieldMatcher(fields))
    if selection.name != name:
        raise bad_request("fieldSelector metadata.name doesn't match requested name")
    return selection


def _check_selectors(request: Request) -> None:
    """A watch keeps its selectors for an hour, and a user may have 2,000 watches."""
    size = len(request.parameter("labelSelector")) + len(request.parameter("fieldSelector"))
    if size > _LONGEST_SELECTORS:
        raise bad_request(f"the selectors of a watch have {size} characters, at most {_LONGEST_SELECTORS} are allowed")


def _check_options(request: Request) -> bool | None:
    wants_initial, match = boolean(request, "sendInitialEvents"), request.parameter("resourceVersionMatch")
    name, known = "resourceVersionMatch", ("NotOlderThan",)
    mistakes: list[Mistake] = []
    if wants_initial is not None and match not in known:
        mistakes.append(forbidden(name, f"sendInitialEvents requires setting {name} to NotOlderThan"))
    if match:
        if wants_initial is None:
            mistakes.append(forbidden(name, f"{name} is forbidden for watch unless sendInitialEvents is provided"))
        if match not in known:
            mistakes.append(unsupported(name, match, known))
    # A watch without a version begins with what is there: as if it had asked for that.
    is_from_start = wants_initial is None and request.parameter("resourceVersion") in ("", "0")
    if request.parameter("continue") and (match or is_from_start):
        mistakes.append(forbidden(name, f"{name} is forbidden when continue is provided"))
    if mistakes:
        raise invalid_options("ListOptions", mistakes)
    return wants_initial
