"""Reads a node's pods, and the DaemonSets that the filters ask about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from jettison.clock import Clock
from jettison.engine.drain.filters import DaemonSetTrouble, Selection, daemon_set_of, select_pods
from jettison.errors import ApiError, NotFound, RuntimeFailure
from jettison.maintenance.settings import DrainSettings
from jettison.manifests.node_pods import node_pod_from
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import DAEMON_SETS, PODS


async def read_selection(client: KubeClient, node: str, settings: DrainSettings, clock: Clock) -> Selection:
    """All pods of the node, of every namespace, with what the filters say to each."""
    return await filtered(client, await read_pods(client, node, settings), settings, clock)


async def read_pods(client: KubeClient, node: str, settings: DrainSettings) -> list[Document]:
    """Those that the operator asked for."""
    listing = await client.list(
        PODS, labels=settings.pod_selector, fields=f"spec.nodeName={node}", chunk=settings.chunk
    )
    return listing.items


async def filtered(
    client: KubeClient, documents: Iterable[Document], settings: DrainSettings, clock: Clock
) -> Selection:
    """What the filters say to these pods."""
    pods = [node_pod_from(each) for each in documents]
    wanted = list(dict.fromkeys(key for pod in pods if (key := daemon_set_of(pod)) is not None))
    troubles = await asyncio.gather(*(_trouble(client, *key) for key in wanted))
    return select_pods(pods, settings.rules, dict(zip(wanted, troubles, strict=True)), clock.now_ns())


async def _trouble(client: KubeClient, namespace: str, name: str) -> DaemonSetTrouble | None:
    try:
        await client.get(DAEMON_SETS, name, namespace)
    except (ApiError, RuntimeFailure) as error:
        return DaemonSetTrouble(str(error), isinstance(error, NotFound))
    return None
