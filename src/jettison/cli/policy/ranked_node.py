"""Pods of a node in the order of their eviction, for the signal that is asked for or short, as text and as data."""

from __future__ import annotations

from typing import Any

from jettison.agent.amounts import amount_data
from jettison.cli.output import Remarks, emit
from jettison.cli.policy.node_input import LAYOUT_NAMES
from jettison.cli.policy.ranking_report import ranking_data, ranking_text
from jettison.engine.config.policy import Policy
from jettison.engine.foresight.cases import Case
from jettison.engine.node.amounts import precise
from jettison.engine.node.pressure import History, assess, in_order
from jettison.engine.node.ranking import Ranking, rank
from jettison.engine.node.signals import ROWS, Resource, Signal, readings
from jettison.engine.node.snapshot import Disks, Layout, Reading, Snapshot
from jettison.engine.node.thresholds import Threshold
from jettison.manifests.times import exact_time_text
from jettison.values import frozen


@frozen
class _Choice:
    """The signal to rank for; `by` is one of option, starved, crossed, default."""

    signal: Signal
    by: str
    why: str


def print_ranking(case: Case, signal_name: str | None, profile: str, output: str, remarks: Remarks) -> None:
    """For that signal, or else for the one that is short, or else for memory."""
    policy, seen = case.policy, case.snapshot
    choice = _choose(signal_name, policy, seen)
    inodes_by_inodes = policy.switches.rank_inodes_by_inodes
    ranking = rank(choice.signal, seen.pods, seen.usages, seen.layout, inodes_by_inodes=inodes_by_inodes)
    reading = readings(seen.node).get(choice.signal)
    remarks.notes += _caveats(ranking, seen.layout)
    emit(
        output,
        remarks,
        lambda: _text(choice, ranking),
        lambda: _data(choice, ranking, reading, seen, profile),
    )


def _choose(name: str | None, policy: Policy, seen: Snapshot) -> _Choice:
    if name is not None:
        return _Choice(Signal(name), "option", f"{name}, as asked for")
    measured = readings(seen.node)
    pressure = assess(policy.layouts[seen.layout].all, History(), measured, 0, policy.transition_ns)
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


def _data(choice: _Choice, ranking: Ranking, reading: Reading | None, seen: Snapshot, profile: str) -> dict[str, Any]:
    row = ROWS[choice.signal]
    return {
        "kind": "Ranking",
        "node": seen.node.name,
        "profile": profile,
        "imageFs": LAYOUT_NAMES[seen.layout],
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
