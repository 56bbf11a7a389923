"""How a workload's status gets to the server."""

from __future__ import annotations

from jettison.controllers.machinery.owned_pods import OwnerKind
from jettison.errors import NotFound
from jettison.runtimes.kube.client import Document, KubeClient


async def report_status(client: KubeClient, kind: OwnerKind, workload: Document, status: Document) -> None:
    """The whole of it, on the version that it was counted for; and only if it is news, for every write wakes others."""
    if status == (workload.get("status") or {}):
        return
    whole = {"apiVersion": kind.api_version, "kind": kind.name, **workload, "status": status}
    try:
        await client.replace(kind.kind, whole, "status")
    except NotFound:
        return
