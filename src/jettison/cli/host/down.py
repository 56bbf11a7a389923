"""`jettison down`: end the pods of a node of this machine, and its agent."""

from __future__ import annotations

import time

import click
from msgspec import Struct
from msgspec.json import Decoder

from jettison.cli.host.ordering import timeout_option
from jettison.cli.inspect.watched_node import WatchedNode, watched_node_options
from jettison.cli.output import remark
from jettison.errors import JettisonError, ObservationError
from jettison.manifests.files.decoding import decode

_PAUSE_SECONDS = 0.1


class _Answer(Struct):
    pods: int


_ANSWER = Decoder(_Answer)


@click.command(short_help="End the pods of a node of this machine, and its agent.")
@click.option("--keep-pods", is_flag=True, help="End only the agent; the next `up` takes its pods over.")
@timeout_option
@watched_node_options
def command(node: WatchedNode, keep_pods: bool, wait_seconds: int) -> int:
    """End every pod of the node with its own grace period, then the agent: the opposite of `jettison up`.

    The next `up` starts the pods of the manifests again. A service manager that restarts the agent does so too: there,
    stop the service.
    """
    answer = decode(_ANSWER, node.order("down", pods="keep" if keep_pods else "end"), "the agent's answer")
    count = answer.pods
    if count:
        remark("note", f"ending {count} pod{'' if count == 1 else 's'} of node `{node.name}`")
    deadline = time.monotonic() + wait_seconds
    while node.is_live:
        if time.monotonic() >= deadline:
            if not wait_seconds:
                return 0
            raise JettisonError(f"node `{node.name}` is still on its way down: {_left(node)}")
        time.sleep(_PAUSE_SECONDS)
    click.echo(f"node {node.name} is down" + ("; its pods run on, unguarded" if keep_pods else ""))
    return 0


def _left(node: WatchedNode) -> str:
    try:
        items = node.ask("/pods")["items"]
    except ObservationError as failure:
        return str(failure)
    names = [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in items]
    return f"not gone yet: {', '.join(names)}" if names else "all pods are gone"
