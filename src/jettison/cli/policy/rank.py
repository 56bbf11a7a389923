"""`jettison rank`: in which order would pods be evicted, and why? What ranks is loaded when the node was looked at."""

from __future__ import annotations

import click

from jettison.cli.options.kubelet_flags import KubeletCommand
from jettison.cli.output import Remarks, output_option
from jettison.cli.policy.node_source import SIGNAL_NAMES, NodeSource, node_source_options


@click.command("rank", cls=KubeletCommand, short_help="In which order would pods be evicted, and why?")
@node_source_options()
@output_option
@click.option(
    "--signal",
    "signal_name",
    type=click.Choice(SIGNAL_NAMES),
    metavar="SIGNAL",
    help="Rank for this signal (nodefs.available, pid.available, …) instead of the starved one.",
)
def command(source: NodeSource, output: str, signal_name: str | None) -> None:
    """Show the order in which a node under pressure would evict its pods, with the sort keys and the reasons.

    \b
    jettison rank --node NAME
    \b
    kubectl get --raw /api/v1/nodes/NAME/proxy/stats/summary > summary.json
    kubectl get pods --all-namespaces -o json > pods.json
    jettison rank --summary summary.json --pods pods.json
    """
    remarks = Remarks()
    case = source.look(remarks).case
    from jettison.cli.policy.ranked_node import print_ranking  # noqa: PLC0415  see above

    print_ranking(case, signal_name, source.profile, output, remarks)
