"""`jettison doctor`: what works on this machine, what is missing, and what to do about it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from jettison.agent.safe_text import printable
from jettison.cli.host.check import check_manifests
from jettison.cli.inspect.recorded_pods import read_records
from jettison.cli.inspect.watched_node import WatchedNode, find_node
from jettison.cli.options.host_options import state_dir_option
from jettison.cli.output import Remarks, emit, output_option
from jettison.engine.node.amounts import short
from jettison.engine.node.signals import Resource
from jettison.errors import InputError, ObservationError
from jettison.node.upkeep.diagnosis import Check, Machine, State
from jettison.runtimes.linux import proc

DEGRADED = 1


@click.command()
@state_dir_option
@click.option(
    "--node-name", metavar="NAME", help="Check also this node. [default: this host's, or the only one there is]"
)
@click.option(
    "--manifests",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Check also these manifests, beside those of the node. Repeatable.",
)
@output_option
def command(state_dir: Path, node_name: str | None, manifests: tuple[Path, ...], output: str) -> int:
    """Say which cgroups this machine has, how soon a shortage is noticed, what is missing, and what to do about it.

    The answers are for the current user. Exits with 0 when all is well and with 1 when something is degraded.
    """
    machine = Machine()
    checks = [*machine.checks(), *_node_checks(state_dir, node_name), *map(_manifests, manifests)]
    emit(output, Remarks(), lambda: _text(checks), lambda: _data(machine, checks))
    return DEGRADED if any(check.state is State.DEGRADED for check in checks) else 0


def _node_checks(state_dir: Path, name: str | None) -> Iterator[Check]:
    try:
        node = find_node(state_dir, name)
        card = node.card
    except InputError as error:
        if name is not None:
            raise
        yield Check("node", State.NOTE, str(error))
        return
    except ObservationError as failure:
        yield Check("node", State.DEGRADED, str(failure), "run it as the user that runs the agent")
        return
    yield _agent(node)
    yield from () if card is None else map(_manifests, map(Path, card.manifests))
    # For the same user, the checks above have said the same.
    if card is not None and node.directory.stat().st_uid != os.geteuid():
        for lack in card.lacks:
            yield Check("node", State.NOTE, f"its agent said at its start: {lack}")


def _agent(node: WatchedNode) -> Check:
    try:
        node.ask("/healthz")
    except ObservationError as failure:
        if isinstance(failure.__cause__, PermissionError):
            return Check("node", State.DEGRADED, str(failure), "run it as the user that runs the agent")
        return Check("node", State.DEGRADED, f"{failure}{_unguarded(node)}", f"jettison up --node-name {node.name} …")
    dry_run = ", in a dry run: no pod is evicted" if node.card is not None and node.card.is_dry_run else ""
    return Check("node", State.OK, f"the agent of node `{node.name}` is well{dry_run}")


def _manifests(directory: Path) -> Check:
    """An agent complains once, in its log, and keeps the last manifests that it could read."""
    try:
        found = check_manifests([directory])
    except InputError as error:
        return Check("manifests", State.DEGRADED, str(error), "repair the directory, or name another with --manifests")
    if not found.errors:
        return Check("manifests", State.OK, f"`{directory}`: {found}")
    first = f"{found.errors[0]}{f', and {len(found.errors) - 1} more' if len(found.errors) > 1 else ''}"
    return Check("manifests", State.DEGRADED, f"`{directory}`: {found}: {first}", f"jettison check {directory}")


def _unguarded(node: WatchedNode) -> str:
    try:
        alive = sum(1 for record in read_records(node.records) if record.verdict is None)
    except ObservationError:
        return ""  # a node of another user
    return f", and {'its only pod is' if alive == 1 else f'its {alive} pods are'} not guarded" if alive else ""


def _machine_line() -> str:
    memory = short(proc.Machine().memory().total, Resource.MEMORY)
    user = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    return f"Linux {platform.release()}, {os.cpu_count() or 1} processors, {memory} of memory, as {user}"


def _text(checks: list[Check]) -> str:
    lines = [_machine_line(), ""]
    widest = max(len(check.name) for check in checks)
    for check in checks:
        lines.append(f"{check.state:<8}  {check.name.ljust(widest)}  {check.finding}")
        if check.remedy:
            lines.append(f"{'':<8}  {'':<{widest}}  → {check.remedy}")
    return "\n".join(map(printable, lines))


def _data(machine: Machine, checks: list[Check]) -> dict[str, Any]:
    version = machine.mounts.version
    alarm = machine.alarm()
    return {
        "kind": "Diagnosis",
        "machine": _machine_line(),
        "degraded": any(check.state is State.DEGRADED for check in checks),
        "cgroups": {
            "version": None if version is None else version.value,
            "usable": machine.may_use_cgroups,
            "delegated": machine.delegated,
        },
        "alarm": {"source": alarm.source, "latency": alarm.latency},
        "missingCapabilities": [f"CAP_{capability.name}" for capability in machine.capabilities.missing],
        "checks": [
            {"name": each.name, "state": each.state.value, "finding": each.finding, "remedy": each.remedy or None}
            for each in checks
        ],
    }
