"""What the server does without being asked: it empties namespaces that are being deleted, and drops old events.

Both belong here and not to the controllers: emptying must know all resources there are, and a store without either
would only ever grow.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from jettison.apiserver.objects.resources import EVENTS, NAMESPACES, PODS, RESOURCES, Resource
from jettison.apiserver.storage.store import Store
from jettison.apiserver.storage.stored import Change, ChangeType, Stored
from jettison.apiserver.verbs.deletion import GARBAGE_FINALIZERS, DeleteOptions, Deletions
from jettison.clock import Clock
from jettison.errors import ApiError
from jettison.manifests.namespace_conditions import Left, terminating_conditions
from jettison.manifests.times import parse_time

_log = logging.getLogger(__name__)

_CONTENT: Final[tuple[Resource, ...]] = tuple(
    each for each in RESOURCES if each.is_stored and each.is_namespaced and not each.stored_as
)
EVENT_LIFETIME_NS: Final = 3600 * 10**9
"""How long an event is kept; as in Kubernetes."""
_EVENT_ROUND_SECONDS: Final = 60.0
_EVENT_TIMES: Final = ("lastTimestamp", "eventTime")


class Housekeeping:
    """Runs beside the server, on the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._deletions = Deletions(store)
        self._wake = asyncio.Event()
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled: whenever something in a terminating namespace is gone, look what is left."""
        for resource in (*_CONTENT, NAMESPACES):
            self._store.follow(resource, self._store.version, self._notice)
        try:
            while True:
                self._wake.clear()
                try:
                    await self.round()
                except ApiError:
                    # The disk refuses, as every client is told; the next round tries again.
                    _log.exception("housekeeping failed")
                timer = asyncio.get_running_loop().call_later(_EVENT_ROUND_SECONDS, self._wake.set)
                await self._wake.wait()
                timer.cancel()
        finally:
            for resource in (*_CONTENT, NAMESPACES):
                self._store.unfollow(resource, self._notice)

    async def round(self) -> None:
        """Look through everything once; returns when what it changed is on the disk."""
        self._empty_all()
        self._drop_old_events()
        await self._store.settled()

    def _notice(self, change: Change) -> None:
        namespace, name = change.stored.key
        if namespace and change.type is not ChangeType.DELETED:
            return
        found = self._store.get(NAMESPACES, "", namespace or name)
        if found is not None and "deletionTimestamp" in found.metadata:
            self._wake.set()

    def _empty_all(self) -> None:
        for namespace in self._store.list(NAMESPACES)[0]:
            if "deletionTimestamp" in namespace.metadata and not self._empty(namespace):
                self._finish(namespace)

    def _empty(self, namespace: Stored) -> bool:
        """Whether anything is left after everything was deleted. Pods have their grace, finalizers hold the others.

        Pods go first: what they need, the budgets among it, stays until they are gone.
        """
        if self._ask(PODS, namespace):
            # Kubernetes does not count them here, so nothing seems to remain.
            self._report(namespace, {})
            return True
        left = {
            f"{resource.plural}.{resource.group}": [item.metadata for item in self._ask(resource, namespace)]
            for resource in _CONTENT
            if resource is not PODS
        }
        self._report(namespace, left)
        return any(left.values())

    def _ask(self, resource: Resource, namespace: Stored) -> list[Stored]:
        """Delete all of them; the answer is those that are still there."""
        left = []
        for item in self._store.list(resource, namespace.key[1])[0]:
            current = self._store.head(resource, *item.key)
            if current is not None and "deletionTimestamp" not in current.metadata:
                options = DeleteOptions(uid=current.uid, policy="Background")
                self._deletions.delete(resource, *item.key, options, self._clock.now_ns())
                current = self._store.head(resource, *item.key)
            if current is not None:
                left.append(current)
        return left

    def _report(self, namespace: Stored, left: Left) -> None:
        """Say on the namespace what it is waiting for."""
        current = self._store.head(NAMESPACES, *namespace.key)
        if current is None:
            return
        status = current.object["status"]
        conditions = terminating_conditions(status.get("conditions") or [], left, self._clock.now_ns())
        if conditions != status.get("conditions"):
            value = {**current.object, "status": {**status, "conditions": conditions}}
            self._store.put(NAMESPACES, *current.key, value)

    def _finish(self, namespace: Stored) -> None:
        current = self._store.head(NAMESPACES, *namespace.key)
        if current is None:
            return
        value = current.object
        kept = [each for each in value["spec"].get("finalizers") or () if each != "kubernetes"]
        last = {**value, "spec": {**value["spec"], "finalizers": kept}}
        # Nothing belongs to it any more, so there is nothing to wait for.
        others = [each for each in current.metadata.get("finalizers") or () if each not in GARBAGE_FINALIZERS]
        last["metadata"] = {key: each for key, each in value["metadata"].items() if key != "finalizers"}
        if others:
            last["metadata"]["finalizers"] = others
        if kept or others:
            self._store.put(NAMESPACES, *current.key, last)
        else:
            self._store.remove(NAMESPACES, *current.key, last)

    def _drop_old_events(self) -> None:
        """By its times, but for those in the future: an event of the year 9999 would stay until then."""
        now_ns = self._clock.now_ns()
        for item in self._store.list(EVENTS)[0]:
            texts = (*(item.object.get(key) for key in _EVENT_TIMES), item.metadata["creationTimestamp"])
            times = [time_ns for each in texts if each and (time_ns := parse_time(each)) <= now_ns]
            latest = max(times, default=0)
            if latest + EVENT_LIFETIME_NS < now_ns and self._store.head(EVENTS, *item.key) is not None:
                self._store.remove(EVENTS, *item.key)
