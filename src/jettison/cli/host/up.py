"""`jettison up`: guard this machine, or a part of it, in the foreground. Here are only its options; `guard` runs it.

This module is loaded in a child of the process that will do it, see `resident`.
"""

from __future__ import annotations

import click
from click.core import ParameterSource

from jettison.cli.extras import require
from jettison.cli.options.go_flags import WholeNumber
from jettison.cli.options.guard_options import check_own_labels, guard_options
from jettison.cli.options.kubelet_flags import KubeletCommand
from jettison.cli.resident import Deliver
from jettison.errors import InputError
from jettison.node.orders import ClusterOrders, Orders

MOST_NODES = 50
"""A larger number is taken for a typing error."""

_API = ("127.0.0.1", 6443)


@click.command(cls=KubeletCommand)
@click.option(
    "--nodes",
    type=WholeNumber(1, MOST_NODES),
    metavar="N",
    help="Run a cluster: the Kubernetes API on --listen, its controllers and N nodes, each of --node-memory.",
)
@click.option(
    "--evicted-pod-limit",
    type=WholeNumber(0),
    metavar="NUMBER",
    help="With --nodes: delete the oldest evicted pods above this number. [default: the oldest of 12500 ended pods]",
)
@guard_options
@click.pass_context
def command(context: click.Context, /, orders: Orders, nodes: int | None, evicted_pod_limit: int | None) -> None:
    """Run pods on this machine and guard it: a shortage is noticed in milliseconds, and the right pod is evicted.

    \b
    jettison up --manifests ./pods --eviction-hard 'memory.available<500Mi'
    jettison up --nodes 2 --node-memory 512Mi

    Pods are processes in cgroups; no Kubernetes and no container runtime is needed. Ctrl-C leaves them running, and the
    next `up` takes them over. With --nodes the pods come from an API that kubectl can talk to.
    """
    deliver: Deliver = context.obj
    if nodes is None:
        if evicted_pod_limit is not None:
            raise InputError("--evicted-pod-limit is about pods of an API, which --nodes begins")
        deliver(orders)
        return
    require("jettison up --nodes", "server", "kube")
    if orders.manifests or orders.static_manifests:
        raise InputError("--manifests belong to a single node; with --nodes, pods come from the API")
    check_own_labels(orders)
    is_named = context.get_parameter_source("node_name") is ParameterSource.COMMANDLINE
    prefix = orders.settings.node_name if is_named else "node"
    names = [f"{prefix}-{number}" for number in range(1, nodes + 1)]
    deliver(ClusterOrders([orders.for_node(name) for name in names], orders.listen or _API, evicted_pod_limit))
