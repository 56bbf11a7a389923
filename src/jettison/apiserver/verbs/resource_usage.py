"""The metrics API: GET of what nodes and pods use now, as `kubectl top` wants it.

There is no collector in the background: nodes are asked when a client asks. An answer is kept for 15 s, which is also
how long metrics-server takes between two of its own. A node that was not asked within the last two minutes is asked
twice, a second apart. What a node says about pods of other nodes is passed over, and so is every line of its answer
that has not the expected form: it comes from another machine.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from jettison.apiserver.http.forms import TABLE, form_of
from jettison.apiserver.http.presenting import Response, encode, show_document
from jettison.apiserver.http.requests import Request, Target
from jettison.apiserver.objects import tables
from jettison.apiserver.objects.resources import NODES, POD_METRICS, PODS, Resource
from jettison.apiserver.storage.store import Store
from jettison.apiserver.storage.stored import Stored
from jettison.apiserver.verbs.listing import select
from jettison.apiserver.verbs.node_client import NodeQuestion
from jettison.clock import Clock
from jettison.engine.numbers.quantity import binary, parse
from jettison.errors import ApiError, NotFound
from jettison.manifests.times import time_text
from jettison.values import frozen

Json = dict[str, Any]


class NodeReader(Protocol):
    """Asks nodes."""

    async def read(self, question: NodeQuestion, most_bytes: int) -> bytes:
        """The whole answer. Raises ApiError."""


FRESH_SECONDS: Final = 15.0
_LONGEST_SECONDS: Final = 120.0
# A node gives a look again for a second.
PAUSE_SECONDS: Final = 1.1
# Of all nodes together; `kubectl top` gives up after 30 s.
_PATIENCE_SECONDS: Final = 20.0
_AT_ONCE: Final = 16
_PATH: Final = "/metrics/resource"
# A thousand pods have 600 kB.
_MOST_BYTES: Final = 4 * 1024 * 1024

_NODE_CPU, _NODE_MEMORY = "node_cpu_usage_seconds_total", "node_memory_working_set_bytes"
_CPU, _MEMORY, _START = (
    "container_cpu_usage_seconds_total",
    "container_memory_working_set_bytes",
    "container_start_time_seconds",
)
# Names of Kubernetes have no character that would have to be escaped; a sample with another name is none of ours.
_LINE: Final = re.compile(
    rf"({_NODE_CPU}|{_NODE_MEMORY}|{_CPU}|{_MEMORY}|{_START})(?:\{{([^}}\n]{{1,1000}})\}})?"
    r" ([0-9.eE+-]{1,30})(?: ([0-9]{1,15}))?"
)
_LABEL: Final = re.compile(r'([a-z_]+)="([a-z0-9.-]{1,253})"(?:,|$)')

# Namespace, pod, container; the empty one is the node.
Key = tuple[str, str, str]
NODE: Final[Key] = ("", "", "")


class UsageSample(NamedTuple):
    """One container, or the node. `cpu_ns` is since its start; times are the node's."""

    cpu_ns: int
    memory: int
    time_ms: int
    # What tells two runs of a container apart.
    start: float = 0.0


class Usage(NamedTuple):
    """Between two samples."""

    nano_cores: int
    memory: int
    time_ms: int
    window_ms: int


@frozen
class Scrape:
    """One answer of one node."""

    samples: Mapping[Key, UsageSample]


def parse_scrape(text: str) -> Scrape:
    """What has both processor time and memory."""
    cpu: dict[Key, tuple[int, int]] = {}
    memory: dict[Key, int] = {}
    start: dict[Key, float] = {}
    for line in text.splitlines():
        match = None if line.startswith("#") else _LINE.fullmatch(line)
        key = None if match is None else _key(match[2] or "")
        if match is None or key is None:
            continue
        try:
            amount = float(match[3])
            whole = round(amount * 10**9) if match[1] in (_CPU, _NODE_CPU) else int(amount)
        except (ValueError, OverflowError):
            continue
        if match[1] in (_CPU, _NODE_CPU) and match[4]:
            cpu[key] = whole, int(match[4])
        elif match[1] == _START:
            start[key] = amount
        elif match[1] in (_MEMORY, _NODE_MEMORY):
            memory[key] = whole
    return Scrape(
        {
            key: UsageSample(used, memory[key], time_ms, start.get(key, 0.0))
            for key, (used, time_ms) in cpu.items()
            if key in memory
        }
    )


