"""Refusals whose words were read from Kubernetes v1.36.4, where no recording has them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.served import BUDGETS, PODS, Answer, Served, pod_document

Json = dict[str, Any]

UNFIT = "json: cannot unmarshal"
NODES = "/api/v1/nodes"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TEMPLATE: Json = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def causes(answer: Answer) -> list[tuple[str, str]]:
    return [(each["field"], each["message"]) for each in answer.body["details"]["causes"]]


def test_what_is_asked_again_is_answered_again_among_the_causes_only(api: Served) -> None:
    api.pod("p")
    answer = api.patch(f"{PODS}/p", {"metadata": {"uid": "zz"}})
    assert answer.message == 'Pod "p" is invalid: metadata.uid: Invalid value: "zz": field is immutable'
    assert causes(answer) == [("metadata.uid", 'Invalid value: "zz": field is immutable')] * 2
    assert len(causes(api.patch(f"{PODS}/p", {"metadata": {"labels": {"a b": "c"}}}))) == 4
    api.budget(minAvailable=1)
    assert len(causes(api.patch(f"{BUDGETS}/pdb", {"metadata": {"labels": {"a b": "c"}}}))) == 2
    assert len(causes(api.patch(f"{BUDGETS}/pdb", {"metadata": {"uid": "zz"}}))) == 1


@pytest.mark.parametrize(
    ("taint", "field", "text"),
    [
        ({"key": "a"}, "metadata.taints[0].effect", "Required value"),
        (
            {"key": "a", "effect": "Never"},
            "metadata.taints[0].effect",
            'Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
        ),
    ],
)
def test_a_wrong_taint(api: Served, taint: Json, field: str, text: str) -> None:
    assert causes(api.post(NODES, {"metadata": {"name": "m"}, "spec": {"taints": [taint]}})) == [(field, text)]
    api.post(NODES, {"metadata": {"name": "n"}})
    assert causes(api.patch(f"{NODES}/n", {"spec": {"taints": [taint]}})) == [(field, text)] * 2


@pytest.mark.parametrize(
    ("toleration", "text"),
    [
        (
            {"key": "a", "operator": "Exists", "value": "v"},
            "Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
        ),
        (
            {"key": "a", "operator": "Gt", "value": "5"},
            'Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"',
        ),
    ],
)
def test_a_wrong_toleration(api: Served, toleration: Json, text: str) -> None:
    answer = api.post(PODS, pod_document("p", tolerations=[toleration]))
    assert causes(answer) == [("spec.tolerations[0].operator", text)]


def test_a_finalizer_has_a_prefix(api: Served) -> None:
    document = pod_document("p")
    document["metadata"]["finalizers"] = ["hold"]
    text = 'Invalid value: "hold": name is neither a standard finalizer name nor is it fully qualified'
    assert causes(api.post(PODS, document)) == [("metadata.finalizers[0]", text)]


def test_what_the_server_decides_is_not_heard(api: Served) -> None:
    made = api.pod("p")
    answer = api.patch(f"{PODS}/p", {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 9}})
    assert answer.code == 200
    assert answer.body["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


def test_another_of_the_same_name_is_not_replaced(api: Served) -> None:
    made = api.pod("p")
    answer = api("PUT", f"{PODS}/p", {**made, "metadata": {**made["metadata"], "uid": "zz"}})
    key = "StorageError: invalid object, Code: 4, Key: /registry/pods/default/p, ResourceVersion: 0"
    why = f"Precondition failed: UID in precondition: zz, UID in object meta: {made['metadata']['uid']}"
    assert answer.code == 409
    assert answer.message == f'Operation cannot be fulfilled on pods "p": {key}, AdditionalErrorMsg: {why}'


def test_a_policy_of_preemption_never_changes(api: Served) -> None:
    api.post(CLASSES, {"metadata": {"name": "hi"}, "value": 5})
    answer = api.patch(f"{CLASSES}/hi", {"preemptionPolicy": "Never"})
    assert causes(answer) == [("preemptionPolicy", 'Invalid value: "Never": field is immutable')]


def test_admission_calls_a_pod_without_a_name_by_what_it_has(api: Served) -> None:
    document = pod_document("", priorityClassName="nope")
    document["metadata"] = {"generateName": "p-"}
    answer = api.post(PODS, document)
    assert answer.message == 'pods "p-" is forbidden: no PriorityClass with name nope was found'


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ({}, "target.name: Required value"),
        (
            {"kind": "Pod", "name": "n"},
            'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
        ),
    ],
)
def test_a_wrong_binding_is_called_the_servers_fault(api: Served, target: Json, text: str) -> None:
    api.post(PODS, pod_document("p", node=""))
    answer = api.post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": target})
    assert (answer.code, answer.message, "reason" in answer.body) == (500, text, False)


def test_a_pod_behind_a_gate_is_not_bound(api: Served) -> None:
    api.post(PODS, pod_document("p", node="", schedulingGates=[{"name": "a/b"}]))
    answer = api.post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}})
    assert (answer.code, answer.message.endswith("pod p has non-empty .spec.schedulingGates")) == (409, True)


@pytest.mark.parametrize(
    ("status", "field", "text"),
    [
        ({"qosClass": "Guaranteed"}, "status.qosClass", 'Invalid value: "Guaranteed": field is immutable'),
        ({"conditions": [{"type": "", "status": "True"}]}, "status.conditions[0].Type", 'Invalid value: "": name part'),
    ],
)
def test_a_wrong_status_of_a_pod(api: Served, status: Json, field: str, text: str) -> None:
    api.pod("p")
    found = causes(api.patch(f"{PODS}/p/status", {"status": status}))
    assert (found[0][0], found[0][1].startswith(text)) == (field, True)


def test_the_status_of_a_pod_may_bring_finalizers_but_no_owners(api: Served) -> None:
    api.pod("p")
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}
    answer = api.patch(f"{PODS}/p/status", {"metadata": {"finalizers": ["a.b/c"], "ownerReferences": [owner]}})
    assert (answer.body["metadata"]["finalizers"], "ownerReferences" in answer.body["metadata"]) == (["a.b/c"], False)


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            422,
            'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        ("fieldSelector=x%3Dy", 400, "field label not supported: x"),
    ],
)
def test_lists(api: Served, query: str, code: int, message: str) -> None:
    answer = api.get(PODS, query=query)
    assert (answer.code, message in answer.message) == (code, True)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "/apis/apps/v1/namespaces/default/replicasets",
            '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (CLASSES, '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        ("/apis/batch/v1/namespaces/default/jobs", 'field label "status.replicas" not supported for Job'),
    ],
)
def test_fields_that_no_selector_knows(api: Served, path: str, message: str) -> None:
    answer = api.get(path, query="fieldSelector=status.replicas%3D1")
    assert (answer.code, answer.message) == (400, message)


@pytest.mark.parametrize(
    ("patch", "media_type", "message"),
    [
        ([], STRATEGIC, f"{UNFIT} array into Go value of type map[string]interface {{}}"),
        ({}, JSON_PATCH, f"error decoding patch: {UNFIT} object into Go value of type []handlers.jsonPatchOp"),
        (
            {"metadata": {"labels": {"a": 1}}},
            STRATEGIC,
            (
                ' "" is invalid: patch: Invalid value: "map[metadata:map[labels:map[a:1]]]": '
                "cannot convert int64 to string"
            ),
        ),
    ],
)
def test_patches_that_are_none(api: Served, patch: Any, media_type: str, message: str) -> None:
    api.pod("p")
    assert api.patch(f"{PODS}/p", patch, media_type).message == message


@pytest.mark.parametrize(
    ("body", "media_type", "message"),
    [
        (b"{}", JSON_PATCH, f"{UNFIT} object into Go value of type jsonpatch.Patch"),
        (b"[[]]", JSON_PATCH, f"{UNFIT} array into Patch.0 of type jsonpatch.Operation"),
        (b"[{},1]", JSON_PATCH, f"{UNFIT} number into Patch.1 of type jsonpatch.Operation"),
        (b"[", JSON_PATCH, "unexpected end of JSON input"),
        (b"x", MERGE, "Invalid JSON Patch"),
        (b"1", MERGE, "Invalid JSON Patch"),
        (b"null", MERGE, "Invalid JSON Patch"),
    ],
)
def test_patches_that_nothing_looks_at_beforehand(api: Served, body: bytes, media_type: str, message: str) -> None:
    api.pod("p")
    answer = api("PATCH", f"{PODS}/p", body, content_type=media_type, query="fieldValidation=Ignore")
    assert (answer.code, answer.message) == (400, message)


def test_a_list_replaces_the_object_where_nothing_looks_at_it_beforehand(api: Served) -> None:
    api.pod("p")
    answer = api("PATCH", f"{PODS}/p", b"[]", content_type=MERGE, query="fieldValidation=Ignore")
    assert answer.code == 422
    assert answer.message.startswith(' "" is invalid: patch: Invalid value: "[]": couldn\'t get version/kind;')


@pytest.mark.parametrize(
    ("patch", "shown"),
    [
        ({"spec": {"containers": [{"name": "c", "image": "j", "$patch": "replace"}]}},
         "spec:map[containers:[map[$patch:replace image:j name:c]]]"),
        ({"spec": {"containers": [{"name": "c", "$patch": "delete"}]}},
         "spec:map[containers:[map[$patch:delete name:c]]]"),
        # What is new loses its directives, but not in a list that is new itself.
        ({"spec": {"tolerations": [{"key": "a", "$patch": "delete"}]}},
         "spec:map[tolerations:[map[$patch:delete key:a]]]"),
        ({"spec": {"nodeSelector": {"a": {"$patch": "delete"}, "b": "c"}}}, "spec:map[nodeSelector:map[b:c]]"),
    ],
)  # fmt: skip
def test_a_refused_strategic_patch_is_shown_as_it_is_left(api: Served, patch: Json, shown: str) -> None:
    api.pod("p")
    answer = api.patch(f"{PODS}/p", {**patch, "status": "True"}, STRATEGIC)
    text = f'"map[{shown} status:True]": cannot restore struct from: string'
    assert answer.message == f' "" is invalid: patch: Invalid value: {text}'


def test_an_unknown_field_makes_no_difference(api: Served) -> None:
    api.pod("p")
    answer = api.patch(f"{PODS}/p", {"spec": {"bogus": 1}})
    assert (answer.code, answer.headers["warning"]) == (200, '299 - "unknown field \\"spec.bogus\\""')
    assert "warning" not in api.patch(f"{PODS}/p", {"metadata": {"labels": {"x": "y"}}}).headers


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"template": TEMPLATE},
            [
                ("spec.selector", "Required value"),
                (
                    "spec.template.metadata.labels",
                    'Invalid value: {"a":"b"}: `selector` does not match template `labels`',
                ),
            ],
        ),
        (
            {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, "strategy": {"type": "Foo"}},
            [
                (
                    "spec.strategy",
                    (
                        'Unsupported value: {"Type":"Foo","RollingUpdate":null}: '
                        'supported values: "Recreate", "RollingUpdate"'
                    ),
                )
            ],
        ),
    ],
)
def test_deployments(api: Served, spec: Json, expected: list[tuple[str, str]]) -> None:
    assert causes(api.post(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})) == expected


def test_an_event_of_the_new_kind_says_its_reporter_and_time(api: Served) -> None:
    event = {"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}}
    answer = api.post("/apis/events.k8s.io/v1/namespaces/default/events", {**event, "type": "Normal"})
    assert causes(answer) == [("eventTime", "Required value")]


def test_a_name_that_is_no_hostname_is_warned_of(api: Served) -> None:
    warning = api.post(PODS, pod_document("a.b")).headers["warning"]
    assert warning.startswith(
        "299 - \"metadata.name: this is used in the Pod's hostname, which can result in surprising"
    )
    assert warning.endswith('a DNS label is recommended: [must not contain dots]"')


def test_a_label_has_no_dots(api: Served) -> None:
    answer = api.post("/api/v1/namespaces", {"metadata": {"name": "a.b"}})
    assert causes(answer) == [("metadata.name", 'Invalid value: "a.b": must not contain dots')]
