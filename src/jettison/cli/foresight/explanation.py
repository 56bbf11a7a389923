"""Why a pod goes or stays, as text and data; and that answer for a node that was looked at now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from jettison.agent.journal.explanations import explain
from jettison.agent.journal.reading import PodQuery, Record
from jettison.agent.journal.stories import Story
from jettison.agent.safe_text import printable
from jettison.cli.foresight.counterfactual_report import change_data, change_lines, changes_for
from jettison.cli.foresight.explain import AskedAbout
from jettison.cli.foresight.pod_stories import asked_story, outcome_of
from jettison.cli.output import Remarks, emit
from jettison.cli.policy.decided_step import Now, decided, look_again, step_data, step_text
from jettison.cli.policy.ranking_report import pod_data, ranking_data
from jettison.cli.policy.seen_node import SeenNode
from jettison.engine.foresight.cases import play
from jettison.engine.foresight.counterfactuals import Counterfactual
from jettison.engine.pods.pod import Pod
from jettison.errors import JettisonError
from jettison.manifests.times import exact_time_text
from jettison.values import frozen


@frozen
class Answer:
    """A story and what would have changed it."""

    node: str
    story: Story
    label: str = ""
    changes: Sequence[Counterfactual] = ()
    sentences: Sequence[str] = ()
    besides: Mapping[str, str] | None = None

    def lines(self) -> list[str]:
        """As text."""
        return explain(self.story, self.besides, (self.label, self.sentences))


def asked_answer(seen: SeenNode, pod: Pod, known: Story | None = None) -> Answer:
    story = asked_story(seen.name, seen.case, pod, known)
    label, changes = changes_for(seen.case, pod, goes=story.is_chosen)
    return Answer(seen.name, story, label, changes, change_lines(label, changes, pod))


def print_answer(answer: Answer, output: str, remarks: Remarks) -> None:
    emit(output, remarks, lambda: "\n".join(answer.lines()), lambda: _data(answer))


def _data(answer: Answer) -> dict[str, Any]:
    story = answer.story
    namespace, name, uid = story.pod
    return {
        "kind": "Explanation",
        "node": answer.node,
        "pod": {"namespace": namespace, "name": name, "uid": uid},
        "outcome": outcome_of(story),
        "text": answer.lines(),
        "decision": _decision(story),
        "facts": [
            _fact(story.facts[event]) for event in sorted(story.facts, key=lambda each: story.facts[each].time_ns)
        ],
        "oomKills": [_fact(record) for record in story.kills],
        "changes": {
            "when": answer.label or None,
            "found": [change_data(each, answer.label) for each in answer.changes],
        },
    }


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


def find_pod(seen: SeenNode, query: PodQuery) -> Pod | None:
    pods = seen.case.snapshot.pods
    return next((pod for pod in pods if query.matches((pod.namespace, pod.name, pod.uid))), None)


def tell_of_now(seen: SeenNode, asked: AskedAbout, profile: str, output: str, remarks: Remarks) -> None:
    """About a node that was looked at: one of its pods, or all of it."""
    if asked.kind == "decision":
        raise click.UsageError("a decision is looked up in the journal of a node of this machine")
    if asked.kind == "node" or (not asked.kind and asked.text == seen.name):
        if asked.text not in ("", seen.name):
            raise JettisonError(f"this is node `{seen.name}`, not `{asked.text}`")
        tell_of_whole(seen, profile, output, remarks)
        return
    query = PodQuery.parse(asked.text)
    pod = find_pod(seen, query)
    if pod is None:
        for namespace, name, uid, became in seen.ended:
            if query.matches((namespace, name, uid)):
                said = printable(f"`{namespace}/{name}` has ended on node `{seen.name}`: {became}")
                raise JettisonError(f"{said}; what its node saw then is not on record, `jettison record` keeps it")
        raise JettisonError(f"no pod `{asked.text}` runs on node `{seen.name}`")
    others = {str(each) for each in seen.case.snapshot.pods if query.matches((each.namespace, each.name, each.uid))}
    if others - {str(pod)}:
        remarks.notes.append(f"also called so: {', '.join(sorted(others - {str(pod)}))}")
    print_answer(asked_answer(seen, pod), output, remarks)


def tell_of_whole(seen: SeenNode, profile: str, output: str, remarks: Remarks) -> None:
    """Every threshold, what is decided now, and what would decide otherwise."""
    case = seen.case
    now = Now(case.snapshot.now_ns, "the newest time in the summary")
    step = decided(seen.found, case.history, case.snapshot, now)
    if case.after is not None:
        step = look_again(step, case.after.node)
    chosen = play(case)
    changes = [(pod, *changes_for(case, pod, goes=True)) for pod in chosen.pods]

    def text() -> str:
        lines = [step_text(step)]
        for pod, label, found in changes:
            lines += ["", printable(f"{pod} goes")]
            for sentence in change_lines(label, found, pod):
                lines.append(printable(f"  {label:10}{sentence}"))
                label = ""
        return "\n".join(lines)

    def data() -> dict[str, Any]:
        victims = [
            {**pod_data(pod), "unless": [change_data(each, label) for each in found]} for pod, label, found in changes
        ]
        return {**step_data(step, profile), "kind": "NodeExplanation", "victims": victims}

    emit(output, remarks, text, data)
