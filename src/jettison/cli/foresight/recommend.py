"""`jettison recommend`: thresholds from the growth that was recorded and the reaction that was measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from jettison.agent.amounts import span
from jettison.cli.foresight.agent_node import past_of
from jettison.cli.inspect.watched_node import WatchedNode, watched_node_options
from jettison.cli.options.go_flags import window
from jettison.cli.output import Remarks, emit, output_option, table
from jettison.cli.policy.policy_input import counted
from jettison.engine.foresight.recommendations import LEAST_END_NS, Reaction, Recommendation, reaction_of, recommend
from jettison.engine.foresight.trends import LEAST_SAMPLES
from jettison.engine.node.amounts import short
from jettison.engine.node.signals import ROWS
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import ObservationError
from jettison.manifests.times import exact_time_text, time_text
from jettison.values import frozen

_HEAD = ("SIGNAL", "STEEPEST FALL", "WHEN", "READINGS", "WITH ALARMS", "EVERY 10 S")


@frozen
class _Advice:
    """For an agent that the kernel wakes, and for a kubelet that looks every 10 s."""

    node: str
    with_alarms: Reaction
    by_ticks: Reaction
    rows: list[tuple[Recommendation, Recommendation]]


@click.command()
@click.option("--since", "length_ns", type=window, metavar="DURATION", help="Only what is on record for so long.")
@output_option
@watched_node_options
def command(node: WatchedNode, length_ns: int | None, output: str) -> None:
    """Compute hard thresholds for a node of this machine from what its agent has seen.

    A threshold keeps free what the steepest fall on record uses up during an eviction: one that takes as long as the
    slowest for a hard threshold on record, and at least the 2 s before SIGKILL. For a node that the kernel wakes
    (Jettison's memory alarms) that is less than for one that looks every 10 s.
    """
    past = past_of(node, None)
    if length_ns is not None:
        newest_ns = max((series.samples[-1][0] for series in past.series.values() if series.samples), default=0)
        past.series = {signal: each.since(newest_ns - length_ns) for signal, each in past.series.items()}
    reactions = [reaction_of(past.told_ns, past.ended_ns, has_alarms=kind) for kind in (True, False)]
    first, second = (recommend(past.series, each) for each in reactions)
    if not first:
        raise ObservationError(
            f"too little is on record for node `{node.name}`: {LEAST_SAMPLES} readings of a signal are needed"
        )
    advice = _Advice(node.name, reactions[0], reactions[1], list(zip(first, second, strict=True)))
    emit(output, Remarks(), lambda: "\n".join(_lines(advice)), lambda: _data(advice))


def _lines(advice: _Advice) -> Iterator[str]:
    reaction = advice.with_alarms
    measured = f"measured in {counted(reaction.evictions, 'eviction')}"
    if reaction.ended_ns == LEAST_END_NS:
        faster = f"; {counted(reaction.evictions, 'eviction')} on record took less" if reaction.evictions else ""
        measured = f"which is when it would be killed{faster}"
    yield (
        f"node {advice.node}: a pod is told {span(reaction.told_ns)} after the alarm and has ended "
        f"{span(reaction.ended_ns)} later at worst, {measured}"
    )
    yield ""
    yield table(_HEAD, (_row(*pair) for pair in advice.rows))
    settings = [f"{each.signal}<{_amount(each)}" for each, _ in advice.rows if each.amount is not None]
    if settings:
        yield ""
        yield f"--eviction-hard '{','.join(settings)}'"


def _row(with_alarms: Recommendation, by_ticks: Recommendation) -> tuple[str, ...]:
    resource, fall = ROWS[with_alarms.signal].resource, with_alarms.fall
    return (
        with_alarms.signal,
        "nothing fell" if fall is None else f"{short(fall.per_second, resource)}/s",
        "-" if fall is None else time_text(fall.at_ns),
        f"{with_alarms.samples} in {span(with_alarms.span_ns)}",
        _amount(with_alarms),
        _amount(by_ticks),
    )


def _amount(each: Recommendation) -> str:
    """As Kubernetes writes it; what is computed is whole Mi."""
    return "-" if each.amount is None else str(ROWS[each.signal].amount(each.amount))


def _data(advice: _Advice) -> dict[str, Any]:
    return {
        "kind": "Recommendation",
        "node": advice.node,
        "reaction": {"withAlarms": _reaction(advice.with_alarms), "every10s": _reaction(advice.by_ticks)},
        "signals": [
            {
                "signal": each.signal.value,
                "capacity": each.capacity,
                "samples": each.samples,
                "seconds": each.span_ns / SECOND_NS,
                "steepestFall": None
                if each.fall is None
                else {
                    "perSecond": each.fall.per_second,
                    "amount": each.fall.amount,
                    "seconds": each.fall.passed_ns / SECOND_NS,
                    "time": exact_time_text(each.fall.at_ns),
                },
                "withAlarms": each.amount,
                "every10s": other.amount,
            }
            for each, other in advice.rows
        ],
    }


def _reaction(reaction: Reaction) -> dict[str, Any]:
    return {
        "noticedNs": reaction.noticed_ns,
        "toldNs": reaction.told_ns,
        "endedNs": reaction.ended_ns,
        "evictions": reaction.evictions,
    }
