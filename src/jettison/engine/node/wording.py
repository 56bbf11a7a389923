"""Exactly what Kubernetes says: messages, annotations, events, and the pressure conditions of Node.status (spec §10.1).

Nearly every message ends in a dot and a space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from jettison.engine.node.evictions import DISRUPTION_TARGET, TERMINATION_BY_KUBELET, Eviction, PodCondition
from jettison.engine.node.facts import Fact, ReclaimAttempted
from jettison.engine.node.signals import ROWS, Condition, Resource, Signal
from jettison.engine.node.snapshot import ContainerUsage, PodUsage, Reading
from jettison.engine.numbers.quantity import NANO, Quantity, binary_text, wrapped
from jettison.engine.pods.pod import MEMORY, Pod
from jettison.values import frozen

NORMAL = "Normal"
WARNING = "Warning"

DEADLINE_EXCEEDED = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


@frozen
class Event:
    """A Kubernetes Event about the node, or about a pod."""

    type: str
    reason: str
    message: str
    pod: Pod | None = None
    annotations: tuple[tuple[str, str], ...] | None = None


def event_of(fact: Fact) -> Event | None:
    """The event that Kubernetes records for a fact; most facts have none."""
    if isinstance(fact, ReclaimAttempted):
        return Event(WARNING, "EvictionThresholdMet", f"Attempting to reclaim {fact.resource}")
    return None


def eviction_event(eviction: Eviction) -> Event:
    """Recorded before the pod is told to end."""
    annotations = None if eviction.annotations is None else tuple(eviction.annotations.items())
    return Event(WARNING, eviction.reason, eviction.message, eviction.pod, annotations)


class PressureWording:
    """Words the orders of one starved signal: what is the same for all its pods is said once."""

    def __init__(self, signal: Signal, threshold: Quantity, reading: Reading, *, is_at_once: bool = False) -> None:
        row = ROWS[signal]
        self.signal = signal.value
        self.resource = row.resource.value
        available = row.amount(reading.available)
        self.opening = (
            f"The node was low on resource: {self.resource}. Threshold quantity: {threshold}, available: {available}. "
        )
        self.closing = f"has larger consumption of {self.resource}. "
        self.usage = _USAGES.get(row.resource)
        self.names_pods = row.resource is Resource.MEMORY
        self.is_at_once = is_at_once

    def eviction(self, pod: Pod, usage: PodUsage | None, grace_seconds: int) -> Eviction:
        """The order for one pod, with every container that uses more than it asked for named."""
        if usage is None:
            text, annotations = self.opening, {}
        else:
            names, amounts, sentences = self._offenders(pod, usage)
            annotations = {
                "offending_containers": ",".join(names),
                "offending_containers_usage": ",".join(amounts),
                "starved_resource": self.resource,
            }
            pod_sentence = self._pod_sentence(pod, usage, annotations) if self.names_pods else ""
            text = f"{self.opening}{pod_sentence}{''.join(sentences)}"
        condition = PodCondition(DISRUPTION_TARGET, "True", TERMINATION_BY_KUBELET, text, pod.generation)
        return Eviction(pod, text, grace_seconds, self.signal, annotations, condition, is_at_once=self.is_at_once)

    def _offenders(self, pod: Pod, usage: PodUsage) -> tuple[list[str], list[str], list[str]]:
        names: list[str] = []
        amounts: list[str] = []
        sentences: list[str] = []
        if self.usage is not None:
            measure, closing = self.usage, self.closing
            asked = pod.container_requests(self.resource)
            for container in usage.containers:
                used = measure(container)
                request = asked.get(container.name)
                if used is None or request is None or used * NANO <= request[0]:
                    continue
                amount = binary_text(used)
                names.append(container.name)
                amounts.append(amount)
                sentences.append(f"Container {container.name} was using {amount}, request is {request[1]}, {closing}")
        return names, amounts, sentences

    def _pod_sentence(self, pod: Pod, usage: PodUsage, annotations: dict[str, str]) -> str:
        """Said whenever the pod itself requests memory, even where it uses less than that."""
        if pod.resources is None or not pod.has_pod_level_resources or usage.working_set is None:
            return ""
        request = pod.resources.requests.get(MEMORY)
        if request is None:
            return ""
        amount = binary_text(usage.working_set)
        annotations |= {"offending_pod": pod.name, "offending_pod_usage": amount}
        return f"Pod {pod.name} was using {amount}, request is {request}, {self.closing}"


def _storage(usage: ContainerUsage) -> int | None:
    if usage.rootfs_bytes is None or usage.logs_bytes is None:
        return None
    return wrapped(usage.rootfs_bytes + usage.logs_bytes)


# Inodes and process ids are not measured per container, so no container is named for them.
_USAGES: Mapping[Resource, Callable[[ContainerUsage], int | None]] = {
    Resource.MEMORY: attrgetter("working_set"),
    Resource.EPHEMERAL_STORAGE: _storage,
}


@frozen
class NodeCondition:
    """One condition of a node's status."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    heartbeat_ns: int | None = None
    transition_ns: int | None = None


# Reason, message and event; first when the condition holds, then when it does not.
_CONDITION_TEXTS: Mapping[Condition, tuple[tuple[str, str, str], tuple[str, str, str]]] = {
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


def report_conditions(
    existing: Sequence[NodeCondition], reported: frozenset[Condition], now_ns: int, node_name: str
) -> tuple[list[NodeCondition], list[Event]]:
    """The node's conditions now, and an event for each that changed.

    Every report is a heartbeat; reason, message and time of transition change only with the status. A condition that
    the node never had starts as Unknown, so its first report is a change.
    """
    conditions = list(existing)
    events = []
    for condition, (when_true, when_false) in _CONDITION_TEXTS.items():
        # Of two conditions of one type the last is reported, and the first stays as it was, heartbeat and all.
        index = next((i for i in reversed(range(len(conditions))) if conditions[i].type == condition), None)
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
