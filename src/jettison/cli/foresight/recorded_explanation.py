"""Explanations of what is on record: from the journals of nodes of this machine, also of pods long gone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jettison.agent.journal.reading import PodQuery, Record, read_journal
from jettison.agent.journal.recorded_steps import RecordedStep, step_from
from jettison.agent.journal.records import STEP
from jettison.agent.journal.stories import Story, tell
from jettison.cli.foresight.agent_node import look_at_agent
from jettison.cli.foresight.counterfactual_report import change_lines, changes_for
from jettison.cli.foresight.explain import AskedAbout
from jettison.cli.foresight.explanation import Answer, asked_answer, find_pod, print_answer, tell_of_whole
from jettison.cli.foresight.pod_stories import besides, outcome_of, recorded_story
from jettison.cli.inspect.watched_node import (
    WatchedNode,
    choose_node,
    find_node,
    find_nodes,
    first_to_know,
    names_of,
)
from jettison.cli.output import Remarks, emit
from jettison.engine.foresight.cases import play
from jettison.engine.pods.pod import Pod
from jettison.errors import JettisonError, ObservationError
from jettison.manifests.times import exact_time_text, time_text


def tell_from_records(asked: AskedAbout, state_dir: Path, node_name: str | None, output: str) -> None:
    """The answer from the journals of this machine, or from the agent of a pod that is in none."""
    nodes = find_nodes(state_dir) if node_name is None else []
    nodes = nodes or [find_node(state_dir, node_name)]
    if asked.kind == "decision":
        _tell_of_decision(nodes, asked, output)
    elif asked.kind == "node":
        node = find_node(state_dir, asked.text) if asked.text else choose_node(nodes)
        _tell_of_node(node, output)
    else:
        _tell_of_pod(nodes, asked, output)


def _tell_of_pod(nodes: Sequence[WatchedNode], asked: AskedAbout, output: str) -> None:
    query = PodQuery.parse(asked.text)
    found = first_to_know(nodes, lambda node: recorded_story(node, query))
    if found is None:
        own = next((node for node in nodes if node.name == asked.text), None)
        if own is not None and not asked.kind:
            _tell_of_node(own, output)
            return
        if not _tell_of_running(nodes, query, output):
            raise JettisonError(f"no pod `{asked.text}` is on record for {names_of(nodes)}")
        return
    node, (story, remarks), others = found
    # No step on record ranked it: then what would happen now is the answer, where its agent runs.
    is_unranked = story.step is None and not story.kills and outcome_of(story) == "not evicted"
    if is_unranked and _tell_of_running([node], PodQuery(uid=story.pod[2]), output, story):
        return
    if len(nodes) > 1:
        also = f"; also on record on {', '.join(others)}, which --node-name chooses" if others else ""
        remarks.notes.append(f"this is from node `{node.name}`{also}")
    answer = _answer(node.name, story, remarks, besides(node, story.pod[2]))
    print_answer(answer, output, remarks)


def _tell_of_running(nodes: Sequence[WatchedNode], query: PodQuery, output: str, known: Story | None = None) -> bool:
    """A pod that was never ranked is in no step; its agent knows it. False where none does.

    `known` is what else is on record of it.
    """
    for node in nodes:
        remarks = Remarks()
        try:
            seen = look_at_agent(node, remarks)
        except ObservationError:
            continue
        pod = find_pod(seen, query)
        if pod is not None:
            print_answer(asked_answer(seen, pod, known), output, remarks)
            return True
    return False


def _answer(node: str, story: Story, remarks: Remarks, more: Mapping[str, str]) -> Answer:
    """With what would have changed the step, where it can be decided again."""
    case = None if story.step is None or story.is_preempted else story.step.case
    pod = None if case is None else case.pod(story.pod[2])
    if case is None or pod is None:
        return Answer(node, story, besides=more)
    goes = play(case).takes(pod.uid)
    if story.is_chosen and not goes:
        remarks.warnings.append("decided again from its record the pod would not go, so no changes were looked for")
        return Answer(node, story, besides=more)
    label, changes = changes_for(case, pod, goes=goes)
    return Answer(node, story, label, changes, change_lines(label, changes, pod), more)


def _tell_of_node(node: WatchedNode, output: str) -> None:
    remarks = Remarks()
    seen = look_at_agent(node, remarks)
    tell_of_whole(seen, "", output, remarks)


def _tell_of_decision(nodes: Sequence[WatchedNode], asked: AskedAbout, output: str) -> None:
    node = nodes[0] if len(nodes) == 1 else choose_node(nodes)
    step = _step_at(node, asked)
    if step is None:
        when = "no decision" if asked.time_ns is None else f"no decision at {asked.text} or before"
        raise JettisonError(f"{when} is on record for node `{node.name}`")
    remarks = Remarks()
    if asked.time_ns is not None and step.time_ns < asked.time_ns:
        remarks.notes.append(f"the last one before {asked.text} is of {time_text(step.time_ns)}")
    story = _story_of(node, step)
    if story is None:
        _print_without_victim(node, step, output, remarks)
    else:
        print_answer(_answer(node.name, story, remarks, {}), output, remarks)


def _step_at(node: WatchedNode, asked: AskedAbout) -> RecordedStep | None:
    """In the time that was asked for, as exactly as it was written, a step that evicts; else the newest before its end.

    `last` is the newest that ranks pods.
    """
    until_ns = None if asked.time_ns is None else asked.time_ns + _precision_ns(asked.text)
    newest: Record | None = None
    for record in read_journal(node.journal, newest_first=True, until_ns=until_ns):
        if record.kind != STEP:
            continue
        if asked.time_ns is None:
            if record.ranks or record.evicts:
                return step_from(record.data)
        elif record.time_ns < asked.time_ns:
            return step_from((newest or record).data)
        elif record.evicts:
            return step_from(record.data)
        else:
            newest = newest or record
    return None if newest is None else step_from(newest.data)


def _precision_ns(text: str) -> int:
    """The length of what a text names: a second for whole seconds, a millisecond for three digits behind them."""
    digits = len(re.sub(r".*:\d\d(?:\.(\d*))?.*", r"\1", text))
    return int(10 ** max(9 - digits, 0))


def _story_of(node: WatchedNode, step: RecordedStep) -> Story | None:
    """Of the pod that was told, with what came of it; or else of the first that was to go."""
    uids = [*step.evicts, *(order.pod for order in step.looks[-1].decision.evictions)]
    snapshot = step.looks[0].snapshot
    pods: Iterable[Pod] = () if snapshot is None else snapshot.pods
    pod = next((pod for uid in uids[:1] for pod in pods if pod.uid == uid), None)
    if pod is None:
        return None
    story = tell(read_journal(node.journal, newest_first=True), PodQuery(uid=pod.uid))
    if story is not None and story.step is not None and story.step.time_ns == step.time_ns:
        return story
    return Story((pod.namespace, pod.name, pod.uid), step, is_chosen=bool(step.evicts))


def _print_without_victim(node: WatchedNode, step: RecordedStep, output: str, remarks: Remarks) -> None:
    """A step that changed what is crossed or met, and evicted no pod."""
    decision = step.looks[-1].decision
    events = [str(fact.get("event")) for look in step.looks for fact in look.facts]
    what = decision.why or f"{decision.kind}: {', '.join(decision.what)}"
    lines = [f"node {node.name} at {time_text(step.time_ns)}: {what}", *(f"  {event}" for event in events)]
    emit(
        output,
        remarks,
        lambda: "\n".join(lines),
        lambda: {
            "kind": "Explanation",
            "node": node.name,
            "pod": None,
            "outcome": decision.kind,
            "text": lines,
            "decision": {"time": exact_time_text(step.time_ns), "why": what},
            "facts": [fact for look in step.looks for fact in look.facts],
            "oomKills": [],
            "changes": {"when": None, "found": []},
        },
    )
