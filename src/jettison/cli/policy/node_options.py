"""The options that `rank` and `decide` share: a node's files, its settings, and how to read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from jettison.cli.options.kubelet_flags import config_option, kubelet_options
from jettison.cli.output import output_option
from jettison.cli.policy.node_input import LAYOUTS
from jettison.engine.config.policy import PROFILES

image_fs_option = click.option(
    "--image-fs",
    type=click.Choice(["auto", *LAYOUTS]),
    default="auto",
    show_default=True,
    help="Where images lie: with everything else; with writable layers on a filesystem of their own; or alone there. "
    "`auto` compares sizes.",
)


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add them all, in the order in which help shall show them."""
    for option in reversed(
        (
            click.option("--summary", "summary_path", required=True, metavar="FILE", help="The node's /stats/summary."),
            click.option("--pods", "pods_path", required=True, metavar="FILE", help="Its pods, or all of them."),
            config_option,
            kubelet_options,
            image_fs_option,
            click.option(
                "--profile",
                type=click.Choice(list(PROFILES)),
                default="kubelet",
                show_default=True,
                help="Exactly as Kubernetes does, or better where docs/faithfulness.md says so.",
            ),
            output_option,
        )
    ):
        command = option(command)
    return command
