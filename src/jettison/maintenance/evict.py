"""Single evictions, by name. kubectl has no such command; its drain's words are used where they fit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum, auto

from jettison.clock import Clock
from jettison.engine.pods.api_pod import ApiPod
from jettison.errors import ApiError
from jettison.maintenance.eviction import Deadline, Evictor, Failed, Progress
from jettison.maintenance.settings import DryRun, EvictionSettings, Voice, server_text
from jettison.manifests.pod_view import checked_pod
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import PODS


class Evicted(Enum):
    """How it went for all pods together."""

    ALL = auto()
    REFUSED = auto()
    """Budgets said no to some, for now; nothing else went wrong."""
    FAILED = auto()


async def evict_pods(
    client: KubeClient, namespace: str, names: Sequence[str], settings: EvictionSettings, voice: Voice, clock: Clock
) -> Evicted:
    """Evict them all at once. If one of them does not exist, none is touched."""
    deadline = Deadline(settings.timeout_ns)
    try:
        async with deadline.limit():
            pods = await _read(client, namespace, names, voice)
            version = await client.eviction_version()
    except TimeoutError:
        voice.complain(f"error: global timeout reached: {deadline.text}")
        return Evicted.FAILED
    if pods is None:
        return Evicted.FAILED
    if not version:
        voice.complain("error: the server knows no evictions, pods can only be deleted there")
        return Evicted.FAILED
    if settings.dry_run is DryRun.CLIENT:
        for pod in pods:
            voice.say(f"evicting pod {pod}{DryRun.CLIENT.suffix}")
        return Evicted.ALL
    progress = Progress(f"namespace/{namespace}", pods, voice)
    evictor = Evictor(client, settings, deadline, voice, progress, clock)
    reports = asyncio.create_task(progress.report_until_cancelled())
    try:
        failures = await asyncio.gather(*(evictor.evict(pod, version) for pod in pods))
    finally:
        reports.cancel()
        progress.report()
    return _judged([failed for failed in failures if failed is not None], voice)


async def _read(client: KubeClient, namespace: str, names: Sequence[str], voice: Voice) -> list[ApiPod] | None:
    """None if one could not be read, which has then been said."""
    pods: list[ApiPod] = []
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        try:
            pods.append(checked_pod(await client.get(PODS, name, namespace)))
        except ApiError as error:
            voice.complain(server_text(error))
    return pods if len(pods) == len(wanted) else None


def _judged(failures: Sequence[Failed], voice: Voice) -> Evicted:
    for failed in failures:
        voice.complain(f"{failed.text} ({failed.cause})" if failed.is_refusal else failed.text)
    if not failures:
        return Evicted.ALL
    return Evicted.REFUSED if all(failed.is_refusal for failed in failures) else Evicted.FAILED
