"""Tells the API how the node's pods are, and that those it deleted are gone.

Every round compares all pods with what the API has; only differences are sent. So nothing is lost by a restart or
while the API is away, changes in quick succession become one, and a pod's own loop never waits for a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from jettison import events
from jettison.agent.http.pod_statuses import status_document
from jettison.clock import Clock
from jettison.engine.pods.pod import ENDED_PHASES
from jettison.errors import Conflict, NotFound, RuntimeFailure
from jettison.events import Fact
from jettison.manifests.pods import is_mirror
from jettison.manifests.times import time_text
from jettison.membership.pod_source import is_terminating, local_uid, uid_of
from jettison.runtimes.kube.cache import Cache
from jettison.runtimes.kube.client import DeleteOptions, Document, KubeClient
from jettison.runtimes.kube.kinds import PODS
from jettison.runtimes.protocol import Hosting, PodStatus

LOOK_SECONDS: Final = 0.5
"""Readiness changes without an event; everything else wakes the loop."""

_AT_ONCE: Final = 8

_QUIET: Final = (events.AlarmRaised, events.ObservationFailed, events.ActionFailed)


class _Told(NamedTuple):
    """The last that was compared: neither side has changed while these are the same.

    `version` is that of the pod in the cache, never that of the answer to a patch: a version between the two, which
    the cache has not seen, would not have been compared.
    """

    status: PodStatus
    version: str


class PodReports:
    """For one node. Also a sink of facts: what happens to a pod is reported at once."""

    def __init__(
        self,
        client: KubeClient,
        pods: Cache,
        runtime: Hosting,
        is_starting: Callable[[str], bool],
        address: str,
        clock: Clock,
    ) -> None:
        self._client = client
        self._pods = pods
        self._runtime = runtime
        self._is_starting = is_starting
        self._address = address
        self._clock = clock
        self._last: dict[str, PodStatus] = {}
        self._told: dict[str, _Told] = {}
        # Pods whose final deletion was sent, with their version then: a finalizer may hold them, so it is not repeated.
        self._finished: dict[str, str] = {}
        self.wake: Callable[[], None] = lambda: None

    def take(self, fact: Fact, time_ns: int) -> None:  # noqa: ARG002  a sink's signature
        """A pod that was deleted is forgotten as soon as it has ended, so how it ended is read just before."""
        if isinstance(fact, events.PodCleanedUp | events.PodEvicted):
            self._remember()
        if not isinstance(fact, _QUIET):
            self.wake()

    async def report(self) -> None:
        """One round. What the API refuses of one pod keeps none of the others from being reported; that it cannot be
        reached ends the round. What was not sent still differs in the next one.
        """
        here = self._remember()
        shown = list(self._pods)
        uids = {uid_of(each) for each in shown} | here.keys()
        self._last = {uid: status for uid, status in self._last.items() if uid in uids}
        self._told = {uid: told for uid, told in self._told.items() if uid in uids}
        self._finished = {uid: version for uid, version in self._finished.items() if uid in uids}
        refusals: list[BaseException] = []
        for begin in range(0, len(shown), _AT_ONCE):
            some = shown[begin : begin + _AT_ONCE]
            done = await asyncio.gather(
                *(self._one(each, here.get(local_uid(each))) for each in some), return_exceptions=True
            )
            for failure in filter(None, done):
                if isinstance(failure, RuntimeFailure):
                    raise failure
                refusals.append(failure)
        if refusals:
            raise refusals[0]

    def _remember(self) -> dict[str, PodStatus]:
        here = {status.pod.uid: status for status in self._runtime.statuses()}
        self._last |= here
        return here

    async def _one(self, document: Document, status: PodStatus | None) -> None:
        uid = uid_of(document)
        try:
            if status is not None:
                await self._tell(document, status)
            elif is_terminating(document) and not is_mirror(document) and not self._is_starting(uid):
                await self._finish(document)
        except (NotFound, Conflict):
            # Gone, or another pod of the same name; the cache hears of it.
            self._told.pop(uid, None)

    async def _tell(self, document: Document, status: PodStatus) -> None:
        uid, version = uid_of(document), document["metadata"]["resourceVersion"]
        told = self._told.get(uid)
        if told is not None and told.status is status and told.version == version:
            return
        await self._patch(document, status_patch(status, document, self._address, self._clock.now_ns()))
        self._told[uid] = _Told(status, version)

    async def _finish(self, document: Document) -> None:
        metadata, uid = document["metadata"], uid_of(document)
        if self._finished.get(uid) == metadata["resourceVersion"]:
            return
        last = self._last.get(uid)
        if last is None:
            patch = lost_patch(document)
        else:
            patch = status_patch(last, document, self._address, self._clock.now_ns())
        await self._patch(document, patch)
        options = DeleteOptions(grace_seconds=0, uid=uid)
        await self._client.delete(PODS, metadata["name"], metadata["namespace"], options)
        self._finished[uid] = metadata["resourceVersion"]

    async def _patch(self, document: Document, status: Document) -> None:
        """With the uid, so that another pod of the same name is not changed."""
        if status:
            metadata = document["metadata"]
            body = {"metadata": {"uid": metadata["uid"]}, "status": status}
            await self._client.patch(PODS, metadata["name"], body, metadata["namespace"], subresource="status")


# The status itself, as a patch.

_CONTAINERS: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_VANISHING: Final = ("reason", "message")
_ADDRESSES: Final = ("podIPs", "hostIPs")
_REPLACE: Final = {"$patch": "replace"}
_LOST: Final = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was deleted.  The container used to be Running",
}


def status_patch(status: PodStatus, pod: Document, address: str, now_ns: int) -> Document:
    """For a strategic merge: only what differs from the API's pod, so it is empty where nothing does.

    Conditions of others stay as they are, and a pod that has ended does not become alive again: controllers have acted
    on its end.
    """
    before = pod.get("status") or {}
    if before.get("phase") in ENDED_PHASES and status.phase not in ENDED_PHASES:
        return {}
    wanted = status_document(status)
    conditions = _changed(wanted.pop("conditions", None) or (), before, pod["metadata"].get("generation"), now_ns)
    if status.started_ns is not None:
        wanted |= {"hostIP": address, "hostIPs": [{"ip": address}]}
        if not status.addresses:
            # It shares the network of its node.
            wanted |= {"podIP": address, "podIPs": [{"ip": address}]}
    if before.get("qosClass"):
        del wanted["qosClass"]
    if generation := pod["metadata"].get("generation"):
        wanted["observedGeneration"] = generation
    patch: Document = {key: value for key, value in wanted.items() if before.get(key) != value}
    # Else the API would keep the former address beside the new one, and refuse two of one family.
    patch |= {key: [_REPLACE, *patch[key]] for key in _ADDRESSES if key in patch and before.get(key)}
    patch |= {key: None for key in _VANISHING if key in before and key not in wanted}
    if conditions:
        patch["conditions"] = conditions
    return patch


def lost_patch(pod: Document) -> Document:
    """For a deleted pod of which nothing is left here, not even how it ended: its containers were killed."""
    before = pod.get("status") or {}
    if before.get("phase") in ENDED_PHASES or not any(before.get(key) for key in _CONTAINERS):
        return {}
    patch: Document = {"phase": "Failed"}
    for key in _CONTAINERS:
        if key in before:
            patch[key] = [_ended(each) for each in before[key]]
    return patch


def _ended(container: Document) -> Document:
    if "terminated" in (container.get("state") or {}):
        return container
    return {**container, "ready": False, "started": False, "state": {"terminated": dict(_LOST)}}


def _changed(conditions: Iterable[Document], before: Document, generation: int | None, now_ns: int) -> list[Document]:
    known = {each["type"]: each for each in before.get("conditions") or ()}
    found = []
    for condition in conditions:
        if generation:
            condition = {**condition, "observedGeneration": generation}
        old = known.get(condition["type"], {})
        # Kubernetes writes null for a probe time that is not set.
        if {key: value for key, value in old.items() if value and not key.startswith("last")} == condition:
            continue
        moment = old.get("lastTransitionTime") if old.get("status") == condition["status"] else None
        gone = {key: None for key in _VANISHING if key in old and key not in condition}
        found.append({**condition, **gone, "lastTransitionTime": moment or time_text(now_ns)})
    return found
