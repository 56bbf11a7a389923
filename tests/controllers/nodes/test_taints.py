"""How much of the cluster is down, and how fast nodes may lose their pods then."""

from __future__ import annotations

import pytest

from jettison.controllers.nodes.taints import Outage, outage_of, taints_per_second, with_taints
from jettison.runtimes.kube.client import Document


def _node(status: str | None, **labels: str) -> Document:
    conditions = [] if status is None else [{"type": "Ready", "status": status}]
    return {"metadata": {"name": "n", "labels": labels}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("up", "down", "expected"),
    [
        (0, 0, Outage.NONE),
        (1, 0, Outage.NONE),
        (0, 1, Outage.FULL),
        (1, 2, Outage.NONE),
        (1, 3, Outage.PARTIAL),
        (9, 11, Outage.PARTIAL),
        (46, 54, Outage.NONE),
        (45, 55, Outage.PARTIAL),
        (0, 100, Outage.FULL),
    ],
)
def test_the_share_of_nodes_that_are_down(up: int, down: int, expected: Outage) -> None:
    nodes = [_node("True")] * up + [_node(("False", "Unknown", None)[each % 3]) for each in range(down)]
    assert outage_of(nodes) is expected


def test_excluded_nodes_do_not_count() -> None:
    excluded = {"metadata": {"name": "x", "labels": {"node.kubernetes.io/exclude-disruption": ""}}, "status": {}}
    assert outage_of([_node("True"), *[excluded] * 9]) is Outage.NONE
    assert outage_of([_node("False"), {**_node("True"), **excluded}]) is Outage.FULL


@pytest.mark.parametrize(
    ("outage", "nodes", "rate"),
    [
        (Outage.NONE, 3, 0.1),
        (Outage.PARTIAL, 50, 0.0),
        (Outage.PARTIAL, 51, 0.01),
        (Outage.FULL, 51, 0.0),
    ],
)
def test_large_clusters_go_slowly_and_small_ones_stop(outage: Outage, nodes: int, rate: float) -> None:
    assert taints_per_second(outage, nodes) == rate


def test_a_taint_that_stays_keeps_its_time_and_its_place() -> None:
    taints = [
        {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule", "timeAdded": "then"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "then"},
        {"key": "node.kubernetes.io/disk-pressure", "effect": "NoExecute", "value": "an operator's own"},
    ]
    node = {"metadata": {"name": "n"}, "spec": {"taints": taints}}
    kept = with_taints(
        node,
        {"node.kubernetes.io/disk-pressure", "node.kubernetes.io/unschedulable"},
        {"node.kubernetes.io/unreachable"},
        "now",
    )
    assert kept == [
        taints[0],
        taints[2],
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "now"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "now"},
    ]
