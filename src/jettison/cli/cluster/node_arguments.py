"""Which nodes: by name or by label, with kubectl's complaints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from jettison.agent.safe_text import printable
from jettison.cli.cluster.connection import plain_names
from jettison.engine.labels.selector_text import parse_label_selector
from jettison.errors import ApiError, InputError, JettisonError
from jettison.maintenance.nodes import find_nodes
from jettison.maintenance.wording import server_text
from jettison.runtimes.kube.client import CHUNK, Document, KubeClient

Callback = Callable[..., Any]


def node_arguments(command: Callback) -> Callback:
    """The command gets `names` and `selector`."""
    selector = click.option("-l", "--selector", metavar="LABELS", default="", help="Which nodes, instead of names.")
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
