"""`jettison store`: the objects of `jettison serve` and `jettison up --nodes` on disk, while neither runs."""

from __future__ import annotations

import click

from jettison.cli.lazy import LazyGroup

COMMANDS = {
    "check": ("cluster.store_check", "What is wrong with the store; exits with 3 if anything is."),
    "repair": ("cluster.store_repair", "A new store of every row that can be read; the damaged one is kept."),
}


@click.command("store", cls=LazyGroup, lazy=COMMANDS)
def command() -> None:
    """Check or repair the store of a cluster, while no server runs on it."""
