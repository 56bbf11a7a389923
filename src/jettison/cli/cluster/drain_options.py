"""kubectl drain's own flags, and what they mean together."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from jettison.cli.cluster.connection import dry_run_option, duration_ns, read_dry_run
from jettison.cli.options.go_flags import WholeNumber, go_switch
from jettison.engine.drain.filters import DrainRules
from jettison.engine.labels.selector_text import parse_label_selector
from jettison.errors import InputError, JettisonError
from jettison.maintenance.settings import DrainSettings, EvictionSettings
from jettison.runtimes.kube.client import CHUNK

Callback = Callable[..., Any]

grace_period_option = click.option(
    "--grace-period",
    type=WholeNumber(),
    default=-1,
    metavar="SECONDS",
    help="Negative: what each pod says; 0: at once.",
)
progress_option = click.option(
    "--progress/--no-progress", default=None, help="Counts and causes on standard error; by default on a terminal."
)

_OPTIONS = (
    go_switch("--force", help="Also pods without a controller, and those whose DaemonSet is gone."),
    go_switch("--ignore-daemonsets", "ignores_daemon_sets", help="Leave DaemonSets' pods instead of refusing."),
    go_switch("--delete-emptydir-data", "deletes_empty_dirs", help="Also pods whose emptyDir data is lost with them."),
    go_switch("--disable-eviction", "deletes", help="Delete instead of evicting; no budget is asked."),
    grace_period_option,
    click.option("--timeout", default="0s", metavar="DURATION", help="For each node, all waits included; 0s: none."),
    click.option("--pod-selector", default="", metavar="LABELS", help="Only these pods."),
    click.option(
        "--skip-wait-for-delete-timeout",
        "skip_wait_seconds",
        type=WholeNumber(),
        default=0,
        metavar="SECONDS",
        help="Above 0, ignore pods that should have been gone for longer.",
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


def grace_seconds(grace_period: int) -> int | None:
    """None: the pod's own."""
    return grace_period if grace_period >= 0 else None


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
