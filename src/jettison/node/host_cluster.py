"""An API, its controllers and some nodes in one process: what `jettison up --nodes` is once its options are read."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

from jettison.agent.sinks.log import LogSink, NodeLog
from jettison.apiserver.access.auth import NODE_PREFIX
from jettison.apiserver.cluster import PEOPLE, Cluster
from jettison.apiserver.connections.server import Endpoint
from jettison.apiserver.verbs.log_query import LogSource
from jettison.controllers.runner import MAKERS, run_controllers
from jettison.controllers.settings import ControllerSettings
from jettison.engine.budgets.switches import API_PROFILES, EXACT
from jettison.node.guard import node_options
from jettison.node.host_node import HostNode
from jettison.node.host_protection import HostProtection
from jettison.node.logs.host_logs import HostLogs
from jettison.node.member_node import knock, run_member
from jettison.node.orders import ClusterOrders
from jettison.node.reloading import Reloader
from jettison.node.until_told import greet, until_told
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides, load_access

_CONTROLLERS = "controllers"


def carry_out(orders: ClusterOrders) -> int:
    """The exit code."""
    cluster = _HostCluster(orders)
    # All of them or none: while some are still to come there is nothing to compare.
    reload = Reloader(lambda: cluster.nodes if len(cluster.nodes) == len(orders.nodes) else ()).reload
    return until_told(cluster.run, is_verbose=orders.nodes[0].is_verbose, reload=reload)


class _HostCluster:
    def __init__(self, orders: ClusterOrders) -> None:
        self._orders = orders
        self.nodes: list[HostNode] = []
        settings = [each.settings for each in orders.nodes]
        users = {f"{NODE_PREFIX}{each.node_name}": "node" for each in settings}
        self._logs: dict[str, LogSource] = {}
        self._switches = API_PROFILES.get(orders.nodes[0].policy["profile"], EXACT)
        self._cluster = Cluster(
            settings[0].state_dir,
            Endpoint(*orders.listen),
            {**PEOPLE, _CONTROLLERS: "admin", **users},
            local_logs=self._logs,
            switches=self._switches,
        )

    async def run(self, log: LogSink) -> None:
        """The server comes first and goes last: everybody else talks to it."""
        stop, ready = asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(self._cluster.run(stop, lambda endpoint: self._tell(endpoint, ready)))
        working = asyncio.create_task(self._work(ready, log))
        serving.add_done_callback(lambda _: working.cancel())
        try:
            await working
        except asyncio.CancelledError:
            if not serving.done():
                raise
        finally:
            stop.set()
            await serving

    def _tell(self, endpoint: Endpoint, ready: asyncio.Event) -> None:
        ready.set()
        config = self._cluster.kubeconfig("admin")
        names = ", ".join(each.settings.node_name for each in self._orders.nodes)
        greet(f"serving {endpoint.url}, try: kubectl --kubeconfig {config} get nodes\nnodes: {names}", sys.stdout)

    async def _work(self, ready: asyncio.Event, log: LogSink) -> None:
        await ready.wait()
        async with AsyncExitStack() as stack:
            nodes = []
            for orders in self._orders.nodes:
                name = orders.settings.node_name
                node = await HostNode.open(node_options(orders, owns_process=False, is_member=True), NodeLog(log, name))
                stack.push_async_callback(node.close)
                self.nodes.append(node)
                self._logs[name] = HostLogs(name, orders.settings.logs_dir, node.runtime.statuses)
                nodes.append((node, await stack.enter_async_context(self._client(f"{NODE_PREFIX}{name}"))))
            controllers = await stack.enter_async_context(self._client(_CONTROLLERS))
            await knock(controllers)
            stack.callback(self._protect(nodes[0][0]).end)
            async with asyncio.TaskGroup() as group:
                for node, client in nodes:
                    group.create_task(run_member(node, client, self._orders.listen[0]))
                settings = ControllerSettings(evicted_pods=self._orders.evicted_pods, switches=self._switches)
                group.create_task(run_controllers(controllers, MAKERS.keys(), settings))

    def _protect(self, node: HostNode) -> HostProtection:
        """All of them together: the first node's cgroup for agents, and its word on how dear the process is.

        It does not go first: whoever keeps the API busy would take a processor away from everybody.
        """
        settings, policy = node.options.settings, node.options.policy
        protection = HostProtection(settings, policy.config.oom_score_adj, node.emit, goes_first=False)
        node.lacks += protection.begin()
        return protection

    def _client(self, user: str) -> KubeClient:
        """Through the front door, like everybody else: what they may see and do is what the API says."""
        return KubeClient(load_access(Overrides(kubeconfig=str(self._cluster.kubeconfig(user)))))
