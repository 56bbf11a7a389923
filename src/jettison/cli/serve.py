"""`jettison serve`: the Kubernetes API on this machine, in the foreground."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click

from jettison.apiserver.cluster import Cluster
from jettison.apiserver.server import Endpoint, is_loopback, parse_endpoint
from jettison.cli.controller_choice import choose_controllers
from jettison.cli.host_options import absolute, default_state_dir


@click.command("serve", short_help="The Kubernetes API on this machine.")
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_state_dir,
    metavar="DIR",
    help="Objects, certificates, tokens and kubeconfigs. [default: /var/lib/jettison, or ~/.local/state/jettison]",
)
@click.option(
    "--listen",
    default="127.0.0.1:6443",
    metavar="ADDRESS:PORT",
    show_default=True,
    help="Port 0 takes one that is free.",
)
@click.option(
    "--controllers",
    multiple=True,
    default=["*"],
    metavar="NAMES",
    help="`*` for all, `foo` for one more, `-foo` for one less, with commas between them. [default: *]",
)
def command(state_dir: Path, listen: str, controllers: tuple[str, ...]) -> None:
    """Serve pods, nodes, disruption budgets and the rest of what evictions need to kubectl and every other client.

    \b
    jettison serve --state-dir ./cluster --listen 127.0.0.1:6443
    kubectl --kubeconfig ./cluster/admin.kubeconfig get nodes

    Whoever has a kubeconfig can come in: admin may do all, viewer only look, evictor evict and cordon.
    """
    choose_controllers(controllers)
    endpoint = parse_endpoint(listen)
    if not is_loopback(endpoint):
        click.echo(f"warning: `{listen}` can be reached from other machines; tokens are all that protects it", err=True)
    cluster = Cluster(absolute(state_dir), endpoint)
    asyncio.run(_serve(cluster))


async def _serve(cluster: Cluster) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop.set)

    def tell(endpoint: Endpoint) -> None:
        click.echo(f"serving {endpoint.url}, try: kubectl --kubeconfig {cluster.kubeconfig('admin')} get namespaces")

    await cluster.run(stop, tell)
