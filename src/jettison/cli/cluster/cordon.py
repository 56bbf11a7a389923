"""`jettison cordon`, and with the other sign `jettison uncordon`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from jettison.cli.cluster.connection import (
    FAILED,
    KubectlCommand,
    cluster_options,
    dry_run_option,
    read_dry_run,
    run_against,
)
from jettison.cli.cluster.console import Console
from jettison.cli.cluster.node_arguments import check_nodes, node_arguments, read_nodes
from jettison.maintenance.nodes import set_unschedulable
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides


@click.command("cordon", cls=KubectlCommand, short_help="Take nodes out of scheduling.")
@node_arguments
@dry_run_option
@cluster_options
def command(
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
