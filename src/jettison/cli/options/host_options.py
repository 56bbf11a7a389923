"""The options that describe a node of this machine, for every command that runs one or asks about one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from jettison.engine.config.suggestions import quantity_advice
from jettison.engine.numbers.quantity import parse
from jettison.errors import QuantityError
from jettison.manifests.files.decoding import shortened
from jettison.node.settings import absolute, default_node_name, default_state_dir

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


def quantity(text: str) -> int:
    """`512Mi` as a number."""
    try:
        found = parse(text)
    except QuantityError as error:
        raise click.BadParameter(f"`{shortened(text)}`: {quantity_advice(str(error), text)}") from error
    if found.sign <= 0 or not found.fits_int64():
        raise click.BadParameter(f"`{shortened(text)}` is not a positive number that fits into 64 bits")
    return found.value


def pair(text: str) -> tuple[str, str]:
    """`key=value`."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.BadParameter(f"`{text}`: expected key=value")
    return key, value
