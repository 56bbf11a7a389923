"""PodDisruptionBudgets, and workloads as budgets count them, to engine values; a budget's status back to JSON."""

from __future__ import annotations

from typing import Any

from msgspec import field

from jettison.engine.budgets.budget import Budget, BudgetCondition, BudgetStatus
from jettison.engine.labels.selectors import MatchExpression, SelectorObject
from jettison.engine.workloads.owners import OwnerReference, Workload
from jettison.manifests.files.decoding import Wire, convert, named
from jettison.manifests.pod_view import OwnerWire
from jettison.manifests.times import parse_time, time_text


class _Metadata(Wire):
    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    owner_references: list[OwnerWire] | None = None


class _Condition(Wire):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    observed_generation: int | None = None
    last_transition_time: str | None = None


class _Expression(Wire):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Selector(Wire):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Expression] | None = None


class _BudgetSpec(Wire):
    selector: _Selector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class _BudgetStatus(Wire):
    observed_generation: int | None = None
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    expected_pods: int | None = None
    disrupted_pods: dict[str, str] | None = None
    conditions: list[_Condition] | None = None


class _Budget(Wire):
    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _BudgetSpec | None = None
    status: _BudgetStatus | None = None


class _WorkloadSpec(Wire):
    replicas: int | None = None


class _Workload(Wire):
    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _WorkloadSpec | None = None


def budget_from(document: object) -> Budget:
    """A budget as it is stored; whether its selector makes sense shows when it is used."""
    found = convert(document, _Budget, named("poddisruptionbudget", document))
    spec = found.spec or _BudgetSpec()
    return Budget(
        name=found.metadata.name,
        namespace=found.metadata.namespace or "",
        generation=found.metadata.generation or 0,
        selector=_selector(spec.selector),
        min_available=spec.min_available,
        max_unavailable=spec.max_unavailable,
        unhealthy_policy=spec.unhealthy_pod_eviction_policy or "",
        status=_status(found.status or _BudgetStatus()),
    )


def selector_from(document: object) -> SelectorObject | None:
    """A LabelSelector on its own; null selects nothing, an empty one everything."""
    return None if document is None else _selector(convert(document, _Selector, "selector"))


def workload_from(document: object) -> Workload:
    """A ReplicaSet, Deployment, StatefulSet or ReplicationController; without a number it wants one pod."""
    found = convert(document, _Workload, named("workload", document))
    replicas = found.spec.replicas if found.spec else None
    return Workload(found.metadata.uid or "", 1 if replicas is None else replicas, _controller(found.metadata))


def budget_status_data(status: BudgetStatus) -> dict[str, Any]:
    """The four counters are always written, also as 0; everything else only when there is something to say."""
    data: dict[str, Any] = {}
    if status.disrupted_pods:
        data["disruptedPods"] = {name: time_text(time_ns) for name, time_ns in status.disrupted_pods.items()}
    if status.observed_generation:
        data["observedGeneration"] = status.observed_generation
    data |= {
        "disruptionsAllowed": status.disruptions_allowed,
        "currentHealthy": status.current_healthy,
        "desiredHealthy": status.desired_healthy,
        "expectedPods": status.expected_pods,
    }
    if status.conditions:
        data["conditions"] = [_condition_data(each) for each in status.conditions]
    return data


def _controller(metadata: _Metadata) -> OwnerReference | None:
    owner = next((each for each in metadata.owner_references or () if each.controller), None)
    return None if owner is None else OwnerReference(owner.api_version, owner.kind, owner.name, owner.uid)


def _selector(source: _Selector | None) -> SelectorObject | None:
    if source is None:
        return None
    expressions = (
        MatchExpression(each.key, each.operator, tuple(each.values or ())) for each in source.match_expressions or ()
    )
    return SelectorObject(source.match_labels or {}, tuple(expressions))


def _status(source: _BudgetStatus) -> BudgetStatus:
    return BudgetStatus(
        observed_generation=source.observed_generation or 0,
        disruptions_allowed=source.disruptions_allowed or 0,
        current_healthy=source.current_healthy or 0,
        desired_healthy=source.desired_healthy or 0,
        expected_pods=source.expected_pods or 0,
        disrupted_pods={name: parse_time(text) for name, text in (source.disrupted_pods or {}).items()},
        conditions=tuple(map(_condition, source.conditions or ())),
    )


def _condition(source: _Condition) -> BudgetCondition:
    return BudgetCondition(
        kind=source.type,
        status=source.status,
        reason=source.reason or "",
        message=source.message or "",
        observed_generation=source.observed_generation or 0,
        changed_ns=parse_time(source.last_transition_time) if source.last_transition_time else 0,
    )


def _condition_data(condition: BudgetCondition) -> dict[str, Any]:
    data: dict[str, Any] = {"type": condition.kind, "status": condition.status}
    if condition.observed_generation:
        data["observedGeneration"] = condition.observed_generation
    return data | {
        "lastTransitionTime": time_text(condition.changed_ns),
        "reason": condition.reason,
        "message": condition.message,
    }
