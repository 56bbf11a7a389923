"""`jettison top`: readings against thresholds and pods in eviction order, refreshing in place.

While it shows a picture the terminal has an own page, no cursor, keys without Enter; it is restored at the end.
Whatever ends the program meanwhile (q, Ctrl-C, SIGTERM, an exception) goes through `__exit__`, and Ctrl-Z through the
same two steps. A terminal left without echo would hinder an operator with a starving node.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import time
from collections.abc import Iterable
from enum import StrEnum
from types import FrameType
from typing import Any, Self

import click

from jettison.agent.safe_text import printable
from jettison.cli.inspect.top_frame import Line, NodeView, choose, frame, look, page
from jettison.cli.inspect.watched_node import WatchedNode, watched_node_options
from jettison.cli.options.go_flags import Seconds
from jettison.cli.output import TABLE, Remarks, emit, output_option
from jettison.engine.node.signals import Condition, Signal
from jettison.errors import ObservationError

# Further down than any pod; what is shown ends with the last one.
_LAST = 10**9

_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST_OF_PAGE = "\x1b[H", "\x1b[K", "\x1b[J"
_ALARMING, _PLAIN = "\x1b[1;31m", "\x1b[0m"

# What terminals send for keys that are no characters, in both of their modes.
_SEQUENCES = {
    "\x1b[A": "k",
    "\x1bOA": "k",
    "\x1b[B": "j",
    "\x1bOB": "j",
    "\x1b[5~": "b",
    "\x1b[6~": " ",
    "\x1b[H": "g",
    "\x1bOH": "g",
    "\x1b[1~": "g",
    "\x1b[F": "G",
    "\x1bOF": "G",
    "\x1b[4~": "G",
}
_OTHER_SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.)")
_LONGEST_SEQUENCE = 4
# The rest of a sequence may come in another piece, over a slow line.
_SEQUENCE_SECONDS = 0.05

_HANGUPS = (signal.SIGTERM, signal.SIGHUP)


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


class Key(StrEnum):
    """What a key asks for; the value is the character that does it as well."""

    QUIT = "q"
    SIGNAL = "s"
    UP = "k"
    DOWN = "j"
    PAGE_UP = "b"
    PAGE_DOWN = " "
    HOME = "g"
    END = "G"


class Screen:
    """To be used in a `with`, by the main thread, when standard output is a terminal."""

    def __init__(self) -> None:
        self._output = sys.stdout.fileno()
        # A terminal that is only written to (standard input from elsewhere) gives no keys.
        self._input = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._has_colours = not os.environ.get("NO_COLOR")
        self._before: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._woken, self._wake = os.pipe()
        self._woken_before = -1

    def __enter__(self) -> Self:
        os.set_blocking(self._wake, False)
        # Written to by the interpreter's C handler: a Python handler may run only after the `select` it should end.
        self._woken_before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in _HANGUPS:
            self._handlers[number] = signal.signal(number, _hang_up)
        self._handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, _only_wake)
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._on_stop)
        self._show()
        return self

    def __exit__(self, *_: object) -> None:
        self._hide()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._woken_before)
        os.close(self._woken)
        os.close(self._wake)

    def size(self) -> tuple[int, int]:
        """Columns and rows; a terminal that does not know has 80 of 24."""
        columns, rows = os.get_terminal_size(self._output)
        return columns or 80, rows or 24

    def draw(self, lines: Iterable[Line]) -> None:
        """In place of what is there, and cut to what fits: a line that wraps would push the others away."""
        columns, rows = self.size()
        shown = [self._coloured(line, columns) + _REST_OF_LINE for line in list(lines)[:rows]]
        self._write(_HOME + "\n".join(shown) + _REST_OF_PAGE)

    def wait(self, seconds: float) -> list[Key]:
        """The keys that were pressed; none when the time is over, or when the window has another size now."""
        watched = [self._woken] if self._input is None else [self._woken, self._input]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._woken in ready:
            os.read(self._woken, 64)
        if self._input is None or self._input not in ready:
            return []
        typed = os.read(self._input, 64).decode(errors="replace")
        if "\x1b" in typed[1 - _LONGEST_SEQUENCE :] and select.select([self._input], [], [], _SEQUENCE_SECONDS)[0]:
            typed += os.read(self._input, 64).decode(errors="replace")
        # Nothing at all: the terminal is gone, and there is nothing to draw for.
        return keys_of(typed) if typed else [Key.QUIT]

    def _coloured(self, line: Line, columns: int) -> str:
        text = line.text[:columns]
        return f"{_ALARMING}{text}{_PLAIN}" if line.is_alarming and self._has_colours else text

    def _show(self) -> None:
        if self._input is not None:
            self._before = termios.tcgetattr(self._input)
            now = termios.tcgetattr(self._input)
            now[3] &= ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(self._input, termios.TCSADRAIN, now)
        self._write(_ENTER)

    def _hide(self) -> None:
        self._write(_LEAVE)
        if self._input is not None and self._before is not None:
            termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)

    def _write(self, text: str) -> None:
        data = text.encode(errors="replace")
        while data:
            data = data[os.write(self._output, data) :]

    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: hand the terminal back, stop, and take it again after `fg`."""
        self._hide()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._on_stop)
        self._show()


def _only_wake(_number: int, _frame: FrameType | None) -> None:
    """The wake-up descriptor has its byte already."""


def _hang_up(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def keys_of(typed: str) -> list[Key]:
    """What these bytes of a terminal ask for; whatever else they say is passed over."""
    for sequence, character in _SEQUENCES.items():
        typed = typed.replace(sequence, character)
    # The letters of a sequence for another key are none of ours.
    typed = _OTHER_SEQUENCE.sub("", typed)
    known = set(Key)
    return [Key(character) for character in typed if character in known]
