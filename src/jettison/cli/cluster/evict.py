"""`jettison evict`: ask for single pods to go, through their budgets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from jettison.agent.http.controls import LONGEST_WAIT
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
from jettison.cli.host.ordering import give, node_of
from jettison.cli.inspect.watched_node import WatchedNode, find_node, find_nodes
from jettison.cli.options.go_flags import go_switch
from jettison.cli.options.host_options import state_dir_option
from jettison.cli.output import remark
from jettison.clock import SystemClock
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import InputError, ObservationError
from jettison.maintenance.eviction import Evicted, evict_pods
from jettison.maintenance.settings import DryRun, EvictionSettings
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
    nodes = _nodes(context, overrides, state_dir, node_name)
    if nodes:
        return _evict_here(nodes, plain, overrides.namespace, settings)

    async def work(client: KubeClient) -> int:
        evicted = await evict_pods(client, client.access.namespace, plain, settings, Console(progress), SystemClock())
        return _EXIT_CODES[evicted]

    return run_against(overrides, within(request_seconds, settings.timeout_ns), work)


def _nodes(
    context: click.Context, overrides: Overrides, state_dir: Path, node_name: str | None
) -> Sequence[WatchedNode]:
    """The nodes of this machine that are meant: with a running agent, and with pods that are not those of an API."""
    of_cluster = any(getattr(overrides, name) for name in _OF_CLUSTER)
    is_named = node_name is not None or context.get_parameter_source("state_dir") is ParameterSource.COMMANDLINE
    if of_cluster and is_named:
        raise InputError("--state-dir and --node-name mean this machine, --kubeconfig, --server and the like a cluster")
    if of_cluster or (os.environ.get("KUBECONFIG") and not is_named):
        return []
    if node_name is not None:
        return [find_node(state_dir, node_name)]
    try:
        found = find_nodes(state_dir)
    except ObservationError:
        if is_named:
            raise
        return []  # another user's state, which does not concern a user of a cluster
    if is_named:
        return found or [find_node(state_dir, None)]
    return [node for node in found if node.is_live and not (node.card is not None and node.card.is_member)]


def _evict_here(nodes: Sequence[WatchedNode], names: Sequence[str], namespace: str, settings: EvictionSettings) -> int:
    """One after the other. There is no budget on a bare host, so none is asked."""
    code = 0
    grace = -1 if settings.grace_seconds is None else settings.grace_seconds
    wait = min(settings.timeout_ns // SECOND_NS, LONGEST_WAIT) or LONGEST_WAIT
    for name in names:
        pod = f"{namespace}/{name}" if namespace and "/" not in name else name
        if settings.dry_run is not DryRun.NONE:
            click.echo(f'pod "{pod}" evicted on node {node_of(nodes, pod).name} (dry run)')
            continue
        done = give(nodes, "evict", pod, grace, wait if settings.waits else 0)
        remark("note", f"node `{done.node.name}` of this machine; --kubeconfig and --server choose a cluster")
        code = max(code, done.tell("evicted") if settings.waits else 0)
    return code
