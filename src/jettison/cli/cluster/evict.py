"""`jettison evict`: ask for single pods to go, through their budgets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from jettison.cli.cluster.connection import (
    FAILED,
    NOT_NOW,
    Console,
    KubectlCommand,
    cluster_options,
    dry_run_option,
    duration_ns,
    grace_period_option,
    grace_seconds,
    plain_names,
    progress_option,
    read_dry_run,
    run_against,
    within,
)
from jettison.cli.options.go_flags import go_switch
from jettison.cli.options.host_options import state_dir_option
from jettison.clock import SystemClock
from jettison.errors import InputError
from jettison.maintenance.eviction import Evicted, evict_pods
from jettison.maintenance.settings import EvictionSettings
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides

_RETRY_SECONDS = 5.0
# Each of these means a cluster; both a cluster and this machine have namespaces.
_OF_CLUSTER = tuple(name for name in Overrides.__dataclass_fields__ if name != "namespace")
_EXIT_CODES = {Evicted.ALL: 0, Evicted.REFUSED: NOT_NOW, Evicted.FAILED: FAILED}


@click.command("evict", cls=KubectlCommand, short_help="Evict single pods, if their budgets allow it.")
@click.argument("names", nargs=-1, required=True, metavar="POD…")
@grace_period_option
@go_switch("--retry", "retries", help="If a budget refuses, try again every 5 s.")
@click.option("--timeout", default="0s", metavar="DURATION", help="The limit for all pods together; 0s: no limit.")
@click.option("--wait/--no-wait", "waits", default=True, help="Whether to wait until the pods are gone.")
@progress_option
@dry_run_option
@click.option("--node-name", metavar="NAME", help="A node of this machine, instead of a cluster.")
@state_dir_option
@cluster_options
@click.pass_context
def command(
    context: click.Context,
    /,
    names: Sequence[str],
    grace_period: int,
    retries: bool,
    timeout: str,
    waits: bool,
    progress: bool | None,
    dry_run_text: str,
    node_name: str | None,
    state_dir: Path,
    overrides: Overrides,
    request_seconds: float,
) -> int:
    """Evict pods of one namespace. Exit 3: a budget refused one of them for now, and nothing else went wrong.

    Pods of a cluster are evicted through its API and their budgets. If nothing names a cluster (--kubeconfig, --server,
    …, $KUBECONFIG) and an agent of `jettison up` runs, the pods are those of this machine: such a pod ends with its
    grace period and stays listed as Evicted. A note says so.
    """
    settings = EvictionSettings(
        grace_seconds=grace_seconds(grace_period),
        timeout_ns=duration_ns("--timeout", timeout),
        dry_run=read_dry_run(dry_run_text),
        retry_seconds=_RETRY_SECONDS if retries else None,
        waits=waits,
    )
    plain = plain_names(names, "pod", "pods", "po")
    if _may_be_here(context, overrides, node_name):
        # It loads much of an agent, which takes longer than all the rest, and a cluster needs none of it.
        from jettison.cli.host.evicting import evict_here, nodes_meant  # noqa: PLC0415

        nodes = nodes_meant(state_dir, node_name, is_named=_is_named(context, node_name))
        if nodes:
            return evict_here(nodes, plain, overrides.namespace, settings)

    async def work(client: KubeClient) -> int:
        evicted = await evict_pods(client, client.access.namespace, plain, settings, Console(progress), SystemClock())
        return _EXIT_CODES[evicted]

    return run_against(overrides, within(request_seconds, settings.timeout_ns), work)


def _is_named(context: click.Context, node_name: str | None) -> bool:
    """The command line names this machine."""
    return node_name is not None or context.get_parameter_source("state_dir") is ParameterSource.COMMANDLINE


def _may_be_here(context: click.Context, overrides: Overrides, node_name: str | None) -> bool:
    """Whether pods of this machine may be meant: nothing names a cluster."""
    of_cluster = any(getattr(overrides, name) for name in _OF_CLUSTER)
    is_named = _is_named(context, node_name)
    if of_cluster and is_named:
        raise InputError("--state-dir and --node-name mean this machine, --kubeconfig, --server and the like a cluster")
    return not of_cluster and (is_named or not os.environ.get("KUBECONFIG"))
