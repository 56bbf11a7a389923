"""`jettison top`: readings against thresholds and pods in eviction order, refreshing in place."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from jettison.agent.safe_text import printable
from jettison.cli.inspect.node_view import NodeView, look
from jettison.cli.inspect.screen import Key, Screen
from jettison.cli.inspect.top_frame import Line, choose, frame, page
from jettison.cli.inspect.watched_node import WatchedNode, watched_node_options
from jettison.cli.options.go_flags import Seconds
from jettison.cli.output import TABLE, Remarks, emit, output_option
from jettison.engine.node.signals import Condition, Signal
from jettison.errors import ObservationError

# Further down than any pod; what is shown ends with the last one.
_LAST = 10**9


@click.command()
@click.option("--once", is_flag=True, help="Print one picture and end; without a terminal this is the default.")
@click.option(
    "--interval",
    type=Seconds(0.1, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="The time between two pictures.",
)
@click.option(
    "--signal",
    "signal_name",
    type=click.Choice([signal.value for signal in Signal]),
    metavar="SIGNAL",
    help="Rank pods for this signal. [default: the one that is short, or memory.available]",
)
@output_option
@watched_node_options
def command(node: WatchedNode, once: bool, interval: float, signal_name: str | None, output: str) -> None:
    """Show what the node has left, its thresholds, and which pods would be evicted first.

    In the picture `#` is what is used and `|` is the threshold. Keys: s shows the order for the next signal; arrows, j
    and k, PgUp and PgDn, g and G scroll the pods; q ends.
    """
    if output != TABLE or once or not sys.stdout.isatty():
        _print(look(node), signal_name, output)
        return
    with Screen() as screen:
        _Watch(node, signal_name, interval).show(screen)


class _Watch:
    """One `top` on a terminal: a key changes the picture at once, the node is asked again when the interval is over."""

    def __init__(self, node: WatchedNode, signal_name: str | None, interval: float) -> None:
        self._node = node
        self._signal_name = signal_name
        self._interval = interval
        self._view: NodeView | None = None
        self._failure = ""
        self._first = 0
        self._step = 1

    def show(self, screen: Screen) -> None:
        """Until q."""
        while True:
            self._look()
            due = time.monotonic() + self._interval
            while True:
                screen.draw(self._lines(*screen.size()))
                keys = screen.wait(max(0.0, due - time.monotonic()))
                if Key.QUIT in keys:
                    return
                for key in keys:
                    self._press(key)
                if time.monotonic() >= due:
                    break

    def _look(self) -> None:
        """What cannot be seen now may be seen in a second."""
        try:
            self._view, self._failure = look(self._node), ""
        except ObservationError as failure:
            self._view, self._failure = None, str(failure)

    def _lines(self, columns: int, rows: int) -> list[Line]:
        view = self._view
        if view is None:
            said = (Line(printable(f"node {self._node.name}")), Line(printable(self._failure), is_alarming=True))
            return [*said, Line("q quit")]
        notes = [Line(printable(view.note), is_alarming=True)] if view.note else []
        shown = page(view, self._signal_name, self._first, columns, rows, notes)
        self._first, self._step = shown.first, shown.step
        return shown.lines

    def _press(self, key: Key) -> None:
        if key is Key.SIGNAL:
            self._next_signal()
        else:
            ways = {Key.UP: -1, Key.DOWN: 1, Key.PAGE_UP: -self._step, Key.PAGE_DOWN: self._step}
            ends = {Key.HOME: 0, Key.END: _LAST}
            self._first = max(0, ends.get(key, self._first + ways.get(key, 0)))

    def _next_signal(self) -> None:
        """The one after the one that is shown, whether that was asked for or not."""
        chosen = None if self._view is None else choose(self._view, self._signal_name)
        if self._view is None or chosen is None:
            return
        names = [each["signal"] for each in self._view.ranking["signals"]]
        self._signal_name = names[(names.index(chosen["signal"]) + 1) % len(names)]
        self._first = 0


def _print(view: NodeView, signal_name: str | None, output: str) -> None:
    if signal_name is not None and choose(view, signal_name) is None:
        raise ObservationError(f"`{signal_name}` is not measured on node `{view.ranking['node']}`")
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
