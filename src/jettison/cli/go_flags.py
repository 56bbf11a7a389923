"""Flags as Go programs take them: `--force`, `--force=false`, and never the next word as the value of a bare one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Callback = Callable[..., Any]


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
    """A flag that is off unless somebody says otherwise."""
    return click.option(*names, cls=GoFlag, type=click.BOOL, default=False, metavar="[=true|false]", help=help)
