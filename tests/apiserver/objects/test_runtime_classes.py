"""Runtime classes, and the pods that name one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.served import PODS, Served, pod_document

Json = dict[str, Any]

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
NO_OVERHEAD = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
OTHER_OVERHEAD = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
LARGE: Json = {
    "handler": "vm",
    "overhead": {"podFixed": {"memory": "64Mi"}},
    "scheduling": {
        "nodeSelector": {"vm": "yes"},
        "tolerations": [{"key": "vm", "operator": "Exists"}, {"key": "a", "operator": "Equal", "value": "b"}],
    },
}


def pod(**spec: Any) -> Json:
    document = pod_document("p")
    document["spec"] |= spec
    return document


@pytest.fixture
def classes(api: Served) -> Served:
    assert api.post(CLASSES, {"metadata": {"name": "large"}, **LARGE}).code == 201
    assert api.post(CLASSES, {"metadata": {"name": "plain"}, "handler": "runc"}).code == 201
    return api


def test_a_pod_gets_what_its_class_says(classes: Served) -> None:
    wanted = [{"key": "vm", "operator": "Exists", "effect": "NoSchedule"}]
    made = classes.post(PODS, pod(runtimeClassName="large", nodeSelector={"zone": "a"}, tolerations=wanted))
    assert made.code == 201, made.content
    spec = made.body["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"memory": "64Mi"}, {"zone": "a", "vm": "yes"})
    # The narrower toleration is a part of the class's wider one.
    assert [each["key"] for each in spec["tolerations"] if each["key"] in ("vm", "a")] == ["vm", "a"]
    assert {"key": "vm", "operator": "Exists"} in spec["tolerations"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        ({"overhead": {"cpu": "1"}}, NO_OVERHEAD),
        ({"runtimeClassName": "plain", "overhead": {"cpu": "1"}}, NO_OVERHEAD),
        ({"runtimeClassName": "large", "overhead": {"memory": "1Gi"}}, OTHER_OVERHEAD),
        (
            {"runtimeClassName": "large", "nodeSelector": {"vm": "no"}},
            "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no",
        ),
    ],
)
def test_a_pod_that_cannot_have_its_class(classes: Served, spec: Json, why: str) -> None:
    answer = classes.post(PODS, pod(**spec))
    assert (answer.code, answer.message) == (403, f'pods "p" is forbidden: {why}')


@pytest.mark.parametrize(
    ("name", "why"),
    [("10%", "may not contain '%'"), ("..", "may not be '..'"), ("a/%", "may not contain '/' may not contain '%'")],
)
def test_a_class_that_cannot_be_asked_for(api: Served, name: str, why: str) -> None:
    answer = api.post(PODS, pod(runtimeClassName=name))
    assert (answer.code, answer.message) == (500, f'invalid resource name "{name}": [{why}]')


def test_the_same_overhead_in_other_words(classes: Served) -> None:
    assert classes.post(PODS, pod(runtimeClassName="large", overhead={"memory": "65536Ki"})).code == 201


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "handler"),
        ({"handler": "Bad_"}, "handler"),
        ({"handler": "a", "overhead": {"podFixed": {"bogus": "1"}}}, "overhead.limits[bogus]"),
        ({"handler": "a", "scheduling": {"nodeSelector": {"bad key": "x"}}}, "scheduling.nodeSelector"),
        (
            {"handler": "a", "scheduling": {"tolerations": [{"key": "a", "operator": "Exists"}] * 2}},
            "scheduling.tolerations[1]",
        ),
    ],
)
def test_what_a_class_may_not_say(api: Served, value: Json, field: str) -> None:
    answer = api.post(CLASSES, {"metadata": {"name": "c"}, **value})
    assert (answer.code, answer.body["details"]["causes"][0]["field"]) == (422, field)


def test_the_handler_stays(classes: Served) -> None:
    answer = classes.patch(f"{CLASSES}/plain", {"handler": "other"})
    assert (answer.code, answer.body["details"]["causes"][0]["message"]) == (
        422, 'Invalid value: "other": field is immutable',
    )  # fmt: skip


def test_a_class_with_an_old_label_is_warned_of(api: Served) -> None:
    scheduling = {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}
    answer = api.post(CLASSES, {"metadata": {"name": "c"}, "handler": "a", "scheduling": scheduling})
    assert "scheduling.nodeSelector: deprecated since v1.14" in answer.headers["warning"]


def test_finalizers_of_a_changed_class_need_no_domain(classes: Served) -> None:
    """As those of a new one: the kind is too young to be strict about them."""
    assert classes.patch(f"{CLASSES}/plain", {"metadata": {"finalizers": ["mine"]}}).code == 200
    answer = classes.patch(f"{CLASSES}/plain", {"metadata": {"finalizers": [""]}})
    assert answer.code == 422
    assert "standard finalizer" not in answer.message


def test_a_class_is_looked_at_before_its_change(classes: Served) -> None:
    answer = classes.patch(f"{CLASSES}/plain", {"handler": "A", "metadata": {"uid": "u"}})
    found = [each["field"] for each in answer.body["details"]["causes"]]
    assert found == ["metadata.uid", "handler", "metadata.uid", "handler"]
