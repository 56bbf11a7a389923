"""A step as a JSON document from which it can be decided again, and nothing else is needed for that.

    {"version": 1, "kind": "step", "time": ns, "node": name, "pods": [[namespace, name, uid], …],
     "evicts": [uid, …], "ranks": bool, "alarm": {"source", "latencyNs"}, "acts": bool, "policy": {…}, "history": {…},
     "looks": [{"snapshot": {"now", "summary", "pods", "layout"} or null, "facts": […], "decision": {…}}, …]}

    {"version": 1, "kind": "fact", "time": ns, "node": name, "pods": […], "event": name, "values": {…}}

`evicts` has the pods that are told to end, in a dry run those that would be. It is empty where the decision names a pod
but none is told: a pod that was evicted before is still ending, and the next one waits for the memory that it frees.

A step has a second look when the first one led to a reclaim; the first stands in both records, so that each can be
decided again by itself. The second has no snapshot when the node could not be measured after the reclaim.

In a ranking each pod has `[uid, usage, [key, …]]`: the keys are those the pods were sorted by, in order; bytes are in
10⁻⁹, so a number may need more than 64 bits. They are kept as they were, so that a later version of the program still
tells what this one did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from jettison.agent.fact_values import name_of, pods_of, values_of
from jettison.agent.journal.policy_records import policy_record
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Decision, Evict, Nothing, Outcome, Reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.pressure import History
from jettison.engine.node.ranking import Ranking
from jettison.engine.node.snapshot import Reading, Snapshot
from jettison.engine.node.thresholds import Threshold
from jettison.engine.pods.pod import Pod
from jettison.events import Fact
from jettison.manifests.history import SavedHistory, encode_history
from jettison.manifests.pod_writer import pod_document
from jettison.manifests.summary_writer import summary_document
from jettison.values import frozen

VERSION = 1
STEP = "step"
FACT = "fact"

Document = dict[str, Any]


@frozen
class Look:
    """One observation and what was decided on it."""

    # None: the node could not be measured after a reclaim.
    snapshot: Snapshot | None
    outcome: Outcome


@frozen
class Step:
    """What is recorded of one step."""

    time_ns: int
    node: str
    policy: Policy
    # Before the first look.
    history: History
    looks: Sequence[Look]
    # What made the agent look; empty for a tick. The latency is from there to the record.
    alarm: str = ""
    latency_ns: int | None = None
    # False in a dry run: the decision is not carried out.
    acts: bool = True
    # The uids of the pods that are told to end; None: those of the last decision.
    told: Sequence[str] | None = None


class Encoder:
    """Makes documents. Pods and policy are encoded once and kept: they come back unchanged in every step, and a pod
    that is about to be evicted should not wait for 110 others to be written down again (1 ms instead of 19).
    """

    def __init__(self) -> None:
        self._pods: dict[str, tuple[Pod, msgspec.Raw]] = {}
        self._policy: tuple[Policy, msgspec.Raw] | None = None

    def step(self, step: Step) -> Document:
        """The record of a step."""
        pods = {pod.uid: pod for look in step.looks if look.snapshot is not None for pod in look.snapshot.pods}
        looks = [self._look(look) for look in step.looks]
        decision = looks[-1]["decision"]
        self._pods = {uid: kept for uid, kept in self._pods.items() if uid in pods}
        return {
            "version": VERSION,
            "kind": STEP,
            "time": step.time_ns,
            "node": step.node,
            "pods": _names(pods.values()),
            # So that a reader knows without decoding the whole record whether it is the one.
            "evicts": [order["pod"] for order in decision.get("evictions", ())] if step.told is None else step.told,
            "ranks": "ranking" in decision or "ranking" in decision.get("otherwise", ()),
            "alarm": {"source": step.alarm, "latencyNs": step.latency_ns},
            "acts": step.acts,
            "policy": self._policy_of(step.policy),
            "history": msgspec.Raw(encode_history(SavedHistory(step.history, step.node))),
            "looks": looks,
        }

    def prepare(self, policy: Policy, pods: Iterable[Pod]) -> None:
        """Encode what the next step will need while there is time."""
        self._policy_of(policy)
        for pod in pods:
            self._pod(pod)

    def _look(self, look: Look) -> Document:
        snapshot = look.snapshot
        return {
            "snapshot": None if snapshot is None else self._snapshot(snapshot),
            "facts": [{"event": name_of(fact), **values_of(fact)} for fact in look.outcome.facts],
            "decision": _decision(look.outcome.decision),
        }

    def _snapshot(self, snapshot: Snapshot) -> Document:
        return {
            "now": snapshot.now_ns,
            "summary": summary_document(snapshot.node, snapshot.usages, snapshot.pods, is_exact=True),
            "pods": [self._pod(pod) for pod in snapshot.pods],
            "layout": {"hasImageFs": snapshot.layout.has_image_fs, "isSplit": snapshot.layout.is_split},
        }

    def _pod(self, pod: Pod) -> msgspec.Raw:
        kept = self._pods.get(pod.uid)
        if kept is None or kept[0] is not pod:
            kept = self._pods[pod.uid] = (pod, msgspec.Raw(msgspec.json.encode(pod_document(pod))))
        return kept[1]

    def _policy_of(self, policy: Policy) -> msgspec.Raw:
        if self._policy is None or self._policy[0] is not policy:
            self._policy = (policy, msgspec.Raw(msgspec.json.encode(policy_record(policy))))
        return self._policy[1]


def fact_record(fact: Fact, time_ns: int, node: str) -> Document:
    """The record of something that happened besides a decision."""
    return {
        "version": VERSION,
        "kind": FACT,
        "time": time_ns,
        "node": node,
        "pods": _names(pods_of(fact)),
        "event": name_of(fact),
        "values": values_of(fact),
    }


def _names(pods: Iterable[Pod]) -> list[tuple[str, str, str]]:
    return [(pod.namespace, pod.name, pod.uid) for pod in pods]


def _decision(decision: Decision) -> Document:
    if isinstance(decision, Nothing):
        return {"kind": "nothing", "why": decision.why}
    if isinstance(decision, Reclaim):
        starved = _starved(decision.starved, decision.reading)
        otherwise = _decision(decision.otherwise)
        return {"kind": "reclaim", "what": list(decision.what), "starved": starved, "otherwise": otherwise}
    return _evict(decision)


def _evict(decision: Evict) -> Document:
    # For pressure only the first is worded (a slice would word all): the others are tried when it fails, and then their
    # facts tell.
    due = [decision.evictions[0]] if decision.at_most_one else decision.evictions
    document: Document = {
        "kind": "evict",
        "atMostOne": decision.at_most_one,
        "evictions": [_eviction(each) for each in due],
    }
    if decision.starved is not None and decision.reading is not None:
        document["starved"] = _starved(decision.starved, decision.reading)
    if decision.ranking is not None:
        document["ranking"] = _ranking(decision.ranking)
    return document


def _eviction(eviction: Eviction) -> Document:
    return {
        "pod": eviction.pod.uid,
        "reason": eviction.reason,
        "signal": eviction.signal,
        "graceSeconds": eviction.grace_seconds,
        "message": eviction.message,
        "annotations": eviction.annotations,
    }


def _starved(threshold: Threshold, reading: Reading) -> Document:
    return {
        "threshold": str(threshold),
        "signal": threshold.signal.value,
        "isHard": threshold.is_hard,
        "quantity": str(threshold.quantity(reading.capacity)),
        "available": reading.available,
        "capacity": reading.capacity,
    }


def _ranking(ranking: Ranking) -> Document:
    return {
        "signal": ranking.signal.value,
        "inodesByInodes": ranking.ranks_inodes_by_inodes,
        # The last key is the pod's name, which its document has.
        "order": [(pod.uid, used, keys[:-1]) for keys, pod, used in ranking.entries],
    }
