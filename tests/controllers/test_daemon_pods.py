"""Daemon pods as documents, and how long a failed one must stay."""

from __future__ import annotations

import pytest

from jettison.controllers.daemon_set import FailedDaemons, daemon_template, pinned, target_node
from jettison.engine.workloads.daemon_sync import FIRST_WAIT_NS, LONGEST_WAIT_NS
from jettison.manifests.pod_view import PodView
from tests.controllers.staging import ForwardClock, Json

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
    assert target_node(PodView(made)) == "n1"
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
    assert target_node(PodView(pod)) == node


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


def test_pods_are_marked_with_revision_and_generation_of_their_template() -> None:
    template = {"metadata": {"labels": {"app": "logs"}}, "spec": {}}
    marked = daemon_template(template, "hash", "7")["metadata"]["labels"]
    assert marked == {"app": "logs", "controller-revision-hash": "hash", "pod-template-generation": "7"}
    assert daemon_template(template, "hash")["metadata"]["labels"] == {
        "app": "logs",
        "controller-revision-hash": "hash",
    }


SECOND_NS = 10**9
NODE = ("uid", 1, "node")


def _left(failed: FailedDaemons, key: tuple[str, int, str] = NODE) -> float:
    """In seconds, to the tenth: the machine's clock goes on."""
    return round(failed.left_ns(key) / SECOND_NS, 1)


def test_each_failure_waits_twice_as_long() -> None:
    clock = ForwardClock()
    failed = FailedDaemons(clock)
    assert failed.left_ns(NODE) == 0
    for seconds in (1, 2, 4, 8):
        failed.note(NODE)
        assert _left(failed) == seconds
        clock.forward(seconds)
        assert failed.left_ns(NODE) == 0
    assert FIRST_WAIT_NS == SECOND_NS


def test_another_node_and_a_changed_set_have_waits_of_their_own() -> None:
    failed = FailedDaemons(ForwardClock())
    failed.note(NODE)
    assert failed.left_ns(("uid", 1, "other")) == 0
    assert failed.left_ns(("uid", 2, "node")) == 0


def test_it_ends_somewhere_and_is_forgotten() -> None:
    clock = ForwardClock()
    failed = FailedDaemons(clock)
    for _ in range(20):
        failed.note(NODE)
    assert _left(failed) == LONGEST_WAIT_NS / SECOND_NS
    clock.forward(2 * LONGEST_WAIT_NS / SECOND_NS + 1)
    failed.note(NODE)
    assert _left(failed) == 1
