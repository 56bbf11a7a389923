"""The options that describe a node of this machine, for every command that runs one or asks about one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from jettison.node.places import absolute, default_node_name, default_state_dir

Callback = Callable[..., Any]


state_dir_option = click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_state_dir,
    envvar="JETTISON_STATE_DIR",
    metavar="DIR",
    callback=lambda _context, _option, path: absolute(path),
    help="Holds records, journals and sockets of nodes, and objects, certificates and tokens of an API. [default:"
    " $JETTISON_STATE_DIR, or /var/lib/jettison, or for users other than root ~/.local/state/jettison]",
)


def state_options(command: Callback) -> Callback:
    """Which node, and where its state lies."""
    for option in (
        click.option(
            "--node-name",
            default=default_node_name,
            metavar="NAME",
            help="The name of the node. [default: this host's name]",
        ),
        state_dir_option,
    ):
        command = option(command)
    return command


def cri_endpoint_option(help_text: str) -> Callable[[Callback], Callback]:
    """The socket of a container runtime; commands differ in what they want it for."""
    return click.option("--cri-endpoint", default="", metavar="unix://PATH", help=help_text)


def engine_sockets_option(help_text: str) -> Callable[[Callback], Callback]:
    """The sockets of Docker and Podman."""
    return click.option(
        "--socket", "sockets", multiple=True, type=click.Path(path_type=Path), metavar="PATH", help=help_text
    )
