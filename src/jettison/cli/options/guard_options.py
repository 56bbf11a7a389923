"""The options of every command that runs a node of this machine, and the orders that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from jettison.agent.journal.policy_records import policy_record
from jettison.cli.options.host_options import Callback, absolute, pair, quantity, state_options
from jettison.cli.options.kubelet_flags import ConfigArguments, config_option, kubelet_options
from jettison.cli.options.listen_address import address
from jettison.cli.output import Remarks, remark
from jettison.cli.policy.config_input import on_host
from jettison.cli.policy.config_warnings import node_findings
from jettison.cli.policy.policy_input import policy_error, read_policy
from jettison.engine.config.kubelet_fields import KubeletConfig
from jettison.engine.config.policy import PROFILES
from jettison.engine.labels.syntax import NODE_LABEL_PREFIXES, NODE_LABELS, is_administrators_label
from jettison.engine.numbers.durations import SECOND_NS
from jettison.engine.scheduling.taints import Taint
from jettison.errors import InputError
from jettison.node.orders import Orders
from jettison.runtimes.host.settings import HostSettings

_DIRECTORY = click.Path(file_okay=False, path_type=Path)

_OPTIONS = (
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
    state_options,
    click.option(
        "--node-dir", type=_DIRECTORY, metavar="DIR", help="The directory on nodefs. [default: in --state-dir]"
    ),
    click.option(
        "--node-memory", type=quantity, metavar="QUANTITY", help="The node's memory, if smaller than the machine's."
    ),
    click.option("--node-pids", type=quantity, metavar="NUMBER", help="At most this many processes and threads."),
    click.option(
        "--cgroup-name",
        default="",
        metavar="PATH",
        help="Below the root of every cgroup hierarchy. [default: jettison/NAME]",
    ),
    click.option(
        "--node-label",
        multiple=True,
        type=pair,
        metavar="KEY=VALUE",
        help="A label of the node, for nodeSelector. Repeatable.",
    ),
    click.option("--node-taint", multiple=True, metavar="KEY=VALUE:EFFECT", help="A taint of the node. Repeatable."),
    click.option(
        "--readmit",
        is_flag=True,
        help="Admit evicted pods again once the pressure is over, after longer delays each time.",
    ),
    click.option("--dry-run", is_flag=True, help="Run pods, decide and record, but evict no pod and free nothing."),
    click.option(
        "--listen",
        type=address,
        metavar="HOST:PORT",
        help="Serve /stats/summary, /metrics, /healthz, … on the loopback too; port 0 takes a free one.",
    ),
    click.option("--no-cgroups", is_flag=True, help="Use process groups and /proc even where cgroups are available."),
    click.option("--verbose", is_flag=True, help="Log alarms and rankings too."),
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
    """The command gets `orders: Orders`; what is wrong with a configuration is said before."""

    @wraps(command)
    def collected(*arguments: Any, config: ConfigArguments, profile: str, **options: Any) -> Any:
        remarks = Remarks()
        found = read_policy(config, profile, remarks)
        for said in remarks.notes:
            click.echo(said, err=True)
        own = {name: options.pop(name) for name in _NAMES}
        orders = _orders(own, policy_record(found.policy), found.policy.config)
        errors, warnings = node_findings(on_host(found, orders.settings))
        for each in warnings:
            remark("warning", str(each))
        if errors:
            raise policy_error(errors)
        return command(*arguments, orders=orders, **options)

    decorated: Callback = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_NAMES = (
    *("manifests", "static_manifests", "state_dir", "node_name", "node_dir", "node_memory", "node_pids"),
    *("cgroup_name", "node_label", "node_taint", "readmit", "dry_run", "listen", "no_cgroups", "verbose"),
)


def _orders(options: Mapping[str, Any], policy: dict[str, Any], config: KubeletConfig) -> Orders:
    state_dir = options["state_dir"]
    name = options["node_name"]
    node_dir = options["node_dir"]
    settings = HostSettings(
        name,
        state_dir,
        state_dir / "node" / name / "files" if node_dir is None else absolute(node_dir),
        options["cgroup_name"],
        options["node_memory"],
        options["node_pids"],
        uses_cgroups=not options["no_cgroups"],
    )
    # The kubelet's default is a minute, ours is 10 s.
    if "volumeStatsAggPeriod" in config.origins and config.volume_stats_period > 0:
        settings = replace(settings, disk_period=config.volume_stats_period / SECOND_NS)
    return Orders(
        settings,
        policy,
        [absolute(path) for path in options["manifests"]],
        [absolute(path) for path in options["static_manifests"]],
        dict(options["node_label"]),
        [_taint(text) for text in options["node_taint"]],
        options["readmit"],
        options["dry_run"],
        options["listen"],
        options["verbose"],
    )


def check_own_labels(orders: Orders) -> Orders:
    """Refuse labels that a cluster does not accept from a node: every attempt to join would fail."""
    if refused := sorted(filter(is_administrators_label, orders.labels)):
        shown = ", ".join(f"`{each}`" for each in refused)
        prefixes, labels = " or ".join(NODE_LABEL_PREFIXES), ", ".join(sorted(NODE_LABELS))
        raise InputError(
            f"--node-label: a node of a cluster may not label itself {shown}: under kubernetes.io and k8s.io it may "
            f"use what begins with {prefixes}, and {labels}; an administrator may set others"
        )
    return orders


def _taint(text: str) -> Taint:
    pair, separator, effect = text.rpartition(":")
    if not separator or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise InputError(f"invalid taint `{text}`: expected key=value:NoSchedule, PreferNoSchedule or NoExecute")
    key, _, value = pair.partition("=")
    return Taint(key, value, effect)
