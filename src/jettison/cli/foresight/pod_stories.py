"""What is known of one pod on a node of this machine, or of a node that was looked at just now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from jettison.agent.journal.reading import PodName, PodQuery, Record, read_journal
from jettison.agent.journal.recorded_steps import RecordedStep, step_from
from jettison.agent.journal.records import Encoder, Look, Step
from jettison.agent.journal.stories import Story, tell
from jettison.cli.inspect.watched_node import WatchedNode
from jettison.cli.output import Remarks
from jettison.engine.foresight.cases import Case, play
from jettison.engine.node.decide import Reclaim, decide, give_up_reclaim
from jettison.engine.pods.pod import Pod
from jettison.errors import InputError, ObservationError

# More than there are between any two instants on record.
_EVICTED_FIRST_NS = 2**63
_STARTED = "eviction_started"


def asked_step(node: str, case: Case) -> RecordedStep:
    """The step that an agent would record now: the same words tell of it as of one that was recorded."""
    outcome = decide(case.policy, case.history, case.snapshot)
    looks = [Look(case.snapshot, outcome)]
    if isinstance(outcome.decision, Reclaim):
        after = case.after
        second = give_up_reclaim(outcome.history) if after is None else decide(case.policy, outcome.history, after)
        looks.append(Look(after, second))
    step = Step(case.snapshot.now_ns, node, case.policy, case.history, looks, acts=False)
    return step_from(msgspec.json.encode(Encoder().step(step)))


def asked_story(node: str, case: Case, pod: Pod, known: Story | None = None) -> Story:
    """The story of a pod that was decided on just now, with what else is `known` of it."""
    story = known or Story((pod.namespace, pod.name, pod.uid))
    return replace(story, step=asked_step(node, case), is_chosen=play(case).takes(pod.uid), is_asked=True)


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


def recorded_story(node: WatchedNode, query: PodQuery) -> tuple[int, tuple[Story, Remarks]] | None:
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
        remarks.notes.append(f"{namespace}/{name} is back since, as `{uid}`, and {outcome_of(story)}")
        return tell(read_journal(node.journal, newest_first=True), PodQuery(uid=earlier)) or story
    return story


def outcome_of(story: Story) -> str:
    """What became of the pod, in a word or two."""
    if story.started is not None:
        return "preempted" if story.is_preempted else "evicted"
    if story.step is not None and story.is_chosen:
        return "chosen" if story.step.acts else "would be evicted"
    rejected = story.facts.get("pod_rejected")
    if rejected is not None and story.after("pod_admitted", rejected) is None:
        return "rejected"
    return "not evicted"


def besides(node: WatchedNode, uid: str) -> dict[str, str]:
    """What it waits for now, and when and how it comes back; nothing of a pod that the node has forgotten."""
    # It loads the runtime of processes, a third of all code here; a node of a cluster or of files needs none of it.
    from jettison.cli.inspect.recorded_pods import known_pods, prospect, read_record  # noqa: PLC0415

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
