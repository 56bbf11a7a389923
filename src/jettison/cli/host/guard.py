"""`jettison guard`: watch over what others started on this machine. Here is what it is told; `node.guard` does it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from jettison.cli.options.go_flags import WholeNumber
from jettison.cli.options.guard_options import watch_options
from jettison.cli.options.kubelet_flags import KubeletCommand
from jettison.engine.config.policy import build_policy
from jettison.errors import InputError
from jettison.node.cluster_settings import GuardSettings, HandOver
from jettison.node.settings import NodeSettings, absolute
from jettison.runtimes.adopted.back_off import MOST_A_MINUTE
from jettison.runtimes.adopted.container_engine import USUAL_SOCKETS
from jettison.runtimes.adopted.rules import GuardRules
from jettison.runtimes.adopted.rules_file import SHIPPED, checked_cgroup, read_rules, shipped_rules
from jettison.runtimes.adopted.settings import AdoptedSettings


@click.command(cls=KubeletCommand)
@click.option(
    "--enforce/--observe",
    default=False,
    help="Stop what must go, or only record and explain what would. [default: --observe]",
)
@click.option(
    "--socket",
    "sockets",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The socket of Docker or of Podman. Repeatable. [default: those at the usual places]",
)
@click.option(
    "--cgroup",
    "cgroups",
    multiple=True,
    metavar="PATTERN",
    help="Guard the cgroups of this path too, such as 'system.slice/*.service'. Repeatable.",
)
@click.option(
    "--rules", "rules_file", type=click.Path(path_type=Path), metavar="FILE", help="Priorities, requests, protection."
)
@click.option("--show-rules", is_flag=True, help="Print the rules that count where yours say nothing, and exit.")
@click.option(
    "--within",
    metavar="CGROUP",
    default="",
    help="The node is this cgroup, which has --node-memory, instead of the whole machine.",
)
@click.option(
    "--max-evictions-per-minute",
    "most_a_minute",
    type=WholeNumber(1, 1000),
    default=MOST_A_MINUTE,
    show_default=True,
    help="Stop no more than this; what then is left is an alert.",
)
@watch_options
@click.pass_context
def command(
    context: click.Context,
    /,
    settings: NodeSettings,
    enforce: bool,
    sockets: tuple[Path, ...],
    cgroups: tuple[str, ...],
    rules_file: Path | None,
    show_rules: bool,
    within: str,
    most_a_minute: int,
) -> None:
    """Guard containers of Docker and Podman, and any cgroup: decide as a kubelet would, and stop what must go.

    \b
    jettison guard --eviction-hard 'memory.available<500Mi'
    jettison guard --enforce --rules rules.yaml --cgroup 'system.slice/*.service'

    Nothing is started or removed. Without --enforce nothing is stopped either: `jettison why` and `jettison journal`
    tell what would have been. docs/guard.md has the labels and the rules.
    """
    hand_over: HandOver = context.obj
    is_named = context.get_parameter_source("node_dir") is ParameterSource.COMMANDLINE
    if show_rules:
        click.echo(SHIPPED, nl=False)
        return
    if bool(within) != (settings.node_memory is not None):
        raise InputError(
            "--within and --node-memory belong together: a part of the machine, and how much memory it has"
        )
    rules = read_rules(rules_file) if rules_file is not None else GuardRules()
    named = tuple(checked_cgroup(each, f"--cgroup `{each}`") for each in cgroups)
    adopted = AdoptedSettings(
        settings.node_name,
        settings.node_dir if is_named else settings.state_dir,
        settings.node_state / "stopping.json",
        tuple(map(absolute, sockets)) or tuple(each for each in _distinct(USUAL_SOCKETS) if each.is_socket()),
        replace(rules, cgroups=(*rules.cgroups, *named)),
        shipped_rules(),
        checked_cgroup(within, f"--within `{within}`") if within else "",
        settings.node_memory,
        most_a_minute,
    )
    # Allocatable memory is that of pods in one cgroup of ours, and there is none here.
    config = replace(settings.policy.config, enforce_node_allocatable=())
    policy = build_policy(config, settings.policy.switches)
    node = replace(settings, policy=policy, is_dry_run=not enforce)
    hand_over(GuardSettings(node, adopted))


def _distinct(paths: tuple[Path, ...]) -> list[Path]:
    """/var/run is /run on most machines, and an engine is to be asked once."""
    return list(dict.fromkeys(path.resolve() for path in paths))
