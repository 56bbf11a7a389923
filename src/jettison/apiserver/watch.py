"""Watches: what happens to objects, told as it happens, to as many as want to know.

Every watcher has a buffer of its own, filled by the store at the moment a change is durable and emptied at the client's
pace. Who cannot keep up loses the watch, never anybody else's time: the buffer is bounded, and filling it never waits.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any, Final

from jettison.apiserver import forms, tables
from jettison.apiserver.forms import form_of, metadata_of, not_of_this_shape
from jettison.apiserver.listing import selection_of, wait_for_version, watched_version
from jettison.apiserver.options import boolean, integer, invalid_options
from jettison.apiserver.presenting import document, encode
from jettison.apiserver.requests import Request
from jettison.apiserver.resources import Resource
from jettison.apiserver.selection import Selection
from jettison.apiserver.statuses import failure_status
from jettison.apiserver.store import Store
from jettison.apiserver.stored import Change, ChangeType, Stored
from jettison.apiserver.validation.mistakes import Mistake, forbidden, unsupported
from jettison.clock import Clock
from jettison.errors import ApiError

MOST_BUFFERED_BYTES: Final = 8 * 1024 * 1024
"""How far a watcher may lag: 5,000 pods."""

BOOKMARK_SECONDS: Final = 60.0
PACE_SECONDS: Final = 0.02
"""Who hears of something new every millisecond is told every twenty: a chunk costs as much as twenty events. The first
event after a silence is told at once."""

_INITIAL_END: Final = "k8s.io/initial-events-end"


class Watcher:
    """One watch. Make it with `open_watch`; then `chunks` until they end, then `close`."""

    def __init__(self, store: Store, clock: Clock, request: Request, resource: Resource, namespace: str | None) -> None:
        self._store = store
        self._clock = clock
        self._resource = resource
        self._namespace = namespace
        self._selection: Selection = selection_of(request, resource)
        self._name = self._selection.name
        self._include = request.parameter("includeObject")
        self._form = form_of(request)
        if self._form.shape == forms.TABLE:
            tables.check_include(self._include)
        if self._form.shape == forms.METADATA_LIST:
            raise not_of_this_shape(resource.group, resource.kind, self._form.shape)
        self._has_columns = False
        self._is_bookmarked = request.is_set("allowWatchBookmarks")
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._is_over = False
        self._since = 0
        self._wake = asyncio.Event()

    def begin(self, since: int | None, *, ends_initial: bool) -> None:
        """Fill the buffer with what the client has missed: all objects (None), or what happened after a version."""
        if since is None:
            items, version = self._store.list(self._resource, self._namespace)
            for item in items:
                self._tell(ChangeType.ADDED, item, None)
            self._store.follow(self._resource, version, self.tell)
            if ends_initial:
                self._push(self._bookmark({_INITIAL_END: "true"}))
            return
        self._since = since
        try:
            missed = self._store.follow(self._resource, since, self.tell)
        except ApiError as error:
            # The headers say 200 by then: a watch reports its own end as an event.
            self._push(b'{"type":"ERROR","object":%s}\n' % encode(failure_status(error)))
            self._is_over = True
            return
        for change in missed:
            self.tell(change)

    def tell(self, change: Change) -> None:
        """Called by the store."""
        if change.stored.version <= self._since:
            return  # the client has seen it, on a server that was ahead of this one
        self._tell(change.type, change.stored, change.previous)

    def close(self) -> None:
        """No more events."""
        self._is_over = True
        self._store.unfollow(self._resource, self.tell)
        self._wake.set()

    async def chunks(self, seconds: float) -> AsyncIterator[bytes]:
        """Whatever has come together, as often as the client takes it; ends after some time, or when it is too slow."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        next_bookmark = loop.time() + min(BOOKMARK_SECONDS, max(seconds - 2, 1))
        next_chunk = loop.time()
        while True:
            now = loop.time()
            if self._buffer:
                if now < next_chunk and not self._is_over:
                    await asyncio.sleep(next_chunk - now)
                    continue
                next_chunk = now + PACE_SECONDS
                chunk = b"".join(self._buffer)
                self._buffer.clear()
                self._buffered = 0
                yield chunk
                continue
            if self._is_over or now >= end:
                return
            if self._is_bookmarked and now >= next_bookmark:
                next_bookmark = now + BOOKMARK_SECONDS
                self._push(self._bookmark({}))
                continue
            self._wake.clear()
            timer = loop.call_later((min(end, next_bookmark) if self._is_bookmarked else end) - now, self._wake.set)
            await self._wake.wait()
            timer.cancel()

    def _tell(self, kind: ChangeType, stored: Stored, previous: Stored | None) -> None:
        namespace, name = stored.key
        if self._is_over or self._namespace not in (None, namespace) or self._name not in (None, name):
            return
        if not self._selection.is_everything:
            was = previous is not None and self._selection.takes(previous.object)
            is_now = kind is not ChangeType.DELETED and self._selection.takes(stored.object)
            if was and not is_now and kind is not ChangeType.DELETED and previous is not None:
                # Gone for this watcher: told with the object as it last was for him, at the version of the change.
                stored = Stored.of(previous.storage, previous.key, stored.version, previous.object)
            if not was and not is_now:
                return
            kind = ChangeType.DELETED if not is_now else ChangeType.MODIFIED if was else ChangeType.ADDED
        self._push(b'{"type":"%s","object":%s}\n' % (kind.value.encode(), self._shown(stored)))

    def _shown(self, stored: Stored) -> bytes:
        match self._form.shape:
            case forms.TABLE:
                return self._table([stored.object], stored.version)
            case forms.METADATA:
                return encode(metadata_of(stored.object, self._form.api_version))
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

    def _push(self, line: bytes) -> None:
        self._buffer.append(line)
        self._buffered += len(line)
        if self._buffered > MOST_BUFFERED_BYTES:
            self._buffer.clear()
            self.close()
        self._wake.set()


async def open_watch(
    store: Store, clock: Clock, request: Request, resource: Resource, namespace: str | None
) -> tuple[Watcher, float]:
    """A watch that has begun, and how long it lasts; or what is wrong with the request."""
    wants_initial = _check_options(request)
    since = watched_version(request)
    watcher = Watcher(store, clock, request, resource, namespace)
    seconds = integer(request, "timeoutSeconds") or random.randint(1800, 3600)  # noqa: S311  no secret
    if wants_initial:
        await wait_for_version(store, since)
    is_fresh = since == 0 if wants_initial is None else wants_initial
    watcher.begin(None if is_fresh else since, ends_initial=bool(wants_initial))
    return watcher, float(max(seconds, 0))


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
        if request.parameter("continue"):
            mistakes.append(forbidden(name, f"{name} is forbidden when continue is provided"))
    if mistakes:
        raise invalid_options("ListOptions", mistakes)
    return wants_initial
