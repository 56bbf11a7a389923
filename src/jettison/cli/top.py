"""`jettison top`: readings against thresholds and pods in eviction order, refreshing in place."""

from __future__ import annotations

import sys
from typing import Any

import click

from jettison.agent.safe_text import printable
from jettison.cli.node_view import NodeView, look
from jettison.cli.output import TABLE, Remarks, emit, output_option
from jettison.cli.screen import Screen
from jettison.cli.top_frame import Line, choose, frame
from jettison.cli.watched_node import WatchedNode, watched_node_options
from jettison.engine.signals import Condition, Signal
from jettison.errors import ObservationFailed


@click.command()
@click.option("--once", is_flag=True, help="Print one picture and end; also what happens without a terminal.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two pictures.",
)
@click.option(
    "--signal",
    "signal_name",
    type=click.Choice([signal.value for signal in Signal]),
    metavar="SIGNAL",
    help="Show the order for this signal; without it, for the one that is short, or for memory.",
)
@output_option
@watched_node_options
def command(node: WatchedNode, once: bool, interval: float, signal_name: str | None, output: str) -> None:
    """What the node has left of everything, what it must not fall below, and who would go first.

    In the picture `#` is used and `|` is the threshold. Keys: s shows the order for the next signal, q ends.
    """
    if output != TABLE or once or not sys.stdout.isatty():
        _print(look(node), signal_name, output)
        return
    with Screen() as screen:
        while True:
            lines, signals = _picture(node, signal_name)
            screen.draw(lines)
            key = screen.wait(interval)
            if key == "q":
                return
            if key == "s" and signals:
                place = signals.index(signal_name) + 1 if signal_name in signals else 0
                signal_name = signals[place % len(signals)]


def _picture(node: WatchedNode, signal_name: str | None) -> tuple[list[Line], list[str]]:
    """The lines, and the signals there are. What cannot be seen now may be seen in a second."""
    try:
        view = look(node)
    except ObservationFailed as failure:
        return [Line(printable(f"node {node.name}")), Line(printable(str(failure)), is_alarming=True)], []
    headline, *rest = frame(view, signal_name)
    notes = [Line(printable(view.note), is_alarming=True)] if view.note else []
    return [headline, *notes, *rest], [each["signal"] for each in view.ranking["signals"]]


def _print(view: NodeView, signal_name: str | None, output: str) -> None:
    if signal_name is not None and choose(view, signal_name) is None:
        raise ObservationFailed(f"`{signal_name}` is not measured on node `{view.ranking['node']}`")
    remarks = Remarks(notes=[view.note] if view.note else [])
    emit(
        output,
        remarks,
        lambda: "\n".join(line.text for line in frame(view, signal_name)),
        lambda: _data(view),
    )


def _data(view: NodeView) -> dict[str, Any]:
    return {
        "kind": "NodeView",
        "node": view.ranking["node"],
        "time": view.ranking["time"],
        "live": not view.note,
        "conditions": [condition.value for condition in Condition if condition in view.history.conditions],
        "signals": view.ranking["signals"],
    }
