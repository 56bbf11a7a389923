"""Pods made from a template and deleted for an owner, with the events that people look for under the owner.

How to use: `PodControl(around, owner_kind, source)` with the source that the events name, such as
`replicaset-controller`. `create(owner, template)` makes one pod with a name that the server completes; `delete(owner,
pod)` asks for the end of that very pod. Both raise what the server said, after having told it as an event.

`PodBatches` makes and deletes many for an owner, each expected before it is asked for. Under it is `slow_start(count,
work)`: one, then two, then four at a time, so that a quota that refuses all is asked once and not a thousand times.
`pod_from_template` is the pod alone, and `delete_pod` the deletion, for a controller with names and events of its own.

`Expectations` are the pods that were created or deleted and that the cache has not shown yet, so that a stale cache
never acts twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jettison.clock import Clock
from jettison.controllers.machinery.event_recorder import NORMAL, WARNING, subject_of
from jettison.controllers.machinery.owned_pods import OwnerKind
from jettison.controllers.machinery.quick_failures import QuickFailures
from jettison.controllers.machinery.reconciler import Surroundings
from jettison.errors import ApiError, Conflict, JettisonError, NotFound, RuntimeFailure
from jettison.runtimes.kube.cache import Cache, Change, Key, key_of
from jettison.runtimes.kube.client import DeleteOptions, Document, KubeClient
from jettison.runtimes.kube.kinds import PODS

TIMEOUT_NS: Final = 300 * 10**9
"""After so long an event is taken for lost, and the cache for the truth."""

MOST_AT_ONCE: Final = 500
"""How many pods an owner gets or loses in one go, as upstream; the rest comes when these have shown."""

_LONGEST_PREFIX: Final = 253

Failure = ApiError | RuntimeFailure


@dataclass(slots=True)
class _Open:
    since_ns: int
    creations: int = 0
    deletions: set[str] = field(default_factory=set)

    @property
    def is_met(self) -> bool:
        return self.creations <= 0 and not self.deletions


class Expectations:
    """By the key of the owner. Creations are counted, for a name is known only once there is an answer.

    How to use: before asking for anything, `expect` it; where the server refused, take it back with the same calls that
    tell of what was seen, `saw_created` and `saw_deleted`. `follow` sees to the rest. Do nothing about an owner's pods
    while `are_met` says no: the next event, or the resync after five minutes, wakes its key again.

    Every controller has an instance of its own. What is in it may be lost: after a restart the first list shows it all.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[Key, _Open] = {}

    def follow(self, cache: Cache, owner_of: Callable[[Document], Key | None]) -> None:
        """Take off what the cache shows. `owner_of`: the key of an object's owner, None for another kind."""

        def listener(change: Change) -> None:
            if change.is_resync or not self._open:
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


class StartedBatch(NamedTuple):
    """How many were made, and what the first failure said."""

    made: int
    error: ApiError | RuntimeFailure | None


