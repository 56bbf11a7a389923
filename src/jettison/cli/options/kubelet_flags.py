"""The kubelet's own flags as options of ours, made from the table of its fields, in a section of their own.

They go to the engine as texts in the order given, because only the engine knows that the second `--eviction-hard` adds
to the first and that `--cgroups-per-qos` alone means true.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from jettison.engine.config.kubelet_fields import BY_FLAG, Field, Kind
from jettison.engine.numbers.durations import duration_text
from jettison.values import frozen

Callback = Callable[..., Any]

_METAVARS = {
    Kind.THRESHOLDS: "SIGNAL<AMOUNT,…",
    Kind.PAIRS: "NAME=VALUE,…",
    Kind.DURATION: "DURATION",
    Kind.INT32: "INTEGER",
    Kind.INT64: "INTEGER",
    Kind.BOOL: "[=true|false]",
    Kind.TEXT: "TEXT",
    Kind.TEXTS: "NAME,…",
}


@frozen
class ConfigArguments:
    """Where the configuration is: in a file, a directory of drop-ins, and flags."""

    file: str | None = None
    directory: str | None = None
    flags: tuple[tuple[str, str], ...] = ()


class KubeletFlag(click.Option):
    """One flag of the kubelet; any text is taken here, the engine says what is wrong with it."""


class KubeletCommand(click.Command):
    """A command that takes the kubelet's flags."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """A bare boolean flag is spelled out: unlike click, Go never takes the next word for its value."""
        end = args.index("--") if "--" in args else len(args)
        spelled = [f"{each}=true" if _is_bare_boolean(each) else each for each in args[:end]]
        return super().parse_args(ctx, spelled + args[end:])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Our options first, the kubelet's under a heading."""
        for title, wanted in (("Options", False), ("Kubelet flags", True)):
            records = [
                record
                for parameter in self.get_params(ctx)
                if isinstance(parameter, click.Option)
                and isinstance(parameter, KubeletFlag) is wanted
                and (record := parameter.get_help_record(ctx)) is not None
            ]
            with formatter.section(title):
                formatter.write_dl(records)


def _is_bare_boolean(argument: str) -> bool:
    row = BY_FLAG.get(argument.removeprefix("--").replace("_", "-")) if argument.startswith("--") else None
    return row is not None and row.kind is Kind.BOOL


def kubelet_options(command: Callback) -> Callback:
    """Add `--config-dir` and every flag of the kubelet; the command gets a `config: ConfigArguments`.

    The file itself is an option of some commands and an argument of others, called `config_file` in both.
    """

    @wraps(command)
    def collected(*arguments: Any, config_file: str | None, config_dir: str | None, **options: Any) -> Any:
        flags = [(flag, text) for flag in BY_FLAG for text in options.pop(_parameter(flag))]
        return command(*arguments, config=ConfigArguments(config_file, config_dir, tuple(flags)), **options)

    decorated: Callback = collected
    for flag, row in reversed(BY_FLAG.items()):
        decorated = _flag_option(flag, row)(decorated)
    directory = click.option(
        "--config-dir", metavar="DIR", help="Drop-ins: every *.conf below DIR, in the order of their names."
    )
    return directory(decorated)


config_option = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="The node's KubeletConfiguration, YAML or JSON. [default: the kubelet's of a --node, else an empty one]",
)


def _parameter(flag: str) -> str:
    return "kubelet_" + flag.replace("-", "_")


def _flag_option(flag: str, row: Field) -> Callable[[Callback], Callback]:
    return click.option(
        f"--{flag}",
        _parameter(flag),
        cls=KubeletFlag,
        multiple=True,
        metavar=_METAVARS[row.kind],
        help=_help(row),
    )


def _help(row: Field) -> str:
    parts = [row.meaning] if row.meaning else []
    if row.key is not None:
        parts.append(row.key if not parts else f"({row.key})")
    default = _default(row)
    if default:
        parts.append(f"[default: {default}]")
    return " ".join(parts)


def _default(row: Field) -> str:
    if row.kind is Kind.DURATION:
        return duration_text(row.default)
    if row.kind is Kind.TEXTS:
        return ",".join(row.default)
    return "" if row.default is None else str(row.default).lower() if row.kind is Kind.BOOL else str(row.default)
