"""`jettison rank`: in which order would pods be evicted, and why?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from jettison.agent.amounts import amount_data, precise
from jettison.cli.options.kubelet_flags import ConfigArguments, KubeletCommand
from jettison.cli.output import Remarks, emit
from jettison.cli.policy.node_input import (
    LAYOUT_NAMES,
    NodeInput,
    layout_from,
    node_options,
    only_one_from_standard_input,
    read_node,
)
from jettison.cli.policy.policy_input import read_policy
from jettison.cli.policy.ranking_report import ranking_data, ranking_text
from jettison.engine.config.policy import Policy
from jettison.engine.node.pressure import History, assess, in_order
from jettison.engine.node.ranking import Ranking, rank
from jettison.engine.node.signals import ROWS, Resource, Signal, readings
from jettison.engine.node.snapshot import Disks, Layout, Reading
from jettison.engine.node.thresholds import Threshold
from jettison.manifests.times import exact_time_text


@dataclass(frozen=True, slots=True)
class _Choice:
    """The signal to rank for; `by` is one of option, starved, crossed, default."""

    signal: Signal
    by: str
    why: str


@click.command("rank", cls=KubeletCommand, short_help="In which order would pods be evicted, and why?")
@node_options
@click.option(
    "--signal",
    "signal_name",
    type=click.Choice([signal.value for signal in Signal]),
    metavar="SIGNAL",
    help="Rank for this signal (nodefs.available, pid.available, …) instead of the starved one.",
)
def command(
    summary_path: str,
    pods_path: str,
    config: ConfigArguments,
    image_fs: str,
    profile: str,
    output: str,
    signal_name: str | None,
) -> None:
    """Show the order in which a node under pressure would evict its pods, with the sort keys and the reasons.

    \b
    kubectl get --raw /api/v1/nodes/NAME/proxy/stats/summary > summary.json
    kubectl get pods --all-namespaces -o json > pods.json
    jettison rank --summary summary.json --pods pods.json
    """
    only_one_from_standard_input({"--summary": summary_path, "--pods": pods_path, "--config": config.file})
    remarks = Remarks()
    policy = read_policy(config, profile, remarks).policy
    found = read_node(summary_path, pods_path)
    remarks.notes += found.notes
    layout = layout_from(image_fs, found.node)
    choice = _choose(signal_name, policy, found, layout)
    ranking = rank(
        choice.signal, found.pods, found.usages, layout, inodes_by_inodes=policy.switches.rank_inodes_by_inodes
    )
    reading = readings(found.node).get(choice.signal)
    remarks.notes += _caveats(ranking, layout)
    emit(
        output,
        remarks,
        lambda: _text(choice, ranking),
        lambda: _data(choice, ranking, reading, found, layout, profile),
    )


def _choose(name: str | None, policy: Policy, found: NodeInput, layout: Layout) -> _Choice:
    if name is not None:
        return _Choice(Signal(name), "option", f"{name}, as asked for")
    measured = readings(found.node)
    pressure = assess(policy.layouts[layout].all, History(), measured, 0, policy.transition_ns)
    hard_first = policy.switches.hard_before_soft
    for by, thresholds in (("starved", pressure.starved), ("crossed", tuple(pressure.first_observed))):
        for threshold in in_order(thresholds, hard_before_soft=hard_first)[:1]:
            return _Choice(threshold.signal, by, _why(threshold, measured[threshold.signal], by))
    return _Choice(Signal.MEMORY_AVAILABLE, "default", "nothing is starved; this is the order for memory.available")


def _why(threshold: Threshold, reading: Reading, by: str) -> str:
    row = ROWS[threshold.signal]
    available = precise(row.amount(reading.available), row.resource)
    amount = precise(threshold.quantity(reading.capacity), row.resource)
    if by == "starved":
        return f"{threshold.signal} is starved: {available} available, the threshold is {amount}"
    return f"{threshold.signal} is low: {available} available, the soft threshold is {amount} ({threshold})"


def _caveats(ranking: Ranking, layout: Layout) -> list[str]:
    """Notes about orders of Kubernetes that look wrong but are what it does."""
    row = ROWS[ranking.signal]
    if row.parts is not None and not row.parts[layout.disks]:
        return ["image layers are not measured by pod, so every usage is 0 and the smallest request decides"]
    if row.resource is Resource.INODES and not ranking.ranks_inodes_by_inodes:
        return ["Kubernetes subtracts requests for bytes from numbers of inodes; --profile improved does not"]
    if layout.disks is Disks.DEDICATED and row.parts is not None:
        counted = ", ".join(sorted(part.value for part in row.parts[layout.disks]))
        return [f"images have a filesystem of their own, so what counts here is: {counted}"]
    return []


def _text(choice: _Choice, ranking: Ranking) -> str:
    if not ranking:
        return f"{choice.why}\n\nno pods to evict"
    return f"{choice.why}\n\n{ranking_text(ranking)}"


def _data(
    choice: _Choice, ranking: Ranking, reading: Reading | None, found: NodeInput, layout: Layout, profile: str
) -> dict[str, Any]:
    row = ROWS[choice.signal]
    return {
        "kind": "Ranking",
        "node": found.node.name,
        "profile": profile,
        "imageFs": LAYOUT_NAMES[layout],
        "signal": choice.signal.value,
        "resource": row.resource.value,
        "chosenBy": choice.by,
        "why": choice.why,
        "reading": None
        if reading is None
        else {
            "available": amount_data(row.amount(reading.available)),
            "capacity": amount_data(row.amount(reading.capacity)),
            "time": None if reading.time_ns is None else exact_time_text(reading.time_ns),
        },
        "candidates": ranking_data(ranking),
    }
