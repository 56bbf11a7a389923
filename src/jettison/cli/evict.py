"""`jettison evict`: ask for single pods to go, through their budgets."""

from __future__ import annotations

from collections.abc import Sequence

import click

from jettison.cli.cluster import (
    FAILED,
    NOT_NOW,
    KubectlCommand,
    cluster_options,
    dry_run_option,
    duration_ns,
    plain_names,
    read_dry_run,
    run_against,
    within,
)
from jettison.cli.console import Console
from jettison.cli.drain_options import grace_period_option, grace_seconds, progress_option
from jettison.cli.go_flags import go_switch
from jettison.clock import SystemClock
from jettison.maintenance.evict import Evicted, evict_pods
from jettison.maintenance.settings import EvictionSettings
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides

_RETRY_SECONDS = 5.0
_EXIT_CODES = {Evicted.ALL: 0, Evicted.REFUSED: NOT_NOW, Evicted.FAILED: FAILED}


@click.command("evict", cls=KubectlCommand, short_help="Evict single pods, if their budgets allow it.")
@click.argument("names", nargs=-1, required=True, metavar="POD…")
@grace_period_option
@go_switch("--retry", "retries", help="Where a budget refuses, try again every 5 s.")
@click.option("--timeout", default="0s", metavar="DURATION", help="For everything together; 0s: none.")
@click.option("--wait/--no-wait", "waits", default=True, help="Whether to wait until the pods are gone.")
@progress_option
@dry_run_option
@cluster_options
def command(
    names: Sequence[str],
    grace_period: int,
    retries: bool,
    timeout: str,
    waits: bool,
    progress: bool | None,
    dry_run_text: str,
    overrides: Overrides,
    request_seconds: float,
) -> int:
    """Evict pods of one namespace. Exit 3: a budget refused one of them for now, and nothing else went wrong."""
    settings = EvictionSettings(
        grace_seconds=grace_seconds(grace_period),
        timeout_ns=duration_ns("--timeout", timeout),
        dry_run=read_dry_run(dry_run_text),
        retry_seconds=_RETRY_SECONDS if retries else None,
        waits=waits,
    )
    plain = plain_names(names, "pod", "pods", "po")

    async def work(client: KubeClient) -> int:
        evicted = await evict_pods(client, client.access.namespace, plain, settings, Console(progress), SystemClock())
        return _EXIT_CODES[evicted]

    return run_against(overrides, within(request_seconds, settings.timeout_ns), work)
