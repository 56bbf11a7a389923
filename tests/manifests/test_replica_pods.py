"""Pod documents as workloads count them; what is missing or odd is as good as absent."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.engine.workloads.replica_pods import ReplicaPod
from jettison.manifests.replica_pods import replica_pod_from
from jettison.manifests.times import parse_time

READY_AT, MADE_AT = "2030-01-01T00:00:05Z", "2030-01-01T00:00:00Z"
COST = "controller.kubernetes.io/pod-deletion-cost"


def test_everything() -> None:
    document = {
        "metadata": {
            "name": "p",
            "uid": "u",
            "creationTimestamp": MADE_AT,
            "deletionTimestamp": READY_AT,
            "annotations": {COST: "-7"},
        },
        "spec": {
            "nodeName": "n",
            "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": READY_AT}],
            "containerStatuses": [{"name": "a", "restartCount": 1}, {"name": "b", "restartCount": 4}],
            "initContainerStatuses": [{"name": "setup", "restartCount": 9}, {"name": "proxy", "restartCount": 2}],
        },
    }
    assert replica_pod_from(document) == ReplicaPod(
        name="p",
        uid="u",
        node="n",
        phase="Running",
        is_terminating=True,
        is_ready=True,
        ready_since_ns=parse_time(READY_AT),
        created_ns=parse_time(MADE_AT),
        deletion_cost=-7,
        restarts=(4, 2),
    )


def test_next_to_nothing() -> None:
    assert replica_pod_from({"metadata": {"name": "p"}}) == ReplicaPod("p")


def test_a_pod_that_is_not_ready_is_ready_since_never() -> None:
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": READY_AT}]
    found = replica_pod_from({"metadata": {"name": "p"}, "status": {"conditions": conditions}})
    assert (found.is_ready, found.ready_since_ns) == (False, 0)


@pytest.mark.parametrize(
    ("text", "cost"),
    [("5", 5), ("0", 0), ("+5", 0), ("05", 0), ("", 0), ("five", 0), ("2147483647", 2**31 - 1), ("2147483648", 0)],
)
def test_deletion_costs(text: str, cost: int) -> None:
    document: dict[str, Any] = {"metadata": {"name": "p", "annotations": {COST: text}}}
    assert replica_pod_from(document).deletion_cost == cost


def test_a_time_that_is_none() -> None:
    assert replica_pod_from({"metadata": {"name": "p", "creationTimestamp": "yesterday"}}).created_ns == 0
