"""Which nodes: by name or by label, with kubectl's complaints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from jettison.cli.cluster import Refusal
from jettison.cli.tables import printable
from jettison.engine.label_selector_text import parse_label_selector
from jettison.errors import ApiError, InputError
from jettison.maintenance.nodes import find_nodes
from jettison.maintenance.wording import server_text
from jettison.runtimes.kube.client import CHUNK, Document, KubeClient

Callback = Callable[..., Any]

_PREFIXES = ("node/", "nodes/", "no/")


def node_arguments(command: Callback) -> Callback:
    """The command gets `names` and `selector`."""
    selector = click.option("-l", "--selector", metavar="LABELS", default="", help="Which nodes, instead of names.")
    return click.argument("names", nargs=-1, metavar="NODE…")(selector(command))


def check_nodes(verb: str, names: Sequence[str], selector: str) -> None:
    """Either names or a selector; before anything is asked of the server."""
    if names and selector:
        raise Refusal("cannot specify both a node name and a --selector option")
    if not names and not selector:
        raise Refusal(f"USAGE: {verb} NODE [flags]\nSee 'jettison {verb} -h' for help and examples")
    try:
        parse_label_selector(selector)
    except InputError as error:
        raise Refusal(str(error)) from error


async def read_nodes(
    client: KubeClient, names: Sequence[str], selector: str, chunk: int = CHUNK
) -> list[Document] | None:
    """The nodes, or None if one of them could not be read, which has then been said: all or nothing."""
    plain = [name.removeprefix(next(filter(name.startswith, _PREFIXES), "")) for name in names]
    found = await find_nodes(client, plain, selector, chunk)
    errors = [each for each in found if isinstance(each, ApiError)]
    for error in errors:
        click.echo(printable(server_text(error)), err=True)
    return None if errors else [each for each in found if not isinstance(each, ApiError)]
