"""`jettison controllers`: the controllers as a process of their own, against our API server or any other."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import uuid
from contextlib import suppress
from functools import partial

import click

from jettison.cli.cluster.connection import cluster_options, run_against
from jettison.cli.cluster.controller_options import controller_options
from jettison.cli.extras import require
from jettison.cli.options.go_flags import GoCommand
from jettison.clock import SystemClock
from jettison.controllers.runner import LEASE, LEASE_NAMESPACE, MAKERS, run_controllers
from jettison.controllers.settings import ControllerSettings
from jettison.node.process.frame import (
    Hangups,
    calm_garbage_collector,
    greet,
    log_of_this_process,
    nothing_to_reload,
)
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides
from jettison.runtimes.kube.leases import HeldLease


@click.command("controllers", cls=GoCommand, short_help="Keep a Kubernetes API as it should be.")
@controller_options
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Work only while holding a lease, so that several of these may run and one works.",
)
@click.option(
    "--leader-elect-resource-name",
    default=LEASE,
    metavar="NAME",
    show_default=True,
    help="The lease. Two that run different controllers need two.",
)
@click.option(
    "--leader-elect-resource-namespace",
    default=LEASE_NAMESPACE,
    metavar="NAMESPACE",
    show_default=True,
    help="The namespace of the lease.",
)
@cluster_options
def command(
    names: frozenset[str],
    settings: ControllerSettings,
    overrides: Overrides,
    request_seconds: float,
    leader_elect: bool,
    leader_elect_resource_name: str,
    leader_elect_resource_namespace: str,
) -> int:
    """Keep disruption budgets, node taints and pods of a cluster as they should be, until interrupted.

    \b
    jettison serve --state-dir ./cluster --controllers=-
    jettison controllers --kubeconfig ./cluster/controllers.kubeconfig

    Beside a kube-controller-manager, choose only the controllers that it does not run: two of a kind do the work twice.

    Of several that are started for one cluster, one works; the others take over within seconds of its end. The
    controllers of `jettison serve` and `up --nodes` are one of these: beside them, this waits.
    """

    async def work(client: KubeClient) -> int:
        calm_garbage_collector()
        if leader_elect:
            lease = _lease(client, leader_elect_resource_namespace, leader_elect_resource_name)
            running = asyncio.create_task(lease.while_held(lambda: run_controllers(client, names, settings)))
        else:
            running = asyncio.create_task(run_controllers(client, names, settings))
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, running.cancel)
        hangups = Hangups(partial(nothing_to_reload, log))
        hangups.follow()
        chosen = ", ".join(sorted(names & MAKERS.keys())) or "nothing"
        greet(f"running against {client.access.server}: {chosen}", sys.stdout)
        with suppress(asyncio.CancelledError):
            await running
        hangups.end()
        return 0

    require("jettison controllers", "kube")
    with log_of_this_process() as log:
        return run_against(overrides, request_seconds, work)


def _lease(client: KubeClient, namespace: str, name: str) -> HeldLease:
    """Held under a name that no other process has: the machine's and a random part, as client-go makes it."""
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    return HeldLease(client, namespace, name, identity, SystemClock())
