"""One step of the eviction loop on a node that was looked at: what is decided, in words and as data."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from jettison.agent.safe_text import printable
from jettison.cli.policy.node_input import LAYOUT_NAMES
from jettison.cli.policy.policy_input import PolicyInput
from jettison.cli.policy.pressure_report import (
    ThresholdState,
    conditions_data,
    conditions_text,
    instant,
    pressure_text,
    threshold_states,
    thresholds_data,
)
from jettison.cli.policy.ranking_report import pod_data, ranking_data, why_critical
from jettison.engine.config.policy import Policy
from jettison.engine.node.amounts import precise
from jettison.engine.node.decide import Decision, Evict, Nothing, Outcome, Reclaim, decide
from jettison.engine.node.evictions import Eviction, effective_grace, runtime_grace
from jettison.engine.node.facts import CriticalPodSpared, Fact
from jettison.engine.node.pressure import History, still_starved
from jettison.engine.node.signals import ROWS, Reclaimable, readings
from jettison.engine.node.snapshot import NodeStats, Reading, Snapshot
from jettison.engine.node.thresholds import Threshold
from jettison.engine.node.wording import event_of
from jettison.errors import ManifestError
from jettison.manifests.node_files import newest_time
from jettison.manifests.times import parse_time, time_text
from jettison.values import frozen

_STEPS = {Reclaimable.CONTAINERS: "delete dead containers", Reclaimable.IMAGES: "delete unused images"}
_NEXT_SHOWN = 3


@frozen
class Now:
    """The instant of the step, and where it comes from."""

    time_ns: int
    origin: str


@frozen
class DecidedStep:
    """The question and the answer."""

    found: PolicyInput
    snapshot: Snapshot
    now: Now
    before: History
    outcome: Outcome
    states: list[ThresholdState]
    # The decision on the summary taken after the reclaim, and what was still below its target then.
    second: Outcome | None = None
    lacking: tuple[str, ...] = ()

    @property
    def after(self) -> History:
        """What is remembered. An ordered reclaim is not: the next step measures its effect."""
        return replace((self.second or self.outcome).history, reclaiming=None)


def decided(found: PolicyInput, before: History, snapshot: Snapshot, now: Now) -> DecidedStep:
    outcome = decide(found.policy, before, snapshot)
    return DecidedStep(found, snapshot, now, before, outcome, threshold_states(found, before, snapshot))


def look_again(step: DecidedStep, node: NodeStats) -> DecidedStep:
    order = step.outcome.decision
    if not isinstance(order, Reclaim):
        return step
    policy = step.found.policy
    snapshot = replace(step.snapshot, node=node)
    second = decide(policy, step.outcome.history, snapshot)
    return replace(step, second=second, lacking=tuple(_lacking(policy, order, snapshot)))


def _lacking(policy: Policy, order: Reclaim, snapshot: Snapshot) -> Iterator[str]:
    """What is below its target after the reclaim; the profile `improved` looks at the starved resource only."""
    measured = readings(snapshot.node)
    wanted = ROWS[order.starved.signal].resource
    for threshold in still_starved(policy.layouts[snapshot.layout].all, measured):
        row, reading = ROWS[threshold.signal], measured[threshold.signal]
        if row.resource is wanted or not policy.switches.recheck_starved_only:
            available = precise(row.amount(reading.available), row.resource)
            yield f"{threshold.signal} {available}, target {precise(threshold.target(reading.capacity), row.resource)}"


def step_text(step: DecidedStep) -> str:
    policy, outcome = step.found.policy, step.outcome
    rechecks_all = not policy.switches.recheck_starved_only
    node = f"node {step.snapshot.node.name}" if step.snapshot.node.name else "a node without a name"
    parts = [
        f"{node} at {time_text(step.now.time_ns)} ({step.now.origin}), disks {LAYOUT_NAMES[step.snapshot.layout]}",
        pressure_text(step.states, step.now.time_ns),
        conditions_text(step.before, step.after, policy.transition_ns, step.now.time_ns),
        "Decision: " + decision_text(outcome.decision, outcome.facts, rechecks_all=rechecks_all),
    ]
    if step.second is not None:
        lacking = "".join(f"\n  below its target: {each}" for each in step.lacking)
        answer = decision_text(step.second.decision, step.second.facts, rechecks_all=rechecks_all)
        parts.append(f"After the reclaim: {answer}{lacking}")
    return "\n\n".join(parts)


def step_data(step: DecidedStep, profile: str) -> dict[str, Any]:
    policy, second = step.found.policy, step.second
    return {
        "kind": "Decision",
        "node": step.snapshot.node.name,
        "now": instant(step.now.time_ns),
        "nowFrom": step.now.origin,
        "profile": profile,
        "imageFs": LAYOUT_NAMES[step.snapshot.layout],
        "thresholds": thresholds_data(step.states, step.found),
        "conditions": conditions_data(step.before, step.after, policy.transition_ns),
        "decision": decision_data(step.outcome.decision, step.outcome.facts),
        "afterReclaim": None
        if second is None
        else {**decision_data(second.decision, second.facts), "belowTarget": list(step.lacking)},
    }


def decision_text(decision: Decision, facts: Sequence[Fact], *, rechecks_all: bool) -> str:
    """What to do, and every consequence of it."""
    if isinstance(decision, Nothing):
        return "\n".join((f"do nothing: {decision.why}", *_spared_lines(facts)))
    if isinstance(decision, Reclaim):
        return _reclaim_text(decision, rechecks_all=rechecks_all)
    return _evict_text(decision, facts)


def decision_data(decision: Decision, facts: Sequence[Fact]) -> dict[str, Any]:
    """The same for programs. Keys that do not apply are null or empty, never missing."""
    data: dict[str, Any] = {
        "action": type(decision).__name__.lower(),
        "why": None,
        "signal": None,
        "reclaim": [],
        "otherwise": None,
        "atMostOne": None,
        "evictions": [],
        "ranking": [],
        "spared": [_spared_data(fact) for fact in facts if isinstance(fact, CriticalPodSpared)],
        "nodeEvents": [_event_data(fact) for fact in facts if event_of(fact) is not None],
    }
    if isinstance(decision, Nothing):
        return data | {"why": decision.why}
    if isinstance(decision, Reclaim):
        return data | {
            "why": _starved_text(decision.starved, decision.reading),
            "signal": decision.starved.signal.value,
            "reclaim": [each.value for each in decision.what],
            "otherwise": decision_data(decision.otherwise, decision.otherwise_facts),
        }
    is_pressure = decision.starved is not None and decision.reading is not None
    return data | {
        "why": _starved_text(decision.starved, decision.reading) if is_pressure else "over a local storage limit",
        "signal": decision.starved.signal.value if decision.starved is not None else None,
        "atMostOne": decision.at_most_one,
        # For pressure only the first: those behind it are worded when their turn comes, by readings of that time.
        "evictions": [_eviction_data(each) for each in _due(decision)],
        "ranking": ranking_data(decision.ranking) if decision.ranking is not None else [],
    }


def _due(decision: Evict) -> Sequence[Eviction]:
    return [decision.evictions[0]] if decision.at_most_one else decision.evictions


def _starved_text(starved: Threshold | None, reading: Reading | None) -> str:
    if starved is None or reading is None:
        return "over a local storage limit"
    row = ROWS[starved.signal]
    amount = precise(starved.quantity(reading.capacity), row.resource)
    return f"{starved.signal} is {precise(row.amount(reading.available), row.resource)}, the threshold is {amount}"


def _reclaim_text(decision: Reclaim, *, rechecks_all: bool) -> str:
    steps = ", then ".join(_STEPS[each] for each in decision.what)
    scope = "every threshold of every signal" if rechecks_all else "every met threshold of the same resource"
    otherwise = decision_text(decision.otherwise, decision.otherwise_facts, rechecks_all=rechecks_all)
    return "\n".join(
        (
            f"free node resources: {steps}; {_starved_text(decision.starved, decision.reading)}",
            "then look again:",
            f"  if {scope} is above its target: do nothing",
            "  otherwise: " + otherwise.replace("\n", "\n  "),
        )
    )


def _evict_text(decision: Evict, facts: Sequence[Fact]) -> str:
    due = _due(decision)
    lines = []
    for eviction in due:
        lines += [f"evict {printable(str(eviction.pod))}: {_why(decision, eviction)}", *_eviction_lines(eviction)]
    lines += _spared_lines(facts)
    if decision.at_most_one:
        rest = [printable(str(each.pod)) for each in islice(decision.evictions, 1, 1 + _NEXT_SHOWN)]
        more = len(decision.evictions) - 1 - len(rest)
        if rest:
            lines.append(f"  next     {', '.join(rest)}{f' and {more} more' if more else ''}; one pod per step at most")
    return "\n".join(lines)


def _why(decision: Evict, eviction: Eviction) -> str:
    return eviction.signal if decision.starved is None else _starved_text(decision.starved, decision.reading)


def _eviction_lines(eviction: Eviction) -> list[str]:
    pod, grace = eviction.pod, _grace(eviction)
    own = "it sets none" if pod.grace_seconds is None else f"its own is {pod.grace_seconds}s"
    lines = [
        f"  pod      uid {printable(pod.uid)}, priority {pod.effective_priority}, {pod.qos}",
        f"  grace    {grace}s ({own}); SIGKILL after {runtime_grace(grace)}s",
        f"  message  {printable(eviction.message)}",
    ]
    for key, text in (eviction.annotations or {}).items():
        lines.append(f"  event    {key}={printable(text)}")
    if eviction.condition is not None:
        lines.append(f"  status   Failed/{eviction.reason}, {eviction.condition.type} ({eviction.condition.reason})")
    else:
        lines.append(f"  status   Failed/{eviction.reason}")
    return lines


def _grace(eviction: Eviction) -> int:
    return effective_grace(override=eviction.grace_seconds, pod_grace=eviction.pod.grace_seconds)


def _spared_lines(facts: Sequence[Fact]) -> list[str]:
    return [
        f"  spared   {printable(str(fact.pod))}: {why_critical(fact.pod)}"
        for fact in facts
        if isinstance(fact, CriticalPodSpared)
    ]


def _eviction_data(eviction: Eviction) -> dict[str, Any]:
    condition = eviction.condition
    return {
        **pod_data(eviction.pod),
        "reason": eviction.reason,
        "message": eviction.message,
        "signal": eviction.signal,
        "graceSeconds": eviction.grace_seconds,
        "effectiveGraceSeconds": _grace(eviction),
        "sigkillAfterSeconds": runtime_grace(_grace(eviction)),
        "annotations": None if eviction.annotations is None else dict(eviction.annotations),
        "condition": None
        if condition is None
        else {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": condition.observed_generation,
        },
    }


def _spared_data(fact: CriticalPodSpared) -> dict[str, Any]:
    return {**pod_data(fact.pod), "why": why_critical(fact.pod)}


def _event_data(fact: Fact) -> dict[str, Any] | None:
    event = event_of(fact)
    return None if event is None else {"type": event.type, "reason": event.reason, "message": event.message}


def now_of(text: str | None, node: NodeStats) -> Now:
    if text is not None and text != "now":
        try:
            return Now(parse_time(text), "--now")
        except ManifestError as error:
            raise ManifestError(f"--now: {error}") from error
    newest = newest_time(node)
    if newest is not None and text is None:
        return Now(newest, "the newest time in the summary")
    return Now(time.time_ns(), "the clock" if text else "the clock, because the summary has no times")


def time_warnings(before: History, now: Now) -> Iterator[str]:
    newest = max((*before.first_observed.values(), *before.condition_observed.values()), default=now.time_ns)
    if newest > now.time_ns:
        yield f"the history goes to {time_text(newest)}, later than this step: grace periods cannot be told"
