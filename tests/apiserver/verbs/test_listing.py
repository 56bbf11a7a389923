"""Lists: selected, in chunks of one moment, at a version; and selectors in the words of Kubernetes."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from jettison.apiserver.objects.resources import EVENTS, JOBS, NODES, PODS
from jettison.apiserver.verbs.listing import field_text
from tests.apiserver.served import BUDGETS, Answer, Served, pod_document
from tests.apiserver.served import PODS as POD_PATH

Json = dict[str, Any]


def names(body: Json) -> list[str]:
    return [each["metadata"]["name"] for each in body["items"]]


def make(api: Served, *wanted: str) -> None:
    for name in wanted:
        assert api.post(POD_PATH, pod_document(name)).code == 201


def test_a_list_has_its_own_kind_and_its_items_have_none(api: Served) -> None:
    make(api, "b", "a")
    body = api.get(POD_PATH).body
    assert (body["kind"], body["apiVersion"]) == ("PodList", "v1")
    assert body["metadata"] == {"resourceVersion": str(api.store.version)}
    assert names(body) == ["a", "b"]
    assert {"kind", "apiVersion"}.isdisjoint(body["items"][0])
    assert api.get("/api/v1/namespaces/none/pods").body["items"] == []


def test_chunks_show_one_moment_whatever_happens_in_between(api: Served) -> None:
    make(api, *"abcde")
    seen: list[str] = []
    first = body = api.get(POD_PATH, query="limit=2").body
    assert body["metadata"]["remainingItemCount"] == 3
    while True:
        seen += names(body)
        token = body["metadata"].get("continue")
        if not token:
            break
        api.delete(f"{POD_PATH}/d", {"gracePeriodSeconds": 0})
        if api.get(f"{POD_PATH}/a0").code == 404:
            make(api, "a0", "z")
        body = api.get(POD_PATH, query=f"limit=2&continue={token}").body
        assert body["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert seen == list("abcde")


def test_chunks_over_all_namespaces_and_with_selectors(api: Served) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "x"}})
    make(api, "a", "b")
    api.post("/api/v1/namespaces/x/pods", pod_document("a"))
    body = api.get("/api/v1/pods", query="limit=2&labelSelector=app").body
    assert "remainingItemCount" not in body["metadata"]
    rest = api.get("/api/v1/pods", query=f"limit=2&labelSelector=app&continue={body['metadata']['continue']}").body
    assert [each["metadata"]["namespace"] for each in body["items"] + rest["items"]] == ["default", "default", "x"]


def test_a_chunk_that_comes_too_late_is_gone(tmp_path: Path) -> None:
    async def forget(api: Served) -> None:
        for each in range(10_001):
            api.store.put(NODES, "", f"n{each}", {"metadata": {"name": f"n{each}", "uid": "u"}})
        await api.store.settled()

    api = Served(tmp_path / "cluster")
    try:
        make(api, *"abc")
        token = api.get(POD_PATH, query="limit=2").body["metadata"]["continue"]
        api.run(forget(api))
        answer = api.get(POD_PATH, query=f"limit=2&continue={token}")
        assert (answer.code, answer.body["reason"]) == (410, "Expired")
        assert "continue token in this response to retrieve the remainder" in answer.message
        rest = api.get(POD_PATH, query=f"limit=2&continue={answer.body['metadata']['continue']}").body
        assert names(rest)[0] == "c", "the rest is shown as it is now"
        assert rest["metadata"]["resourceVersion"] == str(api.store.version)
    finally:
        api.close()


@pytest.mark.parametrize(
    "token",
    ["garbage", "%00", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0", "IuKC"],
)
def test_a_token_of_another_user(api: Served, token: str) -> None:
    answer = api.get(POD_PATH, query=f"limit=2&continue={token}")
    assert answer.code == 400
    assert answer.message.startswith("invalid continue token: continue key is not valid: ")


def test_an_exact_version(api: Served) -> None:
    make(api, "a")
    then = api.store.version
    make(api, "b")
    query = f"resourceVersion={then}&resourceVersionMatch=Exact"
    body = api.get(POD_PATH, query=query).body
    assert (names(body), body["metadata"]["resourceVersion"]) == (["a"], str(then))


def test_a_version_that_is_still_to_come(api: Served) -> None:
    api.store.patience_seconds = 0.1
    answer = api.get(POD_PATH, query="resourceVersion=999999")
    assert (answer.code, answer.headers["retry-after"]) == (504, "1")
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"

    async def meanwhile() -> int:
        coming = api.store.version + 1
        asking = asyncio.create_task(api.ask("GET", POD_PATH, query=f"resourceVersion={coming}"))
        await asyncio.sleep(0)
        await api.ask("POST", POD_PATH, pod_document("a"))
        return (await asking).code

    assert api.run(meanwhile()) == 200


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("labelSelector=a%20in%20(b", 400, "unable to parse requirement: found '', expected: ',' or ')'"),
        ("fieldSelector=spec.containers%3Dx", 400, "field label not supported: spec.containers"),
        ("fieldSelector=x", 400, "invalid selector: 'x'; can't understand 'x'"),
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("resourceVersion=-1", 400, "invalid resource version"),
        ("resourceVersion=18446744073709551615", 504, "Too large resource version: 18446744073709551615"),
        ("resourceVersion=" + "9" * 5000, 400, '999": value out of range'),
        ("resourceVersionMatch=Exact&resourceVersion=0", 422, 'forbidden for resourceVersion "0"'),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=x", 422, "forbidden when continue is provided"),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
    ],
)
def test_questions_that_make_no_sense(api: Served, query: str, code: int, text: str) -> None:
    answer = api.get(POD_PATH, query=query)
    assert answer.code == code
    assert text in answer.message


def test_kinds_without_a_list_of_their_own_name_what_they_know(api: Served) -> None:
    answer = api.get(BUDGETS, query="fieldSelector=spec.x%3D1")
    assert answer.message == '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'


@pytest.mark.parametrize(
    ("resource", "value", "path", "text"),
    [
        (PODS, {"spec": {"nodeName": "n"}}, "spec.host", "n"),
        (PODS, {"spec": {}}, "spec.nodeName", ""),
        (PODS, {"spec": {}}, "spec.hostNetwork", "false"),
        (PODS, {"spec": {"hostNetwork": True}}, "spec.hostNetwork", "true"),
        (PODS, {"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}]}}, "status.podIPs", "10.0.0.1,::1"),
        (NODES, {"spec": {}}, "spec.unschedulable", "false"),
        (JOBS, {"status": {"succeeded": 3}}, "status.successful", "3"),
        (EVENTS, {"source": {"component": "kubelet"}}, "source", "kubelet"),
    ],
)
def test_fields_as_selectors_see_them(resource: Any, value: Json, path: str, text: str) -> None:
    assert field_text(resource, value, path) == text


def test_kr8s_asks_for_one_name_twice(api: Served) -> None:
    make(api, "a", "b")
    query = "fieldSelector=metadata.name%3Da,metadata.name%3Da"
    assert names(api.get(POD_PATH, query=query).body) == ["a"]


def test_a_table_of_a_list_and_of_one(api: Served) -> None:
    make(api, "a")
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    for path in (POD_PATH, f"{POD_PATH}/a"):
        body = api.get(path, accept=accept).body
        assert (body["kind"], body["rows"][0]["cells"][0]) == ("Table", "a")
    assert api.get(f"{POD_PATH}/none", accept=accept).body["kind"] == "Status"


def test_what_is_refused_is_not_offered(api: Served) -> None:
    accept = "application/vnd.kubernetes.protobuf"
    answer = api.get(POD_PATH, accept=accept)
    assert (answer.code, accept in answer.message) == (406, False)
    assert answer.message.startswith("406: Not Acceptable\n\nAvailable representations: application/json, ")


def test_namespaces_of_one_beginning_are_in_the_order_of_their_keys(api: Served) -> None:
    for namespace in ("a", "a-b", "b"):
        assert api.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).code == 201
        for name in ("x-y", "x"):
            made = api.post(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": name}, "data": {}})
            assert made.code == 201
    listed = ["a-b/x", "a-b/x-y", "a/x", "a/x-y", "b/x", "b/x-y"]

    def shown(query: str) -> list[str]:
        items = api.get("/api/v1/configmaps", query=query).body["items"]
        return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in items]

    assert shown("") == listed
    assert shown(f"resourceVersion={api.store.version}&resourceVersionMatch=Exact") == listed
    assert names(api.get("/api/v1/namespaces/a/configmaps").body) == ["x", "x-y"]
    chunk = api.get("/api/v1/configmaps", query="limit=3").body
    assert shown(f"continue={chunk['metadata']['continue']}") == listed[3:]
    assert api.delete("/api/v1/namespaces/a-b/configmaps/x-y").code == 200
    assert shown("") == [each for each in listed if each != "a-b/x-y"]


@pytest.mark.parametrize(
    ("path", "start"), [(POD_PATH, "/b\0"), ("/api/v1/pods", "/default/b\0"), ("/api/v1/namespaces", "/default\0")]
)
def test_a_token_names_the_place_in_its_list(api: Served, path: str, start: str) -> None:
    make(api, *"abc")
    query = "limit=2" if path != "/api/v1/namespaces" else "limit=1"
    token = api.get(path, query=query).body["metadata"]["continue"]
    found = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert found == {"v": "meta.k8s.io/v1", "rv": api.store.version, "start": start}


def test_tokens_that_are_made_by_hand(api: Served) -> None:
    make(api, *"abc")

    def answer(start: str, version: int = -1) -> Answer:
        text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start}).encode()
        return api.get(POD_PATH, query=f"continue={base64.urlsafe_b64encode(text).decode().rstrip('=')}")

    for start, rest in (("/b\0", ["c"]), ("b\0", ["c"]), ("b", ["b", "c"]), ("/", ["a", "b", "c"])):
        assert names(answer(start).body) == rest, start
    for start in ("b/", "../b", "//b", "."):
        assert answer(start).message == f"invalid continue token: continue key is not valid: {start}"
    assert answer("b", 0).message.endswith("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")


def test_a_continued_list_is_of_the_version_it_began_with(api: Served) -> None:
    for name in ("a", "b", "c"):
        make(api, name)
    token = api.get(POD_PATH, query="limit=1").body["metadata"]["continue"]
    answer = api.get(POD_PATH, query=f"continue={token}&resourceVersion=5")
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
    assert answer.message == "specifying resource version is not allowed when using continue"
    for version in ("", "&resourceVersion=", "&resourceVersion=0"):
        items = api.get(POD_PATH, query=f"continue={token}{version}").body["items"]
        assert [each["metadata"]["name"] for each in items] == ["b", "c"]


@pytest.mark.parametrize(
    ("accept", "code"),
    [
        ("", 200),
        ("*/*", 200),
        ("application/json, */*", 200),
        ("application/vnd.kubernetes.protobuf,application/json", 200),
        ("application/vnd.kubernetes.protobuf", 406),
        ("image/png", 406),
    ],
)
def test_what_clients_accept(api: Served, accept: str, code: int) -> None:
    answer = api.get(POD_PATH, accept=accept)
    assert (answer.code, answer.headers["content-type"]) == (code, "application/json")


@pytest.mark.parametrize(
    ("accept", "query"),
    [
        ("application/json", ""),
        ("application/json", "&pretty=true"),
        ("application/yaml", ""),
        ("application/json;as=Table;v=v1;g=meta.k8s.io", "&includeObject=Object"),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ""),
    ],
)
def test_lists_that_wait_for_the_same_version_are_not_all_made_at_once(api: Served, accept: str, query: str) -> None:
    """Each has 4 MB, and their clients read nothing: after 32 MB the others of this user wait."""
    metadata = {"annotations": {"text": "x" * 200_000}}
    for number in range(20):
        api.pod(f"p{number}", ready=None, phase="Pending", metadata=metadata)
    version = api.store.version + 1
    begun: list[object] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        begun.append(message["status"])
        await asyncio.Event().wait()

    async def work() -> int:
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/v1/pods",
            "query_string": f"resourceVersion={version}{query}".encode(),
            "headers": [(b"accept", accept.encode()), (b"authorization", b"Bearer viewer")],
        }
        lists = [asyncio.create_task(api.app(dict(scope), receive, send)) for _ in range(30)]
        await asyncio.sleep(0.1)
        # The version that they wait for.
        await api.ask("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
        async with asyncio.timeout(60):
            while len(begun) < 9:
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
        for each in lists:
            each.cancel()
        await asyncio.gather(*lists, return_exceptions=True)
        return len(begun)

    assert api.run(work()) == 9
