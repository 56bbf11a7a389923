"""A group of commands that imports a command when it is run, and not to list it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """Commands by name, each with its place and a line of help.

    A place is a module below `jettison.cli`, which holds the command as `command`. Where one module holds several
    commands, the place ends in `:name`.
    """

    def __init__(self, *arguments: Any, lazy: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._lazy = lazy

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a command, show the list of commands; some versions of click call that an error."""
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """In the order of the table."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, imported now; None for a name that is not in the table."""
        if cmd_name not in self._lazy:
            return None
        module, _, name = self._lazy[cmd_name][0].partition(":")
        command = getattr(import_module(f"jettison.cli.{module}"), name or "command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """An unknown name that resembles a command is answered with a suggestion."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
                hint = import_module("jettison.engine.config.suggestions").did_you_mean(args[0], self._lazy)
                raise click.UsageError(f"No such command '{args[0][:60]}'{hint}", ctx) from error
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """From the table; click would import every command for its first line."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._lazy.items()])
