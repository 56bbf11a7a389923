"""Changes that would have spared a pod, or would make it the victim: as sentences and as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jettison.cli.policy.ranking_report import pod_data
from jettison.engine.foresight.cases import Case, Consequence
from jettison.engine.foresight.counterfactuals import Counterfactual, dooming, sparing
from jettison.engine.foresight.levers import Lever, Unit, What
from jettison.engine.node.amounts import short
from jettison.engine.node.signals import Resource
from jettison.engine.numbers.durations import SECOND_NS, duration_text
from jettison.engine.numbers.quantity import binary_text
from jettison.engine.pods.pod import Pod

UNLESS, IF = "unless", "if"

_SUBJECTS: Mapping[What, str] = {
    What.REQUEST: "its request for {}",
    What.PRIORITY: "its priority",
    What.LIMIT: "the limit of {}",
}


def changes_for(case: Case, pod: Pod, *, goes: bool) -> tuple[str, list[Counterfactual]]:
    """Under `unless` what would spare a pod that goes, under `if` what would make another one go."""
    return (UNLESS, sparing(case, pod)) if goes else (IF, dooming(case, pod))


def change_lines(label: str, changes: list[Counterfactual], pod: Pod) -> list[str]:
    """One sentence each, or one that says why there is none."""
    if changes:
        return [change_text(each, label) for each in changes]
    if label == IF and pod.is_critical:
        return []
    outcome = "would spare it" if label == UNLESS else "would make it the victim"
    return [f"no single change of a request, a priority, a usage, a limit or a threshold {outcome}"]


def change_text(change: Counterfactual, label: str) -> str:
    """`its request for memory is at least 2112Mi (+1.8Gi, it is 256Mi); then default/web goes`."""
    lever = change.lever
    bound = "at least" if change.is_upwards else "at most"
    if not change.is_steady:
        bound = "about"
    value, now = _amount(lever, change.suggested, is_exact=True), _amount(lever, lever.now)
    difference = _difference(lever, change.suggested - lever.now)
    said = f"({difference}it is {now})"
    if lever.what is What.USAGE:
        what = lever.unit.value if lever.unit is not Unit.BYTES else f"of {lever.subject}"
        text = f"it uses {bound} {value} {what} {said}"
    else:
        text = f"{_SUBJECTS.get(lever.what, '{}').format(lever.subject)} is {bound} {value} {said}"
    unsteady = "" if change.is_steady else ", but not with every larger change"
    # Under `if` it is this pod that goes.
    then = f"; then {_then(change.choice)}" if label == UNLESS else ""
    return f"{text}{unsteady}{then}"


def change_data(change: Counterfactual, label: str) -> dict[str, Any]:
    """For JSON; `value` was run, `exact` is the smallest change that was found."""
    lever = change.lever
    return {
        "what": lever.what.value,
        "subject": lever.subject or None,
        "unit": lever.unit.value,
        "now": lever.now,
        "bound": "atLeast" if change.is_upwards else "atMost",
        "value": change.suggested,
        "exact": change.least,
        "steady": change.is_steady,
        "then": {"evicts": [pod_data(pod) for pod in change.choice.pods], "why": change.choice.why or None},
        "text": change_text(change, label),
    }


def _then(choice: Consequence) -> str:
    if not choice.pods:
        return "no pod goes"
    return f"{', '.join(map(str, choice.pods))} {'goes' if len(choice.pods) == 1 else 'go'}"


def _difference(lever: Lever, difference: int) -> str:
    """Where the two amounts alone would not show it."""
    if lever.unit is not Unit.BYTES:
        return ""
    return f"{'+' if difference > 0 else ''}{short(difference, Resource.MEMORY)}, "


def _amount(lever: Lever, value: int, *, is_exact: bool = False) -> str:
    if lever.unit is Unit.BYTES:
        return binary_text(value) if is_exact else short(value, Resource.MEMORY)
    if lever.unit is Unit.SECONDS:
        return duration_text(value * SECOND_NS)
    if lever.unit is Unit.HUNDREDTHS:
        return f"{value / 100:g}%"
    return str(value)
