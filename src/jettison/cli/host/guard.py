"""`jettison guard`: watch over what others started on this machine. Here is what it is told; `node.guard` does it."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from jettison.cli.extras import require
from jettison.cli.options.go_flags import WholeNumber
from jettison.cli.options.guard_options import watch_options
from jettison.cli.options.host_options import cri_endpoint_option, engine_sockets_option
from jettison.cli.options.kubelet_flags import KubeletCommand
from jettison.engine.config.policy import build_policy
from jettison.errors import InputError, ServeError
from jettison.node.cluster_settings import GuardSettings, HandOver
from jettison.node.container_runtime import find_socket
from jettison.node.places import absolute
from jettison.node.settings import NodeSettings
from jettison.runtimes.adopted.back_off import MOST_A_MINUTE
from jettison.runtimes.adopted.engine_socket import USUAL_SOCKETS
from jettison.runtimes.adopted.rules import GuardRules
from jettison.runtimes.adopted.rules_file import SHIPPED, checked_cgroup, read_rules, shipped_rules
from jettison.runtimes.adopted.settings import AdoptedSettings
from jettison.runtimes.machine.garbage import GarbageKind


@click.command(cls=KubeletCommand)
@click.option(
    "--enforce/--observe",
    default=False,
    help="Stop what must go, or only record and explain what would. [default: --observe]",
)
@engine_sockets_option("The socket of Docker or of Podman. Repeatable. [default: those at the usual places]")
@cri_endpoint_option(
    "The socket of containerd or of another container runtime. [default: the usual one, unless --socket is given]"
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
@click.option(
    "--collect",
    "collected",
    multiple=True,
    type=click.Choice([GarbageKind.IMAGES.value, GarbageKind.CONTAINERS.value]),
    help="With --enforce: remove unused images by the kubelet's rules; containers that ended a day ago, when a disk is"
    " starved. Repeatable. [default: nothing is removed]",
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
    collected: tuple[str, ...],
) -> None:
    """Guard containers of Docker, Podman and containerd, and any cgroup: decide as a kubelet, and stop what must go.

    \b
    jettison guard --eviction-hard 'memory.available<500Mi'
    jettison guard --enforce --rules rules.yaml --cgroup 'system.slice/*.service'

    Nothing is started, and nothing is removed without --collect. Without --enforce nothing is stopped either:
    `jettison why` and `jettison journal` tell what would have been. docs/guard.md has the labels and the rules.
    """
    hand_over: HandOver = context.obj
    if context.get_parameter_source("node_dir") is not ParameterSource.COMMANDLINE:
        # No directory of its own: it starts no pods.
        settings = replace(settings, node_dir=settings.state_dir)
    if show_rules:
        click.echo(SHIPPED, nl=False)
        return
    if bool(within) != (settings.node_memory is not None):
        raise InputError(
            "--within and --node-memory belong together: a part of the machine, and how much memory it has"
        )
    if collected and not enforce:
        raise InputError("--collect removes things, and --observe touches nothing: give --enforce as well")
    rules = read_rules(rules_file) if rules_file is not None else GuardRules()
    named = tuple(checked_cgroup(each, f"--cgroup `{each}`") for each in cgroups)
    adopted = AdoptedSettings(
        settings.node_name,
        settings.node_dir,
        settings.node_state / "stopping.json",
        tuple(map(absolute, sockets)) or tuple(each for each in _distinct(USUAL_SOCKETS) if each.is_socket()),
        replace(rules, cgroups=(*rules.cgroups, *named)),
        shipped_rules(),
        checked_cgroup(within, f"--within `{within}`") if within else "",
        settings.node_memory,
        most_a_minute,
        GarbageKind.IMAGES in collected,
        GarbageKind.CONTAINERS in collected,
        settings.keep_images,
        _runtime(settings.cri_endpoint, is_needed=not sockets),
    )
    # Allocatable memory is that of pods in one cgroup of ours, and there is none here.
    config = replace(settings.policy.config, enforce_node_allocatable=())
    policy = build_policy(config, settings.policy.switches)
    node = replace(settings, policy=policy, is_dry_run=not enforce)
    hand_over(GuardSettings(node, adopted))


def _runtime(endpoint: str, *, is_needed: bool) -> Path | None:
    """The one that is named; without a name one at a usual place, where containers can be asked for at all."""
    if endpoint:
        require("jettison guard --cri-endpoint", "cri")
        return find_socket(endpoint)
    try:
        return find_socket("") if is_needed and importlib.util.find_spec("h2") is not None else None
    except ServeError:
        return None


def _distinct(paths: tuple[Path, ...]) -> list[Path]:
    """/var/run is /run on most machines, and an engine is to be asked once."""
    return list(dict.fromkeys(path.resolve() for path in paths))
