"""Pod collection: removes pods that no other controller removes, every 20 seconds.

Those are the oldest of too many that have ended, those whose node is gone or was declared lost, and those that were to
go before they ever got a node. No node agent confirms their end, so they are deleted without grace.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from jettison.controllers.machinery.objects import disruption_patch, is_terminating
from jettison.controllers.machinery.reconciler import Surroundings, repeat
from jettison.controllers.nodes.lifecycle import is_ready
from jettison.engine.pods.pod import FAILED, PENDING, RUNNING
from jettison.errors import ApiError, Conflict, NotFound
from jettison.manifests.pod_view import has_ended, node_name_of
from jettison.manifests.times import time_text
from jettison.runtimes.kube.cache import key_of
from jettison.runtimes.kube.client import DeleteOptions, Document
from jettison.runtimes.kube.kinds import NODES, PODS

ROUND_SECONDS: Final = 20.0
QUARANTINE_NS: Final = 40 * 10**9
"""How long a node must be missing before its pods are orphans: it may be about to register again."""

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
REASON: Final = "DeletionByPodGC"
MESSAGE: Final = "PodGC: node no longer exists"

_UNFINISHED: Final = (PENDING, RUNNING, "Unknown")
_log = logging.getLogger(__name__)


class PodGarbageController:
    """Works in rounds over all pods."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._pods = around.caches.of(PODS)
        self._nodes = around.caches.of(NODES)
        self._missing_since: dict[str, int] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat("pod collection", ROUND_SECONDS, self.collect)

    async def collect(self) -> None:
        """One round."""
        settings = self._around.settings
        pods = tuple(self._pods)
        chosen = [*_surplus(pods, settings.terminated_pods, settings.evicted_pods), *self._abandoned(pods)]
        for pod in {key_of(each): each for each in chosen}.values():
            await self._remove(pod, is_orphan=False)
        lost = await self._lost_nodes(pods)
        for pod in pods:
            if node_name_of(pod) in lost:
                await self._remove(pod, is_orphan=True)

    def _abandoned(self, pods: Iterable[Document]) -> Iterator[Document]:
        """Terminating, with no node agent that could confirm the end."""
        out_of_service = {node["metadata"]["name"] for node in self._nodes if _is_out_of_service(node)}
        for pod in pods:
            name = node_name_of(pod)
            if is_terminating(pod) and (not name or name in out_of_service):
                yield pod

    async def _lost_nodes(self, pods: Iterable[Document]) -> Collection[str]:
        """Nodes that pods name, that have been missing for long enough, and that the server does not know either."""
        now_ns = self._around.clock.monotonic_ns()
        known = {node["metadata"]["name"] for node in self._nodes}
        missing = {node_name_of(pod) for pod in pods} - known - {""}
        self._missing_since = {name: self._missing_since.get(name, now_ns) for name in missing}
        overdue = [name for name, since_ns in self._missing_since.items() if now_ns - since_ns >= QUARANTINE_NS]
        return [name for name in overdue if not await self._has_node(name)]

    async def _has_node(self, name: str) -> bool:
        try:
            await self._around.client.get(NODES, name)
        except NotFound:
            return False
        return True

    async def _remove(self, pod: Document, *, is_orphan: bool) -> None:
        """One that cannot be removed must not keep the others."""
        namespace, name = key_of(pod)
        uid = pod["metadata"]["uid"]
        client = self._around.client
        try:
            if not has_ended(pod):
                patch: Document = {"metadata": {"uid": uid}, "status": {"phase": FAILED}}
                if generation := pod["metadata"].get("generation"):
                    patch["status"]["observedGeneration"] = generation
                if is_orphan:
                    said = disruption_patch(pod, REASON, MESSAGE, time_text(self._around.clock.now_ns()))
                    patch["status"] |= said["status"]
                await client.patch(PODS, name, patch, namespace, subresource="status")
            await client.delete(PODS, name, namespace, DeleteOptions(grace_seconds=0, uid=uid))
        except (NotFound, Conflict):
            return  # gone, or another one by now
        except ApiError as error:
            _log.warning("pod collection: %s/%s: %s", namespace, name, error)


def _surplus(pods: Iterable[Document], most_ended: int, most_evicted: int | None) -> list[Document]:
    """The ended pods above the limits: those that a kubelet evicted first, then the oldest."""
    ended = sorted((pod for pod in pods if (pod.get("status") or {}).get("phase") not in _UNFINISHED), key=_age)
    evicted = [pod for pod in ended if _is_evicted(pod)]
    others = [pod for pod in ended if not _is_evicted(pod)]
    chosen = [] if most_evicted is None else evicted[: max(len(evicted) - most_evicted, 0)]
    if most_ended > 0:
        by_turn = [*evicted[len(chosen) :], *others]
        chosen += by_turn[: max(len(by_turn) - most_ended, 0)]
    return chosen


def _age(pod: Document) -> tuple[str, str]:
    """Times in one form and one zone sort as texts."""
    metadata = pod["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]


def _is_evicted(pod: Document) -> bool:
    status = pod.get("status") or {}
    return status.get("phase") == FAILED and status.get("reason") == "Evicted"


def _is_out_of_service(node: Document) -> bool:
    taints = (node.get("spec") or {}).get("taints") or ()
    return not is_ready(node) and any(each.get("key") == OUT_OF_SERVICE for each in taints)
