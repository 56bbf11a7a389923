"""SIGHUP: the command line and the files that it names are read again, and what can change while a node runs does.

They are read by the program itself in a process of its own, exactly as at the start: a file with a mistake, or a
configuration that a start would refuse, is reported and changes nothing. The agent waits for that process in a thread,
so the node is guarded meanwhile. Thresholds, grace periods, minimum reclaim, the transition period and the marks of the
collectors change; of everything else that is another now, it is said that it takes a restart.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from jettison import events
from jettison.agent.journal.policy_records import SettingChange, policy_changes, policy_from, with_live_changes
from jettison.engine.numbers.quantity import Quantity
from jettison.errors import InputError, JettisonError
from jettison.node.host_node import HostNode
from jettison.node.orders import AnyOrders, ClusterOrders, JoinOrders, Orders, decode_orders
from jettison.runtimes.linux.files.kernel_files import reason

_READ_AGAIN = "from jettison.cli.resident import deliver_again; deliver_again()"
_SECONDS = 60.0
_LONGEST_COMPLAINT = 2000
_MOST_REMARKS = 20


class Reloader:
    """For the nodes of one process; `nodes` are those that are there by now, in the order of their orders."""

    def __init__(self, nodes: Callable[[], Sequence[HostNode]]) -> None:
        self._nodes = nodes

    async def reload(self) -> None:
        """Read everything again and apply what has changed. Whatever goes wrong is said, and changes nothing."""
        nodes = self._nodes()
        if not nodes:
            return
        try:
            orders, remarks = await asyncio.to_thread(read_again)
            policies = [policy_from(each.policy) for each in node_orders(orders)]
            # All of them before any: a mistake in what is for one node is a mistake in the file.
            merged = [with_live_changes(node.agent.policy, new) for node, new in zip(nodes, policies, strict=True)]
        except JettisonError as error:
            for node in nodes:
                node.emit(events.ReloadFailed(str(error)))
            return
        for node, new, policy in zip(nodes, policies, merged, strict=True):
            changes = policy_changes(node.agent.policy, new)
            if any(each.is_live for each in changes):
                before = node.keeper.admitter.allocatable
                node.use(policy)
                if node.options.is_member:
                    changes += _untold(before, node.keeper.admitter.allocatable)
            node.reread_manifests()
            for each in changes:
                kind = events.SettingChanged if each.is_live else events.RestartNeeded
                node.emit(kind(each.key, each.old, each.new))
            live = sum(each.is_live for each in changes)
            node.emit(events.Reloaded(live, len(changes) - live, remarks))


def _untold(before: Mapping[str, Quantity], after: Mapping[str, Quantity]) -> list[SettingChange]:
    """A node says at its start what it has for pods; hard thresholds are taken off that."""
    names = [name for name in after if before.get(name) != after[name]]
    return [
        SettingChange(
            f"allocatable {name} in the cluster's eyes", str(before.get(name)), str(after[name]), is_live=False
        )
        for name in names
    ]


def node_orders(orders: AnyOrders) -> list[Orders]:
    """One for each node."""
    if isinstance(orders, ClusterOrders):
        return orders.nodes
    return [orders.node if isinstance(orders, JoinOrders) else orders]


def read_again() -> tuple[AnyOrders, tuple[str, ...]]:
    """What the command line of this process says now, and what was remarked on it.

    Takes a second; raises InputError with what is wrong.
    """
    command = [sys.executable, "-c", _READ_AGAIN, *sys.argv[1:]]
    try:
        done = subprocess.run(  # noqa: S603  this program, with the words that started it
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except OSError as error:
        raise InputError(f"no process to read the configuration: {reason(error)}") from error
    except subprocess.TimeoutExpired as error:
        raise InputError(f"the configuration was not read within {_SECONDS:g} s") from error
    lines = done.stderr.decode(errors="backslashreplace").splitlines()
    if done.returncode or not done.stdout:
        mistakes = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")] or lines[-1:]
        raise InputError("; ".join(mistakes)[:_LONGEST_COMPLAINT] or f"exit code {done.returncode}")
    return decode_orders(done.stdout), tuple(lines[:_MOST_REMARKS])
