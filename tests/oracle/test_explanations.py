"""`explain` on every step of the eviction manager that Kubernetes v1.36.4 answered.

The story names the pod that Kubernetes evicted, and what it says hangs together. Every change that is printed is true:
the engine, which answers all these cases as Kubernetes does, is asked again with the change made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from answers_node import SECOND_NS, START_NS, case_pods, eviction_policy
from compact import DATA, read_cases

from jettison.agent.journal.explanations import explain
from jettison.cli.foresight.counterfactual_report import change_lines, changes_for
from jettison.cli.foresight.pod_stories import asked_story
from jettison.engine.foresight.cases import Case, Consequence, play
from jettison.engine.node.decide import decide, give_up_reclaim
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import ROWS
from jettison.engine.node.snapshot import Layout, Snapshot
from jettison.manifests.summary import summary_from

# Changes are searched for in every so many steps: one search takes some hundred decisions.
EVERY = 90


class Asked(NamedTuple):
    """One step, and the names of the pods that Kubernetes evicted in it; several lists where chance decided."""

    name: str
    case: Case
    evicted: list[list[str]]


def steps(kind: str) -> Iterator[Asked]:
    """Every step of every case, each with the history that the steps before it left."""
    for question in read_cases(DATA / f"{kind}.jsonl.gz"):
        asked = question["input"]
        policy, known = eviction_policy(asked), case_pods(asked)
        layout = Layout(asked.get("imageFs", False), asked.get("splitFs", False))
        outcomes = question.get("expectedAnyOf") or [question["expected"]]
        history, now_ns = History(), START_NS
        for place, step in enumerate(asked["steps"]):
            now_ns += round(step["advanceSeconds"] * SECOND_NS)
            if step.get("summaryError"):
                history = history.unobserved()
                continue
            node, usages = summary_from(step["summary"])
            seen = Snapshot(now_ns, node, [known[name] for name in step["pods"]], usages, layout)
            case = Case(policy, history, seen, None if step.get("afterReclaimError") else _after(step, seen))
            evicted = [[each["pod"] for each in outcome["steps"][place]["evicted"]] for outcome in outcomes]
            yield Asked(f"{question['id']}[{place}]", case, evicted)
            history = _next(case)


def _after(step: Any, seen: Snapshot) -> Snapshot:
    node, usages = summary_from(step.get("afterReclaimSummary") or step["summary"])
    return Snapshot(seen.now_ns, node, seen.pods, usages, seen.layout)


def _next(case: Case) -> History:
    outcome = decide(case.policy, case.history, case.snapshot)
    if outcome.history.reclaiming is None:
        return outcome.history
    if case.after is None:
        return give_up_reclaim(outcome.history).history
    return decide(case.policy, outcome.history, case.after).history


@pytest.mark.parametrize("kind", ["synchronize", "synchronize-nondet"])
def test_the_story_names_the_victim_and_hangs_together(kind: str) -> None:
    told = 0
    for place, (name, case, evicted) in enumerate(steps(kind)):
        choice = play(case)
        assert [pod.name for pod in choice.pods] in evicted, name
        if not choice.pods:
            assert choice.why, name
            continue
        told += 1
        _check_words(name, case, choice)
        if place % EVERY == 0:
            _check_changes(name, case, choice)
    assert told > 40


def _check_words(name: str, case: Case, choice: Consequence) -> None:
    victim = choice.pods[0]
    story = asked_story("node1", case, victim)
    lines = explain(story)
    text = "\n".join(lines)
    assert lines[0] == f"{victim} would be evicted now", name
    if choice.starved is None or choice.reading is None:
        assert "it held more local storage than it may" in text, name
        return
    quantity = choice.starved.quantity(choice.reading.capacity)
    available = ROWS[choice.starved.signal].amount(choice.reading.available)
    assert f"{choice.starved.signal} is {available} of" in text, name
    assert f"threshold of {quantity}" in text, name
    assert bool(choice.reclaim) == ("are removed first" in text), name
    assert f"Threshold quantity: {quantity}, available: {available}." in text, name
    assert f" {victim} " in next(line for line in lines if "→" in line), name
    # A pod before it in the order is critical.
    assert story.step is not None
    ranking = story.step.looks[-1].ranking
    assert ranking is not None, name
    ahead = ranking.pods[: [pod.uid for pod in ranking.pods].index(victim.uid)]
    assert all(pod.is_critical for pod in ahead), name


def _check_changes(name: str, case: Case, choice: Consequence) -> None:
    for pod in case.snapshot.pods:
        goes = choice.takes(pod.uid)
        label, changes = changes_for(case, pod, goes=goes)
        assert len(change_lines(label, changes, pod)) >= min(1, not pod.is_critical), name
        for change in changes:
            again = play(change.lever.apply(change.suggested))
            assert again == change.choice, (name, change)
            assert again.takes(pod.uid) is not goes, (name, change)
