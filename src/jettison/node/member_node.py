"""A guarded node of this machine that is also a member of a cluster."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module

from jettison.apiserver.verbs.log_query import CERTIFICATE_ANNOTATION
from jettison.clock import SystemClock
from jettison.engine.config.allocatable import node_allocatable
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import ApiError, RuntimeFailure
from jettison.membership.member import Guarded, Member
from jettison.membership.node_object import NodeProfile, machine_labels
from jettison.node.host_node import HostNode
from jettison.node.until_told import greet
from jettison.runtimes.kube.client import KubeClient

_KNOCK_SECONDS = 2.0
# What is loaded by others when they first need it.
_LATE = ("importlib.readers", "encodings.ascii", "encodings.idna")


async def knock(client: KubeClient) -> None:
    """The first request loads code, whether anybody answers or not; that must not happen once an agent is ready."""
    for name in _LATE:
        import_module(name)
    with suppress(ApiError, RuntimeFailure, TimeoutError):
        async with asyncio.timeout(_KNOCK_SECONDS):
            await client.request("GET", "/version")


@dataclass(frozen=True, slots=True)
class LogOffer:
    """Where the API can ask this node for logs, and the certificate by which it knows that it is us."""

    port: int
    certificate_pem: str


async def run_member(node: HostNode, client: KubeClient, address: str, offer: LogOffer | None = None) -> None:
    """Guard the node and keep the cluster informed, until cancelled."""
    options = node.options
    name = options.settings.node_name
    profile = NodeProfile(
        name,
        address,
        node_allocatable(node.runtime.machine(), options.policy),
        {**machine_labels(name), **options.labels},
        options.taints,
        {} if offer is None else {CERTIFICATE_ANNOTATION: offer.certificate_pem},
        None if offer is None else offer.port,
        # Whatever a configuration says, an API is not asked more often than every second.
        look_ns=max(options.policy.config.node_status_update_frequency, SECOND_NS),
        report_ns=options.policy.config.node_status_report_frequency,
    )
    guarded = Guarded(
        node.runtime,
        node.keeper,
        node.kubernetes_events,
        node.conditions,
        node.complaint,
        node.emit,
        options.node_state,
    )
    member = Member(client, profile, guarded, SystemClock())
    node.emit.add(member.reports)
    async with asyncio.TaskGroup() as group:
        group.create_task(node.run(lambda greeting: greet(greeting, sys.stdout)))
        group.create_task(member.run())
