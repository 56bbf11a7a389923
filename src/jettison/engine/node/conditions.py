"""The three pressure conditions as Node.status shows them (spec §10.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jettison.engine.node.signals import Condition
from jettison.engine.node.wording import NORMAL, Event


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """One condition of a node's status."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    heartbeat_ns: int | None = None
    transition_ns: int | None = None


# Reason, message and event; first when the condition holds, then when it does not.
_TEXTS: Mapping[Condition, tuple[tuple[str, str, str], tuple[str, str, str]]] = {
    Condition.MEMORY_PRESSURE: (
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"),
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"),
    ),
    Condition.DISK_PRESSURE: (
        ("KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"),
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"),
    ),
    Condition.PID_PRESSURE: (
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"),
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"),
    ),
}


def report(
    existing: Sequence[NodeCondition], reported: frozenset[Condition], now_ns: int, node_name: str
) -> tuple[list[NodeCondition], list[Event]]:
    """The node's conditions now, and an event for each that changed.

    Every report is a heartbeat; reason, message and time of transition change only with the status. A condition that
    the node never had starts as Unknown, so its first report is a change.
    """
    conditions = list(existing)
    events = []
    for condition, (when_true, when_false) in _TEXTS.items():
        index = next((i for i, each in enumerate(conditions) if each.type == condition), None)
        if index is None:
            conditions.append(NodeCondition(condition.value))
            index = len(conditions) - 1
        status = "True" if condition in reported else "False"
        current = replace(conditions[index], heartbeat_ns=now_ns)
        if current.status != status:
            reason, message, event = when_true if condition in reported else when_false
            current = replace(current, status=status, reason=reason, message=message, transition_ns=now_ns)
            events.append(Event(NORMAL, event, f"Node {node_name} status is now: {event}"))
        conditions[index] = current
    return conditions, events
