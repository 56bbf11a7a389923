"""Which controllers run, and how: options named as those of kube-controller-manager.

In `--controllers`, `*` is all, `foo` adds one, `-foo` leaves one out. The first entry that names a controller decides
about it, whatever comes later; without a `*`, only what is named runs. A single `-` is none, because a reader of a
command line sees it more easily than an empty text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import click

from jettison.cli.options.go_flags import WholeNumber
from jettison.controllers.settings import CONTROLLERS, ControllerSettings
from jettison.engine.budgets.budget import API_PROFILES
from jettison.errors import InputError

NONE = "-"

_FULL_NAMES = {short: name for name, short in CONTROLLERS.items() if short}


def choose_controllers(texts: Iterable[str]) -> frozenset[str]:
    """The full names of those that are to run; each text may hold several, with commas between them."""
    entries = [each.strip() for text in texts for each in text.split(",") if each.strip()]
    if entries == [NONE]:
        return frozenset()
    wanted = [_entry(each) for each in entries]
    return frozenset(name for name in CONTROLLERS if _is_chosen(name, wanted))


def _entry(text: str) -> str:
    if text == NONE:
        raise InputError("--controllers: `-` is none of them, so nothing else can stand beside it")
    sign = "-" if text.startswith("-") else ""
    name = text.removeprefix("-")
    name = _FULL_NAMES.get(name, name)
    if text != "*" and name not in CONTROLLERS:
        raise InputError(f"--controllers: `{name}` is not in the list of known controllers: {', '.join(CONTROLLERS)}")
    return f"{sign}{name}"


def _is_chosen(name: str, wanted: Iterable[str]) -> bool:
    first = next((each for each in wanted if each in (name, f"-{name}")), None)
    return first == name if first is not None else "*" in wanted


Callback = Callable[..., Any]

_DEFAULTS = ControllerSettings()
_OPTIONS = (
    click.option(
        "--controllers",
        multiple=True,
        default=["*"],
        metavar="NAMES",
        help="`*`: all; `foo`: also this one; `-foo`: not this one; with commas between; `-`: none. [default: *]",
    ),
    click.option(
        "--terminated-pod-gc-threshold",
        type=WholeNumber(),
        default=_DEFAULTS.terminated_pods,
        metavar="NUMBER",
        show_default=True,
        help="Delete the oldest ended pods above this number, evicted ones first; 0: keep all.",
    ),
    click.option(
        "--evicted-pod-limit",
        type=WholeNumber(0),
        metavar="NUMBER",
        help="Delete the oldest evicted pods above this number. [default: only the threshold above]",
    ),
    click.option(
        "--profile",
        type=click.Choice(list(API_PROFILES)),
        default="kubelet",
        show_default=True,
        help="`kubelet`: exactly as Kubernetes; `improved`: without its known defects (docs/faithfulness.md).",
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
