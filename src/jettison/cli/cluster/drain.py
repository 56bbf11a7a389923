"""`jettison drain`: empty nodes through the budgets, with the flags of kubectl drain.

`--plan` changes nothing and prints how it would go. What drains or plans is loaded when the nodes have been read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from jettison.cli.cluster.connection import (
    FAILED,
    Console,
    KubectlCommand,
    cluster_options,
    dry_run_option,
    duration_ns,
    grace_period_option,
    grace_seconds,
    progress_option,
    read_dry_run,
    run_against,
    within,
)
from jettison.cli.cluster.cordon import check_nodes, node_arguments, read_nodes
from jettison.cli.options.go_flags import WholeNumber, go_switch
from jettison.cli.output import output_option
from jettison.clock import SystemClock
from jettison.engine.drain.rules import DrainRules
from jettison.engine.labels.selectors import parse_label_selector
from jettison.errors import InputError, JettisonError
from jettison.maintenance.settings import DrainSettings, EvictionSettings
from jettison.runtimes.kube.client import CHUNK, KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides

Callback = Callable[..., Any]

_OPTIONS = (
    go_switch("--force", help="Evict also pods without a controller, and those whose DaemonSet is gone."),
    go_switch("--ignore-daemonsets", "ignores_daemon_sets", help="Leave DaemonSets' pods instead of refusing."),
    go_switch(
        "--delete-emptydir-data",
        "deletes_empty_dirs",
        help="Evict also pods with emptyDir volumes, whose data is lost.",
    ),
    go_switch("--disable-eviction", "deletes", help="Delete the pods instead of evicting them; budgets are ignored."),
    grace_period_option,
    click.option(
        "--timeout", default="0s", metavar="DURATION", help="The limit for each node, all waits included; 0s: no limit."
    ),
    click.option("--pod-selector", default="", metavar="LABELS", help="Evict only pods with these labels."),
    click.option(
        "--skip-wait-for-delete-timeout",
        "skip_wait_seconds",
        type=WholeNumber(),
        default=0,
        metavar="SECONDS",
        help="Above 0, do not wait for pods that have been ending for longer than this.",
    ),
    click.option(
        "--chunk-size",
        "chunk",
        type=WholeNumber(),
        default=CHUNK,
        show_default=True,
        help="Objects per list request; 0: all.",
    ),
    dry_run_option,
)


def drain_options(command: Callback) -> Callback:
    """The command gets `settings: DrainSettings`."""

    @wraps(command)
    def collected(*arguments: Any, **options: Any) -> Any:
        return command(*arguments, settings=_settings(options), **options)

    decorated: Callback = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _settings(options: dict[str, Any]) -> DrainSettings:
    """Takes its own out of the options."""
    skip_wait_seconds = options.pop("skip_wait_seconds")
    return DrainSettings(
        rules=DrainRules(
            force=options.pop("force"),
            ignores_daemon_sets=options.pop("ignores_daemon_sets"),
            deletes_empty_dirs=options.pop("deletes_empty_dirs"),
            skip_wait_seconds=skip_wait_seconds,
        ),
        eviction=EvictionSettings(
            grace_seconds=grace_seconds(options.pop("grace_period")),
            timeout_ns=duration_ns("--timeout", options.pop("timeout")),
            dry_run=read_dry_run(options.pop("dry_run_text")),
            skip_wait_seconds=skip_wait_seconds,
        ),
        pod_selector=_checked(options.pop("pod_selector")),
        deletes=options.pop("deletes"),
        chunk=options.pop("chunk"),
    )


def _checked(pod_selector: str) -> str:
    try:
        parse_label_selector(pod_selector)
    except InputError as error:
        raise JettisonError("--pod-selector=<pod_selector> must be a valid label selector") from error
    return pod_selector


@click.command("drain", cls=KubectlCommand, short_help="Empty nodes through the budgets, or plan it.")
@node_arguments
@click.option(
    "--plan", "is_plan", is_flag=True, help="Change nothing, say which pod goes when; exit 3: it would not finish."
)
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
            from jettison.cli.cluster.drain_plan import print_plan  # noqa: PLC0415  see above

            return await print_plan(client, nodes, settings, output)
        from jettison.maintenance.drain import drain_nodes  # noqa: PLC0415  see above

        is_done = await drain_nodes(client, nodes, settings, Console(progress), SystemClock())
        return 0 if is_done else FAILED

    return run_against(overrides, within(request_seconds, settings.eviction.timeout_ns), work)
