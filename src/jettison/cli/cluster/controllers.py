"""`jettison controllers`: the controllers as a process of their own, against our API server or any other."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from functools import partial

import click

from jettison.cli.cluster.connection import cluster_options, run_against
from jettison.cli.cluster.controller_options import controller_options
from jettison.cli.extras import require
from jettison.cli.options.go_flags import GoCommand
from jettison.controllers.runner import MAKERS, run_controllers
from jettison.controllers.settings import ControllerSettings
from jettison.node.process import Hangups, greet, log_of_this_process, nothing_to_reload
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides


@click.command("controllers", cls=GoCommand, short_help="Keep a Kubernetes API as it should be.")
@controller_options
@cluster_options
def command(names: frozenset[str], settings: ControllerSettings, overrides: Overrides, request_seconds: float) -> int:
    """Keep disruption budgets, node taints and pods of a cluster as they should be, until interrupted.

    \b
    jettison serve --state-dir ./cluster --controllers=-
    jettison controllers --kubeconfig ./cluster/controllers.kubeconfig

    Beside a kube-controller-manager, choose only the controllers that it does not run: two of a kind do the work twice.
    """

    async def work(client: KubeClient) -> int:
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
