"""`jettison serve`: the Kubernetes API on this machine, in the foreground.

Here is what it is told; `node.cluster` does it.
"""

from __future__ import annotations

from pathlib import Path

import click

from jettison.apiserver.connections.endpoint import is_loopback, parse_endpoint
from jettison.cli.cluster.controller_options import controller_options
from jettison.cli.extras import require
from jettison.cli.options.host_options import state_dir_option
from jettison.controllers.settings import ControllerSettings
from jettison.node.cluster_settings import ClusterSettings, HandOver


@click.command("serve", short_help="The Kubernetes API on this machine.")
@state_dir_option
@click.option(
    "--listen",
    default="127.0.0.1:6443",
    metavar="ADDRESS:PORT",
    show_default=True,
    help="Where to serve; port 0 takes a free port.",
)
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    help="Write NAME.kubeconfig for a node that joins from elsewhere with `jettison node`. Repeatable.",
)
@controller_options
@click.pass_obj
def command(
    hand_over: HandOver,
    /,
    state_dir: Path,
    listen: str,
    nodes: tuple[str, ...],
    names: frozenset[str],
    settings: ControllerSettings,
) -> None:
    """Serve pods, nodes, disruption budgets and the rest of what evictions need to kubectl and every other client.

    \b
    jettison serve --state-dir ./cluster --listen 127.0.0.1:6443
    kubectl --kubeconfig ./cluster/admin.kubeconfig get nodes

    A client needs one of the kubeconfigs: admin may do everything, viewer only read, evictor evict and cordon.
    """
    require("jettison serve", "server", "kube")
    endpoint = parse_endpoint(listen)
    if not is_loopback(endpoint):
        click.echo(f"warning: `{listen}` can be reached from other machines; tokens are all that protects it", err=True)
    place = (endpoint.host, endpoint.port)
    hand_over(ClusterSettings(state_dir, place, members=nodes, controllers=names, control=settings))
