"""What Kubernetes objects to in objects; the words are Kubernetes' own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.served import BUDGETS, PODS, Json, Served, pod_document


def container(**rest: Any) -> list[Json]:
    return [{"name": "c", "image": "i", **rest}]


PODS_REFUSED: list[tuple[Json, str]] = [
    (pod_document("a.b", containers=container(name="")), "spec.containers[0].name: Required value"),
    (pod_document("a", containers=container(name="A")), "a lowercase RFC 1123 label must consist of"),
    (pod_document("a", containers=container(image=" i")), "must not have leading or trailing whitespace"),
    (pod_document("a", containers=container(imagePullPolicy="Often")), 'imagePullPolicy: Unsupported value: "Often"'),
    (pod_document("a", containers=container(ports=[{"containerPort": 0}])), "ports[0].containerPort: Required value"),
    (
        pod_document("a", containers=container(ports=[{"containerPort": 70000}])),
        "must be between 1 and 65535, inclusive",
    ),
    (pod_document("a", containers=container(env=[{"name": "A=B"}])), "a valid environment variable name must consist"),
    (pod_document("a", containers=container(volumeMounts=[{"name": "v", "mountPath": "/v"}])), 'name: Not found: "v"'),
    (
        pod_document("a", containers=container(livenessProbe={})),
        "livenessProbe: Required value: must specify a handler",
    ),
    (pod_document("a", containers=container(resources={"requests": {"x": "1"}})), "must be a standard resource for"),
    (pod_document("a", volumes=[{"name": "v"}, {"name": "v"}]), 'spec.volumes[1].name: Duplicate value: "v"'),
    (
        pod_document("a", volumes=[{"name": "v", "hostPath": {"path": "/a"}, "emptyDir": {}}]),
        "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
    ),
    (pod_document("a", volumes=[{"name": "v", "hostPath": {}}]), "spec.volumes[0].hostPath.path: Required value"),
    (
        pod_document("a", volumes=[{"name": "v", "hostPath": {"path": "/a/../b"}}]),
        "spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
    ),
    (
        pod_document("a", volumes=[{"name": "v", "hostPath": {"path": "/a", "type": "Door"}}]),
        'spec.volumes[0].hostPath.type: Unsupported value: "Door": supported values: "", "BlockDevice"',
    ),
    (
        pod_document("a", volumes=[{"name": "v", "emptyDir": {"sizeLimit": "-1"}}]),
        "spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity",
    ),
    (pod_document("a", restartPolicy="Sometimes"), 'supported values: "Always", "OnFailure", "Never"'),
    (pod_document("a", dnsPolicy="Guess"), "spec.dnsPolicy: Unsupported value"),
    (pod_document("a", nodeSelector={"-": "x"}), "spec.nodeSelector: Invalid value"),
    (pod_document("a", node="Bad_Node"), 'spec.nodeName: Invalid value: "Bad_Node"'),
    (pod_document("a", activeDeadlineSeconds=0), "must be between 1 and 2147483647, inclusive"),
    (pod_document("a", tolerations=[{"operator": "Equal"}]), "operator must be Exists when `key` is empty"),
    (pod_document("a", tolerations=[{"key": "k", "operator": "Exists", "value": "v"}]), "value must be empty when"),
    (pod_document("a", tolerations=[{"key": "k", "effect": "Never"}]), "tolerations[0].effect: Unsupported value"),
    (pod_document("a", metadata={"labels": {"a": "b c"}}), "a valid label must be an empty string or consist of"),
    (pod_document("a", metadata={"annotations": {"a b": "c"}}), 'metadata.annotations: Invalid value: "a b"'),
    (pod_document("a", metadata={"annotations": {"a": "x" * 262144}}), "Too long: may not be more than 262144 bytes"),
    (pod_document("a", metadata={"ownerReferences": [{"kind": "X"}]}), "version must not be empty"),
    (pod_document("a", metadata={"finalizers": ["a b"]}), 'metadata.finalizers: Invalid value: "a b"'),
    (pod_document("a/b"), "a lowercase RFC 1123 subdomain must consist of"),
    (pod_document("x" * 254), "must be no more than 253 characters"),
]


@pytest.mark.parametrize(("document", "text"), PODS_REFUSED, ids=[text for _, text in PODS_REFUSED])
def test_pods(api: Served, document: Json, text: str) -> None:
    answer = api.post(PODS, document)
    assert (answer.code, answer.body.get("reason")) == (422, "Invalid"), answer.content
    assert text in answer.message


def test_volumes_of_a_host(api: Served) -> None:
    """Two dots may be part of a name, and a size may be none."""
    volumes = [
        {"name": "a", "hostPath": {"path": "/a/..b", "type": "DirectoryOrCreate"}},
        {"name": "b", "emptyDir": {"sizeLimit": "0"}},
        {"name": "c", "projected": {"sources": []}},
    ]
    assert api.post(PODS, pod_document("a", volumes=volumes)).code == 201


def test_two_owners_cannot_both_control(api: Served) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    answer = api.post(PODS, pod_document("a", metadata={"ownerReferences": [owner, {**owner, "uid": "v"}]}))
    assert "Only one reference can have Controller set to true" in answer.message


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"spec": {"containers": []}}, "spec.containers: Forbidden: pod updates may not add or remove containers"),
        (
            {"spec": {"tolerations": [{"key": "mine"}]}},
            "existing toleration can not be modified except its tolerationSeconds",
        ),
        ({"spec": {"activeDeadlineSeconds": -1}}, "must be between 0 and 2147483647, inclusive"),
        ({"spec": {"hostNetwork": True}}, '-  "HostNetwork": false,\n+  "HostNetwork": true,'),
        (
            {"spec": {"schedulingGates": [{"name": "a/b"}]}},
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a/b'",
        ),
        ({"spec": {"priority": 5}}, '- "Priority": 0,\n+ "Priority": 5,'),
    ],
)
def test_a_pod_runs_as_it_was_made(api: Served, patch: Json, text: str) -> None:
    api.pod("p", tolerations=[{"key": "mine", "operator": "Exists"}])
    answer = api.patch(f"{PODS}/p", patch)
    assert answer.code == 422
    assert text in answer.message


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"activeDeadlineSeconds": 100}},
        {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}},
        {"spec": {"containers": [{"name": "c", "image": "other:1"}]}},
    ],
)
def test_what_may_change(api: Served, patch: Json) -> None:
    api.pod("p")
    assert api.patch(f"{PODS}/p", patch, "application/strategic-merge-patch+json").code == 200


def test_a_gate_may_be_opened(api: Served) -> None:
    assert api.post(PODS, pod_document("p", node="", schedulingGates=[{"name": "a/b"}, {"name": "c/d"}])).code == 201
    answer = api.patch(f"{PODS}/p", {"spec": {"schedulingGates": [{"name": "c/d"}]}})
    assert answer.code == 200
    assert api.patch(f"{PODS}/p", {"spec": {"schedulingGates": None}}).code == 200


def _term(*keys: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}


def _affinity(*terms: Json, **more: Any) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}, **more}}


NAMED = [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
PREFERRED = [{"weight": 1, "preference": _term("fast")}]
NEAR = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
        ]
    }
}
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
NO_NUMBER = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
SHOWN = '{"MatchExpressions":[{"Key":"b","Operator":"Exists","Values":null}],"MatchFields":null}'


@pytest.mark.parametrize(
    ("former", "spec"),
    [
        ({}, {"nodeSelector": {"a": "b"}}),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "b", "c": "d"}}),
        ({}, {"affinity": _affinity(_term("a"))}),
        ({"affinity": NEAR}, {"affinity": {**NEAR, **_affinity(_term("a"))}}),
        ({"affinity": _affinity(_term("a"))}, {"affinity": _affinity(_term("a", "b"))}),
        ({"affinity": _affinity(_term("a"))}, {"affinity": _affinity({**_term("a"), "matchFields": NAMED})}),
        (
            {"affinity": _affinity(_term("a"), preferredDuringSchedulingIgnoredDuringExecution=PREFERRED)},
            {"affinity": _affinity(_term("a"))},
        ),
    ],
)
def test_a_pod_behind_a_gate_may_become_choosier(api: Served, former: Json, spec: Json) -> None:
    gates = [{"name": "a/b"}]
    assert api.post(PODS, pod_document("p", schedulingGates=gates, **former)).code == 201
    document = api.get(f"{PODS}/p").body
    document["spec"].update(spec)
    answer = api("PUT", f"{PODS}/p", document)
    assert answer.code == 200, answer.message
    assert {key: answer.body["spec"][key] for key in spec} == spec
    assert api.patch(f"{PODS}/p", {"spec": {"schedulingGates": None}}).code == 200
    assert api.patch(f"{PODS}/p", {"spec": {"nodeSelector": {"later": "x"}}}).code == 422


@pytest.mark.parametrize(
    ("former", "spec", "text"),
    [
        (
            {"nodeSelector": {"a": "b"}},
            {"nodeSelector": {"a": "c"}},
            'spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed',
        ),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": None}, "spec.nodeSelector: Invalid value: null: only"),
        ({"affinity": _affinity(_term("a"))}, {"affinity": None}, f"{TERMS}: Invalid value: null: {NO_NUMBER}"),
        (
            {"affinity": _affinity(_term("a"), _term("c"))},
            {"affinity": _affinity(_term("b"))},
            f"{TERMS}: Invalid value: [{SHOWN}]: {NO_NUMBER}",
        ),
        (
            {"affinity": _affinity(_term("a"))},
            {"affinity": _affinity(_term("b"))},
            f"{TERMS}[0]: Invalid value: {SHOWN}: only additions are allowed (no mutations or deletions)",
        ),
        ({"affinity": _affinity({})}, {"affinity": _affinity(_term("b"))}, "only additions are allowed"),
        ({}, {"affinity": {**NEAR, **_affinity(_term("a"))}}, "pod updates may not change fields other than"),
        ({"affinity": NEAR}, {"affinity": _affinity(_term("a"))}, "pod updates may not change fields other than"),
    ],
)
def test_a_pod_behind_a_gate_never_becomes_less_choosy(api: Served, former: Json, spec: Json, text: str) -> None:
    assert api.post(PODS, pod_document("p", schedulingGates=[{"name": "a/b"}], **former)).code == 201
    document = api.get(f"{PODS}/p").body
    document["spec"].update(spec)
    answer = api("PUT", f"{PODS}/p", document)
    assert (answer.code, text in answer.message) == (422, True), answer.message


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"currentHealthy": -1}, "status.currentHealthy: Invalid value: -1: must be greater than or equal to 0"),
        ({"conditions": [{"type": "A", "status": "Maybe"}]}, 'supported values: "False", "True", "Unknown"'),
        ({"conditions": [{"type": "A", "status": "True", "reason": "R"}]}, "lastTransitionTime: Required value"),
        (
            {"conditions": [{"type": "", "status": "True"}]},
            'conditions[0].type: Invalid value: "": name part must be non',
        ),
        ({"conditions": [{"type": "A", "status": "True"}]}, "status.conditions[0].reason: Required value]"),
        (
            {"conditions": [{"type": "A", "status": "True", "observedGeneration": -1}]},
            "observedGeneration: Invalid value: -1: must be greater than or equal to zero",
        ),
    ],
)
def test_statuses_of_budgets(api: Served, status: Json, text: str) -> None:
    api.budget(minAvailable=1)
    answer = api.patch(f"{BUDGETS}/pdb/status", {"status": status})
    assert answer.code == 422
    assert text in answer.message


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"selector": {}}, "empty selector is invalid"),
        ({"replicas": -1}, "spec.replicas: Invalid value: -1"),
        ({"selector": {"matchLabels": {"app": "other"}}}, "`selector` does not match template `labels`"),
    ],
)
def test_workloads(api: Served, spec: Json, text: str) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": container()}}
    whole = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    answer = api.post("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "d"}, "spec": whole})
    assert answer.code == 422
    assert text in answer.message


REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"data": {}, "revision": -1}, "revision: Invalid value: -1: must be greater than or equal to 0"),
        ({"revision": 1}, "data: Required value: data is mandatory"),
        ({"revision": 1, "data": None}, "data: Required value: data is mandatory"),
        ({"revision": 1, "data": [1]}, "data: Required value: data must be a valid JSON object"),
        ({"revision": 1, "data": ""}, "data: Required value: data must be a valid JSON object"),
    ],
)
def test_revisions(api: Served, fields: Json, text: str) -> None:
    answer = api.post(REVISIONS, {"metadata": {"name": "r"}, **fields})
    assert answer.code == 422
    assert text in answer.body["message"]


def test_a_revision_may_get_another_number_and_no_other_data(api: Served) -> None:
    assert api.post(REVISIONS, {"metadata": {"name": "empty"}, "data": {}}).body["data"] == {}
    assert api.post(REVISIONS, {"metadata": {"name": "r"}, "revision": 1, "data": {"a": {"$patch": "x"}}}).code == 201
    assert api.patch(f"{REVISIONS}/r", {"revision": 2}).body["revision"] == 2
    refused = api.patch(f"{REVISIONS}/r", {"data": {"b": 1}})
    assert refused.code == 422
    assert "data: Invalid value" in refused.body["message"]
    assert "field is immutable" in refused.body["message"]
    assert api.patch(f"{REVISIONS}/r", {"revision": -2}).code == 422


def test_the_pods_of_a_deployment_never_end(api: Served) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": container(), "restartPolicy": "Never"}}
    document = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    answer = api.post("/apis/apps/v1/namespaces/default/deployments", document)
    assert 'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"' in answer.message


def test_several_mistakes_are_listed_together(api: Served) -> None:
    document = pod_document("a", restartPolicy="x", dnsPolicy="y")
    answer = api.post(PODS, document)
    assert answer.message.startswith('Pod "a" is invalid: [spec.restartPolicy: ')
    assert [each["field"] for each in answer.body["details"]["causes"]] == ["spec.restartPolicy", "spec.dnsPolicy"]


def test_the_image_of_a_pod_of_a_node(api: Served) -> None:
    mirror = "kubernetes.io/config.mirror"
    document = {
        "metadata": {"name": "m", "annotations": {mirror: "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    answer = api.post(PODS, document)
    why = 'Invalid value: "x": must set spec.nodeName if mirror pod annotation is set'
    assert answer.message == f'Pod "m" is invalid: metadata.annotations[{mirror}]: {why}'
    api.pod("p")
    answer = api.patch(f"{PODS}/p", {"metadata": {"annotations": {mirror: "x"}}})
    assert f"metadata.annotations[{mirror}]: Forbidden: may not add mirror pod annotation" in answer.message


def test_a_status_keeps_the_quality_of_service(api: Served) -> None:
    api.pod("p")
    answer = api.patch(f"{PODS}/p/status", {"status": {"qosClass": "Guaranteed"}})
    assert 'status.qosClass: Invalid value: "Guaranteed": field is immutable' in answer.message
    answer = api.patch(f"{PODS}/p/status", {"status": {"qosClass": None}})
    assert answer.body["status"]["qosClass"] == "BestEffort"


DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def _deployment(**spec: object) -> Json:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    whole = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    return {"metadata": {"name": "d"}, "spec": whole}


def _rolling(**limits: object) -> Json:
    return _deployment(strategy={"type": "RollingUpdate", "rollingUpdate": limits})


LIMITS = "spec.strategy.rollingUpdate"
MISTAKES = [
    (_rolling(maxSurge=0, maxUnavailable="0%"), f'{LIMITS}.maxUnavailable: Invalid value: "0%": may not be 0 when'),
    (_rolling(maxSurge=-1), f"{LIMITS}.maxSurge: Invalid value: -1: must be greater than or equal to 0"),
    (_rolling(maxSurge="many"), f'{LIMITS}.maxSurge: Invalid value: "many": a valid percent string must be'),
    (_rolling(maxUnavailable="101%"), f'{LIMITS}.maxUnavailable: Invalid value: "101%": must not be greater than'),
    (
        _deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        f"{LIMITS}: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ),
    (_deployment(strategy={"type": "Sideways"}), 'supported values: "Recreate", "RollingUpdate"'),
    (
        _deployment(progressDeadlineSeconds=5, minReadySeconds=5),
        "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
    ),
    (_deployment(progressDeadlineSeconds=-1), "spec.progressDeadlineSeconds: Invalid value: -1: must be greater"),
]


@pytest.mark.parametrize(("document", "text"), MISTAKES, ids=[text for _, text in MISTAKES])
def test_mistakes(api: Served, document: Json, text: str) -> None:
    answer = api.post(DEPLOYMENTS, document)
    assert answer.code == 422
    assert text in answer.message


@pytest.mark.parametrize(
    "document",
    [_rolling(maxSurge="250%", maxUnavailable="100%"), _rolling(maxSurge=0, maxUnavailable=1)],
    ids=["more than all", "one at a time"],
)
def test_what_may_be(api: Served, document: Json) -> None:
    assert api.post(DEPLOYMENTS, document).code == 201


def test_another_strategy_must_take_its_limits_along(api: Served) -> None:
    """Why kubectl sends null for them."""
    assert api.post(DEPLOYMENTS, _deployment()).code == 201
    answer = api.patch(f"{DEPLOYMENTS}/d", {"spec": {"strategy": {"type": "Recreate"}}})
    assert "Forbidden: may not be specified" in answer.message
    whole = {"type": "Recreate", "rollingUpdate": None}
    assert api.patch(f"{DEPLOYMENTS}/d", {"spec": {"strategy": whole}}).code == 200
