"""Whatever is sent, the answer is a Status with a 4xx (or the deed), and the server goes on.

5,000 requests are drawn: paths, methods, headers, queries and bodies, from the almost right to the absurd.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jettison.apiserver.verbs.eviction import Settings
from tests.apiserver.served import APPLY, BUDGETS, JSON_PATCH, MERGE, PODS, STRATEGIC, Served, pod_document

REQUESTS_PER_EXAMPLE = 10
EXAMPLES = 100

_PATHS = st.sampled_from(
    [
        PODS,
        f"{PODS}/p",
        f"{PODS}/p/status",
        f"{PODS}/p/eviction",
        f"{PODS}/p/binding",
        f"{PODS}/p/log",
        BUDGETS,
        f"{BUDGETS}/b",
        f"{BUDGETS}/b/status",
        "/api/v1/nodes",
        "/api/v1/nodes/n1",
        "/api/v1/namespaces",
        "/api/v1/namespaces/spare",
        "/api/v1/namespaces/spare/finalize",
        "/api/v1/namespaces/default/events",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/apps/v1/namespaces/default/deployments/d",
        "/apis/apps/v1/namespaces/default/deployments/d/scale",
        "/apis/batch/v1/namespaces/default/jobs",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases/l",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/api/v1/namespaces/default/bindings",
    ]
) | st.text(alphabet="/.%apisvpodn1-_~\0é", max_size=40).map(lambda text: "/" + text)
_KINDS = st.sampled_from(
    ["", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", ";;;", MERGE]
) | st.sampled_from([STRATEGIC, JSON_PATCH, APPLY, "application/json; charset=latin-1"])
_ACCEPTS = st.sampled_from(
    ["application/json", "*/*", "", "application/json;as=Table;v=v1;g=meta.k8s.io", "image/png", ",;="]
)
_WORDS = st.sampled_from(
    [
        "p",
        "b",
        "d",
        "n1",
        "default",
        "All",
        "Strict",
        "x" * 300,
        "",
        "../..",
        "\0",
        "é",
        "-1",
        "1e9",
        "{}",
        "[]",
        "true",
    ]
)
_PARAMETERS = st.sampled_from(
    (
        *("dryRun", "fieldValidation", "fieldManager", "force", "labelSelector", "fieldSelector", "limit", "continue"),
        *("resourceVersion", "resourceVersionMatch", "gracePeriodSeconds", "propagationPolicy", "orphanDependents"),
        *("timeout", "includeObject", "pretty"),
    )
)
_QUERIES = st.lists(st.tuples(_PARAMETERS, _WORDS), max_size=3)
_FIELDS = st.sampled_from(
    (
        *("metadata", "name", "namespace", "uid", "resourceVersion", "labels", "annotations", "finalizers", "spec"),
        *("ownerReferences", "generateName", "status", "containers", "image", "resources", "limits", "memory", "key"),
        *("tolerations", "operator", "effect", "minAvailable", "selector", "matchLabels", "matchExpressions", "values"),
        *("conditions", "type", "phase", "deleteOptions", "preconditions", "dryRun", "replicas", "template", "kind"),
        *("apiVersion", "target", "taints", "$patch", "op", "path", "value", "from", "disruptedPods", "capacity"),
    )
)
_VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | _WORDS
    | st.sampled_from(["Pod", "v1", "policy/v1", "add", "/metadata/labels", "50%", "NoExecute", "2027-01-01T00:00:00Z"])
)
_DOCUMENTS = st.recursive(
    _VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_FIELDS, inner, max_size=5), max_leaves=20
)
_NEARLY = st.sampled_from(
    [
        {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": -(2**63)}},
        {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        {"metadata": {"name": "b"}, "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}},
        [{"op": "move", "from": "/spec", "path": "/spec/containers/0"}],
        [{"op": "copy", "from": "", "path": "/metadata/labels"}],
        {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}},
        {"metadata": {"finalizers": ["a/b"]}},
        {"status": {"disruptedPods": {"x": "2027-01-01T00:00:00Z"}, "disruptionsAllowed": 1, "observedGeneration": 9}},
    ]
)
_BODIES = (
    _DOCUMENTS.map(lambda document: json.dumps(document).encode("utf-8", "surrogatepass"))
    | _NEARLY.map(lambda document: json.dumps(document).encode())
    | st.binary(max_size=60)
    | st.sampled_from(
        [b"", b"{", b"[" * 5000, b"a: &a [*a]", b"k8s\x00\x0a\xff", b"!!python/object:os.system {}", b"\xff\xfe"]
    )
)
_METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"])
_WILD = st.tuples(_METHODS, _PATHS, _QUERIES, _KINDS, _ACCEPTS, _BODIES)

# The others are right but for a few places: those get further in.
JSON = "application/json"
APPS = "/apis/apps/v1/namespaces/default"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
TIME = "2027-01-01T00:00:00Z"

_TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
_WORKLOAD = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": _TEMPLATE}
_TOLERATION = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
_RESOURCES = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}
_POD = pod_document("p", tolerations=[_TOLERATION], containers=[{"name": "c", "image": "i", "resources": _RESOURCES}])
_CONDITION = {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": TIME}
_NUMBERS = {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
_STATUS = {**_NUMBERS, "observedGeneration": 1, "conditions": [_CONDITION]}
_OPTIONS = {"gracePeriodSeconds": 5, "preconditions": {"uid": "u", "resourceVersion": "1"}, "dryRun": ["All"]}
_ADD = {"op": "add", "path": "/metadata/labels/x", "value": "y"}
_EVENT = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}


def _named(name: str, **rest: Any) -> Any:
    return {"metadata": {"name": name}, **rest}


_NEARLY_RIGHT: list[tuple[str, str, str, Any]] = [
    ("POST", PODS, JSON, _POD),
    ("PUT", f"{PODS}/p", JSON, _POD),
    ("PATCH", f"{PODS}/p", MERGE, {"metadata": {"labels": {"a": "b"}, "finalizers": ["a/b"]}}),
    ("PATCH", f"{PODS}/p", STRATEGIC, {"spec": {"containers": [{"name": "c", "image": "j"}]}}),
    ("PATCH", f"{PODS}/p", JSON_PATCH, [_ADD, {"op": "test", "path": "/metadata/name", "value": "p"}]),
    ("PATCH", f"{PODS}/p/status", STRATEGIC, {"status": {"phase": "Running", "conditions": [_CONDITION]}}),
    ("POST", f"{PODS}/p/eviction", JSON, _named("p", deleteOptions=_OPTIONS)),
    ("DELETE", f"{PODS}/p", JSON, _OPTIONS),
    ("POST", f"{PODS}/p/binding", JSON, _named("p", target={"name": "n1"})),
    ("PATCH", f"{BUDGETS}/b", MERGE, {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}}),
    ("PATCH", f"{BUDGETS}/b/status", MERGE, {"status": _STATUS}),
    ("POST", f"{APPS}/deployments", JSON, _named("d", spec=_WORKLOAD)),
    ("PATCH", f"{APPS}/deployments/d", STRATEGIC, {"spec": _WORKLOAD}),
    ("PATCH", f"{APPS}/deployments/d/scale", MERGE, {"spec": {"replicas": 3}}),
    ("POST", f"{APPS}/statefulsets", JSON, _named("s", spec=_WORKLOAD)),
    ("POST", f"{APPS}/daemonsets", JSON, _named("s", spec=_WORKLOAD)),
    ("POST", "/apis/batch/v1/namespaces/default/jobs", "application/yaml", _named("j", spec={"template": _TEMPLATE})),
    ("POST", "/api/v1/nodes", JSON, _named("n1", spec={"taints": [_TOLERATION]})),
    ("PATCH", "/api/v1/nodes/n1/status", MERGE, {"status": {"capacity": {"cpu": "1"}, "conditions": [_CONDITION]}}),
    ("PUT", "/api/v1/namespaces/spare/finalize", JSON, _named("spare", spec={"finalizers": ["kubernetes"]})),
    ("POST", CLASSES, JSON, _named("c", value=5)),
    ("PUT", f"{LEASES}/l", JSON, _named("l", spec={"renewTime": TIME})),
    ("POST", "/api/v1/namespaces/default/events", JSON, _EVENT),
    ("PATCH", f"{PODS}/q", APPLY, {"apiVersion": "v1", "kind": "Pod", **pod_document("q")}),
]


def mutated(document: Any, places: list[int], values: list[Any]) -> Any:
    """The document with a few of its values, keys or elements replaced by others."""
    copy = json.loads(json.dumps(document))
    for place, value in zip(places, values, strict=True):
        holders = list(_holders(copy))
        if not holders:
            return value
        holder, key = holders[place % len(holders)]
        if place % 7 == 0 and isinstance(holder, dict):
            del holder[key]
        elif place % 5 == 0 and isinstance(holder, dict):
            holder[str(value)] = holder.pop(key)
        else:
            holder[key] = value
    return copy


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield value, key
        yield from _holders(item)


@st.composite
def _almost_right(draw: st.DrawFn) -> Any:
    method, path, kind, document = draw(st.sampled_from(_NEARLY_RIGHT))
    places = draw(st.lists(st.integers(0, 60), max_size=3))
    values = [draw(_DOCUMENTS) for _ in places]
    query = [*draw(_QUERIES), *([("fieldManager", "me")] if kind == APPLY else [])] if draw(st.booleans()) else []
    body = json.dumps(mutated(document, places, values)).encode("utf-8", "surrogatepass")
    return method, path, query, kind, "application/json", body


_REQUESTS = _almost_right() | _almost_right() | _WILD


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Any:
    served = Served(tmp_path_factory.mktemp("hostile") / "cluster", Settings(attempts=2, pause_seconds=0))
    yield served
    served.close()


def furnish(api: Served) -> None:
    """What the requests are aimed at, made again if an earlier one was deadly."""
    api.post("/api/v1/namespaces", {"metadata": {"name": "spare"}})
    api.post(PODS, pod_document("p", node="n1"))
    api.post(BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1}})


# 5 s of processor time: on a busy machine that takes a minute.
@pytest.mark.timeout(600)
@settings(max_examples=EXAMPLES)
@given(requests=st.lists(_REQUESTS, min_size=REQUESTS_PER_EXAMPLE, max_size=REQUESTS_PER_EXAMPLE))
def test_any_request_is_answered(lasting: Served, requests: list[Any]) -> None:
    furnish(lasting)
    for method, path, query, kind, accept, body in requests:
        encoded = urlencode(query)
        answer = lasting(method, path, body, query=encoded, content_type=kind, accept=accept)
        assert answer.code < 500 or b"InternalError" not in answer.content, (method, path, query, kind, body, answer)
        if answer.headers["content-type"] == "application/json" and method != "HEAD":
            assert answer.body["paths" if path == "/" and answer.code == 200 else "kind"]
    assert lasting.get("/healthz").content == b"ok"
    assert lasting.get(PODS).code == 200


@pytest.mark.parametrize("role", ["viewer", "evictor", "node"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_no_user_writes_what_is_not_its_own(api: Served, role: str, method: str) -> None:
    api.pod("p", node="elsewhere")
    before = api.store.version
    for path in (PODS, f"{PODS}/p", f"{PODS}/p/status", BUDGETS, "/api/v1/namespaces"):
        answer = api(
            method, path, {"metadata": {"name": "p"}}, token=role, content_type=MERGE if method == "PATCH" else None
        )
        assert answer.code in (403, 405), (method, path, answer)
    assert api.store.version == before


def test_a_body_beyond_the_limit_is_not_even_parsed(api: Served) -> None:
    answer = api.post(PODS, b" " * (3 * 1024 * 1024 + 1))
    assert (answer.code, answer.message) == (413, "Request entity too large: limit is 3145728")


def test_mistakes_beyond_the_first_thousand_are_not_worked_out(api: Served) -> None:
    """To word all of them would keep the other clients waiting for seconds."""
    names = [{"name": "="}] * 130_000
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "env": names}]}}
    answer = api.post(PODS, pod)
    assert (answer.code, len(answer.body["details"]["causes"])) == (422, 1000)
    assert len(answer.content) < 500_000


def test_many_large_requests_of_one_user_let_another_user_in_between(api: Served) -> None:
    answered: list[str] = []
    eviction = {"metadata": {"name": "p"}, **{f"unknown{number}": {} for number in range(3000)}}

    async def ask(user: str) -> None:
        if user == "evictor":
            await api.ask("POST", f"{PODS}/p/eviction", eviction, token=user)
        else:
            await api.ask("GET", "/api/v1/namespaces/default", token=user)
        answered.append(user)

    api.together([*(ask("evictor") for _ in range(40)), ask("viewer")])
    assert answered.index("viewer") < 5
