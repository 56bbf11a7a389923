"""The namespace controller: empties namespaces that are being deleted, of every kind that the API has in namespaces.

Our own API server does this itself, since it knows its kinds. Another API needs a controller for it: a namespace stays
until this one takes the finalizer `kubernetes` away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jettison.controllers.machinery.objects import is_terminating, read_resources
from jettison.controllers.machinery.reconciler import Postponed, Reconciler, Surroundings
from jettison.errors import ApiError, NotFound
from jettison.manifests.namespace_conditions import Left, terminating_conditions
from jettison.runtimes.kube.cache import Change
from jettison.runtimes.kube.client import Document, PatchType
from jettison.runtimes.kube.kinds import NAMESPACES, PODS, Kind

FINALIZER: Final = "kubernetes"
_AGAIN_SECONDS: Final = 2.0


class NamespaceController:
    """Everything in a terminating namespace is deleted, pods first; when nothing is left, the namespace may go."""

    def __init__(self, around: Surroundings) -> None:
        self._client, self._clock = around.client, around.clock
        self._namespaces = around.caches.of(NAMESPACES)
        self._reconciler: Reconciler[str] = Reconciler("namespaces", self._reconcile)
        self._reconciler.follow(self._namespaces, _names)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reconciler.run()

    async def _reconcile(self, name: str) -> None:
        namespace = self._namespaces.get(("", name))
        if namespace is None or not is_terminating(namespace):
            return
        finalizers = (namespace.get("spec") or {}).get("finalizers") or []
        if FINALIZER not in finalizers:
            return
        left: dict[str, list[Document]] = {}
        has_pods = False
        for kind in await self._kinds():
            remaining = await self._empty(kind, name)
            if kind == PODS and remaining:
                # What pods need stays until they are gone. Kubernetes does not count them, so nothing seems to remain.
                has_pods = True
                break
            left[f"{kind.plural}.{kind.group}"] = [each["metadata"] for each in remaining]
        if has_pods or any(left.values()):
            await self._report(namespace, left)
            raise Postponed(_AGAIN_SECONDS)
        kept = [each for each in finalizers if each != FINALIZER]
        try:
            await self._client.replace(NAMESPACES, {**namespace, "spec": {"finalizers": kept}}, "finalize")
        except NotFound:
            return

    async def _report(self, namespace: Document, left: Left) -> None:
        """Say on the namespace what it is waiting for."""
        old = (namespace.get("status") or {}).get("conditions") or []
        conditions = terminating_conditions(old, left, self._clock.now_ns())
        if conditions != old:
            body = {"status": {"conditions": conditions}}
            name = namespace["metadata"]["name"]
            await self._client.patch(NAMESPACES, name, body, how=PatchType.MERGE, subresource="status")

    async def _kinds(self) -> list[Kind]:
        """All kinds in namespaces that can be listed and deleted, pods first."""
        groups = (await self._client.request("GET", "/apis")).get("groups") or []
        versions = ["v1", *(each["preferredVersion"]["groupVersion"] for each in groups)]
        found: list[Kind] = []
        for api_version in versions:
            group, _, version = api_version.rpartition("/")
            for each in await read_resources(self._client, api_version):
                verbs = each.get("verbs") or ()
                if each.get("namespaced") and "/" not in each["name"] and {"list", "delete"} <= set(verbs):
                    found.append(Kind(group, each["name"], True, version))
        return sorted(found, key=lambda kind: kind != PODS)

    async def _empty(self, kind: Kind, namespace: str) -> list[Document]:
        """Which are left. Those that have finalizers or a grace period stay for a while."""
        try:
            items = (await self._client.list(kind, namespace)).items
        except (NotFound, ApiError) as error:
            # A kind whose server does not answer keeps the namespace: it may have objects there.
            if isinstance(error, NotFound):
                return []
            raise
        for item in items:
            if not is_terminating(item):
                await self._delete(kind, namespace, item)
        return (await self._client.list(kind, namespace)).items if items else []

    async def _delete(self, kind: Kind, namespace: str, item: Document) -> None:
        try:
            await self._client.delete(kind, item["metadata"]["name"], namespace)
        except NotFound:
            return


def _names(change: Change) -> Iterator[str]:
    document = change.new or change.old
    if document is not None:
        yield document["metadata"]["name"]
