"""Guards a node until it is told to stop: all that `jettison up` is once its command line has been read."""

from __future__ import annotations

import sys

from jettison.agent.journal.policy_records import policy_from
from jettison.agent.sinks.log import LogSink
from jettison.node.host_node import HostNode, NodeOptions
from jettison.node.orders import Orders
from jettison.node.reloading import Reloader
from jettison.node.until_told import greet, until_told


def carry_out(orders: Orders) -> int:
    """The exit code."""
    nodes: list[HostNode] = []
    options = node_options(orders, owns_process=True)
    reload = Reloader(lambda: nodes).reload
    return until_told(lambda log: _guard(options, log, nodes), is_verbose=orders.is_verbose, reload=reload)


async def _guard(options: NodeOptions, log: LogSink, nodes: list[HostNode]) -> None:
    node = await HostNode.open(options, log)
    nodes.append(node)
    try:
        say_where(node)
        await node.run(lambda greeting: greet(greeting, sys.stdout))
    finally:
        await node.close()


def node_options(orders: Orders, *, owns_process: bool, is_member: bool = False) -> NodeOptions:
    """As a node takes them."""
    name = orders.settings.node_name
    return NodeOptions(
        orders.settings,
        policy_from(orders.policy),
        orders.manifests,
        orders.static_manifests,
        {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **orders.labels},
        orders.taints,
        orders.readmits,
        orders.is_dry_run,
        orders.listen,
        owns_process,
        is_member,
    )


def say_where(node: HostNode) -> None:
    """The port is not known before."""
    listen = node.options.listen
    if listen is not None and node.port is not None:
        host = f"[{listen[0]}]" if ":" in listen[0] else listen[0]
        greet(f"listening on http://{host}:{node.port}", sys.stderr)
