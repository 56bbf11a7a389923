"""A node of this machine as its agent sees it now, or as it last wrote it down; and what it read before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jettison.agent.journal.policy_records import policy_of_kubelet
from jettison.agent.journal.reading import read_journal
from jettison.agent.journal.recorded_readings import Past, recorded_past, told_past
from jettison.agent.journal.recorded_steps import step_from
from jettison.agent.journal.records import STEP
from jettison.cli.inspect.watched_node import WatchedNode
from jettison.cli.output import Remarks
from jettison.cli.policy.policy_input import PolicyInput, Sources
from jettison.cli.policy.seen_node import SeenNode, parts_of, snapshot_of
from jettison.engine.foresight.cases import Case
from jettison.errors import ManifestError, ObservationError
from jettison.runtimes.kube.node_proxy import NodeAnswers


def look_at_agent(node: WatchedNode, remarks: Remarks) -> SeenNode:
    """The node as its running agent sees it. Raises ObservationError when none answers."""
    answers = NodeAnswers(node.ask("/stats/summary"), node.ask("/configz"), _items(node.ask("/pods")))
    policy = policy_of_kubelet(answers.configz, "kubelet")
    stats, pods, usages = parts_of(answers, f"the agent of node `{node.name}`", remarks)
    remembered, complaint = node.history
    if complaint:
        remarks.warnings.append(complaint)
    history = replace(remembered, reclaiming=None, readings={}, knows_layout=True)
    snapshot = snapshot_of(stats, pods, usages, "auto")
    return SeenNode(node.name, Case(policy, history, snapshot), PolicyInput(policy, Sources(None)), "agent")


def last_on_record(node: WatchedNode, failure: ObservationError, remarks: Remarks) -> SeenNode:
    """The node as its last recorded step saw it, for when no agent answers; raises `failure` where there is none."""
    for record in read_journal(node.journal, newest_first=True):
        if record.kind == STEP:
            try:
                case = step_from(record.data).case
            except ManifestError:
                continue  # of another version of this program
            if case is not None:
                remarks.notes.append(f"{failure}: this is the last step on record")
                return SeenNode(node.name, case, PolicyInput(case.policy, Sources(None)), "journal")
    raise failure


def past_of(node: WatchedNode, since_ns: int | None) -> Past:
    """What its agent tells, and before that what is on record."""
    try:
        past = told_past(node.ask("/readings"), "/readings")
    except ObservationError:
        past = Past()
    return recorded_past(node.journal, since_ns, past)


def _items(document: Any) -> list[Any]:
    items = document.get("items") if isinstance(document, Mapping) else None
    return items if isinstance(items, list) else []
