"""Reads what the plan of a drain needs, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from jettison.clock import Clock
from jettison.engine.drain.filters import DrainSelection
from jettison.engine.drain.plan import DrainPlan, plan_drain, stranded_pods
from jettison.errors import ApiError
from jettison.maintenance.nodes import filtered, read_pods
from jettison.maintenance.settings import DrainSettings
from jettison.manifests.budgets import budget_from
from jettison.manifests.pod_view import checked_pod
from jettison.manifests.scheduling import node_offer_from, placeable_pod_from
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import BUDGETS, NODES, PODS, Kind

_FORBIDDEN: Final = 403


async def read_plan(client: KubeClient, nodes: Sequence[str], settings: DrainSettings, clock: Clock) -> DrainPlan:
    """What a drain of these nodes, in this order, would do now."""
    selections: list[tuple[str, DrainSelection]] = []
    going: list[Document] = []
    for node in nodes:
        documents = await read_pods(client, node, settings)
        selection = await filtered(client, documents, settings, clock)
        selections.append((node, selection))
        going += (each for each, choice in zip(documents, selection.choices, strict=True) if choice.goes)
    namespaces = sorted({pod.namespace for _, selection in selections for pod in selection.going})
    # A drain that deletes asks no budget.
    budgets = [] if settings.deletes else await _in_all(client, BUDGETS, namespaces, settings.chunk)
    guarded = sorted({budget["metadata"]["namespace"] for budget in budgets})
    pods = await _in_all(client, PODS, guarded, settings.chunk)
    stranded = await _read_stranded(client, going, nodes, settings.chunk)
    return plan_drain(selections, map(checked_pod, pods), map(budget_from, budgets), clock.now_ns(), stranded)


async def _read_stranded(
    client: KubeClient, going: Sequence[Document], drained: Sequence[str], chunk: int
) -> frozenset[str]:
    """The pods whose replacements would have no node. A user that may drain need not be allowed to list nodes:
    then a place for every pod is assumed.
    """
    if not going:
        return frozenset()
    try:
        nodes = (await client.list(NODES, chunk=chunk)).items
    except ApiError as error:
        if error.code != _FORBIDDEN:
            raise
        return frozenset()
    # The scheduler would also use a node that is not Ready, if the pod tolerates that; but no pod becomes Ready there.
    offers = [node_offer_from(node) for node in nodes if _is_ready(node)]
    return stranded_pods(map(placeable_pod_from, going), offers, drained)


def _is_ready(node: Document) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


async def _in_all(client: KubeClient, kind: Kind, namespaces: Sequence[str], chunk: int) -> list[Document]:
    listings = await asyncio.gather(*(client.list(kind, namespace, chunk=chunk) for namespace in namespaces))
    return [item for listing in listings for item in listing.items]
