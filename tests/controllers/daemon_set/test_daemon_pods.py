"""Daemon pods as documents."""

from __future__ import annotations

import pytest

from jettison.controllers.daemon_set.daemon_pods import daemon_template, pinned, target_node
from tests.controllers.staging import Json

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _pod(affinity: Json | None = None, **spec: object) -> Json:
    return {"metadata": {"name": "p"}, "spec": {**spec, **({"affinity": affinity} if affinity is not None else {})}}


def test_a_pin_replaces_what_chose_the_node_and_nothing_else() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    wish = [{"weight": 1, "preference": term}]
    affinity: Json = {
        "podAffinity": {"x": 1},
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": wish,
        },
    }
    made = pinned(_pod(affinity), "n1")
    assert target_node(made) == "n1"
    assert made["spec"]["affinity"]["podAffinity"] == {"x": 1}
    assert made["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == wish
    assert affinity["nodeAffinity"][REQUIRED] == {"nodeSelectorTerms": [term]}


def _fields(*values: str, operator: str = "In") -> Json:
    field = {"key": "metadata.name", "operator": operator, "values": list(values)}
    return _pod({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}})


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        (_pod(nodeName="here"), "here"),
        (_fields("a"), "a"),
        (_fields("a", "b"), None),
        (_fields("a", operator="NotIn"), None),
        (_pod(), None),
        (_pod({"nodeAffinity": {}}), None),
        (_pod({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}), None),
    ],
)
def test_for_which_node_it_was_made(pod: Json, node: str | None) -> None:
    assert target_node(pod) == node


def test_tolerations_are_added_once() -> None:
    """In the place of the same one with seconds; on the host's network one more."""
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    other = {"key": "mine", "operator": "Exists"}
    template = {"spec": {"tolerations": [{**own, "tolerationSeconds": 5}, other], "hostNetwork": True}}
    made = daemon_template(template, "hash")
    tolerations = made["spec"]["tolerations"]
    assert tolerations[:2] == [own, other]
    assert [each["key"].removeprefix("node.kubernetes.io/") for each in tolerations[2:]] == [
        "not-ready",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
        "network-unavailable",
    ]
    assert daemon_template(made, "hash")["spec"] == made["spec"]
    assert made["metadata"]["labels"] == {"controller-revision-hash": "hash"}
