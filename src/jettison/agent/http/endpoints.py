"""What the agent serves: the kubelet's paths with the kubelet's answers, and what our own commands ask for.

What the node has left and what its pods use are gauges, made from the newest snapshot when they are asked for. Names
are the kubelet's where it has one (`/metrics/resource`). Label values are signals, and names of pods that run, of
which at most `MOST_PODS` are shown: a manifest chooses its name, and must not fill the memory of a scraper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import msgspec

from jettison.agent.http import exposition
from jettison.agent.http.exposition import Family, Labels, Sample
from jettison.agent.http.full_summary import full_summary
from jettison.agent.http.pod_statuses import pod_list, public_pod_list
from jettison.agent.http.resource_metrics import resource_families
from jettison.agent.http.server import Answer, Query, Route, plain
from jettison.agent.journal.policy_records import policy_record
from jettison.agent.journal.reading import PodQuery, read_journal
from jettison.agent.sinks.kubernetes_events import KubernetesEvents
from jettison.engine.config.policy import Policy
from jettison.engine.node.ranking import Candidate, rank
from jettison.engine.node.signals import ROWS, Signal, readings
from jettison.engine.node.snapshot import PodUsage, Reading, Snapshot
from jettison.errors import ApiError, ObservationError
from jettison.manifests.times import time_text
from jettison.runtimes.protocol import PodStatus, ProbeCount
from jettison.runtimes.stats import NodeDetails
from jettison.values import frozen

MOST_RECORDS = 500
MOST_PODS = 1000

_PROBES = "prober_probe_total"
# Three kinds of probes with three results, of two containers.
_RESULTS_OF_A_POD = 18

_POD_GAUGES = (
    ("pod_memory_working_set_bytes", "Memory of a pod that cannot be taken back."),
    ("jettison_pod_ephemeral_storage_bytes", "Local storage of a pod: writable directories, logs and emptyDirs."),
    ("jettison_pod_processes", "Processes and threads of a pod."),
)


class DetailsSource(Protocol):
    """Measures in detail."""

    def __call__(self, *, has_stalls: bool) -> Awaitable[NodeDetails]:
        """Raises ObservationError."""


@frozen
class Sources:
    """Where the answers come from."""

    # The one that is in force.
    policy: Callable[[], Policy]
    # The newest; None before the first look.
    snapshot: Callable[[], Snapshot | None]
    # All that a decision does not need, measured when it is asked for.
    details: DetailsSource
    statuses: Callable[[], Sequence[PodStatus]]
    metrics: Callable[[], str]
    # What is wrong with the agent, or None.
    complaint: Callable[[], str | None]
    journal: Path
    events: KubernetesEvents
    # Does what takes longer than a look at the node may be held up.
    executor: Executor
    # What the signals read lately.
    readings: Callable[[], Mapping[str, Any]] = dict
    # What probes have answered, where pods are probed.
    probes: Callable[[], Sequence[ProbeCount]] = tuple
    # Of one answer from the journal; the first record is always in it.
    most_record_bytes: int = 8 * 2**20


def routes(sources: Sources) -> dict[str, Route]:
    """Every path that is served to the owner of the socket."""
    answers = _Answers(sources)
    return {**public_routes(sources), "/pods": answers.pods, "/journal": answers.journal, "/events": answers.events}


def public_routes(sources: Sources) -> dict[str, Route]:
    """What every user of the machine may know: how the node and its pods are, but nothing that a manifest may keep
    secret. The journal and events quote manifests, so they are not among them.
    """
    answers = _Answers(sources)
    return {
        "/healthz": answers.healthz,
        "/metrics": answers.metrics,
        "/metrics/resource": answers.resource_metrics,
        "/metrics/probes": answers.probe_metrics,
        "/configz": answers.configz,
        "/stats/summary": answers.summary,
        "/pods": answers.public_pods,
        "/rank": answers.rank,
        "/readings": answers.readings,
    }


class _Answers:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def healthz(self, _: Query) -> Answer:
        complaint = self._sources.complaint()
        return plain("ok") if complaint is None else plain(complaint, 500)

    async def metrics(self, _: Query) -> Answer:
        policy, snapshot = self._sources.policy(), self._sources.snapshot()
        return await self._aside(lambda: self._exposition(policy, snapshot))

    def _exposition(self, policy: Policy, snapshot: Snapshot | None) -> Answer:
        text = self._sources.metrics() + exposition.exposition(node_families(policy, snapshot))
        return Answer(text.encode(), exposition.CONTENT_TYPE)

    async def resource_metrics(self, _: Query) -> Answer:
        """A failure is a sample, as a kubelet has it: a scraper sees it beside everything else."""
        snapshot = self._sources.snapshot()
        details = None
        with suppress(ObservationError):
            details = await self._sources.details(has_stalls=False)
        families = resource_families(snapshot, details, MOST_PODS)
        return await self._aside(lambda: Answer(exposition.exposition(families).encode(), exposition.CONTENT_TYPE))

    async def probe_metrics(self, _: Query) -> Answer:
        counts = self._sources.probes()
        family = probe_family(counts)
        return await self._aside(lambda: Answer(exposition.exposition([family]).encode(), exposition.CONTENT_TYPE))

    def configz(self, _: Query) -> Answer:
        """The kubelet's shape; what only we know stands beside it."""
        record = policy_record(self._sources.policy())
        return _json({"kubeletconfig": record.pop("kubeletConfiguration"), "jettison": record})

    async def summary(self, query: Query) -> Answer:
        snapshot, details = self._snapshot(), await self._sources.details(has_stalls=True)
        is_reduced = query.get("only_cpu_and_memory") == "true"
        return await self._aside(lambda: Answer(full_summary(snapshot, details, only_cpu_and_memory=is_reduced)))

    async def pods(self, _: Query) -> Answer:
        statuses = list(self._sources.statuses())
        return await self._aside(lambda: _json(pod_list(statuses)))

    async def public_pods(self, _: Query) -> Answer:
        statuses = list(self._sources.statuses())
        return await self._aside(lambda: _json(public_pod_list(statuses)))

    async def rank(self, _: Query) -> Answer:
        snapshot = self._snapshot()
        policy = self._sources.policy()
        return await self._aside(lambda: _json(rank_document(policy, snapshot)))

    async def readings(self, _: Query) -> Answer:
        """As a record of the journal has them."""
        found = self._sources.readings()
        return await self._aside(lambda: _json(found))

    async def events(self, _: Query) -> Answer:
        """The newest thousand."""
        events, found = self._sources.events, self._sources.events.recorded()
        head = {"kind": "EventList", "apiVersion": "v1", "metadata": {}}
        return await self._aside(lambda: _json({**head, "items": [events.document(each) for each in found]}))

    async def journal(self, query: Query) -> Answer:
        """Newest first. `pod` is `namespace/name`, a name or a uid; `limit` is at most 500."""
        about = PodQuery.parse(query["pod"]) if "pod" in query else None
        limit = query.get("limit", "50")
        if not (limit.isascii() and limit.isdigit() and len(limit) < 10):
            raise ApiError(f"limit is `{limit[:40]}`, expected a number", code=400)
        count = min(int(limit), MOST_RECORDS)
        return await self._aside(lambda: _records(self._sources, about, count))

    def _aside(self, work: Callable[[], Answer]) -> Awaitable[Answer]:
        """In a thread: eight orders of a thousand pods take 100 ms, and an alarm must not wait for a question."""
        return asyncio.get_running_loop().run_in_executor(self._sources.executor, work)

    def _snapshot(self) -> Snapshot:
        snapshot = self._sources.snapshot()
        if snapshot is None:
            raise ObservationError("the node has not been measured yet")
        return snapshot


