"""A node as a member of a cluster: assembles and runs all that is exchanged with the API."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from jettison import events
from jettison.agent.admission import NodeIdentity
from jettison.agent.pods.keeper import Keeper
from jettison.agent.sinks.kubernetes_events import KubernetesEvents, event_document
from jettison.clock import Clock
from jettison.engine.node.event_correlation import Recorded
from jettison.engine.node.signals import Condition
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import JettisonError
from jettison.events import Emit
from jettison.manifests.files.bounds import REFUSED
from jettison.manifests.placement import taints_from
from jettison.membership.mirrors import LOOK_SECONDS as MIRROR_SECONDS
from jettison.membership.mirrors import Mirrors
from jettison.membership.missing_pods import CONFIRM_SECONDS, MissingPods
from jettison.membership.missing_pods import FILE as CLUSTER_FILE
from jettison.membership.node_object import NodeImage, NodeProfile
from jettison.membership.pod_reports import LOOK_SECONDS as POD_SECONDS
from jettison.membership.pod_reports import PodReports
from jettison.membership.pod_source import ApiPods
from jettison.membership.registration import RENEW_SECONDS, NodeLease, Registration
from jettison.membership.serving_certificate import ServingCertificate, ServingPort
from jettison.runtimes.kube.cache import Caches, Change
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.event_posts import EventPosts
from jettison.runtimes.kube.kinds import NODES, PODS
from jettison.runtimes.protocol import Hosting
from jettison.values import frozen

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 7.0
"""As a kubelet that cannot renew its lease."""


async def no_images() -> Sequence[NodeImage]:
    """Of a node without a container runtime."""
    return ()


@frozen
class Guarded:
    """What the cluster is told about the node."""

    runtime: Hosting
    keeper: Keeper
    events: KubernetesEvents
    conditions: Callable[[], frozenset[Condition]]
    # Why it is not ready, or None.
    complaint: Callable[[], str | None]
    emit: Emit
    # The directory of its state.
    state: Path
    images: Callable[[], Awaitable[Sequence[NodeImage]]] = no_images
    # Why its container runtime does not answer; empty while it does, None where there is none.
    runtime_lack: Callable[[], str | None] = lambda: None


class Member:
    """To be created before the keeper looks for the first time: until the API has been listed, none of its pods may be
    taken for unwanted. `reports` is a sink of the node's facts."""

    def __init__(
        self,
        client: KubeClient,
        profile: NodeProfile,
        node: Guarded,
        clock: Clock,
        port: ServingPort | None = None,
        *,
        confirm_seconds: float = CONFIRM_SECONDS,
    ) -> None:
        self._profile = profile
        self._keeper = node.keeper
        self._caches = Caches(client, clock)
        self._posts = EventPosts(client)
        nodes = self._caches.of(NODES, fields=f"metadata.name={profile.name}")
        pods = self._caches.of(PODS, fields=f"spec.nodeName={profile.name}")
        self._lease = NodeLease(client, profile.name, clock)
        self.reports = PodReports(client, pods, node.runtime, node.keeper.is_starting, profile.address, clock)
        registration = Registration(
            client,
            nodes,
            profile,
            node.conditions,
            node.complaint,
            lambda event: node.events.say(event, clock.now_ns()),
            clock,
            node.images,
            node.runtime_lack,
        )
        mirrors = Mirrors(client, pods, nodes, node.runtime, profile.name)
        self._mirror_rounds = Rounds("mirror static pods", mirrors.report, MIRROR_SECONDS, node.emit)
        self._node_rounds = Rounds("report the node", registration.report, profile.look_ns / SECOND_NS, node.emit)
        self._pod_rounds = Rounds("report pods", self.reports.report, POD_SECONDS, node.emit)
        self._lease_rounds = Rounds("renew the node's lease", self._lease.renew, RENEW_SECONDS, node.emit)
        self.reports.wake = self._wake
        nodes.listen(self._hear_of_node)
        pods.listen(lambda _: self._wake_for_pods())
        missing = MissingPods(client, profile.name, pods, node.runtime.statuses, node.state / CLUSTER_FILE)
        source = ApiPods(pods, node.keeper.wake, node.runtime.is_finished, node.emit, missing.wishes)
        missing.wake = source.look_again
        self._missing_rounds = Rounds("confirm that pods are gone", missing.confirm, confirm_seconds, node.emit)
        self._certificate_rounds: Rounds | None = None
        if port is not None:
            certificate = ServingCertificate(client, profile.name, port, node.emit, clock)
            what = "look after the node's serving certificate"
            self._certificate_rounds = Rounds(what, certificate.look, RENEW_SECONDS, node.emit)
        node.keeper.add(source)
        node.events.consumer = self._post

    async def run(self) -> None:
        """Until cancelled; the node goes on without."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._node_rounds.run())
            group.create_task(self._lease_rounds.run())
            group.create_task(self._pod_rounds.run())
            group.create_task(self._mirror_rounds.run())
            group.create_task(self._missing_rounds.run())
            if self._certificate_rounds is not None:
                group.create_task(self._certificate_rounds.run())
            group.create_task(self._posts.run())
            group.create_task(self._caches.run())

    def _wake(self) -> None:
        self._wake_for_pods()
        self._node_rounds.wake()

    def _wake_for_pods(self) -> None:
        self._pod_rounds.wake()
        self._mirror_rounds.wake()

    def _post(self, recorded: Recorded) -> None:
        document = event_document(recorded, self._profile.name)
        if recorded.subject.kind == "Node":
            # `kubectl describe node` looks for events whose uid is the node's name: that is what kubelets write.
            document["involvedObject"]["uid"] = self._profile.name
        self._posts.post(document)

    def _hear_of_node(self, change: Change) -> None:
        """Labels and taints may change in the API, and count for pods that are admitted from now on."""
        node = change.new
        if node is None:
            self._lease.node_uid = ""
            self._node_rounds.wake()
            return
        metadata = node["metadata"]
        if self._lease.node_uid != metadata["uid"]:
            self._lease.node_uid = metadata["uid"]
            self._lease_rounds.wake()
        if REFUSED in node:
            return
        self._keeper.admitter.node = NodeIdentity(self._profile.name, metadata.get("labels") or {}, taints_from(node))
        if not change.is_resync:
            self._node_rounds.wake()


class Rounds:
    """Work that is repeated for as long as the node runs: at intervals, at once when woken, later while it fails.

    A failure is reported once, until the work succeeds or fails for another reason. Work may say itself after how many
    seconds it is to be repeated.
    """

    def __init__(self, what: str, work: Callable[[], Awaitable[float | None]], seconds: float, emit: Emit) -> None:
        self._what = what
        self._work = work
        self._usual = self._seconds = seconds
        self._emit = emit
        self._woken = asyncio.Event()
        self._complaint = ""

    def wake(self) -> None:
        """Do the work now. A round that is running is followed by another; after a failure the pause is kept."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            self._woken.clear()
            if await self._attempt():
                pause = _FIRST_PAUSE
                await self._rest()
            else:
                await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311  no secret
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _attempt(self) -> bool:
        try:
            asked = await self._work()
        except JettisonError as error:
            return self._failed(str(error))
        except Exception as error:  # noqa: BLE001  a bug in here must not end the pods of a node that is cut off
            return self._failed(f"{type(error).__name__}: {error}")
        self._complaint = ""
        self._seconds = self._usual if asked is None else asked
        return True

    def _failed(self, why: str) -> bool:
        if why != self._complaint:
            self._complaint = why
            self._emit(events.ActionFailed(self._what, why))
        return False

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._woken.wait()
        except TimeoutError:
            return
