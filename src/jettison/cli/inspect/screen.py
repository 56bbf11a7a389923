"""The terminal while `top` shows a picture: an own page, no cursor, keys without Enter; restored at the end.

Whatever ends the program while the picture is shown (q, Ctrl-C, SIGTERM, an exception) goes through `__exit__`, and
Ctrl-Z through the same two steps. A terminal left without echo would hinder an operator with a starving node.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
from collections.abc import Iterable
from enum import StrEnum
from types import FrameType
from typing import Any, Self

from jettison.cli.inspect.top_frame import Line

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

    def __enter__(self) -> Self:
        os.set_blocking(self._wake, False)
        for number in _HANGUPS:
            self._handlers[number] = signal.signal(number, _hang_up)
        self._handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, self._on_resize)
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._on_stop)
        self._show()
        return self

    def __exit__(self, *_: object) -> None:
        self._hide()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
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

    def _on_resize(self, _number: int, _frame: FrameType | None) -> None:
        os.write(self._wake, b"\0")

    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: hand the terminal back, stop, and take it again after `fg`."""
        self._hide()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._on_stop)
        self._show()
        os.write(self._wake, b"\0")


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
