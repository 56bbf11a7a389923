"""The nodes of `jettison up --nodes`, in the process of the API that they join. `jettison serve` does not load this."""

from __future__ import annotations

from collections.abc import Coroutine, MutableMapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from jettison.agent.sinks.log import LogSink, NodeLog
from jettison.apiserver.access.auth import NODE_PREFIX
from jettison.apiserver.verbs.log_query import LogSource
from jettison.events import Sink
from jettison.node.cluster import LocalCluster
from jettison.node.logs.host_logs import HostLogs
from jettison.node.member import knock, run_member
from jettison.node.node import Node
from jettison.node.process import Tell
from jettison.node.protection import HostProtection
from jettison.node.settings import NodeSettings
from jettison.runtimes.kube.bounded_answers import BoundedAnswers
from jettison.runtimes.kube.client import KubeClient


async def joined_nodes(
    cluster: LocalCluster,
    controllers: KubeClient,
    logs: MutableMapping[str, LogSource],
    sinks: Sequence[Sink],
    stack: AsyncExitStack,
    tell: Tell,
) -> list[Coroutine[Any, Any, None]]:
    """Open every node of the cluster, for as long as the stack; what is returned runs them as its members."""
    clients = []
    for settings in cluster.settings.nodes:
        node = await _opened(settings, sinks, stack)
        cluster.nodes.append(node)
        logs[settings.node_name] = HostLogs(settings.node_name, settings.logs_dir, node.runtime.statuses)
        client = cluster.client(f"{NODE_PREFIX}{settings.node_name}", BoundedAnswers())
        clients.append(await stack.enter_async_context(client))
    await knock(controllers)
    address = cluster.settings.listen[0]
    return [run_member(node, client, address, tell=tell) for node, client in zip(cluster.nodes, clients, strict=True)]


async def _opened(settings: NodeSettings, sinks: Sequence[Sink], stack: AsyncExitStack) -> Node:
    own = [NodeLog(sink, settings.node_name) if isinstance(sink, LogSink) else sink for sink in sinks]
    node = await Node(settings, *own, is_member=True).open()
    stack.push_async_callback(node.close)
    return node


def protected(node: Node) -> HostProtection:
    """All nodes together: the first one's cgroup for agents, and what its settings say of the process.

    The process does not go before others: a busy API would take a processor away from everything else.
    """
    settings = node.settings
    protection = HostProtection(settings, settings.policy.config.oom_score_adj, node.emit, goes_first=False)
    node.lacks += protection.begin()
    return protection
