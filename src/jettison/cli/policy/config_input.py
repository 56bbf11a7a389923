"""What `config show` and `config check` look at: a policy, where it comes from, and a node's capacities for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import click

from jettison.cli.options.kubelet_flags import ConfigArguments, kubelet_options
from jettison.cli.output import output_option
from jettison.cli.policy.capacities import (
    MEASURED,
    OPTIONS,
    Capacities,
    capacities,
    capacity_options,
    existing,
    with_shared_filesystems,
)
from jettison.cli.policy.node_input import LAYOUTS, only_one_from_standard_input
from jettison.cli.policy.node_options import image_fs_option
from jettison.cli.policy.policy_input import PolicyInput
from jettison.engine.config.allocatable import Allocatable, Machine, node_allocatable
from jettison.engine.config.policy import Policy
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Layout
from jettison.engine.numbers.quantity import ZERO, binary
from jettison.engine.pods.pod import CPU, MEMORY
from jettison.runtimes.host.measure.capacity import measure_capacity
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux.proc import Machine as HostMachine


@dataclass(frozen=True, slots=True)
class NodeArguments:
    """How the command line describes the node."""

    summary_path: str | None
    image_fs: str
    told: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
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

    def collected(summary_path: str | None, image_fs: str, **options: Any) -> Any:
        told = {name: options.pop(f"capacity_{name.replace('-', '_')}") for name in OPTIONS}
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
    known = capacities(found.policy.config, node.summary_path, node.told)
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
    with closing(HostMachine()) as host:
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
    # Where nobody knows the number of cores there are enough of them.
    reserved = policy.system_reserved.get(CPU, ZERO) + policy.kube_reserved.get(CPU, ZERO)
    cores = known.cores or -(-reserved.milli // 1000)
    pids = known.by_signal.get(Signal.PID_AVAILABLE)
    return node_allocatable(Machine(cores, memory, None if disk is None else binary(disk), pids=pids), policy)
