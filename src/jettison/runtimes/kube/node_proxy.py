"""What a node of a cluster measures and how it is configured: asked of its kubelet, through the API server's proxy."""

from __future__ import annotations

from typing import NamedTuple

from jettison.runtimes.kube.client import Document, KubeClient, together
from jettison.runtimes.kube.kinds import NODES, PODS


class NodeAnswers(NamedTuple):
    """The kubelet's `/stats/summary` and `/configz`, and the pods that the API has bound to the node."""

    summary: Document
    configz: Document
    pods: list[Document]


async def ask_node(client: KubeClient, name: str) -> NodeAnswers:
    """All three at once, so that they are of one moment as far as that can be; with the first refusal none goes on."""

    async def bound() -> Document:
        return {"items": (await client.list(PODS, fields=f"spec.nodeName={name}")).items}

    kubelet = (read_proxied(client, name, path) for path in ("stats/summary", "configz"))
    summary, configz, pods = await together(*kubelet, bound())
    return NodeAnswers(summary, configz, pods["items"])


async def read_proxied(client: KubeClient, name: str, path: str) -> Document:
    """A path of the kubelet that answers with JSON."""
    return await client.request("GET", f"{NODES.path('', name)}/proxy/{path}")


async def kubelet_configuration(client: KubeClient, node: str) -> Document:
    """What the kubelet itself says that it goes by."""
    answer = await read_proxied(client, node, "configz")
    found: Document = answer.get("kubeletconfig") or {}
    return found