def _records(sources: Sources, about: PodQuery | None, count: int) -> Answer:
    found: list[bytes] = []
    size = 0
    for record in islice(read_journal(sources.journal, newest_first=True, about=about), count):
        size += len(record.data)
        if found and size > sources.most_record_bytes:
            break
        found.append(record.data)
    return Answer(b'{"records":[' + b",".join(found) + b"]}")


def rank_document(policy: Policy, snapshot: Snapshot) -> dict[str, Any]:
    """For each signal that was measured: its reading, its thresholds, and the order in which pods would be evicted."""
    found = readings(snapshot.node)
    return {
        "time": time_text(snapshot.now_ns),
        "node": snapshot.node.name,
        "signals": [_signal(policy, snapshot, signal, reading) for signal, reading in found.items()],
    }


def _signal(policy: Policy, snapshot: Snapshot, signal: Signal, reading: Reading) -> Mapping[str, Any]:
    guards = [each for each in policy.layouts[snapshot.layout].all if each.signal is signal and not each.is_inert]
    order = rank(
        signal,
        snapshot.pods,
        snapshot.usages,
        snapshot.layout,
        inodes_by_inodes=policy.switches.rank_inodes_by_inodes,
    )
    return {
        "signal": signal.value,
        "resource": ROWS[signal].resource.value,
        "available": reading.available,
        "capacity": reading.capacity,
        "thresholds": [
            {
                "threshold": str(each),
                "isHard": each.is_hard,
                "amount": each.quantity(reading.capacity).value,
                "isCrossed": each.is_crossed(reading),
            }
            for each in guards
        ],
        "order": [_candidate(candidate) for candidate in order],
    }


