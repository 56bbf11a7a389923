"""`jettison cordon` and `jettison uncordon`, and how these and `drain` choose nodes: by name or by label.

What is wrong with the choice is said in kubectl's words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from jettison.agent.safe_text import printable
from jettison.cli.cluster.connection import (
    FAILED,
    Console,
    KubectlCommand,
    cluster_options,
    dry_run_option,
    plain_names,
    read_dry_run,
    run_against,
)
from jettison.engine.labels.selectors import parse_label_selector
from jettison.errors import ApiError, InputError, JettisonError
from jettison.maintenance.nodes import find_nodes, set_unschedulable
from jettison.runtimes.kube.answers import server_text
from jettison.runtimes.kube.client import CHUNK, Document, KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides

Callback = Callable[..., Any]


def node_arguments(command: Callback) -> Callback:
    """The command gets `names` and `selector`."""
    selector = click.option(
        "-l", "--selector", metavar="LABELS", default="", help="Choose nodes by label instead of by name."
    )
    return click.argument("names", nargs=-1, metavar="NODE…")(selector(command))


def check_nodes(verb: str, names: Sequence[str], selector: str) -> None:
    """Either names or a selector; before anything is asked of the server."""
    if names and selector:
        raise JettisonError("cannot specify both a node name and a --selector option")
    if not names and not selector:
        raise JettisonError(f"USAGE: {verb} NODE [flags]")
    try:
        parse_label_selector(selector)
    except InputError as error:
        raise JettisonError(str(error)) from error


async def read_nodes(
    client: KubeClient, names: Sequence[str], selector: str, chunk: int = CHUNK
) -> list[Document] | None:
    """The nodes, or None if one of them could not be read, which has then been said: all or nothing."""
    found = await find_nodes(client, plain_names(names, "node", "nodes", "no"), selector, chunk)
    errors = [each for each in found if isinstance(each, ApiError)]
    for error in errors:
        click.echo(printable(server_text(error)), err=True)
    return None if errors else [each for each in found if not isinstance(each, ApiError)]


@click.command("cordon", cls=KubectlCommand, short_help="Take nodes out of scheduling.")
@node_arguments
@dry_run_option
@cluster_options
def cordon_command(
    names: Sequence[str], selector: str, dry_run_text: str, overrides: Overrides, request_seconds: float
) -> int:
    """Let no new pod be placed on these nodes. Pods that are there stay."""
    return mark("cordon", names, selector, dry_run_text, overrides, request_seconds)


def mark(
    verb: str, names: Sequence[str], selector: str, dry_run_text: str, overrides: Overrides, seconds: float
) -> int:
    """Cordon or uncordon. Unlike kubectl's, the exit code tells when a node was not changed."""
    check_nodes(verb, names, selector)
    dry_run = read_dry_run(dry_run_text)

    async def work(client: KubeClient) -> int:
        nodes = await read_nodes(client, names, selector)
        if nodes is None:
            return FAILED
        wanted = verb == "cordon"
        failed = await set_unschedulable(client, nodes, wanted=wanted, dry_run=dry_run, voice=Console())
        return FAILED if failed else 0

    return run_against(overrides, seconds, work)


@click.command("uncordon", cls=KubectlCommand, short_help="Put nodes back into scheduling.")
@node_arguments
@dry_run_option
@cluster_options
def uncordon_command(
    names: Sequence[str], selector: str, dry_run_text: str, overrides: Overrides, request_seconds: float
) -> int:
    """Let pods be placed on these nodes again."""
    return mark("uncordon", names, selector, dry_run_text, overrides, request_seconds)
