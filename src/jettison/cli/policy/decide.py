"""`jettison decide`: what would be done now?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import click

from jettison.agent.amounts import precise
from jettison.cli.options.kubelet_flags import ConfigArguments, KubeletCommand
from jettison.cli.output import Remarks, emit
from jettison.cli.policy.decision_report import decision_data, decision_text
from jettison.cli.policy.history_file import load_history, save_history
from jettison.cli.policy.node_input import (
    LAYOUT_NAMES,
    layout_from,
    node_options,
    only_one_from_standard_input,
    read_node,
    read_summary,
)
from jettison.cli.policy.policy_input import PolicyInput, read_policy
from jettison.cli.policy.pressure_report import (
    ThresholdState,
    conditions_data,
    conditions_text,
    instant,
    pressure_text,
    threshold_states,
    thresholds_data,
)
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Outcome, Reclaim, decide
from jettison.engine.node.pressure import History, still_starved
from jettison.engine.node.signals import ROWS, readings
from jettison.engine.node.snapshot import NodeStats, Snapshot
from jettison.errors import ManifestError
from jettison.manifests.node_files import newest_time
from jettison.manifests.times import parse_time, time_text


@dataclass(frozen=True, slots=True)
class _Now:
    """The instant of the step, and where it comes from."""

    time_ns: int
    origin: str


@dataclass(frozen=True, slots=True)
class _Step:
    """The question and the answer."""

    found: PolicyInput
    snapshot: Snapshot
    now: _Now
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


@click.command("decide", cls=KubeletCommand, short_help="What would be done now?")
@node_options
@click.option(
    "--history",
    "history_path",
    metavar="FILE",
    help="What the last call remembered (grace clocks, conditions); read if it exists, written afterwards.",
)
@click.option(
    "--after-reclaim",
    "after_path",
    metavar="FILE",
    help="A summary taken after the reclaim, to see what would be decided then.",
)
@click.option(
    "--now", "now_text", metavar="TIME", help="RFC 3339, or `now`; without it the newest time in the summary."
)
def command(
    summary_path: str,
    pods_path: str,
    config: ConfigArguments,
    image_fs: str,
    profile: str,
    output: str,
    history_path: str | None,
    after_path: str | None,
    now_text: str | None,
) -> None:
    """Run one step of the eviction loop: readings against thresholds, conditions, the decision, and its effect on pods.

    Call it again with the same --history and newer files to follow a node through grace periods and recoveries.
    """
    only_one_from_standard_input(
        {"--summary": summary_path, "--pods": pods_path, "--config": config.file, "--after-reclaim": after_path}
    )
    remarks = Remarks()
    found = read_policy(config, profile, remarks)
    node = read_node(summary_path, pods_path)
    remarks.notes += node.notes
    now = _now(now_text, node.node)
    before = load_history(history_path, node.node.name) if history_path is not None else History()
    remarks.warnings += _time_warnings(before, now)
    snapshot = Snapshot(now.time_ns, node.node, node.pods, node.usages, layout_from(image_fs, node.node))
    step = _decide(found, before, snapshot, now)
    if after_path is not None:
        step = _look_again(step, read_summary(after_path)[0])
        if step.second is None:
            remarks.warnings.append("--after-reclaim is ignored: no reclaim was ordered")
    if history_path is not None:
        save_history(history_path, step.after, node.node.name)
    emit(output, remarks, lambda: _text(step), lambda: _data(step, profile))


def _now(text: str | None, node: NodeStats) -> _Now:
    if text is not None and text != "now":
        try:
            return _Now(parse_time(text), "--now")
        except ManifestError as error:
            raise ManifestError(f"--now: {error}") from error
    newest = newest_time(node)
    if newest is not None and text is None:
        return _Now(newest, "the newest time in the summary")
    return _Now(time.time_ns(), "the clock" if text else "the clock, because the summary has no times")


def _time_warnings(before: History, now: _Now) -> Iterator[str]:
    newest = max((*before.first_observed.values(), *before.condition_observed.values()), default=now.time_ns)
    if newest > now.time_ns:
        yield f"the history goes to {time_text(newest)}, later than this step: grace periods cannot be told"


def _decide(found: PolicyInput, before: History, snapshot: Snapshot, now: _Now) -> _Step:
    outcome = decide(found.policy, before, snapshot)
    return _Step(found, snapshot, now, before, outcome, threshold_states(found, before, snapshot))


def _look_again(step: _Step, node: NodeStats) -> _Step:
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


def _text(step: _Step) -> str:
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


def _data(step: _Step, profile: str) -> dict[str, Any]:
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
