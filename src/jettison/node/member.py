"""A node of this machine as a member of a cluster: what it says of itself, and how it joins an API elsewhere."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

from jettison.agent.sinks.log import LogSink
from jettison.apiserver.verbs.log_query import CERTIFICATE_ANNOTATION
from jettison.clock import SystemClock
from jettison.engine.config.allocatable import node_allocatable
from jettison.engine.numbers.durations import SECOND_NS
from jettison.membership.api_objects import ApiObjects
from jettison.membership.member import Guarded, Member
from jettison.membership.missing_pods import CONFIRM_SECONDS
from jettison.membership.node_object import NodeImage, NodeProfile, machine_labels, node_info
from jettison.membership.serving_certificate import ServingPort
from jettison.node.cluster_settings import MemberSettings
from jettison.node.guarding import Reloader, say_where
from jettison.node.kubelet.certificate import IssuedCertificates
from jettison.node.kubelet.port import KubeletOffer, KubeletPort
from jettison.node.node import Node
from jettison.node.process.frame import Tell, greet, knock, until_told
from jettison.runtimes.kube.bounded_answers import BoundedAnswers
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides, load_access
from jettison.runtimes.machine.background_tasks import until_one_ends

_OURS = "+jettison"
"""How the version of our own API ends. It may call nodes on the loopback, where no other machine reaches them."""

_CERTIFICATE_FILE = "serving.pem"
_LOOKUP_SECONDS = 2.0


def carry_out(settings: MemberSettings) -> None:
    """All that `jettison node` is once its command line has been read."""
    nodes: list[Node] = []
    reload = Reloader(lambda: nodes).reload
    until_told(lambda log: _join(settings, log, nodes), is_verbose=settings.node.is_verbose, reload=reload)


async def _join(settings: MemberSettings, log: LogSink, nodes: list[Node]) -> None:
    access = load_access(Overrides(kubeconfig=settings.kubeconfig, context=settings.context))
    # Whatever loads code comes before the agent is ready.
    address = settings.address or await own_address(access.server)
    kubelet = KubeletPort(None if access.is_insecure else access.authority_pem)
    kubelet.prepare()
    async with KubeClient(access, answers=BoundedAnswers()) as client:
        is_ours = (await knock(client)).endswith(_OURS)
        if not settings.address and not is_ours:
            address = _called_address(address)
        node = await Node(settings.node, log, owns_process=True, is_member=True).open()
        nodes.append(node)
        try:
            say_where(node)
            offer = kubelet.open(node, address, settings.port)
            await run_member(node, client, address, offer, lambda greeting: greet(greeting, sys.stdout))
        finally:
            await kubelet.close()
            await node.close()


async def own_address(server: str) -> str:
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


def _called_address(found: str) -> str:
    """One that an API server of Kubernetes calls: never the loopback, also where it is on the same machine.

    Instead ours on the way to the world, where there is one. Nothing is sent: the other address belongs to no machine.
    """
    if not ipaddress.ip_address(found).is_loopback:
        return found
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return found


async def _images(node: Node) -> Sequence[NodeImage]:
    return [NodeImage(each.id, (*each.digests, *each.tags), each.size) for each in await node.images()]


async def run_member(
    node: Node,
    client: KubeClient,
    address: str,
    offer: KubeletOffer | None = None,
    tell: Tell = lambda _: None,
    *,
    confirm_seconds: float = CONFIRM_SECONDS,
) -> None:
    """Guard the node and keep the cluster informed, until cancelled. `tell` gets the node's greeting. A pod that is
    missing from a list is asked for again after `confirm_seconds`.
    """
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
        info=node_info(node.container_runtime),
        # Whatever a configuration says, an API is not asked more often than every second.
        look_ns=max(settings.policy.config.node_status_update_frequency, SECOND_NS),
        report_ns=settings.policy.config.node_status_report_frequency,
        most_images=settings.policy.config.node_status_max_images,
    )
    guarded = Guarded(
        node.runtime,
        node.keeper,
        node.kubernetes_events,
        node.conditions,
        node.complaint,
        node.emit,
        settings.node_state,
        partial(_images, node),
        node.runtime_lack,
    )
    node.runtime.configuration.api = ApiObjects(client, SystemClock())
    node.runtime.configuration.addresses = (address,)
    server = urlsplit(client.access.server)
    node.runtime.configuration.server = (server.hostname or "", server.port or 443)
    port = None
    if offer is not None:
        certificates = IssuedCertificates(settings.node_state / _CERTIFICATE_FILE, (name, address))
        port = ServingPort(CERTIFICATE_ANNOTATION, offer.certificate_pem, certificates, offer.take)
    member = Member(client, profile, guarded, SystemClock(), port, confirm_seconds=confirm_seconds)
    node.emit.add(member.reports)
    await until_one_ends(node.run(tell), member.run())
