"""Requests that no client should send: each gets the right refusal, and the server goes on as if nothing had been.

Hypothesis makes up more than 2,000 of them, and `soak.py` others in the thousands. Whatever comes in, nothing but a
well-formed answer may come out: no internal error, no traceback in the log, no lost connection, no growth.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.live.hostile_requests import (
    ACCEPTS,
    DOCUMENTS,
    POD,
    TYPES,
    Json,
    broken_documents,
    nasty,
    nasty_texts,
    noise,
    queries,
    segments,
)
from tests.live.raw_http import Answer, RawClient
from tests.live.served import Served, serving

pytestmark = pytest.mark.timeout(300)

LEAST_REQUESTS = 2000
MOST_MEMORY_KB = 400_000


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


@settings(max_examples=560)
@given(
    sent=broken_documents(),
    query=st.sampled_from(["", "?dryRun=All", "?fieldValidation=Strict", "?dryRun=x", "?pretty=1&x=y"]),
)
def test_spoiled_documents(client: RawClient, hostile: Served, sent: tuple[str, bytes], query: str) -> None:
    target, body = sent
    headers = [*token(hostile, "admin"), (b"content-type", b"application/json")]
    answer = well_formed(client.request(b"POST", (target + query).encode(), headers, body))
    assert answer.code in (200, 201, 400, 403, 404, 409, 422, 429, 500)


@settings(max_examples=280)
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


@settings(max_examples=480)
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


@settings(max_examples=480)
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
        # What its time should be is read before anything else of a request.
        assert well_formed(answer).code in ((400,) if b"timeout=soon" in query else (403, 404, 405))


@settings(max_examples=200)
@given(
    authorization=st.sampled_from(["Bearer ", "bearer ", "Basic ", "Bearer\t", "", "Token "]),
    secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60),
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    target=st.sampled_from([*sorted(DOCUMENTS), "/api", "/apis/policy/v1", "/openapi/v2", "/metrics", "/"]),
)
def test_forged_tokens(client: RawClient, authorization: str, secret: str, method: str, target: str) -> None:
    """A wrong token is 401; what is no bearer token at all is the anonymous user, which may do nothing."""
    headers = [(b"authorization", f"{authorization}{secret}".encode())]
    answer = client.request(method.encode(), target.encode(), headers, b"{}")
    is_token = authorization.lower() == "bearer " and secret
    assert answer.code == (401 if is_token else 403)
    assert answer.status["reason"] == ("Unauthorized" if is_token else "Forbidden")
    assert "system:anonymous" in answer.status["message"] or is_token


@pytest.mark.parametrize("target", sorted(DOCUMENTS))
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_viewer_that_tries_to_write(client: RawClient, hostile: Served, method: str, target: str) -> None:
    for path in (target, f"{target}/x"):
        body = json.dumps(DOCUMENTS[target]).encode()
        answer = client.request(method.encode(), path.encode(), token(hostile, "viewer"), body)
        if "selfsubject" in target and method == "POST":
            # A question about its own rights is all that this user may create, and a question has no name.
            assert answer.code == (201 if path == target else 405)
        else:
            assert answer.code == 403, path
            assert 'User "viewer" cannot' in answer.status["message"]


@pytest.mark.parametrize("size", [3 * 1024 * 1024 + 1, 20 * 1024 * 1024])
def test_huge_bodies(client: RawClient, hostile: Served, size: int) -> None:
    headers = [*token(hostile, "admin"), (b"content-type", b"application/json")]
    body = b'{"metadata":{"name":"' + b"x" * size + b'"}}'
    answer = client.request(b"POST", b"/api/v1/namespaces/default/pods", headers, body)
    assert answer.code == 413
    assert answer.status["message"] == "Request entity too large: limit is 3145728"
    stranger = client.request(b"POST", b"/api/v1/namespaces/default/pods", (), body)
    assert stranger.code == 403


@pytest.mark.parametrize("place", ["metadata: {name: bomb, annotations: {x: *a8}}", "metadata: {name: bomb}"])
def test_a_bomb_of_aliases_is_defused(client: RawClient, hostile: Served, place: str) -> None:
    """Nine levels of nine references each: 400 million texts for a reader that expands them."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    body = "\n".join([*lines, place]).encode()
    headers = [*token(hostile, "admin"), (b"content-type", b"application/yaml")]
    for target in sorted(DOCUMENTS):
        assert well_formed(client.request(b"POST", target.encode(), headers, body)).code == 400


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
