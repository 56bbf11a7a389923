"""Reads what the plan of a drain needs, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from jettison.clock import Clock
from jettison.engine.drain_plan import DrainPlan, plan_drain
from jettison.maintenance.selection import read_selection
from jettison.maintenance.settings import DrainSettings
from jettison.manifests.budgets import budget_from, guarded_pod_from
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import BUDGETS, PODS, Kind


async def read_plan(client: KubeClient, nodes: Sequence[str], settings: DrainSettings, clock: Clock) -> DrainPlan:
    """What a drain of these nodes, in this order, would do now."""
    selections = [(node, await read_selection(client, node, settings, clock)) for node in nodes]
    namespaces = sorted({pod.namespace for _, selection in selections for pod in selection.going})
    # A drain that deletes asks no budget.
    budgets = [] if settings.deletes else await _in_all(client, BUDGETS, namespaces, settings.chunk)
    guarded = sorted({budget["metadata"]["namespace"] for budget in budgets})
    pods = await _in_all(client, PODS, guarded, settings.chunk)
    return plan_drain(selections, map(guarded_pod_from, pods), map(budget_from, budgets), clock.now_ns())


async def _in_all(client: KubeClient, kind: Kind, namespaces: Sequence[str], chunk: int) -> list[Document]:
    listings = await asyncio.gather(*(client.list(kind, namespace, chunk=chunk) for namespace in namespaces))
    return [item for listing in listings for item in listing.items]
