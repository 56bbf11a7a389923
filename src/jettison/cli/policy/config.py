"""`jettison config`: eviction settings as a kubelet understands them."""

from __future__ import annotations

import click

from jettison.cli.lazy import LazyGroup

COMMANDS = {
    "show": ("policy.config_show", "The effective thresholds and settings, and where each comes from."),
    "check": ("policy.config_check", "Every error and everything worth a second thought; exits with 2 on errors."),
}


@click.command("config", cls=LazyGroup, lazy=COMMANDS)
def command() -> None:
    """Show or check eviction settings: a KubeletConfiguration file, drop-ins and the kubelet's flags together."""
