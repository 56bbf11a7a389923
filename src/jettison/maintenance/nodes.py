"""Nodes: finding them, and taking a node out of scheduling or back in."""

from __future__ import annotations

from collections.abc import Sequence

from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, RuntimeFailure
from jettison.maintenance.settings import DryRun, Voice
from jettison.runtimes.kube.client import Document, KubeClient, together
from jettison.runtimes.kube.kinds import NODES


async def find_nodes(client: KubeClient, names: Sequence[str], selector: str, chunk: int) -> list[Document | ApiError]:
    """The nodes by name, in that order, each with its own failure; or all that the selector matches, even none."""
    if not names:
        return list((await client.list(NODES, labels=selector, chunk=chunk)).items)

    async def read(name: str) -> Document | ApiError:
        try:
            return await client.get(NODES, name)
        except ApiError as error:
            return error

    return await together(*map(read, dict.fromkeys(names)))


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
