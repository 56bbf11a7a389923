"""Empties nodes, one after the other, in kubectl's order and words.

First every node is cordoned. If that fails for one, nothing is evicted anywhere: a pod that goes might come back to a
node that was to be emptied. (kubectl mentions the failure and goes on.)

`read_plan` reads what the forecast of a drain needs, and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from jettison.clock import Clock
from jettison.engine.drain.filters import DaemonSetTrouble, DrainSelection, aggregated, daemon_set_of, select_pods
from jettison.engine.drain.plan import DrainPlan, plan_drain, stranded_pods
from jettison.engine.numbers.strconv import quote
from jettison.engine.pods.api_pod import ApiPod
from jettison.errors import ApiError, NotFound, RuntimeFailure
from jettison.maintenance.eviction import Deadline, Evictor, Progress
from jettison.maintenance.nodes import set_unschedulable
from jettison.maintenance.settings import DrainSettings, DryRun, Voice
from jettison.manifests.budgets import budget_from
from jettison.manifests.pod_view import checked_pod
from jettison.manifests.scheduling import checked_node, node_offer_from, placeable_pod_from
from jettison.runtimes.kube.answers import server_text
from jettison.runtimes.kube.client import Document, KubeClient, together
from jettison.runtimes.kube.kinds import BUDGETS, DAEMON_SETS, NODES, PODS, Kind
from jettison.values import frozen

_LAST_LOOK_SECONDS: Final = 5.0

_FORBIDDEN: Final = 403


@frozen
class _Trouble:
    """Why a node is not empty: in a sentence, and as the last lines of all. kubectl prints all that it has collected
    where one node is left, and one line for each node where there are several.
    """

    text: str
    alone: tuple[str, ...]
    among_others: str


async def drain_nodes(
    client: KubeClient, nodes: Sequence[Document], settings: DrainSettings, voice: Voice, clock: Clock
) -> bool:
    """Whether all of them were emptied. Everything there is to say has been said."""
    dry_run = settings.eviction.dry_run
    if not await _cordon_all(client, nodes, settings, voice):
        return False
    troubles: dict[str, _Trouble] = {}
    for node in nodes:
        name = node["metadata"]["name"]
        trouble = await _Drain(client, name, settings, voice, clock).run()
        if trouble is None:
            voice.say(f"node/{name} drained{dry_run.suffix}")
        else:
            voice.complain(
                f"error: unable to drain node {quote(name)} due to error: {trouble.text}, continuing command..."
            )
            troubles[name] = trouble
    if troubles:
        voice.complain("There are pending nodes to be drained:")
        for name in troubles:
            voice.complain(f" {name}")
        found = list(troubles.values())
        for line in found[0].alone if len(found) == 1 else [each.among_others for each in found]:
            voice.complain(line)
    return not troubles


async def _cordon_all(client: KubeClient, nodes: Sequence[Document], settings: DrainSettings, voice: Voice) -> bool:
    deadline = Deadline(settings.eviction.timeout_ns)
    try:
        async with deadline.limit():
            failed = await set_unschedulable(client, nodes, wanted=True, dry_run=settings.eviction.dry_run, voice=voice)
    except TimeoutError:
        voice.complain(f"error: nothing is evicted, cordoning the nodes took longer than {deadline.text}")
        return False
    if failed:
        voice.complain(f"error: nothing is evicted because of nodes that are not cordoned: {', '.join(failed)}")
    return not failed


class _Drain:
    """One node. Its deadline begins with the reading of its pods."""

    def __init__(self, client: KubeClient, node: str, settings: DrainSettings, voice: Voice, clock: Clock) -> None:
        self._client = client
        self._node = node
        self._settings = settings
        self._voice = voice
        self._clock = clock
        self._deadline = Deadline(settings.eviction.timeout_ns)

    async def run(self) -> _Trouble | None:
        """Filter, warn, evict, wait."""
        try:
            async with self._deadline.limit():
                selection = await read_selection(self._client, self._node, self._settings, self._clock)
                is_asked = bool(selection.going) and not self._settings.deletes
                version = await self._client.eviction_version() if is_asked else ""
        except TimeoutError:
            return _trouble([f"global timeout reached: {self._deadline.text}"])
        except (ApiError, RuntimeFailure) as error:
            return _Trouble(str(error), (server_text(error),), str(error))
        if selection.errors:
            return _trouble(selection.errors)
        if selection.warning:
            self._voice.complain(f"Warning: {selection.warning}")
        if self._settings.eviction.dry_run is DryRun.CLIENT:
            for pod in selection.going:
                self._voice.say(f"evicting pod {pod}{DryRun.CLIENT.suffix}")
            return None
        trouble = await self._remove(selection.going, version)
        if trouble is not None:
            await self._say_what_is_left(trouble)
        return trouble

    async def _remove(self, pods: Sequence[ApiPod], version: str) -> _Trouble | None:
        if not pods:
            return None
        progress = Progress(f"node/{self._node}", pods, self._voice)
        evictor = Evictor(self._client, self._settings.eviction, self._deadline, self._voice, progress, self._clock)
        reports = asyncio.create_task(progress.report_until_cancelled())
        try:
            return await (_evict_all(evictor, pods, version) if version else self._delete_all(evictor, pods))
        finally:
            reports.cancel()
            progress.report()

    async def _delete_all(self, evictor: Evictor, pods: Sequence[ApiPod]) -> _Trouble | None:
        """One after the other, the first failure ends it; then wait for all together."""
        try:
            for pod in pods:
                await evictor.delete(pod)
            if self._settings.eviction.dry_run is not DryRun.SERVER:
                async with self._deadline.limit():
                    waits = (evictor.departure(pod, "deleted") for pod in pods)
                    for failure in await asyncio.gather(*waits, return_exceptions=True):
                        if failure is not None:
                            raise failure
        except TimeoutError:
            text = "context deadline exceeded"
            return _Trouble(text, (f"error: {text}",), text)
        except (ApiError, RuntimeFailure) as error:
            return _Trouble(str(error), (server_text(error),), server_text(error))
        return None

    async def _say_what_is_left(self, trouble: _Trouble) -> None:
        """Look once more, for a moment only: the deadline may be over already."""
        try:
            async with asyncio.timeout(_LAST_LOOK_SECONDS):
                selection = await read_selection(self._client, self._node, self._settings, self._clock)
        except (ApiError, RuntimeFailure, TimeoutError):
            return
        if selection.going:
            name = quote(self._node)
            self._voice.complain(f"There are pending pods in node {name} when an error occurred: {trouble.text}")
            for pod in selection.going:
                self._voice.complain(f"pod/{pod.name}")


async def _evict_all(evictor: Evictor, pods: Sequence[ApiPod], version: str) -> _Trouble | None:
    """All at once; the failure of one does not stop the others."""
    failures = await asyncio.gather(*(evictor.evict(pod, version) for pod in pods))
    texts = [failed.text for failed in failures if failed is not None]
    return _trouble(texts) if texts else None


def _trouble(texts: Sequence[str]) -> _Trouble:
    text = aggregated(texts)
    return _Trouble(text, tuple(dict.fromkeys(texts)), text)


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
        nodes = [checked_node(each) for each in (await client.list(NODES, chunk=chunk)).items]
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
    listings = await together(*(client.list(kind, namespace, chunk=chunk) for namespace in namespaces))
    return [item for listing in listings for item in listing.items]


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
    troubles = await asyncio.gather(*(_daemon_set_trouble(client, *key) for key in wanted))
    return select_pods(pods, settings.rules, dict(zip(wanted, troubles, strict=True)), clock.now_ns())


async def _daemon_set_trouble(client: KubeClient, namespace: str, name: str) -> DaemonSetTrouble | None:
    try:
        await client.get(DAEMON_SETS, name, namespace)
    except (ApiError, RuntimeFailure) as error:
        return DaemonSetTrouble(str(error), isinstance(error, NotFound))
    return None
