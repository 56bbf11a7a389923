"""Which controllers, and how: options of every command that runs them, named as kube-controller-manager's."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from jettison.cli.cluster.controller_choice import choose_controllers
from jettison.cli.options.go_flags import WholeNumber
from jettison.controllers.settings import ControllerSettings
from jettison.engine.budgets.switches import API_PROFILES

Callback = Callable[..., Any]

_DEFAULTS = ControllerSettings()
_OPTIONS = (
    click.option(
        "--controllers",
        multiple=True,
        default=["*"],
        metavar="NAMES",
        help="`*` for all, `foo` for one more, `-foo` for one less, with commas between; `-` for none. [default: *]",
    ),
    click.option(
        "--terminated-pod-gc-threshold",
        type=WholeNumber(),
        default=_DEFAULTS.terminated_pods,
        metavar="NUMBER",
        show_default=True,
        help="Of more pods that have ended the oldest go, evicted ones first; 0: all stay.",
    ),
    click.option(
        "--evicted-pod-limit",
        type=WholeNumber(0),
        metavar="NUMBER",
        help="Of more pods that a node evicted the oldest go. [default: only the threshold above]",
    ),
    click.option(
        "--profile",
        type=click.Choice(list(API_PROFILES)),
        default="kubelet",
        show_default=True,
        help="`improved` is better than Kubernetes where that is known to be wrong.",
    ),
)


def controller_options(command: Callback) -> Callback:
    """The command gets `names: frozenset[str]` and `settings: ControllerSettings`."""

    @wraps(command)
    def collected(
        *arguments: Any,
        controllers: tuple[str, ...],
        terminated_pod_gc_threshold: int,
        evicted_pod_limit: int | None,
        profile: str,
        **options: Any,
    ) -> Any:
        settings = ControllerSettings(terminated_pod_gc_threshold, evicted_pod_limit, API_PROFILES[profile])
        return command(*arguments, names=choose_controllers(controllers), settings=settings, **options)

    decorated: Callback = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
