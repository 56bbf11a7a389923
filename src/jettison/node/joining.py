"""A node that joins an API elsewhere: all that `jettison node` is once its command line has been read."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from urllib.parse import urlsplit

from jettison.agent.sinks.log import LogSink
from jettison.node.guard import node_options, say_where
from jettison.node.host_node import HostNode
from jettison.node.logs.log_service import LogService
from jettison.node.member_node import knock, run_member
from jettison.node.orders import JoinOrders
from jettison.node.reloading import Reloader
from jettison.node.until_told import until_told
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides, load_access

_LOOKUP_SECONDS = 2.0


def carry_out(orders: JoinOrders) -> int:
    """The exit code."""
    nodes: list[HostNode] = []
    reload = Reloader(lambda: nodes).reload
    return until_told(lambda log: _join(orders, log, nodes), is_verbose=orders.node.is_verbose, reload=reload)


async def _join(orders: JoinOrders, log: LogSink, nodes: list[HostNode]) -> None:
    access = load_access(Overrides(kubeconfig=orders.kubeconfig, context=orders.context))
    # Whatever loads code comes before the agent is ready.
    address = orders.address or await _address(access.server)
    logs = LogService(None if access.is_insecure else access.authority_pem)
    logs.prepare()
    async with KubeClient(access) as client:
        await knock(client)
        node = await HostNode.open(node_options(orders.node, owns_process=True, is_member=True), log)
        nodes.append(node)
        try:
            say_where(node)
            await run_member(node, client, address, logs.open(node, address, orders.port))
        finally:
            await logs.close()
            await node.close()


async def _address(server: str) -> str:
    """Ours, as seen on the way to the server: a datagram socket is connected without a word being sent."""
    parts = urlsplit(server)
    lookup = asyncio.get_running_loop().getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM)
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LOOKUP_SECONDS):
            family, kind, protocol, _, address = (await lookup)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    return "127.0.0.1"
