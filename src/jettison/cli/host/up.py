"""`jettison up`: guard this machine, or a part of it, in the foreground.

Here is what it is told; `node.guarding` does it, or `node.cluster` with --nodes.
"""

from __future__ import annotations

import click
from click.core import ParameterSource

from jettison.cli.extras import require
from jettison.cli.options.go_flags import WholeNumber
from jettison.cli.options.guard_options import guard_options
from jettison.cli.options.kubelet_flags import KubeletCommand
from jettison.controllers.settings import ControllerSettings
from jettison.engine.budgets.budget import API_PROFILES
from jettison.errors import InputError
from jettison.node.cluster_settings import ClusterSettings, HandOver
from jettison.node.settings import NodeSettings

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
def command(
    context: click.Context, /, settings: NodeSettings, nodes: int | None, evicted_pod_limit: int | None
) -> None:
    """Run pods on this machine and guard it: a shortage is noticed in milliseconds, and the right pod is evicted.

    \b
    jettison up --manifests ./pods --eviction-hard 'memory.available<500Mi'
    jettison up --nodes 2 --node-memory 512Mi

    Pods are processes in cgroups; no Kubernetes and no container runtime is needed. Ctrl-C leaves them running, and the
    next `up` takes them over. With --nodes the pods come from an API that kubectl can talk to.
    """
    hand_over: HandOver = context.obj
    if nodes is None:
        if evicted_pod_limit is not None:
            raise InputError("--evicted-pod-limit is about pods of an API, which --nodes begins")
        hand_over(settings)
        return
    require("jettison up --nodes", "server", "kube")
    is_named = context.get_parameter_source("node_name") is ParameterSource.COMMANDLINE
    prefix = settings.node_name if is_named else "node"
    each = tuple(settings.for_node(f"{prefix}-{number}") for number in range(1, nodes + 1))
    control = ControllerSettings(evicted_pods=evicted_pod_limit, switches=API_PROFILES[context.params["profile"]])
    hand_over(ClusterSettings(settings.state_dir, settings.listen or _API, each, control=control))
