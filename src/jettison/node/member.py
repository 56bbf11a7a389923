"""A node of this machine as a member of a cluster: what it says of itself, and how it joins an API elsewhere."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from importlib import import_module
from urllib.parse import urlsplit

from jettison.agent.sinks.log import LogSink
from jettison.apiserver.verbs.log_query import CERTIFICATE_ANNOTATION
from jettison.clock import SystemClock
from jettison.engine.config.allocatable import node_allocatable
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import ApiError, RuntimeFailure
from jettison.membership.member import Guarded, Member
from jettison.membership.node_object import NodeProfile, machine_labels
from jettison.node.cluster_settings import MemberSettings
from jettison.node.guarding import Reloader, say_where
from jettison.node.logs.log_server import LogOffer, LogService
from jettison.node.node import Node
from jettison.node.process import Tell, greet, until_one_ends, until_told
from jettison.runtimes.kube.bounded_answers import BoundedAnswers
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides, load_access

_KNOCK_SECONDS = 2.0
_LOOKUP_SECONDS = 2.0
# What is loaded by others when they first need it.
_LATE = ("importlib.readers", "encodings.ascii", "encodings.idna")


def carry_out(settings: MemberSettings) -> None:
    """All that `jettison node` is once its command line has been read."""
    nodes: list[Node] = []
    reload = Reloader(lambda: nodes).reload
    until_told(lambda log: _join(settings, log, nodes), is_verbose=settings.node.is_verbose, reload=reload)


async def _join(settings: MemberSettings, log: LogSink, nodes: list[Node]) -> None:
    access = load_access(Overrides(kubeconfig=settings.kubeconfig, context=settings.context))
    # Whatever loads code comes before the agent is ready.
    address = settings.address or await _address(access.server)
    logs = LogService(None if access.is_insecure else access.authority_pem)
    logs.prepare()
    async with KubeClient(access, answers=BoundedAnswers()) as client:
        await knock(client)
        node = await Node(settings.node, log, owns_process=True, is_member=True).open()
        nodes.append(node)
        try:
            say_where(node)
            offer = logs.open(node, address, settings.port)
            await run_member(node, client, address, offer, lambda greeting: greet(greeting, sys.stdout))
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


async def knock(client: KubeClient) -> None:
    """The first request loads code, whether it is answered or not; that must not happen once an agent is ready."""
    for name in _LATE:
        import_module(name)
    with suppress(ApiError, RuntimeFailure, TimeoutError):
        async with asyncio.timeout(_KNOCK_SECONDS):
            await client.request("GET", "/version")


async def run_member(
    node: Node, client: KubeClient, address: str, offer: LogOffer | None = None, tell: Tell = lambda _: None
) -> None:
    """Guard the node and keep the cluster informed, until cancelled. `tell` gets the node's greeting."""
    settings = node.settings
    name = settings.node_name
    profile = NodeProfile(
        name,
        address,
        node_allocatable(node.runtime.machine(), settings.policy),
        {**machine_labels(name), **settings.node_labels},
        settings.taints,
        {} if offer is None else {CERTIFICATE_ANNOTATION: offer.certificate_pem},
        None if offer is None else offer.port,
        # Whatever a configuration says, an API is not asked more often than every second.
        look_ns=max(settings.policy.config.node_status_update_frequency, SECOND_NS),
        report_ns=settings.policy.config.node_status_report_frequency,
    )
    guarded = Guarded(
        node.runtime,
        node.keeper,
        node.kubernetes_events,
        node.conditions,
        node.complaint,
        node.emit,
        settings.node_state,
    )
    member = Member(client, profile, guarded, SystemClock())
    node.emit.add(member.reports)
    await until_one_ends(node.run(tell), member.run())
