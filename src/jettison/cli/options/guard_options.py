"""The options of every command that runs a node of this machine, and the settings that follow from them.

An option is called as the field of `NodeSettings` that it fills, so the fields are listed there and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from jettison.agent.http.server import LOOPBACK
from jettison.cli.options.host_options import Callback, cri_endpoint_option, state_options
from jettison.cli.options.kubelet_flags import ConfigArguments, config_option, kubelet_options
from jettison.cli.output import Remarks, remark
from jettison.cli.policy.config_input import on_host
from jettison.cli.policy.config_warnings import node_findings
from jettison.cli.policy.policy_input import policy_error, read_policy
from jettison.engine.config.policy import PROFILES
from jettison.engine.config.suggestions import quantity_advice
from jettison.engine.numbers.durations import SECOND_NS
from jettison.engine.numbers.quantity import parse
from jettison.engine.scheduling.placement import Taint
from jettison.errors import InputError, QuantityError
from jettison.manifests.files.decoding import shortened
from jettison.node.settings import AUTO, RUNTIMES, NodeSettings
from jettison.runtimes.host.settings import HOST_FILES, READ_ONLY

_DIRECTORY = click.Path(file_okay=False, path_type=Path)


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


def address(text: str) -> tuple[str, int]:
    """`127.0.0.1:8080` or `[::1]:8080`; only the loopback, because requests are not authenticated."""
    host, separator, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_port = port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 2**16
    if not separator or host not in LOOPBACK or not is_port:
        raise click.BadParameter(f"`{text}`: expected a host of {', '.join(LOOPBACK)}, a colon and a port")
    return host, int(port)


_ABOUT_OWN_PODS = (
    click.option(
        "--manifests",
        multiple=True,
        type=_DIRECTORY,
        metavar="DIR",
        help="Run the pods of this directory, and watch it for changes. Repeatable.",
    ),
    click.option(
        "--static-manifests",
        multiple=True,
        type=_DIRECTORY,
        metavar="DIR",
        help="The same for static pods: critical, never evicted. Repeatable.",
    ),
    click.option(
        "--ballast",
        type=quantity,
        metavar="QUANTITY",
        help="Hold this much of each disk, at most 1%, and give it up when the disk is full. [default: none]",
    ),
    click.option(
        "--host-files",
        type=click.Choice(HOST_FILES),
        default=READ_ONLY,
        show_default=True,
        help="What the host's files are to processes: read-only, private (what they write is charged to their pod and"
        " goes with it) or writable.",
    ),
    click.option("--node-pids", type=quantity, metavar="NUMBER", help="At most this many processes and threads."),
    click.option(
        "--runtime",
        type=click.Choice(RUNTIMES),
        default=AUTO,
        show_default=True,
        help="What pods run in: processes, containers, or containers for pods with images where a runtime is found.",
    ),
    cri_endpoint_option("The socket of the container runtime. [default: containerd's or CRI-O's, where there is one]"),
    click.option("--allow-privileged", is_flag=True, help="Let containers be privileged."),
    click.option(
        "--cgroup-name",
        default="",
        metavar="PATH",
        help="Below the root of every cgroup hierarchy. [default: jettison/NAME]",
    ),
    click.option(
        "--node-label",
        "labels",
        multiple=True,
        type=pair,
        callback=lambda _context, _option, pairs: dict(pairs),
        metavar="KEY=VALUE",
        help="A label of the node, for nodeSelector. Repeatable.",
    ),
    click.option(
        "--node-taint",
        "taints",
        multiple=True,
        callback=lambda _context, _option, texts: tuple(_taint(text) for text in texts),
        metavar="KEY=VALUE:EFFECT",
        help="A taint of the node. Repeatable.",
    ),
    click.option(
        "--readmit",
        "readmits",
        is_flag=True,
        help="Admit evicted pods again once the pressure is over, after longer delays each time.",
    ),
    click.option(
        "--dry-run", "is_dry_run", is_flag=True, help="Run pods, decide and record, but evict no pod and free nothing."
    ),
    click.option(
        "--no-cgroups",
        "uses_cgroups",
        is_flag=True,
        callback=lambda _context, _option, is_given: not is_given,
        help="Use process groups and /proc even where cgroups are available.",
    ),
)
_ABOUT_THE_NODE = (
    state_options,
    click.option(
        "--node-dir", type=_DIRECTORY, metavar="DIR", help="The directory on nodefs. [default: in --state-dir]"
    ),
    click.option(
        "--node-memory", type=quantity, metavar="QUANTITY", help="The node's memory, if smaller than the machine's."
    ),
    click.option(
        "--keep-image",
        "keep_images",
        multiple=True,
        metavar="PATTERN",
        help="Never remove images of this name, such as 'registry.local/base*'. Repeatable.",
    ),
    click.option(
        "--listen",
        type=address,
        metavar="HOST:PORT",
        help="Serve /stats/summary, /metrics, /healthz, … on the loopback too; port 0 takes a free one.",
    ),
    click.option("--verbose", "is_verbose", is_flag=True, help="Log alarms and rankings too."),
    config_option,
    click.option(
        "--profile",
        type=click.Choice(list(PROFILES)),
        default="kubelet",
        show_default=True,
        help="`kubelet`: exactly as Kubernetes; `improved`: without its known defects (docs/faithfulness.md).",
    ),
    kubelet_options,
)


def guard_options(command: Callback) -> Callback:
    """The command gets `settings: NodeSettings`; what is wrong with a configuration is said before."""
    return _with(command, (*_ABOUT_OWN_PODS, *_ABOUT_THE_NODE))


def watch_options(command: Callback) -> Callback:
    """The same without what is about pods that the node starts by itself."""
    return _with(command, _ABOUT_THE_NODE)


def _with(command: Callback, options: Sequence[Callback]) -> Callback:
    @wraps(command)
    def collected(*arguments: Any, config: ConfigArguments, profile: str, **options: Any) -> Any:
        remarks = Remarks()
        found = read_policy(config, profile, remarks)
        for said in remarks.notes:
            click.echo(said, err=True)
        names = [field.name for field in fields(NodeSettings) if field.name in options]
        given = {name: value for name in names if (value := options.pop(name)) is not None}
        settings = _with_disk_period(NodeSettings(**given, policy=found.policy))
        errors, warnings = node_findings(on_host(found, settings))
        for each in warnings:
            remark("warning", str(each))
        if errors:
            raise policy_error(errors)
        return command(*arguments, settings=settings, **options)

    decorated: Callback = collected
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def _with_disk_period(settings: NodeSettings) -> NodeSettings:
    """The kubelet's default is a minute, ours is 10 s."""
    config = settings.policy.config
    is_given = "volumeStatsAggPeriod" in config.origins and config.volume_stats_period > 0
    return replace(settings, disk_period=config.volume_stats_period / SECOND_NS) if is_given else settings


def _taint(text: str) -> Taint:
    pair, separator, effect = text.rpartition(":")
    if not separator or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise InputError(f"invalid taint `{text}`: expected key=value:NoSchedule, PreferNoSchedule or NoExecute")
    key, _, value = pair.partition("=")
    return Taint(key, value, effect)
