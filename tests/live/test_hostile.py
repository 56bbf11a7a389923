"""Requests that nobody should send: each gets the right refusal, and the server goes on as if nothing had been.

Hypothesis makes up more than 5,000 of them. Whatever comes in, nothing but a well-formed answer may come out: no
internal error, no traceback in the log, no lost connection, no growth.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.live.raw_http import Answer, RawClient
from tests.live.served import Served, serving

pytestmark = pytest.mark.timeout(180)

LEAST_REQUESTS = 5000
MOST_MEMORY_KB = 400_000
Json = dict[str, Any]

POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
WORKLOAD = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
DOCUMENTS: dict[str, Json] = {
    "/api/v1/namespaces/default/pods": {"kind": "Pod", "apiVersion": "v1", **POD},
    "/api/v1/nodes": {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}, "spec": {"taints": []}},
    "/api/v1/namespaces": {"metadata": {"name": "m"}},
    "/api/v1/namespaces/default/events": {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}},
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": "50%", "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
    },
    "/apis/apps/v1/namespaces/default/deployments": {"metadata": {"name": "d"}, "spec": WORKLOAD},
    "/apis/apps/v1/namespaces/default/statefulsets": {"metadata": {"name": "s"}, "spec": WORKLOAD},
    "/apis/batch/v1/namespaces/default/jobs": {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE}},
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"metadata": {"name": "c"}, "value": 7},
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "metadata": {"name": "l"},
        "spec": {"leaseDurationSeconds": 1},
    },
    "/api/v1/namespaces/default/pods/victim/eviction": {"metadata": {"name": "victim"}, "deleteOptions": {}},
    "/api/v1/namespaces/default/pods/victim/binding": {"metadata": {"name": "victim"}, "target": {"name": "n"}},
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {"spec": {"resourceAttributes": {"verb": "get"}}},
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": {"spec": {"user": "x", "nonResourceAttributes": {}}},
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("hostile") / "state", "--controllers=") as server:
        victim = {"metadata": {"name": "victim", "labels": {"a": "b"}}, "spec": {**POD["spec"], "nodeName": "n"}}
        assert server.call("POST", "/api/v1/namespaces/default/pods", victim)[0] == 201
        yield server


@pytest.fixture(scope="module")
def client(hostile: Served) -> Iterator[RawClient]:
    """Shared by all tests of this module; the last one asks it how much has been sent."""
    client = RawClient(hostile)
    yield client
    client.close()


def token(served: Served, user: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + served.token(user).encode())]


def well_formed(answer: Answer) -> Answer:
    """An answer, or a refusal with its document. 500 is Kubernetes' own for some mistakes, but never a surprise."""
    if answer.code >= 400 and answer.headers[b"content-type"] == b"application/json":
        assert answer.status.get("reason") != "InternalError", answer
        assert not (500 <= answer.code < 600 and answer.code not in (500, 503, 504)), answer
    elif answer.code >= 400:
        assert answer.code == 404, answer
        assert answer.body == b"404 page not found\n", answer
    return answer


# What people break documents with: other types, huge and odd numbers, texts that are no names, deep nests.
nasty_texts = st.sampled_from(
    [
        "",
        " ",
        "..",
        "../x",
        "a/b",
        "A",
        "-",
        "x" * 300,
        "\x00",
        "\ud800",
        "ü",
        "\u202e",
        "%2e",
        "1e999",
        "9" * 40,
        "true",
        "{}",
    ]
)
nasty_numbers = st.sampled_from([0, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**40, 1.5, 1e308, -0.0])
nasty = st.one_of(
    st.none(),
    st.booleans(),
    nasty_numbers,
    nasty_texts,
    st.sampled_from([[], {}, [[]], [None], {"": ""}, {"a": None}, [{}] * 3]),
    st.recursive(
        st.none(), lambda inner: st.lists(inner, max_size=1) | st.fixed_dictionaries({"a": inner}), max_leaves=3
    ),
)