def _candidate(candidate: Candidate) -> Mapping[str, Any]:
    return {
        "namespace": candidate.pod.namespace,
        "name": candidate.pod.name,
        "uid": candidate.pod.uid,
        "isCritical": candidate.pod.is_critical,
        "qosClass": str(candidate.pod.qos),
        "priority": candidate.priority,
        "exceedsRequest": candidate.exceeds_request,
        "usage": None if candidate.usage is None else candidate.usage.value,
        "request": candidate.request.value,
        "excess": None if candidate.excess is None else candidate.excess.value,
    }


def _json(document: object) -> Answer:
    return Answer(msgspec.json.encode(document))


def probe_family(counts: Sequence[ProbeCount]) -> Family:
    """As a kubelet has it at `/metrics/probes`."""
    samples: list[Sample] = [
        (
            _PROBES,
            (
                ("container", each.container),
                ("namespace", each.pod.namespace),
                ("pod", each.pod.name),
                ("pod_uid", each.pod.uid),
                ("probe_type", each.kind.capitalize()),
                ("result", each.result),
            ),
            each.times,
        )
        for each in counts[: MOST_PODS * _RESULTS_OF_A_POD]
    ]
    meaning = "Cumulative number of a liveness, readiness or startup probe for a container by result."
    return Family(_PROBES, "counter", meaning, lambda: samples)


def node_families(policy: Policy, snapshot: Snapshot | None) -> list[Family]:
    """Also without a snapshot, and then without samples: a scraper learns that they exist."""
    signals = [] if snapshot is None else list(_signals(policy, snapshot))
    pods = [] if snapshot is None else list(_pods(snapshot))
    told = (
        ("jettison_signal_available", "What is left, in bytes, inodes or processes."),
        ("jettison_signal_capacity", "What there is in all."),
        ("jettison_threshold", "What must be left: below it the threshold is crossed."),
        ("jettison_threshold_headroom", "What is left above the threshold; negative once it is crossed."),
        *_POD_GAUGES,
    )
    return [_family(name, meaning, [*signals, *pods]) for name, meaning in told]


def _family(name: str, meaning: str, samples: list[Sample]) -> Family:
    own = [sample for sample in samples if sample[0] == name]
    return Family(name, "gauge", meaning, lambda: own)


def _signals(policy: Policy, snapshot: Snapshot) -> Iterator[Sample]:
    guards = policy.layouts[snapshot.layout].all
    for signal, reading in readings(snapshot.node).items():
        labels: Labels = (("signal", signal.value),)
        yield "jettison_signal_available", labels, reading.available
        yield "jettison_signal_capacity", labels, reading.capacity
        for guard in guards:
            if guard.signal is signal and not guard.is_inert:
                amount = guard.quantity(reading.capacity).value
                kind: Labels = (*labels, ("type", "hard" if guard.is_hard else "soft"))
                yield "jettison_threshold", kind, amount
                yield "jettison_threshold_headroom", kind, reading.available - amount


def _pods(snapshot: Snapshot) -> Iterator[Sample]:
    for pod in snapshot.pods[:MOST_PODS]:
        labels: Labels = (("namespace", pod.namespace), ("pod", pod.name))
        usage = snapshot.usages.get(pod.uid) or PodUsage()
        amounts = (usage.working_set, usage.ephemeral_storage_bytes, usage.processes)
        for (name, _), amount in zip(_POD_GAUGES, amounts, strict=True):
            # What could not be measured is not shown, rather than shown as zero.
            if amount is not None:
                yield name, labels, amount
