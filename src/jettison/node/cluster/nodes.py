"""The nodes of `jettison up --nodes`, guarded in one process, which no API server shares. `jettison serve` does not
load this.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from jettison.agent.sinks.log import LogSink, NodeLog
from jettison.events import Sink
from jettison.node.cluster_settings import ClusterSettings
from jettison.node.guarding import Reloader
from jettison.node.kubelet.port import KubeletPort
from jettison.node.member import own_address, run_member
from jettison.node.node import Node
from jettison.node.process.child_process import ChildProcess, OtherProcess
from jettison.node.process.frame import Tell, greet, knock, until_told
from jettison.node.process.protection import HostProtection
from jettison.node.settings import NodeSettings
from jettison.runtimes.kube.bounded_answers import BoundedAnswers
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Access, Overrides, load_access
from jettison.runtimes.machine.background_tasks import until_one_ends


def guard_until_told(settings: ClusterSettings, api: ChildProcess) -> None:
    """All nodes, beside the process of their API."""
    nodes: list[Node] = []
    # All of them or none: while some are still to come there is nothing to compare.
    reload = Reloader(lambda: nodes if len(nodes) == len(settings.nodes) else ()).reload
    until_told(
        lambda log: api.run_beside(partial(_guard, settings, nodes, log)),
        is_verbose=settings.nodes[0].is_verbose,
        reload=reload,
    )


async def _guard(settings: ClusterSettings, nodes: list[Node], log: LogSink, api: OtherProcess) -> None:
    await api.is_ready.wait()
    greet(settings.greeting(_access(settings, "admin").server), sys.stdout)
    async with AsyncExitStack() as stack:
        tell = partial(greet, stream=sys.stdout)
        await until_one_ends(*await joined_nodes(settings, nodes, (log,), stack, tell, owns_process=True))
        await end_pods(nodes)


async def joined_nodes(
    settings: ClusterSettings,
    nodes: list[Node],
    sinks: Sequence[Sink],
    stack: AsyncExitStack,
    tell: Tell,
    *,
    owns_process: bool = False,
) -> list[Coroutine[Any, Any, None]]:
    """Open every node of a cluster that is served by now, for as long as the stack; what is returned runs them as its
    members. Each is in `nodes` as soon as it is open. A process that is theirs alone is protected as a whole.
    """
    accesses = [_access(settings, each.node_name) for each in settings.nodes]
    address = await own_address(accesses[0].server)
    kubelet = KubeletPort(accesses[0].authority_pem)
    await asyncio.to_thread(kubelet.prepare)
    stack.push_async_callback(kubelet.close)
    members = []
    for each, access in zip(settings.nodes, accesses, strict=True):
        node = await _opened(each, sinks, stack)
        nodes.append(node)
        client = await stack.enter_async_context(KubeClient(access, answers=BoundedAnswers()))
        members.append((node, client, kubelet.open(node, address, 0)))
    await knock(members[0][1])
    if owns_process:
        stack.callback(_protected(nodes[0]).end)
        # Before that: the processes that serve the ports are in the cgroup that is given up there.
        stack.push_async_callback(kubelet.close)
    return [run_member(node, client, address, offer, tell) for node, client, offer in members]


async def end_pods(nodes: Sequence[Node]) -> None:
    """Of all nodes, if one of them was told to leave none behind.

    They are members no longer, so their API is told nothing and replaces nothing: the next `up` starts the pods again,
    as after a machine was switched off.
    """
    if any(node.leaves_empty for node in nodes):
        await asyncio.gather(*(node.keeper.stop_all() for node in nodes))


def _access(settings: ClusterSettings, name: str) -> Access:
    return load_access(Overrides(kubeconfig=str(settings.kubeconfig(name))))


async def _opened(settings: NodeSettings, sinks: Sequence[Sink], stack: AsyncExitStack) -> Node:
    own = [NodeLog(sink, settings.node_name) if isinstance(sink, LogSink) else sink for sink in sinks]
    node = await Node(settings, *own, is_member=True, has_own_api=True).open()
    stack.push_async_callback(node.close)
    return node


def _protected(node: Node) -> HostProtection:
    """All nodes together: the first one's cgroup for agents, and what its settings say of the process."""
    settings = node.settings
    protection = HostProtection(settings, settings.policy.config.oom_score_adj, node.emit)
    node.lacks += protection.begin()
    return protection