def paths(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from paths(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from paths(each, (*path, index))


def replaced(value: Any, path: tuple[Any, ...], new: object) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@st.composite
def broken_documents(draw: st.DrawFn) -> tuple[str, bytes]:
    """A good document with one to three places spoiled, and where it is sent to."""
    target = draw(st.sampled_from(sorted(DOCUMENTS)))
    document: Any = DOCUMENTS[target]
    for _ in range(draw(st.integers(1, 3))):
        places = sorted(paths(document), key=repr)
        place = draw(st.sampled_from(places))
        document = replaced(document, place, draw(nasty))
    extra = draw(st.sampled_from(["", "status", "metadata", "spec", "kind", "apiVersion", "unknown"]))
    if extra and isinstance(document, dict):
        document = {**document, extra: draw(nasty)}
    return target, json.dumps(document).encode("utf-8", "surrogatepass")


@settings(max_examples=1500)
@given(
    sent=broken_documents(),
    query=st.sampled_from(["", "?dryRun=All", "?fieldValidation=Strict", "?dryRun=x", "?pretty=1&x=y"]),
)
def test_spoiled_documents(client: RawClient, hostile: Served, sent: tuple[str, bytes], query: str) -> None:
    target, body = sent
    headers = [*token(hostile, "admin"), (b"content-type", b"application/json")]
    answer = well_formed(client.request(b"POST", (target + query).encode(), headers, body))
    assert answer.code in (200, 201, 400, 403, 404, 409, 422, 429, 500)


@settings(max_examples=700)
@given(
    patch=nasty | st.dictionaries(st.sampled_from(["metadata", "spec", "status", "$patch", "kind"]), nasty, max_size=3),
    kind=st.sampled_from(
        ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml", "nonsense"]
    ),
    target=st.sampled_from(["pods/victim", "pods/victim/status", "pods/nobody", "events/e", "pods/victim/eviction"]),
    operations=st.lists(
        st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "remove", "test", "copy", "move", "x"])},
            optional={
                "path": st.sampled_from(["", "/", "/metadata/labels/a", "/spec/containers/-", "/a~2", "x", "/spec/0"]),
                "value": nasty,
                "from": nasty_texts,
            },
        ),
        max_size=4,
    ),
)
def test_spoiled_patches(
    client: RawClient, hostile: Served, patch: object, kind: str, target: str, operations: list[Json]
) -> None:
    body = json.dumps(operations if kind.startswith("json") and operations else patch).encode("utf-8", "surrogatepass")
    headers = [*token(hostile, "admin"), (b"content-type", b"application/" + kind.encode())]
    path = f"/api/v1/namespaces/default/{target}?dryRun=All&fieldManager=x".encode()
    answer = well_formed(client.request(b"PATCH", path, headers, body))
    assert answer.code in (200, 201, 400, 403, 404, 405, 409, 415, 422, 500)


TYPES = [
    "",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
    "x",
    "application/json;",
    "*/*",
]
noise = st.binary(max_size=120) | st.sampled_from(
    [b"", b"{", b"[]", b"null", b'"', b"{}{}", b'{"a":1,"a":2}', b"NaN", b"[" * 5000, b'{"a":' * 5000, b"\xff\xfe{\x00}", b"k8s\x00", b"k8s\x00\x12\xff",
     b"a: &a [*a]", b"a: !!python/object/apply:os.system [id]", b"? : :", b"a: 1\na: 2", b"- " * 2000, b"k8s\x00\x0a\x08\x0a\x02v1\x12\x02xx", b"\xef\xbb\xbf{}"]
)  # fmt: skip


@settings(max_examples=1200)
@given(
    body=noise,
    kind=st.sampled_from(TYPES),
    method=st.sampled_from([b"POST", b"PUT", b"PATCH", b"DELETE"]),
    target=st.sampled_from(sorted(DOCUMENTS)),
    is_item=st.booleans(),
)
def test_noise_in_every_format(
    client: RawClient, hostile: Served, body: bytes, kind: str, method: bytes, target: str, is_item: bool
) -> None:
    headers = [*token(hostile, "admin"), (b"content-type", kind.encode())]
    path = f"{target}/x?dryRun=All" if is_item else f"{target}?dryRun=All"
    answer = well_formed(client.request(method, path.encode(), headers, body))
    assert answer.code in (200, 201, 400, 403, 404, 405, 409, 415, 422, 429, 500)


segments = st.sampled_from(
    [b"api", b"apis", b"v1", b"policy", b"namespaces", b"default", b"pods", b"victim", b"status", b"eviction", b"nodes", b"..", b".", b"", b"%2e%2e", b"%2f",
     b"%00", b"%ff", b"%", b"%zz", b"healthz", b"version", b"openapi", b"v3", b"metrics", b"~", b"\xc3\xa9", b"a" * 300, b"*", b"@", b":80", b"log", b"scale"]
)  # fmt: skip
queries = st.sampled_from(
    [b"", b"?", b"?limit=-1", b"?limit=x", b"?continue=!!!", b"?continue=e30", b"?labelSelector=%00", b"?labelSelector=a%20in%20(", b"?labelSelector=" + b"a," * 500,
     b"?fieldSelector=a", b"?fieldSelector=spec.nodeName%3D%3D%3D", b"?resourceVersion=abc", b"?resourceVersion=99999999999999999999", b"?resourceVersionMatch=Exact",
     b"?watch=maybe", b"?sendInitialEvents=true", b"?timeoutSeconds=-5", b"?timeout=soon", b"?includeObject=Everything", b"?pretty=true", b"?a=b&a=c&&&==", b"?%ff=%fe"]
)  # fmt: skip
ACCEPTS = [
    b"*/*",
    b"",
    b"application/json",
    b"image/png",
    b"application/json;as=Table;v=v1;g=meta.k8s.io",
    b";;;,,,",
    b"application/json;as=Nonsense;g=x;v=y",
    b"\xff",
]


