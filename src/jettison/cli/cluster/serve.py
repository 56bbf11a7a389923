"""`jettison serve`: the Kubernetes API on this machine, in the foreground."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

import click

from jettison.apiserver.access.auth import NODE_PREFIX
from jettison.apiserver.cluster import PEOPLE, Cluster
from jettison.apiserver.connections.server import Endpoint, is_loopback, parse_endpoint
from jettison.cli.cluster.controller_options import controller_options
from jettison.cli.cluster.controller_process import ControllerProcess, split
from jettison.cli.extras import require
from jettison.cli.options.host_options import state_dir_option
from jettison.controllers.runner import run_controllers
from jettison.controllers.settings import ControllerSettings
from jettison.node.until_told import greet, until_told
from jettison.runtimes.host.settings import checked_node_name
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides, load_access

_CONTROLLERS = "controllers"
"""The user name of the controllers; `controllers.kubeconfig` lets them run elsewhere too."""


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
def command(
    state_dir: Path, listen: str, nodes: tuple[str, ...], names: frozenset[str], settings: ControllerSettings
) -> int:
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
    users = {**PEOPLE, _CONTROLLERS: "admin", **{f"{NODE_PREFIX}{checked_node_name(name)}": "node" for name in nodes}}
    cluster = Cluster(state_dir, endpoint, users, switches=settings.switches)
    controllers = split(partial(_control, cluster, names, settings)) if names else None
    if names and controllers is None:
        return 0
    return until_told(lambda _: _serve(cluster, controllers))


async def _serve(cluster: Cluster, controllers: ControllerProcess | None) -> None:
    """The server ends last, so that the controllers have an API until they have ended."""
    stop, ready = asyncio.Event(), asyncio.Event()

    def tell(endpoint: Endpoint) -> None:
        ready.set()
        config = cluster.kubeconfig("admin")
        greet(f"serving {endpoint.url}, try: kubectl --kubeconfig {config} get namespaces", sys.stdout)

    serving = asyncio.create_task(cluster.run(stop, tell))
    controlling = asyncio.create_task(stop.wait() if controllers is None else controllers.run(ready))
    try:
        await asyncio.wait((serving, controlling), return_when=asyncio.FIRST_COMPLETED)
    finally:
        controlling.cancel()
        await asyncio.wait((controlling,))
        stop.set()
        await serving
    # A cluster without controllers does nothing, so that their end is the end of the command.
    await controlling


async def _control(cluster: Cluster, names: frozenset[str], settings: ControllerSettings) -> None:
    """With a token, like controllers anywhere else: the API decides what they may see and do."""
    access = load_access(Overrides(kubeconfig=str(cluster.kubeconfig(_CONTROLLERS))))
    async with KubeClient(access) as client:
        await run_controllers(client, names, settings)