def _key(labels: str) -> Key | None:
    if not labels:
        return NODE
    found = dict(_LABEL.findall(labels))
    names = tuple(found.get(name, "") for name in ("namespace", "pod", "container"))
    return (names[0], names[1], names[2]) if all(names) else None


def usages(before: Scrape, now: Scrape) -> dict[Key, Usage]:
    """Of what ran all the time: a container that was started in between has no use yet."""
    return dict(_compared(before, now))


def _compared(before: Scrape, now: Scrape) -> Iterator[tuple[Key, Usage]]:
    for key, sample in now.samples.items():
        known = before.samples.get(key)
        if known is None or known.start != sample.start:
            continue
        window_ms, used_ns = sample.time_ms - known.time_ms, sample.cpu_ns - known.cpu_ns
        if window_ms > 0 and used_ns >= 0:
            yield key, Usage(used_ns * 1000 // window_ms, sample.memory, sample.time_ms, window_ms)


@dataclass(slots=True)
class _Asked:
    """One node."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    scrape: Scrape | None = None
    # By the event loop's clock.
    at: float = 0.0
    found: Mapping[Key, Usage] = field(default_factory=dict)


class ResourceUsage:
    """The handlers. Without `nodes` nothing is known of any of them. A node that is new is read twice, with a pause."""

    def __init__(
        self, store: Store, clock: Clock, nodes: NodeReader | None, pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        self._store = store
        self._clock = clock
        self._nodes = nodes
        self._pause_seconds = pause_seconds
        self._asked: dict[str, _Asked] = {}
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def read(self, request: Request, target: Target) -> Response:
        """GET of one node or pod."""
        form_of(request)
        resource = target.resource
        source = PODS if resource is POD_METRICS else NODES
        found = self._store.get(source, target.namespace, target.name)
        shown = [] if found is None else await self._documents(resource, [found])
        if not shown:
            kind = resource.kind.lower()
            message = f'{kind}.{resource.group} "{target.name}" not found'
            raise NotFound(message, details={"name": target.name, "group": resource.group, "kind": kind})
        if form_of(request).shape == TABLE:
            return self._table(request, resource, shown)
        return show_document(request, resource.group, {**_head(resource), **shown[0]})

    async def list_all(self, request: Request, target: Target) -> Response:
        """GET of many. What is not measured is left out."""
        resource = target.resource
        source = PODS if resource is POD_METRICS else NODES
        shape = form_of(request).shape
        selection = select(resource, request.parameter("labelSelector"), request.parameter("fieldSelector"))
        items, _ = self._store.list(source, target.namespace or None)
        chosen = [item for item in items if selection.takes(item.listed_object())]
        shown = await self._documents(resource, chosen)
        if shape == TABLE:
            return self._table(request, resource, shown)
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": {}}
        return Response(200, encode({**head, "items": shown}))

    async def _documents(self, resource: Resource, items: Iterable[Stored]) -> list[Json]:
        if resource is not POD_METRICS:
            nodes = list(items)
            known = await self._ask_all({item.metadata["name"] for item in nodes})
            return [
                _node(item, usage)
                for item in nodes
                if (usage := known.get(item.metadata["name"], {}).get(NODE)) is not None
            ]
        pods = [item for item in items if item.object["spec"].get("nodeName")]
        known = await self._ask_all({item.object["spec"]["nodeName"] for item in pods})
        found = (_pod(item, known.get(item.object["spec"]["nodeName"], {})) for item in pods)
        return [each for each in found if each is not None]

    def _table(self, request: Request, resource: Resource, shown: list[Json]) -> Response:
        drawn = tables.render(
            resource,
            shown,
            self._clock.now_ns(),
            metadata={},
            include_object=request.parameter("includeObject"),
            api_version=form_of(request).api_version,
        )
        return Response(200, encode(drawn))

    async def _ask_all(self, names: set[str]) -> dict[str, Mapping[Key, Usage]]:
        for gone in self._asked.keys() - names:
            if self._store.get(NODES, "", gone) is None:
                del self._asked[gone]
        found: dict[str, Mapping[Key, Usage]] = {}

        async def one(name: str) -> None:
            async with self._at_once:
                found[name] = await self._ask(name)

        tasks = [asyncio.create_task(one(name)) for name in sorted(names)]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_PATIENCE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return found

    async def _ask(self, name: str) -> Mapping[Key, Usage]:
        """Nothing of a node that does not answer: the others are shown all the same."""
        if self._nodes is None or self._store.get(NODES, "", name) is None:
            return {}
        asked = self._asked.setdefault(name, _Asked())
        loop = asyncio.get_running_loop()
        async with asked.turn:
            age = loop.time() - asked.at
            if asked.scrape is not None and asked.found and age < FRESH_SECONDS:
                return asked.found
            try:
                if asked.scrape is None or age > _LONGEST_SECONDS:
                    asked.scrape = await self._scrape(name)
                    await asyncio.sleep(self._pause_seconds)
                now = await self._scrape(name)
            except ApiError:
                asked.scrape, asked.found = None, {}
                return {}
            asked.found = usages(asked.scrape, now)
            asked.scrape, asked.at = now, loop.time()
            return asked.found

    async def _scrape(self, name: str) -> Scrape:
        assert self._nodes is not None
        body = await self._nodes.read(NodeQuestion(name, _PATH), _MOST_BYTES)
        # A thousand pods take 20 ms.
        return await asyncio.to_thread(parse_scrape, body.decode("utf-8", "replace"))


def _head(resource: Resource) -> Json:
    return {"kind": resource.kind, "apiVersion": resource.api_version}


def _metadata(item: Stored, usage: Usage) -> Json:
    source = item.metadata
    kept = {key: source[key] for key in ("name", "namespace", "labels") if source.get(key)}
    return {**kept, "creationTimestamp": time_text(usage.time_ms * 10**6)}


def _measured(usage: Usage) -> Json:
    """A window as Go prints a duration: `15.023s`."""
    seconds = f"{usage.window_ms / 1000:.3f}".rstrip("0").rstrip(".")
    return {"timestamp": time_text(usage.time_ms * 10**6), "window": f"{seconds}s"}


def _amounts(usage: Usage) -> Json:
    return {"cpu": str(parse(f"{usage.nano_cores}n")), "memory": str(binary(usage.memory))}


def _node(item: Stored, usage: Usage) -> Json:
    return {"metadata": _metadata(item, usage), **_measured(usage), "usage": _amounts(usage)}


def _pod(item: Stored, known: Mapping[Key, Usage]) -> Json | None:
    """Only as a whole: a pod of which a container was not measured would seem smaller than it is."""
    pod, metadata = item.object, item.metadata
    names = [each["name"] for each in pod["spec"].get("containers") or ()]
    names += [each["name"] for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always"]
    # An ephemeral container counts while it runs, and is not waited for.
    added = [each["name"] for each in pod["spec"].get("ephemeralContainers") or ()]
    found = {name: known.get((metadata["namespace"], metadata["name"], name)) for name in (*names, *added)}
    measured = {name: usage for name, usage in found.items() if usage is not None}
    if not measured or not all(name in measured for name in names):
        return None
    oldest = min(measured.values(), key=lambda usage: usage.time_ms)
    containers = [{"name": name, "usage": _amounts(usage)} for name, usage in measured.items()]
    return {"metadata": _metadata(item, oldest), **_measured(oldest), "containers": containers}
