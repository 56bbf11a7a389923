"""Kubernetes JSON → the engine's values for selectors and disruption budgets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from jettison.engine.budgets import Budget, BudgetCondition, BudgetStatus, GuardedPod
from jettison.engine.label_selectors import MatchExpression, SelectorObject
from jettison.engine.workloads import OwnerReference, Workload, Workloads

Json = dict[str, Any]


def selector_object(source: Json | None) -> SelectorObject | None:
    if source is None:
        return None
    expressions = (
        MatchExpression(each.get("key", ""), each.get("operator", ""), tuple(each.get("values") or ()))
        for each in source.get("matchExpressions") or ()
    )
    return SelectorObject(source.get("matchLabels") or {}, tuple(expressions))


def time_ns(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 10**9


def time_text(instant_ns: int) -> str:
    return datetime.fromtimestamp(instant_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def controller_of(metadata: Json) -> OwnerReference | None:
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return OwnerReference(owner.get("apiVersion", ""), owner["kind"], owner["name"], owner.get("uid", ""))
    return None


def guarded_pod(source: Json) -> GuardedPod:
    metadata, status = source["metadata"], source.get("status") or {}
    ready = [each["status"] for each in status.get("conditions") or () if each["type"] == "Ready"]
    return GuardedPod(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        labels=metadata.get("labels") or {},
        controller=controller_of(metadata),
        phase=status.get("phase", ""),
        is_ready=ready[:1] == ["True"],
        is_terminating=metadata.get("deletionTimestamp") is not None,
    )


def budget(source: Json) -> Budget:
    metadata, spec = source["metadata"], source.get("spec") or {}
    return Budget(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        generation=metadata.get("generation", 0),
        selector=selector_object(spec.get("selector")),
        min_available=spec.get("minAvailable"),
        max_unavailable=spec.get("maxUnavailable"),
        unhealthy_policy=spec.get("unhealthyPodEvictionPolicy") or "",
        status=budget_status(source.get("status") or {}),
    )


def budget_status(source: Json) -> BudgetStatus:
    return BudgetStatus(
        observed_generation=source.get("observedGeneration", 0),
        disruptions_allowed=source.get("disruptionsAllowed", 0),
        current_healthy=source.get("currentHealthy", 0),
        desired_healthy=source.get("desiredHealthy", 0),
        expected_pods=source.get("expectedPods", 0),
        disrupted_pods={name: time_ns(text) for name, text in (source.get("disruptedPods") or {}).items()},
        conditions=tuple(map(budget_condition, source.get("conditions") or ())),
    )


def budget_condition(source: Json) -> BudgetCondition:
    return BudgetCondition(
        kind=source["type"],
        status=source["status"],
        reason=source.get("reason", ""),
        message=source.get("message", ""),
        observed_generation=source.get("observedGeneration", 0),
        changed_ns=time_ns(source["lastTransitionTime"]),
    )


def workloads(namespace: str, source: Json) -> Workloads:
    def named(key: str) -> dict[str, Workload]:
        return {
            each["metadata"]["name"]: workload(each)
            for each in source.get(key) or ()
            if each["metadata"].get("namespace", "") == namespace
        }

    return Workloads(
        replication_controllers=named("replicationControllers"),
        replica_sets=named("replicaSets"),
        deployments=named("deployments"),
        stateful_sets=named("statefulSets"),
    )


def workload(source: Json) -> Workload:
    metadata = source["metadata"]
    replicas = source["spec"].get("replicas")
    # The API server fills in 1 where nobody said how many.
    return Workload(metadata.get("uid", ""), 1 if replicas is None else replicas, controller_of(metadata))
