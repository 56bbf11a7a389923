"""Static pods in the API: each is shown by a mirror, so that the scheduler counts it and users see it.

A mirror does not make the pod run. When it is deleted, the node creates another one and the pod runs on; it is removed
when the manifest is. It is owned by the Node, so that it is deleted with that, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jettison.errors import ApiError, NotFound
from jettison.manifests.pods import CONFIG_MIRROR, is_mirror
from jettison.membership.pod_source import is_terminating, local_uid, uid_of
from jettison.runtimes.kube.cache import Cache, Key, key_of
from jettison.runtimes.kube.client import DeleteOptions, Document, KubeClient
from jettison.runtimes.kube.kinds import PODS
from jettison.runtimes.protocol import Hosting, PodStatus

LOOK_SECONDS: Final = 1.0

_CONFIG_HASH: Final = "kubernetes.io/config.hash"
# The API wants one of every container, and a bare host has none.
_NO_IMAGE: Final = "none"
_NOT_SHOWN: Final = frozenset(("priority", "serviceAccountName", "serviceAccount", "imagePullSecrets"))
_STAYS: Final = {"operator": "Exists", "effect": "NoExecute"}


def mirror_name(pod: str, node: str) -> str:
    """With the node's name, because the same manifest may be on many nodes."""
    return f"{pod}-{node.lower()}"


class Mirrors:
    """Of one node's static pods. `nodes` is a cache that holds at least this one."""

    def __init__(self, client: KubeClient, pods: Cache, nodes: Cache, runtime: Hosting, node: str) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._runtime = runtime
        self._node = node

    async def report(self) -> None:
        """One round. What the API refuses of one pod keeps none of the others from being shown."""
        node = self._nodes.get(("", self._node))
        if node is None or not self._pods.is_listed:
            return
        # Of a manifest that changed the old pod may still be ending: the newest comes last.
        static = {self._key(status): status for status in self._runtime.statuses() if status.pod.is_static}
        mirrors = {key_of(each): each for each in self._pods if is_mirror(each)}
        refusals: list[ApiError] = []
        for key, mirror in mirrors.items():
            status = static.get(key)
            if status is None or local_uid(mirror) != status.pod.uid or is_terminating(mirror):
                try:
                    await self._remove(key, mirror)
                except ApiError as refusal:
                    refusals.append(refusal)
        for key, status in static.items():
            if key not in mirrors:
                try:
                    await self._client.create(PODS, self._mirror(key, status, node), key[0])
                except ApiError as refusal:
                    refusals.append(refusal)
        if refusals:
            raise refusals[0]

    def _key(self, status: PodStatus) -> Key:
        return status.pod.namespace, mirror_name(status.pod.name, self._node)

    async def _remove(self, key: Key, mirror: Document) -> None:
        try:
            await self._client.delete(PODS, key[1], key[0], DeleteOptions(grace_seconds=0, uid=uid_of(mirror)))
        except NotFound:
            return

    def _mirror(self, key: Key, status: PodStatus, node: Document) -> Document:
        metadata, spec = status.document["metadata"], status.document["spec"]
        marks = {CONFIG_MIRROR: status.pod.uid, _CONFIG_HASH: status.pod.uid}
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid_of(node), "controller": True}
        return {
            "metadata": {
                "name": key[1],
                "labels": metadata.get("labels") or {},
                "annotations": {**(metadata.get("annotations") or {}), **marks},
                "ownerReferences": [owner],
            },
            "spec": {**_shown(spec), "nodeName": self._node},
        }


def _shown(spec: Mapping[str, Any]) -> Document:
    """The API computes the priority's number, and such a pod tolerates every taint.

    A mirror with a service account or an image pull secret would be refused (a node could read the objects that its
    pods name), and a bare host has no use for either.
    """
    kept = {key: value for key, value in spec.items() if key not in _NOT_SHOWN}
    for kind in ("initContainers", "containers"):
        if kind in kept:
            kept[kind] = [{"image": _NO_IMAGE, **each} for each in kept[kind]]
    return {**kept, "tolerations": [*(kept.get("tolerations") or ()), _STAYS]}
