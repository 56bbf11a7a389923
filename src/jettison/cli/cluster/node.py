"""`jettison node`: a node of this machine as a member of a cluster. Here is what it is told; `node.member` does it."""

from __future__ import annotations

from pathlib import Path

import click

from jettison.cli.extras import require
from jettison.cli.options.go_flags import WholeNumber
from jettison.cli.options.guard_options import guard_options
from jettison.cli.options.kubelet_flags import KubeletCommand
from jettison.node.cluster_settings import HandOver, MemberSettings
from jettison.node.places import absolute
from jettison.node.settings import NodeSettings


@click.command(cls=KubeletCommand)
@click.option(
    "--kubeconfig", metavar="FILE", default="", help="Use this file instead of $KUBECONFIG and ~/.kube/config."
)
@click.option("--context", metavar="NAME", default="", help="Use this context instead of the current one.")
@click.option(
    "--node-ip", metavar="ADDRESS", default="", help="The address of this node. [default: the one that reaches the API]"
)
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    default=0,
    help="The port where the API asks for logs. [default: a free one]",
)
@guard_options
@click.pass_obj
def command(
    hand_over: HandOver, /, settings: NodeSettings, kubeconfig: str, context: str, node_ip: str, port: int
) -> None:
    """Run the pods that a Kubernetes API has bound to this node, guard them, and report how they are.

    \b
    jettison serve --state-dir ./cluster --node n1
    jettison node --kubeconfig ./cluster/n1.kubeconfig --node-name n1

    While the API cannot be reached, the pods keep running and stay guarded. Ctrl-C leaves pods running; the next agent
    takes them over.
    """
    require("jettison node", "kube")
    path = str(absolute(Path(kubeconfig))) if kubeconfig else ""
    hand_over(MemberSettings(settings, path, context, node_ip, port))
