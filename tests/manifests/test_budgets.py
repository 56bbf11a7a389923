"""Budgets, and pods and workloads as budgets see them: read from JSON, and a status written back."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.engine.budgets.budget import Budget, BudgetCondition, BudgetStatus
from jettison.engine.labels.selectors import MatchExpression, SelectorObject
from jettison.engine.workloads.owners import OwnerReference, Workload
from jettison.errors import ManifestError
from jettison.manifests.budgets import budget_from, budget_status_data, workload_from
from jettison.manifests.pod_view import checked_pod

SECOND = 10**9
STATUS: dict[str, Any] = {
    "disruptedPods": {"web-1": "2023-11-14T22:13:20Z"},
    "observedGeneration": 3,
    "disruptionsAllowed": 1,
    "currentHealthy": 4,
    "desiredHealthy": 3,
    "expectedPods": 5,
    "conditions": [
        {
            "type": "DisruptionAllowed",
            "status": "True",
            "observedGeneration": 3,
            "lastTransitionTime": "2023-11-14T22:13:20Z",
            "reason": "SufficientPods",
            "message": "",
        }
    ],
}


def test_a_whole_budget() -> None:
    expressions = [{"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "x", "operator": "Exists"}]
    document = {
        "metadata": {"name": "web", "namespace": "ns", "generation": 3, "unheard": {"of": 1}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}, "matchExpressions": expressions},
            "maxUnavailable": "30%",
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
        "status": STATUS,
    }
    moment = 1_700_000_000 * SECOND
    condition = BudgetCondition("DisruptionAllowed", "True", "SufficientPods", "", 3, moment)
    assert budget_from(document) == Budget(
        name="web",
        namespace="ns",
        generation=3,
        selector=SelectorObject(
            {"app": "web"}, (MatchExpression("tier", "In", ("a", "b")), MatchExpression("x", "Exists"))
        ),
        max_unavailable="30%",
        unhealthy_policy="AlwaysAllow",
        status=BudgetStatus(3, 1, 4, 3, 5, {"web-1": moment}, (condition,)),
    )


def test_a_status_survives_being_read_and_written() -> None:
    budget = budget_from({"metadata": {"name": "web"}, "status": STATUS})
    assert budget_status_data(budget.status) == STATUS


def test_a_new_status_has_its_four_counters_and_nothing_else() -> None:
    zeros = dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0)
    assert budget_status_data(BudgetStatus()) == zeros


@pytest.mark.parametrize(
    ("spec", "selector"),
    [({}, None), ({"selector": None}, None), ({"selector": {}}, SelectorObject()), (None, None)],
)
def test_an_absent_selector_is_not_an_empty_one(spec: object, selector: SelectorObject | None) -> None:
    assert budget_from({"metadata": {"name": "web"}, "spec": spec}).selector == selector


def test_the_controller_is_the_owner_that_says_so() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "2", "controller": True},
    ]
    metadata = {"name": "p", "ownerReferences": owners, "deletionTimestamp": "2023-11-14T22:13:20Z", "labels": None}
    pod = checked_pod({"metadata": metadata})
    assert pod.controller == OwnerReference("apps/v1", "ReplicaSet", "rs", "2")
    assert pod.is_terminating
    assert workload_from({"metadata": metadata | {"uid": "u"}, "spec": {"replicas": 0}}) == Workload(
        "u", 0, pod.controller
    )


def test_a_workload_that_says_nothing_wants_one_pod() -> None:
    assert workload_from({"metadata": {"name": "d", "uid": "u"}, "spec": {}}) == Workload("u", 1)


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([], "poddisruptionbudget: expected `object`, got `array`"),
        ({"metadata": {"name": "b"}, "spec": {"minAvailable": 1.5}}, "poddisruptionbudget `b`: expected `int | str"),
        ({"metadata": {"name": "b"}, "status": {"disruptedPods": {"p": "soon"}}}, "`soon` is not a time"),
        ({"metadata": {"name": 7}}, "poddisruptionbudget: expected `str`, got `int` at `metadata.name`"),
    ],
)
def test_what_is_no_budget_says_where(document: object, complaint: str) -> None:
    with pytest.raises(ManifestError) as raised:
        budget_from(document)
    assert complaint in str(raised.value)
