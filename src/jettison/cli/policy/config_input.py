"""What `config` and the start of a node look at: a policy, where it comes from, and the capacities of the node.

Capacities turn percentages into amounts. They come from options, from a summary, or are measured on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from jettison.cli.options.kubelet_flags import ConfigArguments, kubelet_options
from jettison.cli.output import output_option
from jettison.cli.policy.node_input import LAYOUTS, read_summary, shown
from jettison.cli.policy.node_source import capacity_value_options, image_fs_option, only_one_from_standard_input
from jettison.cli.policy.policy_input import PolicyInput
from jettison.engine.config.allocatable import Allocatable, MachineCapacity, node_allocatable
from jettison.engine.config.kubelet_fields import KubeletConfig
from jettison.engine.config.policy import Policy
from jettison.engine.config.suggestions import quantity_advice
from jettison.engine.node.amounts import whole
from jettison.engine.node.signals import Signal, readings
from jettison.engine.node.snapshot import Layout, NodeStats
from jettison.engine.numbers.quantity import ZERO, binary, parse
from jettison.engine.pods.pod import CPU, MEMORY
from jettison.errors import InputError, QuantityError
from jettison.manifests.summary import layout_of
from jettison.runtimes.host.measure.capacity import measure_capacity
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux.files.filesystems import Filesystem, are_on_one_device, read_filesystem
from jettison.runtimes.linux.proc import Machine
from jettison.values import frozen

# Where container runtimes keep images and writable layers unless told otherwise; the first that exists counts.
IMAGE_STORES = ("/var/lib/containerd", "/var/lib/containers/storage", "/var/lib/docker")

MEASURED = "measured on this machine"


@frozen
class Capacities:
    """By signal; a signal is missing where its capacity is not known."""

    by_signal: Mapping[Signal, int]
    layout: Layout
    origin: str
    cores: int | None = None


# By the names in `capacity_value_options`.
OPTIONS: dict[str, Signal] = {
    "memory": Signal.MEMORY_AVAILABLE,
    "disk": Signal.NODEFS_AVAILABLE,
    "inodes": Signal.NODEFS_INODES_FREE,
    "image-disk": Signal.IMAGEFS_AVAILABLE,
    "image-inodes": Signal.IMAGEFS_INODES_FREE,
    "pids": Signal.PID_AVAILABLE,
}


def capacity_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--summary` and the sizes; see `capacities` for what they do together."""
    command = capacity_value_options(command)
    summary = click.option(
        "--summary", "summary_path", metavar="FILE", help="Take capacities from a node's /stats/summary."
    )
    return summary(command)


def capacities(config: KubeletConfig, node: NodeArguments) -> Capacities:
    """From the summary, with the given options in place of its values; without both, measured on this machine."""
    given = {name: _amount(name, text) for name, text in node.told.items() if text is not None}
    if node.summary_path is None and node.stats is None and not given:
        return _measured(Path(config.root_dir))
    found = Capacities({}, Layout(), "given")
    if node.summary_path is not None:
        found = _capacities_of(read_summary(node.summary_path)[0], shown(node.summary_path))
    elif node.stats is not None:
        found = _capacities_of(node.stats, f"node {node.stats.name}")
    by_signal = {**found.by_signal, **{OPTIONS[name]: amount for name, amount in given.items()}}
    has_images = "image-disk" in given or "image-inodes" in given
    layout = Layout(True, found.layout.is_split) if has_images else found.layout
    return replace(found, by_signal=by_signal, layout=layout)


def _capacities_of(node: NodeStats, origin: str) -> Capacities:
    return Capacities({signal: each.capacity for signal, each in readings(node).items()}, layout_of(node), origin)


def with_shared_filesystems(found: Capacities) -> Capacities:
    """With the filesystems of images and writable layers: nodefs, unless the layout says otherwise."""
    nodefs = (Signal.NODEFS_AVAILABLE, Signal.NODEFS_INODES_FREE)
    imagefs = (Signal.IMAGEFS_AVAILABLE, Signal.IMAGEFS_INODES_FREE)
    containerfs = (Signal.CONTAINERFS_AVAILABLE, Signal.CONTAINERFS_INODES_FREE)
    by_signal = dict(found.by_signal)
    if not found.layout.has_image_fs:
        _copy(by_signal, nodefs, imagefs)
    _copy(by_signal, imagefs if found.layout.has_image_fs and not found.layout.is_split else nodefs, containerfs)
    return replace(found, by_signal=by_signal)


def _copy(by_signal: dict[Signal, int], sources: tuple[Signal, ...], targets: tuple[Signal, ...]) -> None:
    for source, target in zip(sources, targets, strict=True):
        if source in by_signal:
            by_signal.setdefault(target, by_signal[source])


def _amount(name: str, text: str) -> int:
    try:
        amount = parse(text)
    except QuantityError as error:
        raise InputError(f"--capacity-{name}: `{text}`: {quantity_advice(str(error), text)}") from error
    if amount.sign <= 0 or not amount.fits_int64():
        raise InputError(f"--capacity-{name}: `{text}` is not a positive number that fits into 64 bits")
    return whole(amount)


