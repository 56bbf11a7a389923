"""`jettison node`: a node of this machine as a member of a cluster. Here are only its options; `joining` runs it.

This module is loaded in a child of the process that will do it, see `resident`.
"""

from __future__ import annotations

from pathlib import Path

import click

from jettison.cli.extras import require
from jettison.cli.options.go_flags import WholeNumber
from jettison.cli.options.guard_options import check_own_labels, guard_options
from jettison.cli.options.host_options import absolute
from jettison.cli.options.kubelet_flags import KubeletCommand
from jettison.cli.resident import Deliver
from jettison.node.orders import JoinOrders, Orders


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
def command(deliver: Deliver, /, orders: Orders, kubeconfig: str, context: str, node_ip: str, port: int) -> None:
    """Run the pods that a Kubernetes API has bound to this node, guard them, and report how they are.

    \b
    jettison serve --state-dir ./cluster --node n1
    jettison node --kubeconfig ./cluster/n1.kubeconfig --node-name n1

    While the API cannot be reached, the pods keep running and stay guarded. Ctrl-C leaves pods running; the next agent
    takes them over.
    """
    require("jettison node", "kube")
    path = str(absolute(Path(kubeconfig))) if kubeconfig else ""
    deliver(JoinOrders(check_own_labels(orders), path, context, node_ip, port))
