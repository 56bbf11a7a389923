"""Flags as Go programs take them: `--force`, `--force=false`, and never the next word as the value of a bare one.

Numbers likewise: what has more than 64 bits is none, and neither are `1_000` and digits of other alphabets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import click

from jettison.engine.numbers.durations import parse_duration
from jettison.errors import DurationError

Callback = Callable[..., Any]


_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT64 = 2**63 - 1


class WholeNumber(click.IntRange):
    """An integer of 64 bits, or within narrower bounds; the type of every number that a command takes."""

    def __init__(self, least: int = -_INT64, most: int = _INT64) -> None:
        super().__init__(least, most)

    def _describe_range(self) -> str:
        """For the help text; a bound of 64 bits is left out, because no user needs it."""
        least, most = self.min == -_INT64, self.max == _INT64
        return "" if least and most else f"x>={self.min}" if most else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Checked before Python converts it: thousands of digits take seconds, and Python accepts more than Go does."""
        if isinstance(value, str) and not _WHOLE.fullmatch(value):
            said = value if len(value) <= 40 else f"{value[:40]}…"
            bounds = f" in the range {self._describe_range()}" if self._describe_range() else ""
            self.fail(f"`{said}` is not a whole number{bounds}", param, ctx)
        return int(super().convert(value, param, ctx))


class Seconds(click.FloatRange):
    """A length of time between two bounds. Click accepts NaN, which Python finds neither below nor above a bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As click does, without NaN."""
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail(f"`{value}` is not a number from {self.min} to {self.max}", param, ctx)
        return found


class GoFlag(click.Option):
    """An option that may stand alone; then `bare` is its value."""

    def __init__(self, *arguments: Any, bare: str = "true", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.bare = bare


class GoCommand(click.Command):
    """A command that scripts written for kubectl can call."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Spell bare flags out, because click would take the word after them for their value."""
        bare = {name: each.bare for each in self.params if isinstance(each, GoFlag) for name in each.opts}
        end = args.index("--") if "--" in args else len(args)
        plain = [each.replace("_", "-") for each in args[:end]]
        spelled = [f"{name}={bare[name]}" if name in bare else each for name, each in zip(plain, args, strict=False)]
        return super().parse_args(ctx, spelled + args[end:])


def go_switch(*names: str, help: str) -> Callable[[Callback], Callback]:  # noqa: A002  click's word
    """A flag that is off by default."""
    return click.option(*names, cls=GoFlag, type=click.BOOL, default=False, metavar="[=true|false]", help=help)


def window(text: str) -> int:
    """A positive length of time, in nanoseconds."""
    try:
        length = parse_duration(text)
    except DurationError as error:
        raise click.BadParameter(f"`{text}`: expected a length of time such as `10m`") from error
    if length <= 0:
        raise click.BadParameter(f"`{text}` is not longer than 0")
    return length
