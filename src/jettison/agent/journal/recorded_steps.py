"""Records read again: a step with all its values, and what `decide` says to them now."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import field

from jettison.agent.journal.policy_records import policy_from
from jettison.agent.journal.records import STEP, VERSION
from jettison.engine.config.policy import Policy
from jettison.engine.foresight.cases import Case
from jettison.engine.node.pressure import History
from jettison.engine.node.ranking import Ranking
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Layout, Snapshot
from jettison.engine.pods.pod import Pod
from jettison.errors import ManifestError
from jettison.manifests.files.decoding import Wire, decode, shortened
from jettison.manifests.history import parse_history
from jettison.manifests.pods import pod_from
from jettison.manifests.summary import summary_from
from jettison.values import frozen

SOURCE = "journal record"


class StarvedRecord(Wire):
    """The threshold that was served, and the reading that met it."""

    threshold: str
    signal: Signal
    is_hard: bool
    quantity: str
    available: int
    capacity: int


class RankedRecord(Wire, array_like=True):
    """One pod in the order, its usage of what is starved, and the keys that put it there."""

    pod: str
    usage: int | None
    keys: list[bool | int]


class RankingRecord(Wire):
    """The order as it was."""

    signal: Signal
    inodes_by_inodes: bool
    order: list[RankedRecord]


class EvictionRecord(Wire):
    """One order to end a pod, which is named by its uid."""

    pod: str
    reason: str
    signal: str
    grace_seconds: int | None
    message: str
    annotations: dict[str, str] | None = None


class DecisionRecord(Wire):
    """`kind` is nothing, reclaim or evict; the rest is there where it applies."""

    kind: str
    why: str = ""
    what: list[str] = field(default_factory=list)
    at_most_one: bool = False
    evictions: list[EvictionRecord] = field(default_factory=list)
    starved: StarvedRecord | None = None
    ranking: RankingRecord | None = None
    otherwise: DecisionRecord | None = None


class _LayoutRecord(Wire):
    has_image_fs: bool
    is_split: bool


class _SnapshotRecord(Wire):
    now: int
    summary: Any
    pods: list[Any]
    layout: _LayoutRecord


class _LookRecord(Wire):
    snapshot: _SnapshotRecord | None
    facts: list[dict[str, Any]]
    decision: DecisionRecord


class _AlarmRecord(Wire):
    source: str
    latency_ns: int | None


class _StepRecord(Wire):
    version: int
    kind: str
    time: int
    node: str
    alarm: _AlarmRecord
    acts: bool
    policy: Any
    history: msgspec.Raw
    looks: list[_LookRecord]
    evicts: list[str] = field(default_factory=list)


_STEP = msgspec.json.Decoder(_StepRecord)


@frozen
class RecordedLook:
    """One observation and what was decided on it then."""

    snapshot: Snapshot | None
    facts: list[dict[str, Any]]
    decision: DecisionRecord
    # Of the decision, or of what would be done if a reclaim does not suffice.
    ranking: Ranking | None


@frozen
class RecordedStep:
    """A step as its record tells it."""

    time_ns: int
    node: str
    policy: Policy
    history: History
    looks: tuple[RecordedLook, ...]
    alarm: str
    latency_ns: int | None
    acts: bool
    # The pods that were told to end, or in a dry run would have been.
    evicts: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """A pod is to be evicted, but only after one that was evicted earlier is gone."""
        return self.looks[-1].decision.kind == "evict" and not self.evicts

    @property
    def case(self) -> Case | None:
        """What it was decided by, to be decided again; None where the record has no measurement at all."""
        first = self.looks[0].snapshot
        if first is None:
            return None
        after = self.looks[-1].snapshot if len(self.looks) > 1 else None
        return Case(self.policy, self.history, first, after, self._going())

    def _going(self) -> frozenset[str]:
        """Pods before the one that was told in the order: they were on their way out already, or critical."""
        ranking = self.looks[-1].ranking
        if ranking is None or not self.evicts or not any(pod.uid == self.evicts[0] for pod in ranking.pods):
            return frozenset()
        uids = [pod.uid for pod in ranking.pods]
        return frozenset(uids[: uids.index(self.evicts[0])])


def step_from(data: bytes) -> RecordedStep:
    """The step in a record's JSON, or a ManifestError that says why it cannot be used."""
    record = decode(_STEP, data, SOURCE)
    if record.version != VERSION or record.kind != STEP:
        found = f"`{record.kind}` of version `{record.version}`"
        raise ManifestError(f"{SOURCE}: {found}, this program reads a `{STEP}` of version {VERSION}")
    if not record.looks:
        raise ManifestError(f"{SOURCE}: a step without a look at the node")
    pods: dict[str, Pod] = {}
    return RecordedStep(
        record.time,
        record.node,
        policy_from(record.policy, SOURCE),
        parse_history(bytes(record.history), SOURCE).history,
        tuple(_look(each, pods) for each in record.looks),
        record.alarm.source,
        record.alarm.latency_ns,
        record.acts,
        tuple(record.evicts),
    )


def _look(record: _LookRecord, pods: dict[str, Pod]) -> RecordedLook:
    snapshot = None if record.snapshot is None else _snapshot(record.snapshot)
    pods |= {pod.uid: pod for pod in snapshot.pods} if snapshot is not None else {}
    decision = record.decision
    ranking = decision.ranking or (decision.otherwise.ranking if decision.otherwise is not None else None)
    return RecordedLook(snapshot, record.facts, decision, None if ranking is None else _ranking(ranking, pods))


def _snapshot(record: _SnapshotRecord) -> Snapshot:
    node, usages = summary_from(record.summary, SOURCE)
    pods = [pod_from(each, SOURCE) for each in record.pods]
    return Snapshot(record.now, node, pods, usages, Layout(record.layout.has_image_fs, record.layout.is_split))


def _ranking(record: RankingRecord, pods: dict[str, Pod]) -> Ranking:
    """The recorded order over the recorded pods. After a reclaim it is the order from before it."""
    entries = []
    for each in record.order:
        pod = pods.get(each.pod)
        if pod is None:
            raise ManifestError(f"{SOURCE}: pod `{shortened(each.pod)}` is ranked but not recorded")
        entries.append(((*each.keys, pod.order), pod, each.usage))
    return Ranking(record.signal, record.inodes_by_inodes, tuple(entries))
