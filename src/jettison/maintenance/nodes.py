"""Nodes and their pods: finding them, and taking a node out of scheduling or back in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from jettison.clock import Clock
from jettison.engine.drain.filters import DaemonSetTrouble, DrainSelection, daemon_set_of, select_pods
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, NotFound, RuntimeFailure
from jettison.maintenance.settings import DrainSettings, DryRun, Voice
from jettison.manifests.pod_view import checked_pod
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import DAEMON_SETS, NODES, PODS


async def find_nodes(client: KubeClient, names: Sequence[str], selector: str, chunk: int) -> list[Document | ApiError]:
    """The nodes by name, in that order, each with its own failure; or all that the selector matches, even none."""
    if not names:
        return list((await client.list(NODES, labels=selector, chunk=chunk)).items)

    async def read(name: str) -> Document | ApiError:
        try:
            return await client.get(NODES, name)
        except ApiError as error:
            return error

    return list(await asyncio.gather(*map(read, dict.fromkeys(names))))


async def set_unschedulable(
    client: KubeClient, nodes: Sequence[Document], *, wanted: bool, dry_run: DryRun, voice: Voice
) -> list[str]:
    """Cordon (or uncordon) every node; the names of those where that failed.

    Uncordoning sends a null: a field that is false is absent in Kubernetes, and stays comparable that way.
    """
    verb = "cordon" if wanted else "uncordon"
    failed = []
    for node in nodes:
        name = node["metadata"]["name"]
        if bool((node.get("spec") or {}).get("unschedulable")) is wanted:
            voice.say(f"node/{name} already {verb}ed{dry_run.suffix}")
            continue
        try:
            if dry_run is not DryRun.CLIENT:
                patch = {"spec": {"unschedulable": True if wanted else None}}
                await client.patch(NODES, name, patch, is_dry_run=dry_run is DryRun.SERVER)
        except (ApiError, RuntimeFailure) as error:
            voice.complain(f"error: unable to {verb} node {quote(name)}: {error}")
            failed.append(name)
        else:
            voice.say(f"node/{name} {verb}ed{dry_run.suffix}")
    return failed


async def read_selection(client: KubeClient, node: str, settings: DrainSettings, clock: Clock) -> DrainSelection:
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
) -> DrainSelection:
    """What the filters say to these pods."""
    pods = [checked_pod(each) for each in documents]
    wanted = list(dict.fromkeys(key for pod in pods if (key := daemon_set_of(pod)) is not None))
    troubles = await asyncio.gather(*(_trouble(client, *key) for key in wanted))
    return select_pods(pods, settings.rules, dict(zip(wanted, troubles, strict=True)), clock.now_ns())


async def _trouble(client: KubeClient, namespace: str, name: str) -> DaemonSetTrouble | None:
    try:
        await client.get(DAEMON_SETS, name, namespace)
    except (ApiError, RuntimeFailure) as error:
        return DaemonSetTrouble(str(error), isinstance(error, NotFound))
    return None
