"""Translation between the oracle's JSON and the engine: taints, selectors, budgets. No logic lives here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jettison.engine.budgets.budget import BudgetStatus, scaled
from jettison.engine.budgets.sync import sync_budget
from jettison.engine.labels.field_selectors import FieldSelector, parse_field_selector
from jettison.engine.labels.selectors import LabelSelector, parse_label_selector, select
from jettison.engine.scheduling.placement import (
    Taint,
    Toleration,
    bearing_toleration,
    first_untolerated,
    no_execute_stay,
)
from jettison.engine.workloads.owners import Workload, Workloads
from jettison.errors import InputError
from jettison.manifests.budgets import budget_from, selector_from, workload_from
from jettison.manifests.pod_view import checked_pod
from jettison.manifests.times import parse_time, time_text

Json = dict[str, Any]


def answer_taints(case: Json) -> Json:
    taints = [Taint(each["key"], each.get("value", ""), each.get("effect", "")) for each in case["taints"]]
    tolerations = [
        Toleration(
            key=each.get("key", ""),
            operator=each.get("operator", ""),
            value=each.get("value", ""),
            effect=each.get("effect", ""),
            seconds=each.get("tolerationSeconds"),
        )
        for each in case["tolerations"]
    ]
    blocking = first_untolerated(taints, tolerations)
    stay = no_execute_stay(taints, tolerations)
    # The oracle writes -1 for no end, null for an untolerated taint, and 0 where no taint is NoExecute.
    seconds = (-1 if stay.seconds is None else stay.seconds) if stay.is_tainted else 0
    return {
        "tolerates": [bearing_toleration(taint, tolerations) is not None for taint in taints],
        "toleratesWithComparisonOperators": [
            bearing_toleration(taint, tolerations, comparison_operators=True) is not None for taint in taints
        ],
        "firstUntolerated": blocking and {"key": blocking.key, "value": blocking.value, "effect": blocking.effect},
        "noExecute": {
            "allTolerated": stay.is_tolerated,
            "minTolerationSeconds": seconds if stay.is_tolerated else None,
        },
    }


def answer_labelselector(case: Json) -> Json:
    def read() -> LabelSelector:
        if "selector" in case:
            return parse_label_selector(case["selector"])
        return select(selector_from(case["labelSelector"]))

    return _answer_selector(read, case["labels"])


def answer_fieldselector(case: Json) -> Json:
    return _answer_selector(lambda: parse_field_selector(case["selector"]), case["fields"])


def _answer_selector(read: Callable[[], LabelSelector | FieldSelector], objects: list[dict[str, str]]) -> Json:
    try:
        selector = read()
    except InputError as error:
        return {"ok": False, "error": str(error)}
    return {
        "ok": True,
        "canonical": str(selector),
        "empty": selector.is_empty,
        "matches": [selector.matches(each) for each in objects],
    }


def answer_intorpercent(case: Json) -> Json:
    try:
        return {"ok": True, "value": scaled(case["value"], case["total"], round_up=case["roundUp"])}
    except InputError as error:
        return {"ok": False, "error": str(error)}


def answer_pdbstatus(case: Json) -> Json:
    pdb = budget_from(case["pdb"])
    pods = map(checked_pod, case["pods"])
    sync = sync_budget(pdb, pods, _workloads(pdb.namespace, case), parse_time(case["now"]))
    events = [
        {
            "object": f"Pod/{pdb.namespace}/{notice.pod}" if notice.pod else f"PodDisruptionBudget/{pdb}",
            "reason": notice.reason,
            "type": "Warning" if notice.is_warning else "Normal",
        }
        for notice in sync.notices
    ]
    answer: Json = {
        "error": None,
        "events": sorted(events, key=lambda event: tuple(event.values())),
        "updated": sync.status is not None,
    }
    return answer | {"status": _status_json(sync.status)} if sync.status else answer


def _workloads(namespace: str, case: Json) -> Workloads:
    def named(key: str) -> dict[str, Workload]:
        return {
            each["metadata"]["name"]: workload_from(each)
            for each in case.get(key) or ()
            if each["metadata"].get("namespace", "") == namespace
        }

    return Workloads(
        replication_controllers=named("replicationControllers"),
        replica_sets=named("replicaSets"),
        deployments=named("deployments"),
        stateful_sets=named("statefulSets"),
    )


def _status_json(status: BudgetStatus) -> Json:
    return {
        "observedGeneration": status.observed_generation,
        "disruptionsAllowed": status.disruptions_allowed,
        "currentHealthy": status.current_healthy,
        "desiredHealthy": status.desired_healthy,
        "expectedPods": status.expected_pods,
        "disruptedPods": {name: time_text(instant) for name, instant in status.disrupted_pods.items()},
        "conditions": [
            {
                "type": condition.kind,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "observedGeneration": condition.observed_generation,
            }
            for condition in status.conditions
        ],
    }


ANSWERS: Final[dict[str, Callable[[Json], Json]]] = {
    "taints": answer_taints,
    "labelselector": answer_labelselector,
    "fieldselector": answer_fieldselector,
    "intorpercent": answer_intorpercent,
    "pdbstatus": answer_pdbstatus,
}