@settings(max_examples=1200)
@given(
    parts=st.lists(segments, max_size=7),
    query=queries,
    method=st.sampled_from([b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE"]),
    accept=st.sampled_from(ACCEPTS),
)
def test_path_tricks(
    client: RawClient, hostile: Served, parts: list[bytes], query: bytes, method: bytes, accept: bytes
) -> None:
    headers = [*token(hostile, "viewer"), (b"accept", accept)]
    answer = client.request(method, b"/" + b"/".join(parts) + query, headers)
    if method == b"HEAD":
        assert answer.code < 500
    elif answer.body == b"Invalid HTTP request received.":
        assert answer.code == 400
    elif method in (b"GET", b"OPTIONS"):
        assert well_formed(answer).code in (200, 400, 403, 404, 405, 406, 410, 422, 500, 503, 504)
    else:
        assert well_formed(answer).code in (403, 404, 405)


@settings(max_examples=500)
@given(
    authorization=st.sampled_from(["Bearer ", "bearer ", "Basic ", "Bearer\t", "", "Token "]),
    secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60),
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    target=st.sampled_from([*sorted(DOCUMENTS), "/api", "/apis/policy/v1", "/openapi/v2", "/metrics", "/"]),
)
def test_forged_tokens(client: RawClient, authorization: str, secret: str, method: str, target: str) -> None:
    """A wrong token is 401; what is no bearer token at all is nobody, who may not do anything."""
    headers = [(b"authorization", f"{authorization}{secret}".encode())]
    answer = client.request(method.encode(), target.encode(), headers, b"{}")
    is_token = authorization.lower() == "bearer " and secret
    assert answer.code == (401 if is_token else 403)
    assert answer.status["reason"] == ("Unauthorized" if is_token else "Forbidden")
    assert "system:anonymous" in answer.status["message"] or is_token


@pytest.mark.parametrize("target", sorted(DOCUMENTS))
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_viewer_who_tries_to_write(client: RawClient, hostile: Served, method: str, target: str) -> None:
    for path in (target, f"{target}/x"):
        body = json.dumps(DOCUMENTS[target]).encode()
        answer = client.request(method.encode(), path.encode(), token(hostile, "viewer"), body)
        may_ask = "selfsubject" in target and (method, path) == ("POST", target)
        assert answer.code == (201 if may_ask else 404 if answer.code == 404 else 403), path
        if answer.code == 403:
            assert 'User "viewer" cannot' in answer.status["message"]


@pytest.mark.parametrize("size", [3 * 1024 * 1024 + 1, 20 * 1024 * 1024])
def test_huge_bodies(client: RawClient, hostile: Served, size: int) -> None:
    headers = [*token(hostile, "admin"), (b"content-type", b"application/json")]
    body = b'{"metadata":{"name":"' + b"x" * size + b'"}}'
    answer = RawClient(hostile).request(b"POST", b"/api/v1/namespaces/default/pods", headers, body)
    assert answer.code == 413
    assert answer.status["message"] == "Request entity too large: limit is 3145728"
    stranger = RawClient(hostile).request(b"POST", b"/api/v1/namespaces/default/pods", (), body)
    assert stranger.code == 403


def test_a_bomb_of_aliases_is_defused(client: RawClient, hostile: Served) -> None:
    """Nine levels of nine references each: 400 million texts for whoever expands them."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    body = "\n".join([*lines, "metadata: {name: bomb, annotations: {x: *a8}}"]).encode()
    headers = [*token(hostile, "admin"), (b"content-type", b"application/yaml")]
    for target in sorted(DOCUMENTS):
        assert well_formed(client.request(b"POST", target.encode(), headers, body)).code in (400, 404, 405, 422)


def test_the_server_went_on(client: RawClient, hostile: Served) -> None:
    """The last test of this file: what all the others left behind."""
    assert client.requests >= LEAST_REQUESTS
    assert client.request(b"GET", b"/healthz").body == b"ok"
    assert hostile.call("GET", "/api/v1/namespaces/default/pods/victim")[0] == 200
    assert hostile.process.poll() is None
    log = Path(f"{hostile.folder}.log").read_text()
    assert "Traceback" not in log, log[:3000]
    status = Path(f"/proc/{hostile.process.pid}/status").read_text()
    memory = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
    assert memory < MOST_MEMORY_KB
