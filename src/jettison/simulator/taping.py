"""Making a recording: of a node of this machine through its agent, or of a cluster's node through its API.

An agent notes every look itself and is asked once a second for what it has noted. Of a kubelet only its summary and the
list of pods can be had, at an interval, so such a recording holds what a kubelet could have seen and nothing of what it
did, but for the pods that it evicted meanwhile.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from jettison.agent.agent import TapedLook
from jettison.agent.journal.tape import Line, Lines
from jettison.clock import Clock, Stamp
from jettison.engine.config.policy import Policy
from jettison.engine.node.pressure import History
from jettison.engine.node.snapshot import Snapshot
from jettison.engine.pods.pod import FAILED, Pod
from jettison.errors import ApiError, ObservationError, RuntimeFailure
from jettison.manifests.node_files import joined
from jettison.manifests.pods import pod_from
from jettison.manifests.summary import layout_of, summary_from
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import PODS
from jettison.runtimes.kube.node_proxy import read_proxied
from jettison.simulator.anonymity import Anonymiser
from jettison.simulator.recordings import RecordingWriter, unpacked

FETCH_SECONDS = 1.0
"""Between two questions to an agent."""


class Until:
    """Stops at a moment of the event loop, or when an event is set."""

    def __init__(self, seconds: float | None, event: asyncio.Event) -> None:
        self._event = event
        self._end = None if seconds is None else asyncio.get_running_loop().time() + seconds

    async def wait(self, seconds: float) -> bool:
        """True once it is over."""
        left = seconds if self._end is None else min(seconds, self._end - asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(max(left, 0)):
                await self._event.wait()
        except TimeoutError:
            return self._end is not None and asyncio.get_running_loop().time() >= self._end
        return True


@dataclass(slots=True)
class Taped:
    """What has come of it so far."""

    size: int = 0
    looks: int = 0
    # Why it ended before it was told to.
    end: str = ""


class TapeFile:
    """Frames to a file, with or without names."""

    def __init__(self, writer: RecordingWriter, *, is_anonymous: bool) -> None:
        self._writer = writer
        self._anonymiser = Anonymiser() if is_anonymous else None
        self.taped = Taped(writer.size)

    def add_frames(self, frames: bytes) -> None:
        """As an agent gave them."""
        try:
            lines = [msgspec.json.decode(line) for payload in unpacked(frames) for line in payload.splitlines()]
        except (msgspec.MsgspecError, zlib.error) as error:
            raise ObservationError(f"the agent handed over what is no recording: {error}") from error
        self._add(lines)

    def add_lines(self, lines: Iterable[Line]) -> None:
        """As one frame."""
        self._add([msgspec.json.decode(msgspec.json.encode(line)) for line in lines])

    def _add(self, lines: list[Line]) -> None:
        hidden = self._anonymiser
        kept = lines if hidden is None else [new for line in lines if (new := hidden.line(line)) is not None]
        self.taped.looks += sum(line["k"] == "look" for line in kept)
        if kept:
            self._writer.add(kept)
            self.taped.size = self._writer.size


Ask = Callable[[str], Awaitable[bytes]]
"""One question to an agent; raises JettisonError with its words."""


async def tape_agent(order: Ask, fetch: Ask, output: TapeFile, stop: Until) -> None:
    """Until it is told to stop, or the agent ends it."""
    number = msgspec.json.decode(await order("record"))["id"]
    try:
        while not await stop.wait(FETCH_SECONDS):
            output.add_frames(await fetch(f"/recording?id={number}"))
        output.add_frames(await order(f"stop-recording?id={number}"))
    except ObservationError as failure:
        output.taped.end = str(failure)


async def tape_kubelet(
    client: KubeClient, node: str, policy: Policy, output: TapeFile, stop: Until, interval: float, clock: Clock
) -> None:
    """One look at each interval. One that fails is on the record too."""
    lines, at = Lines(), Stamp.of(clock)
    output.add_lines([lines.begin(node, "kubelet", at, policy, History(), {}, acts=True)])
    known: dict[str, Pod] = {}
    gone: set[str] | None = None
    while True:
        try:
            look, evicted = await _look(client, node, known, clock)
            told = () if gone is None else tuple(sorted(evicted - gone))
            output.add_lines(lines.look(replace(look, told=told)))
            gone = evicted
        except (ApiError, RuntimeFailure) as failure:
            output.add_lines([{"k": "failed", "why": str(failure)}])
        if await stop.wait(interval):
            return


async def _look(client: KubeClient, name: str, known: dict[str, Pod], clock: Clock) -> tuple[TapedLook, set[str]]:
    """With the uids of pods that were evicted at any time."""
    source = f"node `{name}`"
    summary = await read_proxied(client, name, "stats/summary")
    listing = await client.list(PODS, fields=f"spec.nodeName={name}")
    stats, usages = summary_from(summary, source)
    listed = [_same(known, pod_from(each, source)) for each in listing.items]
    found = joined(stats, usages, listed, source)
    at = Stamp.of(clock)
    snapshot = Snapshot(at.wall_ns, found.node, found.pods, found.usages, layout_of(stats))
    evicted = {
        str(each["metadata"].get("uid"))
        for each in listing.items
        if (status := each.get("status") or {}).get("phase") == FAILED and status.get("reason") == "Evicted"
    }
    known.clear()
    known.update((pod.uid, pod) for pod in listed)
    return TapedLook(at, None, snapshot, (), ()), evicted


def _same(known: Mapping[str, Pod], pod: Pod) -> Pod:
    """The one of the last look where nothing has changed: it is written once."""
    before = known.get(pod.uid)
    return before if before == pod else pod
