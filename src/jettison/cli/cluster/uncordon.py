"""`jettison uncordon`: nodes take pods again."""

from __future__ import annotations

from collections.abc import Sequence

import click

from jettison.cli.cluster.connection import KubectlCommand, cluster_options, dry_run_option
from jettison.cli.cluster.cordon import mark
from jettison.cli.cluster.node_arguments import node_arguments
from jettison.runtimes.kube.kubeconfig import Overrides


@click.command("uncordon", cls=KubectlCommand, short_help="Put nodes back into scheduling.")
@node_arguments
@dry_run_option
@cluster_options
def command(
    names: Sequence[str], selector: str, dry_run_text: str, overrides: Overrides, request_seconds: float
) -> int:
    """Let pods be placed on these nodes again."""
    return mark("uncordon", names, selector, dry_run_text, overrides, request_seconds)
