"""A node's presence in the API: its Node object, kept true, and its Lease, renewed every ten seconds.

The status is written at once when something changes, and every five minutes at least. Without a renewed lease, a node
counts as lost after 50 seconds and its pods as not ready; so the lease has a loop of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from jettison.clock import Clock
from jettison.engine.node.signals import Condition
from jettison.engine.node.wording import Event
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import Conflict, NotFound, RuntimeFailure, UnreachableError
from jettison.membership.node_object import (
    NODE_NOT_READY,
    NODE_READY,
    READY,
    RUNTIME_UNHEALTHY,
    NodeImage,
    NodeProfile,
    conditions_of,
    next_conditions,
    node_document,
    status_document,
    status_patch,
    with_runtime,
)
from jettison.runtimes.kube.cache import Cache
from jettison.runtimes.kube.client import Document, KubeClient, PatchType
from jettison.runtimes.kube.kinds import LEASES, NODE_LEASES, NODES
from jettison.runtimes.kube.leases import micro_time

LEASE_SECONDS: Final = 40
RENEW_SECONDS: Final = 10.0

# How often a kubelet looks at its images.
_IMAGES_NS: Final = 30 * SECOND_NS


class Registration:
    """One node. `nodes` is a cache that holds at least this one; `tell` gets an event for each changed condition."""

    def __init__(
        self,
        client: KubeClient,
        nodes: Cache,
        profile: NodeProfile,
        pressure: Callable[[], frozenset[Condition]],
        complaint: Callable[[], str | None],
        tell: Callable[[Event], None],
        clock: Clock,
        images: Callable[[], Awaitable[Sequence[NodeImage]]],
        runtime_lack: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._ask_for_images = images
        self._images: Sequence[NodeImage] = ()
        self._images_asked_ns: int | None = None
        self._client = client
        self._nodes = nodes
        self._profile = profile
        self._pressure = pressure
        self._complaint = complaint
        self._runtime_lack = runtime_lack
        self._tell = tell
        self._clock = clock
        self._is_registered = False
        # Whether the API has told of the Node since.
        self._is_known = False
        self._reported: Document = {}
        self._reported_ns = 0

    async def report(self) -> None:
        """One round. A Node that was deleted is created again at the agent's next start, as with a kubelet."""
        await self._look_at_images()
        if not self._is_registered:
            await self._register()
            self._is_registered = True
        node = self._nodes.get(("", self._profile.name))
        if node is not None:
            self._is_known = True
            await self._update(node)
        elif self._is_known:
            name = self._profile.name
            raise NotFound(f"node {name} was deleted from the API; the next start of this agent creates it again")

    async def _look_at_images(self) -> None:
        """A runtime that does not answer is no reason to be silent: the last answer counts."""
        now_ns = self._clock.monotonic_ns()
        if self._images_asked_ns is None or now_ns - self._images_asked_ns >= _IMAGES_NS:
            self._images_asked_ns = now_ns
            with suppress(RuntimeFailure):
                self._images = await self._ask_for_images()

    async def _register(self) -> None:
        try:
            found = await self._client.get(NODES, self._profile.name)
        except NotFound:
            status, said = self._status(None)
            await self._client.create(NODES, node_document(self._profile, status))
            self._say(said)
            self._note(status)
            return
        metadata = found["metadata"]
        changed = {
            part: wanted
            for part, wanted in (("labels", self._profile.labels), ("annotations", self._profile.annotations))
            if any((metadata.get(part) or {}).get(key) != value for key, value in wanted.items())
        }
        if changed:
            body = {"metadata": {part: dict(wanted) for part, wanted in changed.items()}}
            await self._client.patch(NODES, self._profile.name, body, how=PatchType.MERGE)

    async def _update(self, node: Document) -> None:
        status, said = self._status(node)
        is_due = self._clock.monotonic_ns() - self._reported_ns >= self._profile.report_ns
        # Others write conditions, too, so those are compared with the API; the rest with what was sent last.
        if not (is_due or _without_conditions(status) != self._reported or _differs(status, node.get("status") or {})):
            return
        body = {"status": status_patch(status, node.get("status") or {})}
        await self._client.patch(NODES, self._profile.name, body, subresource="status")
        self._note(status)
        # The agent itself reports pressure, when it notices it.
        self._say([event for event in said if event.reason in (NODE_READY, NODE_NOT_READY)])

    def _status(self, node: Document | None) -> tuple[Document, list[Event]]:
        conditions, said = next_conditions(
            conditions_of(node), self._pressure(), self._complaint(), self._clock.now_ns(), self._profile.name
        )
        conditions = with_runtime(conditions, self._runtime_lack(), self._clock.now_ns())
        own = {READY, RUNTIME_UNHEALTHY, *Condition}
        status = status_document(self._profile, [each for each in conditions if each.type in own], self._images)
        return status, said

    def _note(self, status: Document) -> None:
        self._reported, self._reported_ns = _without_conditions(status), self._clock.monotonic_ns()

    def _say(self, said: list[Event]) -> None:
        for event in said:
            self._tell(event)


def _differs(wanted: Document, found: Document) -> bool:
    """Whether a condition has changed otherwise than in the time of its heartbeat."""
    known = {each["type"]: _timeless(each) for each in found.get("conditions") or ()}
    return any(known.get(each["type"]) != _timeless(each) for each in wanted["conditions"])


def _without_conditions(status: Document) -> Document:
    return {key: value for key, value in status.items() if key != "conditions"}


def _timeless(condition: Document) -> Document:
    return {key: value for key, value in condition.items() if key in ("status", "reason", "message")}


class NodeLease:
    """The Lease of one node in `kube-node-lease`; `node_uid` is that of its Node, so that both are deleted together.

    It is empty while the API has no such Node. Then no Lease is created: Kubernetes deletes one whose owner is gone.
    """

    def __init__(self, client: KubeClient, name: str, clock: Clock) -> None:
        self._client = client
        self._name = name
        self._clock = clock
        self._lease: Document | None = None
        self.node_uid = ""

    async def renew(self) -> None:
        """The heartbeat."""
        try:
            async with asyncio.timeout(RENEW_SECONDS):
                self._lease = await self._write()
        except TimeoutError:
            raise UnreachableError(f"the lease was not renewed within {RENEW_SECONDS:g} s") from None
        except (Conflict, NotFound):
            self._lease = None
            if self.node_uid:
                raise

    async def _write(self) -> Document | None:
        if self._lease is None:
            try:
                self._lease = await self._client.get(LEASES, self._name, NODE_LEASES)
            except NotFound:
                if not self.node_uid:
                    return None
                return await self._client.create(LEASES, self._renewed({}), NODE_LEASES)
        return await self._client.replace(LEASES, self._renewed(self._lease))

    def _renewed(self, before: Document) -> Document:
        metadata = {**(before.get("metadata") or {}), "name": self._name, "namespace": NODE_LEASES}
        if self.node_uid:
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": self.node_uid}
            metadata["ownerReferences"] = [owner]
        spec = {
            **(before.get("spec") or {}),
            "holderIdentity": self._name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_time(self._clock.now_ns()),
        }
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
