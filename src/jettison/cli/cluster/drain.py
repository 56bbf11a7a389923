"""`jettison drain`: empty nodes through the budgets; `--plan` only says how that would go."""

from __future__ import annotations

from collections.abc import Sequence

import click

from jettison.cli.cluster.connection import FAILED, NOT_NOW, KubectlCommand, cluster_options, run_against, within
from jettison.cli.cluster.console import Console
from jettison.cli.cluster.drain_options import drain_options, progress_option
from jettison.cli.cluster.node_arguments import check_nodes, node_arguments, read_nodes
from jettison.cli.cluster.plan_report import plan_data, plan_remarks, plan_text
from jettison.cli.output import emit, output_option
from jettison.clock import SystemClock
from jettison.maintenance.drain import drain_nodes
from jettison.maintenance.plan import read_plan
from jettison.maintenance.settings import DrainSettings
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides


@click.command("drain", cls=KubectlCommand, short_help="Empty nodes through the budgets, or plan it.")
@node_arguments
@click.option("--plan", "is_plan", is_flag=True, help="Change nothing, say who goes when; exit 3: it would not finish.")
@output_option
@drain_options
@progress_option
@cluster_options
def command(
    names: Sequence[str],
    selector: str,
    is_plan: bool,
    output: str,
    settings: DrainSettings,
    progress: bool | None,
    overrides: Overrides,
    request_seconds: float,
) -> int:
    """Cordon the nodes, then evict their pods one node after the other, waiting wherever a budget says so.

    \b
    jettison drain n1 --ignore-daemonsets --plan && jettison drain n1 --ignore-daemonsets --timeout=10m
    """
    check_nodes("drain", names, selector)

    async def work(client: KubeClient) -> int:
        nodes = await read_nodes(client, names, selector, settings.chunk)
        if nodes is None:
            return FAILED
        if is_plan:
            return await _plan(client, nodes, settings, output)
        is_done = await drain_nodes(client, nodes, settings, Console(progress), SystemClock())
        return 0 if is_done else FAILED

    return run_against(overrides, within(request_seconds, settings.eviction.timeout_ns), work)


async def _plan(client: KubeClient, nodes: Sequence[Document], settings: DrainSettings, output: str) -> int:
    plan = await read_plan(client, [node["metadata"]["name"] for node in nodes], settings, SystemClock())
    emit(output, plan_remarks(plan), lambda: plan_text(plan), lambda: plan_data(plan))
    return 0 if plan.is_complete else NOT_NOW