class PodControl:
    """For owners of one kind."""

    def __init__(self, around: Surroundings, owner_kind: OwnerKind, source: str) -> None:
        self._around = around
        self._owner_kind = owner_kind
        self._source = source

    async def create(self, owner: Document, template: Document, prefix: str = "") -> Document:
        """One pod; its name begins with the owner's, or with the prefix that is given."""
        pod = pod_from_template(self._owner_kind, owner, template)
        if prefix:
            pod["metadata"]["generateName"] = prefix
        try:
            made = await self._around.client.create(PODS, pod, key_of(owner)[0])
        except (ApiError, RuntimeFailure) as error:
            if not is_namespace_ending(error):
                self._tell(owner, "FailedCreate", f"Error creating: {error}", WARNING)
            raise
        self._tell(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        return made

    async def delete(self, owner: Document, pod: Document) -> bool:
        """Whether there was something to delete."""
        try:
            is_asked = await delete_pod(self._around.client, pod)
        except (ApiError, RuntimeFailure) as error:
            self._tell(owner, "FailedDelete", f"Error deleting: {error}", WARNING)
            raise
        if is_asked:
            self._tell(owner, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
        return is_asked

    def _tell(self, owner: Document, reason: str, message: str, event_type: str = NORMAL) -> None:
        subject = subject_of(self._owner_kind.name, owner)
        self._around.events.tell(self._source, subject, reason, message, event_type)


class NewPod(NamedTuple):
    """A template, and how the name begins where that is not the owner's."""

    template: Document
    prefix: str = ""


class PodBatches:
    """For owners of one kind. What it returns is the first thing that the server said against it.

    `failures` hears of every pod that is made, for a controller that asks it before it makes more.
    """

    def __init__(
        self, around: Surroundings, owner_kind: OwnerKind, source: str, failures: QuickFailures | None = None
    ) -> None:
        self._control = PodControl(around, owner_kind, source)
        self._failures = failures
        self.expectations = Expectations(around.clock)
        self.expectations.follow(around.caches.of(PODS), owner_kind.key_from)

    async def create(self, owner: Document, pods: Sequence[NewPod]) -> Failure | None:
        """At most 500 of them; the rest is for the next time."""
        key, count = key_of(owner), min(len(pods), MOST_AT_ONCE)
        self.expectations.expect(key, creations=count)
        if self._failures is not None:
            self._failures.begin(owner)
        started = await slow_start(count, lambda index: self._create(owner, pods[index]))
        self.expectations.saw_created(key, count - started.made)
        return None if started.error is None or is_namespace_ending(started.error) else started.error

    async def _create(self, owner: Document, pod: NewPod) -> None:
        made = await self._control.create(owner, *pod)
        if self._failures is not None:
            self._failures.made(owner, made["metadata"]["uid"])

    async def delete(self, owner: Document, pods: Sequence[Document]) -> Failure | None:
        """At most 500 of them, all at once."""
        key, chosen = key_of(owner), pods[:MOST_AT_ONCE]
        self.expectations.expect(key, deletions=[each["metadata"]["uid"] for each in chosen])

        async def delete(pod: Document) -> Failure | None:
            try:
                if await self._control.delete(owner, pod):
                    return None
            except (ApiError, RuntimeFailure) as error:
                self.expectations.saw_deleted(key, pod["metadata"]["uid"])
                return error
            self.expectations.saw_deleted(key, pod["metadata"]["uid"])
            return None

        failures = await asyncio.gather(*map(delete, chosen))
        return next((each for each in failures if each is not None), None)


def pod_from_template(owner_kind: OwnerKind, owner: Document, template: Document) -> Document:
    """A pod without a name: labels, annotations and finalizers of the template, and the owner as its controller."""
    metadata = template.get("metadata") or {}
    kept: dict[str, Any] = {key: metadata[key] for key in ("labels", "annotations", "finalizers") if metadata.get(key)}
    prefix = f"{owner['metadata']['name']}-"
    kept["generateName"] = prefix if len(prefix) <= _LONGEST_PREFIX else prefix[:-1]
    kept["ownerReferences"] = [owner_kind.reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": template.get("spec") or {}}


async def delete_pod(client: KubeClient, pod: Document) -> bool:
    """That very pod. Whether it was there to be deleted: it may be gone, or its name another's by now."""
    namespace, name = key_of(pod)
    try:
        await client.delete(PODS, name, namespace, DeleteOptions(uid=pod["metadata"]["uid"]))
    except (NotFound, Conflict):
        return False
    return True


def is_namespace_ending(error: JettisonError) -> bool:
    """Whether nothing can be created because the namespace is being deleted: no failure, and no use in trying again."""
    if not isinstance(error, ApiError):
        return False
    causes = (error.details or {}).get("causes") or ()
    return any(each.get("reason") == "NamespaceTerminating" for each in causes)


async def slow_start(count: int, work: Callable[[int], Awaitable[object]]) -> StartedBatch:
    """Call `work` with 0, 1, … in batches that double, until all are done or a batch had a failure."""
    first, size, made = 0, 1, 0
    while first < count:
        batch = range(first, min(first + size, count))
        results = await asyncio.gather(*map(work, batch), return_exceptions=True)
        refusals = [each for each in results if isinstance(each, ApiError | RuntimeFailure)]
        made += len(batch) - len(refusals)
        for each in results:
            if isinstance(each, BaseException) and each not in refusals:
                raise each
        if refusals:
            return StartedBatch(made, refusals[0])
        first, size = batch.stop, 2 * size
    return StartedBatch(made, None)
