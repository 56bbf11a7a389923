"""Annotations that say what fields say today: what Kubernetes refuses of them. Texts are its own."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.apiserver.objects.validation.pod.old_annotations import validate_agreement, validate_pod_annotations
from tests.apiserver.served import PODS, Served

Json = dict[str, Any]

ARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
OF_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
COST = "controller.kubernetes.io/pod-deletion-cost"
NO_KEY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
NO_PROFILE = "must be a valid seccomp profile"


def spec(context: Json | None = None, whole: Json | None = None, **rest: Any) -> Json:
    container: Json = {"name": "c"} if context is None else {"name": "c", "securityContext": context}
    return {"containers": [container], "securityContext": whole or {}, **rest}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({ARMOR + "c": "unconfined"}, []),
        ({ARMOR + "c": "runtime/default"}, []),
        ({ARMOR + "c": "localhost/x"}, []),
        ({ARMOR + "c": ""}, []),
        ({ARMOR + "c": "x"}, [f'a[{ARMOR}c]: Invalid value: "x": invalid AppArmor profile name: "x"']),
        ({ARMOR + "d": "unconfined"}, [f'a[{ARMOR}d]: Invalid value: "d": container not found']),
        *(({SECCOMP: each}, []) for each in ("unconfined", "runtime/default", "docker/default", "localhost/x")),
        ({SECCOMP: ""}, [f'a.{SECCOMP}: Invalid value: "": {NO_PROFILE}']),
        ({SECCOMP: "localhost/../x"}, [f"a.{SECCOMP}: Invalid value: \"../x\": must not contain '..'"]),
        ({SECCOMP: "localhost//x"}, [f'a.{SECCOMP}: Invalid value: "/x": must be a relative path']),
        ({OF_CONTAINER + "other": "x"}, [f'a.{OF_CONTAINER}other: Invalid value: "x": {NO_PROFILE}']),
        ({COST: "x"}, [f'a[{COST}]: Invalid value: "x": must be a 32bit integer']),
        ({TOLERATIONS: ""}, []),
        ({TOLERATIONS: "null"}, []),
        ({TOLERATIONS: '[{"key": "a", "operator": "Exists"}]'}, []),
        (
            {TOLERATIONS: "x"},
            [f"a: Invalid value: \"{TOLERATIONS}\": invalid character 'x' looking for beginning of value"],
        ),
        (
            {TOLERATIONS: '[{"value": "v"}]'},
            [f'a.{TOLERATIONS}[0].operator: Invalid value: "": {NO_KEY}'],
        ),
    ],
)
def test_what_an_annotation_says(annotations: dict[str, str], expected: list[str]) -> None:
    assert list(map(str, validate_pod_annotations(annotations, spec(), "a"))) == expected


SECCOMP_TYPE = "Forbidden: seccomp type in annotation and field must match"
SECCOMP_FILE = "Forbidden: seccomp profile in annotation and field must match"
ARMOR_TYPE = "Forbidden: apparmor type in annotation and field must match"
LOCAL: Json = {"type": "Localhost", "localhostProfile": "x"}


@pytest.mark.parametrize(
    ("annotations", "said", "expected"),
    [
        ({SECCOMP: "docker/default"}, spec(whole={"seccompProfile": {"type": "RuntimeDefault"}}), []),
        (
            {SECCOMP: "unconfined"},
            spec(whole={"seccompProfile": {"type": "RuntimeDefault"}}),
            [f"s.securityContext.seccompProfile.type: {SECCOMP_TYPE}"],
        ),
        ({SECCOMP: "localhost/x"}, spec(whole={"seccompProfile": LOCAL}), []),
        (
            {SECCOMP: "localhost/y"},
            spec(whole={"seccompProfile": LOCAL}),
            [f"s.securityContext.seccompProfile.localhostProfile: {SECCOMP_FILE}"],
        ),
        (
            {OF_CONTAINER + "c": "unconfined"},
            spec({"seccompProfile": LOCAL}),
            [f"s.containers[0].securityContext.seccompProfile.type: {SECCOMP_TYPE}"],
        ),
        (
            {ARMOR + "c": "unconfined"},
            spec({"appArmorProfile": {"type": "RuntimeDefault"}}),
            [f"s.containers[0].securityContext.appArmorProfile.type: {ARMOR_TYPE}"],
        ),
        # The profile of the pod is that of a container without one.
        (
            {ARMOR + "c": "docker/default"},
            spec(whole={"appArmorProfile": {"type": "RuntimeDefault"}}),
            [f"s.containers[0].securityContext.appArmorProfile.type: {ARMOR_TYPE}"],
        ),
        ({ARMOR + "c": "unconfined"}, spec({"appArmorProfile": LOCAL}, os={"name": "windows"}), []),
        ({ARMOR + "c": "unconfined"}, spec(), []),
    ],
)
def test_an_annotation_beside_the_field(annotations: dict[str, str], said: Json, expected: list[str]) -> None:
    assert list(map(str, validate_agreement(annotations, said, "s"))) == expected


def test_pods_and_templates_are_looked_at(api: Served) -> None:
    metadata = {"labels": {"a": "b"}, "annotations": {COST: "x"}}
    containers = {"containers": [{"name": "c", "image": "i"}]}
    refused = api.post(PODS, {"metadata": {"name": "p", **metadata}, "spec": containers})
    assert [each["field"] for each in refused.body["details"]["causes"]] == [f"metadata.annotations[{COST}]"]
    template = {"metadata": metadata, "spec": containers}
    made = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    refused = api.post("/apis/apps/v1/namespaces/default/deployments", made)
    assert [each["field"] for each in refused.body["details"]["causes"]] == [f"spec.template.annotations[{COST}]"]
    # Upstream looks twice at that of a StatefulSet.
    refused = api.post("/apis/apps/v1/namespaces/default/statefulsets", made)
    assert [each["field"] for each in refused.body["details"]["causes"]] == [f"spec.template.annotations[{COST}]"] * 2


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ("unconfined", {"type": "Unconfined"}),
        ("runtime/default", {"type": "RuntimeDefault"}),
        ("localhost/x", LOCAL),
        # No field says this.
        ("localhost/", None),
        ("localhost/ x", None),
        ("", None),
    ],
)
def test_a_profile_becomes_the_field_of_a_new_container(api: Served, said: str, field: Json | None) -> None:
    made = {"metadata": {"name": "p", "annotations": {ARMOR + "c": said}}, "spec": spec()}
    made["spec"]["containers"][0]["image"] = "i"
    answer = api.post(PODS, made)
    context = answer.body["spec"]["containers"][0].get("securityContext", {})
    assert context.get("appArmorProfile") == field
    assert "deprecated since v1.30" in answer.headers["warning"]


def test_a_profile_that_the_whole_pod_has_is_not_repeated(api: Served) -> None:
    made = {"metadata": {"name": "p", "annotations": {ARMOR + "c": "unconfined"}}, "spec": spec()}
    made["spec"]["containers"][0]["image"] = "i"
    made["spec"]["securityContext"] = {"appArmorProfile": {"type": "Unconfined"}}
    answer = api.post(PODS, made)
    assert "securityContext" not in answer.body["spec"]["containers"][0]
    assert "warning" not in answer.headers


def test_a_refused_pod_is_warned_of_its_profile_as_well(api: Served) -> None:
    made = {"metadata": {"name": "p", "annotations": {ARMOR + "c": "x"}}, "spec": spec()}
    made["spec"]["containers"][0]["image"] = "i"
    answer = api.post(PODS, made)
    assert (answer.code, "deprecated since v1.30" in answer.headers["warning"]) == (422, True)
