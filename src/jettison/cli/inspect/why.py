"""`jettison why POD`: why a pod was evicted, or why it was not; told from the journal, so also of pods long gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from jettison.agent.journal.explanations import explain
from jettison.agent.journal.reading import PodName, PodQuery, Record, read_journal
from jettison.agent.journal.stories import Story, tell
from jettison.cli.inspect.recorded_pods import known_pods, prospect, read_record
from jettison.cli.inspect.watched_node import WatchedNode, first_to_know, names_of, watched_nodes_options
from jettison.cli.output import Remarks, emit, output_option
from jettison.cli.policy.ranking_report import ranking_data
from jettison.errors import InputError, JettisonError, ObservationError
from jettison.manifests.times import exact_time_text

# More than there are between any two instants on record.
_EVICTED_FIRST_NS = 2**63
_STARTED = "eviction_started"


@click.command()
@click.argument("pod")
@output_option
@watched_nodes_options
def command(nodes: Sequence[WatchedNode], pod: str, output: str) -> None:
    """Say why POD was evicted, or why it was not.

    POD is a name, `namespace/name`, or a uid. Of several pods with that name, on one node or several, the
    answer is about the one that was evicted last, or else about the one with the newest record.
    """
    query = PodQuery.parse(pod)
    found = first_to_know(nodes, lambda node: _told(node, query))
    if found is None:
        raise JettisonError(f"no pod `{pod}` is on record for {names_of(nodes)}")
    node, (story, remarks), others = found
    if len(nodes) > 1:
        also = f"; also on record on {', '.join(others)}, which --node-name chooses" if others else ""
        remarks.notes.append(f"this is from node `{node.name}`{also}")
    besides = _besides(node, story.pod[2])
    emit(output, remarks, lambda: "\n".join(explain(story, besides)), lambda: _data(node, story, besides))


def _besides(node: WatchedNode, uid: str) -> dict[str, str]:
    """What it waits for now, and when and how it comes back; nothing of a pod that the node has forgotten."""
    try:
        record = read_record(node.records, uid)
        if record is None:
            return {}
        item = next((each for each in known_pods(node).items if each["metadata"]["uid"] == uid), None)
    except (InputError, ObservationError):
        # There is no such uid, or this user may read the journal and nothing else.
        return {}
    found = {} if item is None else {"now": waiting} if (waiting := _waiting(item["status"])) else {}
    later = prospect(record, readmits=node.readmits)
    return {**found, "later": f"it {later}"} if later else found


def _waiting(status: Mapping[str, Any]) -> str:
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("message"):
            return f"it waits, {waiting.get('reason')}: {waiting['message']}"
    return ""


@dataclass(slots=True)
class _Seen:
    """The pods that the search through the journal has met."""

    query: PodQuery
    pods: set[PodName] = field(default_factory=set)
    # By namespace and name, the uid of the one that was evicted last.
    evicted: dict[tuple[str, str], str] = field(default_factory=dict)

    def pass_on(self, newest_first: Iterable[Record]) -> Iterator[Record]:
        """The same records."""
        for record in newest_first:
            for namespace, name, uid in filter(self.query.matches, record.pods):
                self.pods.add((namespace, name, uid))
                if record.event == _STARTED:
                    self.evicted.setdefault((namespace, name), uid)
            yield record


def _told(node: WatchedNode, query: PodQuery) -> tuple[int, tuple[Story, Remarks]] | None:
    """With when it happened: an eviction goes before everything else that was heard of a pod."""
    remarks = Remarks()
    story = _story(node, query, remarks)
    if story is None:
        return None
    times = [record.time_ns for record in story.facts.values()]
    if story.step is not None:
        times.append(story.step.time_ns)
    newest_ns = max(times, default=0)
    return newest_ns + (0 if story.started is None else _EVICTED_FIRST_NS), (story, remarks)


def _story(node: WatchedNode, query: PodQuery, remarks: Remarks) -> Story | None:
    seen = _Seen(query)
    story = tell(seen.pass_on(read_journal(node.journal, newest_first=True)), query)
    if story is None:
        return None
    namespace, name, uid = story.pod
    others = sorted({f"{each[0]}/{each[1]}" for each in seen.pods if each[:2] != (namespace, name)})
    if others:
        remarks.notes.append(f"also called so: {', '.join(others)}")
    earlier = seen.evicted.get((namespace, name))
    if story.started is None and earlier is not None:
        # It was admitted again, and is another pod now. That one still runs, so it needs no reason.
        remarks.notes.append(f"{namespace}/{name} is back since, as `{uid}`, and {_outcome(story)}")
        return tell(read_journal(node.journal, newest_first=True), PodQuery(uid=earlier)) or story
    return story


def _data(node: WatchedNode, story: Story, besides: Mapping[str, str]) -> dict[str, Any]:
    namespace, name, uid = story.pod
    return {
        "kind": "Explanation",
        "node": node.name,
        "pod": {"namespace": namespace, "name": name, "uid": uid},
        "outcome": _outcome(story),
        "text": explain(story, besides),
        "decision": _decision(story),
        "facts": [
            _fact(story.facts[event]) for event in sorted(story.facts, key=lambda each: story.facts[each].time_ns)
        ],
        "oomKills": [_fact(record) for record in story.kills],
    }


def _outcome(story: Story) -> str:
    if story.started is not None:
        return "preempted" if story.is_preempted else "evicted"
    if story.step is not None and story.is_chosen:
        return "chosen" if story.step.acts else "would be evicted"
    rejected = story.facts.get("pod_rejected")
    if rejected is not None and story.after("pod_admitted", rejected) is None:
        return "rejected"
    return "not evicted"


def _decision(story: Story) -> dict[str, Any] | None:
    """Of the step that chose the pod, or else of the last one that ranked it."""
    step = story.step
    if step is None:
        return None
    look = step.looks[-1]
    starved = look.decision.starved
    return {
        "time": exact_time_text(step.time_ns),
        "choseIt": story.is_chosen,
        "dryRun": not step.acts,
        "alarm": step.alarm or None,
        "latencyNs": step.latency_ns,
        "threshold": None if starved is None else starved.threshold,
        "available": None if starved is None else starved.available,
        "capacity": None if starved is None else starved.capacity,
        "ranking": [] if look.ranking is None else ranking_data(look.ranking),
    }


def _fact(record: Record) -> dict[str, Any]:
    return {"time": exact_time_text(record.time_ns), "event": record.event, "values": record.values}
