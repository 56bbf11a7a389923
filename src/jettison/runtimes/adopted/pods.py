"""Workloads as pods: what the engine ranks, made from limits, labels and rules.

One container is one pod, but the containers of a Kubernetes pod are one pod together, as its labels say. A limit
without a request is a request, as in Kubernetes; a workload that says nothing is BestEffort, and its order is still the
kubelet's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jettison.engine.numbers.quantity import Quantity, binary, parse
from jettison.engine.pods.pod import CPU, MEMORY, SYSTEM_CRITICAL_PRIORITY, Container, Pod
from jettison.runtimes.adopted.rules import GuardRules, Stop, Terms, label_terms
from jettison.runtimes.workloads import AdoptedWorkload
from jettison.values import frozen

POD_UID, POD_NAME, POD_NAMESPACE, CONTAINER_NAME = (
    f"io.kubernetes.{name}" for name in ("pod.uid", "pod.name", "pod.namespace", "container.name")
)
COMPOSE_PROJECT, COMPOSE_SERVICE = "com.docker.compose.project", "com.docker.compose.service"

_LONGEST_NAME = 253


@frozen
class AdoptedPod:
    """A pod and what it consists of; `way` is how it is stopped."""

    pod: Pod
    workloads: tuple[AdoptedWorkload, ...]
    way: Stop
    is_protected: bool
    # What was written about it and makes no sense, for the operator.
    complaints: tuple[str, ...] = ()

    def spared(self) -> AdoptedPod:
        """The same, as one that must not be evicted."""
        return self if self.is_protected else replace(self, pod=_protected(self.pod), is_protected=True)


def adopt(workloads: Sequence[AdoptedWorkload], operator: GuardRules, shipped: GuardRules) -> list[AdoptedPod]:
    """In the order of the workloads."""
    groups: dict[str, list[AdoptedWorkload]] = {}
    for workload in workloads:
        groups.setdefault(workload.labels.get(POD_UID) or workload.id, []).append(workload)
    return [_pod(uid, tuple(group), operator, shipped) for uid, group in groups.items()]


def _pod(uid: str, group: tuple[AdoptedWorkload, ...], operator: GuardRules, shipped: GuardRules) -> AdoptedPod:
    terms, complaints = Terms(), list[str]()
    containers = []
    for workload in group:
        own, wrong = label_terms(workload.labels)
        said = operator.terms(workload).over(own).over(shipped.terms(workload))
        complaints += [f"{workload.kind} `{_short(workload.name)}`: {each}" for each in wrong]
        containers.append(_container(workload, said))
        terms = terms.over(said)
    first = group[0]
    is_protected = bool(terms.is_protected)
    pod = Pod(
        _short(first.labels.get(POD_NAME) or first.name),
        _short(_namespace(first)),
        uid,
        priority=_priority(group) if terms.priority is None else terms.priority,
        is_static=any(each.is_static for each in group),
        containers=tuple(containers),
        grace_seconds=max((each.stop_seconds for each in group if each.stop_seconds is not None), default=None),
    )
    way = terms.stop or (Stop.CGROUP if first.kind == "cgroup" else Stop.CONTAINER)
    return AdoptedPod(_protected(pod) if is_protected else pod, group, way, is_protected, tuple(complaints))


def _priority(group: tuple[AdoptedWorkload, ...]) -> int | None:
    return max((each.priority for each in group if each.priority is not None), default=None)


def _container(workload: AdoptedWorkload, terms: Terms) -> Container:
    limits: dict[str, Quantity] = {}
    if workload.memory_limit is not None:
        limits[MEMORY] = binary(workload.memory_limit)
    if workload.cpu_limit_milli is not None:
        limits[CPU] = parse(f"{workload.cpu_limit_milli}m")
    requests: Mapping[str, Quantity] = {
        **limits,
        **({MEMORY: binary(workload.memory_request)} if workload.memory_request is not None else {}),
        **terms.requests,
    }
    name = workload.labels.get(CONTAINER_NAME) or workload.labels.get(COMPOSE_SERVICE) or workload.name
    return Container(_short(name), requests, limits)


def _namespace(workload: AdoptedWorkload) -> str:
    """The project of a composition keeps its services together in every list."""
    return workload.labels.get(POD_NAMESPACE) or workload.labels.get(COMPOSE_PROJECT) or workload.kind


def _protected(pod: Pod) -> Pod:
    return replace(pod, priority=SYSTEM_CRITICAL_PRIORITY)


def _short(text: str) -> str:
    return text[:_LONGEST_NAME]