def _measured(root: Path) -> Capacities:
    with closing(Machine()) as machine:
        memory, pids = machine.memory().total, machine.most_tasks()
    by_signal = {Signal.MEMORY_AVAILABLE: memory}
    if pids is not None:
        by_signal[Signal.PID_AVAILABLE] = pids
    node = existing(root)
    by_signal |= _of_filesystem(read_filesystem(node), Signal.NODEFS_AVAILABLE, Signal.NODEFS_INODES_FREE)
    images = next((path for path in map(Path, IMAGE_STORES) if path.exists()), None)
    layout = Layout(has_image_fs=images is not None and are_on_one_device(node, images) is False)
    if images is not None and layout.has_image_fs:
        by_signal |= _of_filesystem(read_filesystem(images), Signal.IMAGEFS_AVAILABLE, Signal.IMAGEFS_INODES_FREE)
    return Capacities(by_signal, layout, f"{MEASURED}, nodefs at {node}", os.cpu_count())


def existing(path: Path) -> Path:
    """A machine without a kubelet has no such directory; its filesystem would be that of the nearest one above."""
    # Not Path.exists, which raises for a name that is too long.
    return next(each for each in (path, *path.parents) if os.path.exists(each) or each == each.parent)  # noqa: PTH110


def _of_filesystem(found: Filesystem | None, available: Signal, inodes_free: Signal) -> dict[Signal, int]:
    if found is None:
        return {}
    numbers = {available: found.capacity, inodes_free: found.inodes}
    return {signal: number for signal, number in numbers.items() if number is not None}


@frozen
class NodeArguments:
    """How the command line describes the node."""

    summary_path: str | None
    image_fs: str
    told: Mapping[str, str | None]
    # A node that was looked at, in the place of a summary.
    stats: NodeStats | None = None


@frozen
class ConfigInput:
    """A policy on a node of known size."""

    found: PolicyInput
    capacities: Capacities
    # None when the size of memory is not known.
    allocatable: Allocatable | None

    @property
    def policy(self) -> Policy:
        """The policy itself."""
        return self.found.policy

    @property
    def is_measured(self) -> bool:
        """Whether the capacities are those of this machine, which may not be the one the configuration is for."""
        return self.capacities.origin.startswith(MEASURED)


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Everything that both commands take; they get `config: ConfigArguments` and `node: NodeArguments`."""

    def collected(summary_path: str | None, image_fs: str, told: Mapping[str, str | None], **options: Any) -> Any:
        return command(node=NodeArguments(summary_path, image_fs, told), **options)

    decorated: Callable[..., Any] = collected
    for option in (output_option, image_fs_option, capacity_options, kubelet_options):
        decorated = option(decorated)
    decorated.__doc__ = command.__doc__
    return click.argument("config_file", metavar="[FILE]", required=False)(decorated)


def refuse_two_standard_inputs(config: ConfigArguments, node: NodeArguments) -> None:
    """The file and the summary cannot both come from there."""
    only_one_from_standard_input({"FILE": config.file, "--summary": node.summary_path})


def on_node(found: PolicyInput, node: NodeArguments) -> ConfigInput:
    """The policy with the capacities that the command line asks for."""
    known = capacities(found.policy.config, node)
    if node.image_fs != "auto":
        known = replace(known, layout=LAYOUTS[node.image_fs])
    known = with_shared_filesystems(known)
    allocatable = _allocatable(found.policy, known)
    if allocatable is not None and Signal.ALLOCATABLE_MEMORY_AVAILABLE not in known.by_signal:
        # The pods' cgroup is limited to what is not reserved; its size is the capacity of this signal.
        limit = allocatable.enforced[MEMORY].value
        known = replace(known, by_signal={**known.by_signal, Signal.ALLOCATABLE_MEMORY_AVAILABLE: limit})
    return ConfigInput(found, known, allocatable)


def on_host(found: PolicyInput, settings: HostSettings) -> ConfigInput:
    """The policy on the node that an agent of this machine is about to guard."""
    there = replace(settings, node_dir=existing(settings.node_dir))
    with closing(Machine()) as host:
        machine = measure_capacity(there, host)
    by_signal = {Signal.MEMORY_AVAILABLE: machine.memory}
    if machine.ephemeral_storage is not None:
        by_signal[Signal.NODEFS_AVAILABLE] = machine.ephemeral_storage.value
    if machine.pids is not None:
        by_signal[Signal.PID_AVAILABLE] = machine.pids
    known = with_shared_filesystems(Capacities(by_signal, Layout(), "this node", machine.cores))
    return ConfigInput(found, known, node_allocatable(machine, found.policy))


def _allocatable(policy: Policy, known: Capacities) -> Allocatable | None:
    memory = known.by_signal.get(Signal.MEMORY_AVAILABLE)
    if memory is None:
        return None
    disk = known.by_signal.get(Signal.NODEFS_AVAILABLE)
    # Where the number of cores is not known, assume as many as are reserved.
    reserved = policy.system_reserved.get(CPU, ZERO) + policy.kube_reserved.get(CPU, ZERO)
    cores = known.cores or -(-reserved.milli // 1000)
    pids = known.by_signal.get(Signal.PID_AVAILABLE)
    return node_allocatable(MachineCapacity(cores, memory, None if disk is None else binary(disk), pids=pids), policy)
