"""Pods and nodes as the scheduler reads them."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.engine.labels.requirements import Operator, Requirement
from jettison.engine.scheduling.nodes import NodeOffer, NodeRoom
from jettison.engine.scheduling.placement import (
    NO_SCHEDULE,
    NOWHERE,
    NodeAffinity,
    NodeTerm,
    Preference,
    Taint,
    Toleration,
)
from jettison.engine.scheduling.pods import NOT_YET, PlaceablePod, PodClaim
from jettison.errors import ManifestError
from jettison.manifests.scheduling import checked_node, node_offer_from, placeable_pod_from, refreshed
from tests.builders import GI, MI

NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n" * 253]}]},
            {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]},
        ]
    },
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    ],
}
CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "1500m", "example.com/gpu": 1}}}
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def _pod(metadata: Any = None, spec: Any = None, status: Any = None) -> PlaceablePod:
    name = {"name": "p", "namespace": "ns", "uid": "u"}
    return placeable_pod_from({"metadata": {**name, **(metadata or {})}, "spec": spec, "status": status})


def test_a_waiting_pod() -> None:
    """Everything that decides where it goes."""
    owner = {"kind": "ReplicaSet", "uid": "set", "controller": True}
    found = _pod(
        {"labels": {"app": "web"}, "ownerReferences": [{"kind": "Other", "uid": "x"}, owner]},
        {
            "containers": [CONTAINER],
            "priority": 5,
            "preemptionPolicy": "Never",
            "schedulerName": "default-scheduler",
            "schedulingGates": [{"name": "g"}],
            "nodeSelector": {"disk": "ssd"},
            "affinity": {"nodeAffinity": NODE_AFFINITY},
            "tolerations": [{"key": "k", "operator": "Exists"}],
        },
        {"phase": "Pending", "nominatedNodeName": "m"},
    )
    terms = (
        NodeTerm((), (Requirement("metadata.name", Operator.IN, ("n" * 253,)),)),
        NodeTerm((Requirement("cores", Operator.GREATER_THAN, ("4",)),)),
    )
    disk = NodeTerm((Requirement("disk", Operator.EXISTS, ()),))
    assert found == PlaceablePod(
        key=("ns", "p"),
        uid="u",
        priority=5,
        claim=PodClaim(1500, 0, 0, (("example.com/gpu", 1),), 1500, 200 * MI),
        tolerations=(Toleration("k", "Exists"),),
        affinity=NodeAffinity((("disk", "ssd"),), terms, (Preference(7, disk),)),
        labels={"app": "web"},
        group="set",
        nominated_node="m",
        scheduler="default-scheduler",
        gates=("g",),
        may_preempt=False,
    )
    assert found.affinity.admits({"disk": "ssd"}, "n" * 253)
    assert not found.affinity.admits({"disk": "ssd", "cores": "4"}, "n")


STARTED = "2030-01-01T00:00:00Z"

STATES: list[tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = [
    ({}, {}, (False, False, False)),
    ({"deletionTimestamp": STARTED}, {"startTime": STARTED}, (True, False, True)),
    ({"deletionTimestamp": STARTED}, {"conditions": [PREEMPTED]}, (True, True, False)),
    ({}, {"conditions": [PREEMPTED], "startTime": "noon"}, (False, False, False)),
    ({"deletionTimestamp": STARTED}, {"conditions": [{**PREEMPTED, "status": "False"}]}, (True, False, False)),
    ({"deletionTimestamp": STARTED}, {"conditions": [{**PREEMPTED, "reason": "X"}]}, (True, False, False)),
]


@pytest.mark.parametrize(("metadata", "status", "expected"), STATES)
def test_a_pod_that_goes(metadata: dict[str, Any], status: dict[str, Any], expected: tuple[bool, bool, bool]) -> None:
    """Whether it goes, whether the scheduler wanted that, and whether it ever began."""
    found = _pod(metadata, {"nodeName": "n"}, status)
    assert (found.is_terminating, found.is_preempted, found.started_ns != NOT_YET) == expected
    assert found.node == "n"


@pytest.mark.parametrize("kind", ["Job", "DaemonSet", "Node"])
def test_not_all_owners_spread_their_pods(kind: str) -> None:
    """Upstream knows the selectors of three kinds only."""
    assert _pod({"ownerReferences": [{"kind": kind, "uid": "x", "controller": True}]}, {}).group == ""


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "metadata.uid", "operator": "In", "values": ["x"]},
        {"key": "metadata.name", "operator": "Exists"},
        {"key": "metadata.name", "operator": "In", "values": ["x", "y"]},
        7,
    ],
)
def test_an_affinity_without_sense_leads_nowhere(expression: object) -> None:
    """But the pod is read: it may be running somewhere and take its room."""
    terms = {"nodeSelectorTerms": [{"matchFields": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert _pod({}, {"affinity": affinity, "nodeName": "n"}).affinity == NOWHERE


def test_a_node() -> None:
    """What it gives, and what it asks for in turn."""
    allocatable = {"cpu": "3920m", "memory": "7Gi", "ephemeral-storage": 12, "pods": "110", "example.com/gpu": "2"}
    document = {
        "metadata": {"name": "n", "labels": {"disk": "ssd"}},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": STARTED}]},
        "status": {"allocatable": {**allocatable, "strange": "1"}},
    }
    room = NodeRoom(3920, 7 * GI, 12, 110, {"example.com/gpu": 2})
    assert node_offer_from(document) == NodeOffer("n", {"disk": "ssd"}, (Taint("k", "", NO_SCHEDULE),), True, room)
    assert node_offer_from({"metadata": {"name": "n"}}) == NodeOffer("n")
    with pytest.raises(ManifestError, match="node `n`: allocatable"):
        node_offer_from({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "much"}}})


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ({"deletionTimestamp": "2030-01-01T00:00:00Z"}, {"conditions": [PREEMPTED]}),
        ({}, {"conditions": [PREEMPTED], "startTime": "2030-01-01T00:00:00Z"}),
        ({}, {"nominatedNodeName": "n"}),
        ({}, None),
    ],
)
def test_a_pod_with_another_status_is_as_if_read_anew(metadata: Any, status: Any) -> None:
    spec = {"nodeName": "n", "containers": [CONTAINER], "priority": 7}
    before = _pod({"labels": {"a": "b"}}, spec, {"phase": "Running", "nominatedNodeName": "m"})
    name = {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "b"}}
    after = {"metadata": {**name, **metadata}, "spec": spec, "status": status}
    assert refreshed(before, after) == placeable_pod_from(after)


@pytest.mark.parametrize(
    "part",
    [
        {"spec": {"taints": [None]}},
        {"spec": {"taints": [{"key": 5}]}},
        {"status": {"conditions": 7}},
        {"status": {"conditions": ["Ready"]}},
        {"status": {"allocatable": "-1"}},
        {"status": {"allocatable": {"cpu": []}}},
    ],
)
def test_a_node_of_another_server_is_checked(part: dict[str, Any]) -> None:
    with pytest.raises(ManifestError, match="node `n`: expected"):
        checked_node({"metadata": {"name": "n"}, **part})


def test_a_node_that_says_little_is_a_node() -> None:
    node: dict[str, Any] = {"metadata": {"name": "n"}, "spec": {"taints": None}, "status": {"allocatable": {"cpu": 2}}}
    assert checked_node(node) is node
