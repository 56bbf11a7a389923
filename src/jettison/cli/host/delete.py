"""`jettison delete`: end a pod of this machine, and keep it away while its manifest says what it says."""

from __future__ import annotations

from collections.abc import Sequence

import click

from jettison.cli.host.ordering import give, grace_option, timeout_option
from jettison.cli.inspect.watched_node import WatchedNode, watched_nodes_options
from jettison.cli.output import remark


@click.command(short_help="End a pod of this machine, and keep it away.")
@click.argument("pod")
@grace_option
@timeout_option
@watched_nodes_options
def command(nodes: Sequence[WatchedNode], pod: str, grace: int, wait_seconds: int) -> int:
    """End POD and forget it; its logs stay until they are collected.

    A pod of a manifest stays away, also after a restart of the agent, until the manifest changes, or `jettison restart
    POD`. Remove the file to be rid of the pod for good. POD is a name, `namespace/name`, or a uid.
    """
    done = give(nodes, "delete", pod, grace, wait_seconds)
    if done.said.manifest:
        remark("note", f"it starts again when `{done.said.manifest}` changes, or with `jettison restart {done.pod}`")
    return done.tell("deleted")
