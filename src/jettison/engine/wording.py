"""Exactly what Kubernetes says: messages, annotations and events. Nearly every message ends in a dot and a space."""

from __future__ import annotations

from dataclasses import dataclass

from jettison.engine.evictions import DISRUPTION_TARGET, TERMINATION_BY_KUBELET, Eviction, PodCondition
from jettison.engine.facts import Fact, ReclaimAttempted
from jettison.engine.pods import MEMORY, Pod
from jettison.engine.quantity import NANO, ZERO, Quantity, binary_text
from jettison.engine.signals import ROWS, Resource, Signal
from jettison.engine.snapshot import ContainerUsage, PodUsage

NORMAL = "Normal"
WARNING = "Warning"


@dataclass(frozen=True, slots=True)
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


def eviction_for_pressure(
    pod: Pod, usage: PodUsage | None, signal: Signal, threshold: Quantity, available: Quantity, grace_seconds: int
) -> Eviction:
    """The order for a pod that goes because the node is starved, with every container that uses too much named."""
    resource = ROWS[signal].resource
    message = [f"The node was low on resource: {resource}. Threshold quantity: {threshold}, available: {available}. "]
    annotations: dict[str, str] = {}
    if usage is not None:
        names, amounts = [], []
        for container in usage.containers:
            sentence = _container_sentence(pod, container, resource)
            if sentence is not None:
                message.append(sentence[0])
                names.append(container.name)
                amounts.append(sentence[1])
        annotations = {
            "offending_containers": ",".join(names),
            "offending_containers_usage": ",".join(amounts),
            "starved_resource": resource.value,
        }
        _add_pod_sentence(pod, usage, resource, message, annotations)
    text = "".join(message)
    condition = PodCondition(DISRUPTION_TARGET, "True", TERMINATION_BY_KUBELET, text, pod.generation)
    return Eviction(pod, text, grace_seconds, signal.value, annotations, condition)


def _container_sentence(pod: Pod, usage: ContainerUsage, resource: Resource) -> tuple[str, str] | None:
    container = pod.containers_by_name.get(usage.name)
    used = _container_usage(usage, resource)
    if container is None or used is None:
        return None
    request = container.requests.get(resource.value, ZERO)
    if used * NANO <= request.nanos:
        return None
    amount = binary_text(used)
    said = f"Container {usage.name} was using {amount}, request is {request}, has larger consumption of {resource}. "
    return said, amount


def _container_usage(usage: ContainerUsage, resource: Resource) -> int | None:
    if resource is Resource.MEMORY:
        return usage.working_set
    if resource is Resource.EPHEMERAL_STORAGE and usage.rootfs_bytes is not None and usage.logs_bytes is not None:
        return usage.rootfs_bytes + usage.logs_bytes
    return None


def _add_pod_sentence(
    pod: Pod, usage: PodUsage, resource: Resource, message: list[str], annotations: dict[str, str]
) -> None:
    """Said whenever the pod itself requests memory, even where it uses less than that."""
    if resource is not Resource.MEMORY or not pod.has_pod_level_resources or pod.resources is None:
        return
    request = pod.resources.requests.get(MEMORY)
    if request is None or usage.working_set is None:
        return
    amount = binary_text(usage.working_set)
    said = f"Pod {pod.name} was using {amount}, request is {request}, has larger consumption of {resource}. "
    message.insert(1, said)
    annotations |= {"offending_pod": pod.name, "offending_pod_usage": amount}
