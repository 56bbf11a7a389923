"""The program itself: its commands, and the message and exit code of each kind of failure.

A command is imported when it is run, and not to list it.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NoReturn

import click

from jettison import __version__
from jettison.agent.safe_text import printable
from jettison.errors import ApiError, JettisonError, PolicyError, RuntimeFailure

INTERRUPTED = 130
"""128 + SIGINT, what a shell reports for a program that Ctrl-C ended."""

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)

COMMANDS = {
    "up": ("host.up", "Run pods on this machine and guard it, in the foreground."),
    "guard": ("host.guard", "Guard containers of Docker, Podman and containerd, and any cgroup, that others started."),
    "node": ("cluster.node", "Run a node of this machine as a member of a Kubernetes cluster."),
    "relieve": (
        "cluster.relieve",
        "Relieve a kubelet's node early through the Eviction API, or predict what goes.",
    ),
    "demo": ("host.demo", "Watch a small node under real memory pressure, explained; half a minute."),
    "serve": ("cluster.serve", "Serve the Kubernetes API on this machine: evictions, budgets and drains for kubectl."),
    "store": ("cluster.store", "Check or repair the objects that the API keeps on disk."),
    "controllers": ("cluster.controllers", "Keep budgets, taints and pods of a Kubernetes API as they should be."),
    "pods": ("inspect.pods", "Show the pods of a node of this machine and their states."),
    "top": ("inspect.top", "Show readings against thresholds, and pods in eviction order, live."),
    "explain": ("foresight.explain", "Say why a pod was evicted or not, and what would have changed that."),
    "why": ("foresight.explain", "The same as explain."),
    "next": ("foresight.next", "Say which pods would go next, and when: headroom, trend, time to each threshold."),
    "journal": ("inspect.journal", "Show what was decided and what came of it, in order."),
    "events": ("inspect.events", "Show what happened on a node, as Kubernetes Events."),
    "logs": ("inspect.logs", "Print what a container wrote."),
    "exec": ("host.exec", "Run a command inside a container of this machine."),
    "restart": ("host.ordering:restart_command", "End a pod of this machine and start it again."),
    "delete": ("host.ordering:delete_command", "End a pod of this machine; it stays away until its manifest changes."),
    "down": ("host.ordering:down_command", "End the pods of a node of this machine, and its agent."),
    "disks": ("inspect.disks", "Show which filesystem is which, its thresholds, and what fills it."),
    "images": ("host.images", "Show the images of the container runtime of this machine, or load some."),
    "gc": ("host.gc", "Remove images, ended containers and build caches that nothing uses, or say what would go."),
    "check": ("host.check", "Say what is wrong with manifests, without starting anything."),
    "doctor": ("host.doctor", "Say what works on this machine, what is missing, and what to do about it."),
    "rank": ("policy.rank", "Say in which order pods would be evicted, and why."),
    "decide": ("policy.decide", "Say what would be done now: nothing, free disk space, or evict a pod."),
    "record": ("rehearse.record", "Record what a node sees: every look of its agent, or of a kubelet."),
    "simulate": ("rehearse.simulate", "Run a scenario in virtual time: nodes, pods, controllers, budgets, drains."),
    "replay": ("rehearse.replay", "Decide a recording again, to the byte, or with other settings."),
    "drain": ("cluster.drain", "Empty nodes through the disruption budgets, or plan how that would go."),
    "cordon": ("cluster.cordon:cordon_command", "Take nodes out of scheduling."),
    "uncordon": ("cluster.cordon:uncordon_command", "Put nodes back into scheduling."),
    "evict": ("cluster.evict", "Evict single pods: of a cluster through their budgets, or of this machine."),
    "lint": ("foresight.lint", "Check kubelet configurations, manifests and budgets by named rules; a cluster, too."),
    "recommend": ("foresight.recommend", "Compute thresholds from the growth and the reaction that were recorded."),
    "config": ("policy.config", "Show or check eviction settings: files, drop-ins and flags."),
}


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
        return super().parse_args(ctx, args or ([] if self.invoke_without_command else ["--help"]))

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


class Program(LazyGroup):
    """The outermost command. Only here do exceptions become messages."""

    def main(self, *arguments: Any, **settings: Any) -> NoReturn:
        """Run, and end the process (or click's test runner) with the right code. Click itself handles broken pipes."""
        settings["standalone_mode"] = False
        try:
            result = super().main(*arguments, **settings)
            sys.stdout.flush()
            code = result if isinstance(result, int) else 0
        except (click.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except click.ClickException as error:
            code = error.exit_code
            _say(_usage_lines(error))
        except JettisonError as error:
            code = error.exit_code
            _say(_lines(error))
        except ModuleNotFoundError as error:
            said = import_module("jettison.cli.extras").explain(error)
            if said is None:
                raise
            code = JettisonError.exit_code
            _say(iter([f"error: {said}"]))
        except OSError as error:
            if error.errno not in _UNWRITABLE:
                raise
            code = RuntimeFailure.exit_code
            _say(iter([f"error: cannot write the answer: {os.strerror(error.errno).lower()}"]))
            # Otherwise the interpreter would try to write once more when it ends, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(code)


def _say(lines: Iterator[str]) -> None:
    for line in lines:
        click.echo(line, err=True)


def _lines(error: JettisonError) -> Iterator[str]:
    if isinstance(error, PolicyError):
        for complaint in error.complaints:
            yield printable(f"error: {complaint.text}")
    else:
        yield printable(_line(error))


def _line(error: JettisonError) -> str:
    if isinstance(error, ApiError):
        said: str = import_module("jettison.runtimes.kube.answers").server_text(error)
        return said
    return f"error: {error}"


def _usage_lines(error: click.ClickException) -> Iterator[str]:
    """Click's sentence in our voice, and where to read more."""
    message = error.format_message().rstrip(".").replace(". Did you mean ", ", did you mean ")
    message = re.sub(r"'([^']*)'", r"`\1`", message) + _meant(error, message)
    yield f"error: {message[:1].lower()}{message[1:]}"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        yield f"try `{error.ctx.command_path} --help`"


def _meant(error: click.ClickException, message: str) -> str:
    """Which of its choices a wrong value of an option resembles."""
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param is not None else None
    found = re.search(r"'([^']*)' is not one of ", message)
    if found is None or not isinstance(kind, click.Choice):
        return ""
    hint: str = import_module("jettison.engine.config.suggestions").did_you_mean(found[1], map(str, kind.choices))
    return hint


@click.command(
    cls=Program,
    lazy=COMMANDS,
    context_settings={
        "help_option_names": ["-h", "--help"],
        # As the kubelet does: --eviction_hard is --eviction-hard.
        "token_normalize_func": lambda token: token.replace("_", "-"),
        "max_content_width": 110,
    },
)
@click.version_option(__version__, "--version", message="jettison %(version)s")
def program() -> None:
    """Evict pods as Kubernetes does: guard a host, serve the API, drain nodes, and say which pod would go and why."""
