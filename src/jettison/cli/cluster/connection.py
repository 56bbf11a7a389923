"""What every command against an API shares with kubectl: options, exit codes, and where its lines are printed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import Any

import click

from jettison.agent.safe_text import printable
from jettison.cli.extras import require
from jettison.cli.options.go_flags import GoCommand, GoFlag, WholeNumber, go_switch
from jettison.engine.numbers.durations import SECOND_NS, parse_duration
from jettison.errors import ApiError, DurationError, InputError, JettisonError, RuntimeFailure
from jettison.maintenance.settings import DryRun
from jettison.runtimes.kube.answers import server_text
from jettison.runtimes.kube.client import REQUEST_SECONDS, KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides, load_access

Callback = Callable[..., Any]

FAILED = 1
"""What kubectl exits with, whatever went wrong."""
NOT_NOW = 3
"""The answer is no: a budget refuses, or the drain would not finish. Nothing is broken, so a pipeline may ask again."""


class _Misuse(click.UsageError):
    exit_code = FAILED


class KubectlCommand(GoCommand):
    """A command that kubectl has too, or could have. Scripts expect 1 for every failure, so a wrong flag, which click
    ends with 2, and a malformed kubeconfig end with 1.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """A mistake in the flags themselves."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _Misuse(error.format_message(), error.ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        """A mistake in their values, or in the files that they name."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise JettisonError(str(error)) from error


_OPTIONS = (
    click.option(
        "--kubeconfig", metavar="FILE", default="", help="Use this file instead of $KUBECONFIG and ~/.kube/config."
    ),
    click.option("--context", metavar="NAME", default="", help="Use this context instead of the current one."),
    click.option("--cluster", metavar="NAME", default="", help="Use this cluster instead of the context's."),
    click.option("--user", metavar="NAME", default="", help="Use this user instead of the context's."),
    click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        default="",
        help="Use this namespace. [default: the context's, or `default`]",
    ),
    click.option("-s", "--server", metavar="URL", default="", help="The API's address."),
    click.option("--token", metavar="TOKEN", default="", help="A bearer token."),
    click.option(
        "--certificate-authority", metavar="FILE", default="", help="The certificate authority of the server, PEM."
    ),
    click.option("--tls-server-name", metavar="NAME", default="", help="The name in the server's certificate."),
    go_switch("--insecure-skip-tls-verify", "is_insecure", help="Accept any server certificate, which is insecure."),
)


def cluster_options(command: Callback) -> Callback:
    """The command gets `overrides: Overrides` and `request_seconds: float`."""

    @wraps(command)
    def collected(*arguments: Any, request_timeout: str, **options: Any) -> Any:
        names = Overrides.__dataclass_fields__
        overrides = Overrides(**{name: options.pop(name) for name in names})
        seconds = duration_ns("--request-timeout", request_timeout) / SECOND_NS or REQUEST_SECONDS
        return command(*arguments, overrides=overrides, request_seconds=seconds, **options)

    decorated: Callback = click.option(
        "--request-timeout", metavar="DURATION", default="0s", help="The limit of a single request; 0s means 65s."
    )(collected)
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


dry_run_option = click.option(
    "--dry-run",
    "dry_run_text",
    cls=GoFlag,
    bare="unchanged",
    default=DryRun.NONE.value,
    metavar="none|client|server",
    help="Only say what would be done; `server` asks the API whether it would do it.",
)


grace_period_option = click.option(
    "--grace-period",
    type=WholeNumber(),
    default=-1,
    metavar="SECONDS",
    help="Overrides the pods' own periods; negative: do not override; 0: at once.",
)
progress_option = click.option(
    "--progress/--no-progress", default=None, help="Report progress on standard error; by default only on a terminal."
)


def grace_seconds(grace_period: int) -> int | None:
    """None: the pod's own."""
    return grace_period if grace_period >= 0 else None


def read_dry_run(text: str) -> DryRun:
    """kubectl's three values, and its deprecated bare flag."""
    if text == "unchanged":
        click.echo("Warning: --dry-run is deprecated and can be replaced with --dry-run=client.", err=True)
        return DryRun.CLIENT
    if text not in set(DryRun):
        raise JettisonError(f'Invalid dry-run value ({text}). Must be "none", "server", or "client".')
    return DryRun(text)


def duration_ns(option: str, text: str) -> int:
    """A Go duration; a bare number is one of seconds only where it is 0, as in kubectl."""
    try:
        return parse_duration(text)
    except DurationError as error:
        raise InputError(f'invalid argument "{text}" for "{option}" flag: {error}') from error


def plain_names(names: Iterable[str], *kinds: str) -> list[str]:
    """`node/n1` is `n1`: names may be pasted from what commands print."""
    prefixes = [f"{kind}/" for kind in kinds]
    return [name.removeprefix(next(filter(name.startswith, prefixes), "")) for name in names]


def within(request_seconds: float, timeout_ns: int) -> float:
    """A single request must not outlast the timeout of the whole."""
    return min(request_seconds, timeout_ns / SECOND_NS) if timeout_ns > 0 else request_seconds


def run_against(overrides: Overrides, seconds: float, work: Callable[[KubeClient], Awaitable[int]]) -> int:
    """Run `work`; a refusal of the server becomes kubectl's last line."""
    require(click.get_current_context().command_path, "kube")

    async def session() -> int:
        async with KubeClient(load_access(overrides), seconds) as client:
            return await work(client)

    try:
        return asyncio.run(session())
    except (ApiError, RuntimeFailure) as error:
        click.echo(printable(server_text(error)), err=True)
        return FAILED


class Console:
    """A `Voice`. Progress is told to a terminal, else only where it was asked for: scripts expect kubectl's lines."""

    def __init__(self, progress: bool | None = None) -> None:
        self._reports = sys.stderr.isatty() if progress is None else progress

    def say(self, text: str) -> None:
        """A line of the answer."""
        click.echo(printable(text))

    def complain(self, text: str) -> None:
        """A line about what went wrong."""
        click.echo(printable(text), err=True)

    def report(self, text: str) -> None:
        """A line of progress."""
        if self._reports:
            click.echo(f"progress: {printable(text)}", err=True)
