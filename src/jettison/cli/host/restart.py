"""`jettison restart`: end a pod of this machine and start it anew."""

from __future__ import annotations

from collections.abc import Sequence

import click

from jettison.cli.host.ordering import give, grace_option, timeout_option
from jettison.cli.inspect.watched_node import WatchedNode, watched_nodes_options
from jettison.errors import JettisonError


@click.command(short_help="End a pod of this machine and start it anew.")
@click.argument("pod")
@grace_option
@timeout_option
@watched_nodes_options
def command(nodes: Sequence[WatchedNode], pod: str, grace: int, wait_seconds: int) -> int:
    """End POD with its grace period and start it again, with empty volumes and a count of restarts that begins anew.

    Also for one that has ended, was evicted, or was deleted by hand. Whether it may run is decided as for a new pod:
    on a node under pressure it may be refused. POD is a name, `namespace/name`, or a uid.
    """
    done = give(nodes, "restart", pod, grace, wait_seconds)
    if done.said.is_done and done.said.phase == "Failed":
        raise JettisonError(f"pod `{done.pod}` was ended, but may not start: {done.said.reason}: {done.said.message}")
    return done.tell("restarted")
