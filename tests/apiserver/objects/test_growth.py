"""No row of requests makes more of an object than could be sent whole, nor takes the square of its length in time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jettison.apiserver.connections.limits import MOST_BODY_BYTES
from tests.apiserver.served import JSON_PATCH, PODS, STRATEGIC, Served

Json = dict[str, Any]

NODE = "/api/v1/nodes/n1"
# As long as its object may become, less what the server itself says of it.
NEARLY = "x" * (MOST_BODY_BYTES - 2000)


@pytest.fixture
def node(api: Served) -> Served:
    assert api.post("/api/v1/nodes", {"metadata": {"name": "n1"}}).code == 201
    return api


def test_copies_of_everything(node: Served) -> None:
    patch = [{"op": "copy", "from": "", "path": f"/z{each}"} for each in range(17)]
    assert node.patch(NODE, patch, JSON_PATCH).code == 422


@pytest.mark.parametrize("part", ["", "/status"])
def test_size_adds_up_over_requests(node: Served, part: str) -> None:
    long = "x" * 10_000
    if part:
        first: Json = {"status": {"volumesInUse": [NEARLY]}}
        second: Json = {"status": {"nodeInfo": {"machineID": long}}}
    else:
        first = {"spec": {"providerID": NEARLY}}
        second = {"metadata": {"annotations": {"a": long}}}
    assert node.patch(NODE + part, first).code == 200
    for kind in ("application/merge-patch+json", STRATEGIC):
        answer = node.patch(NODE + part, second, kind)
        assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    assert answer.message == f"Request entity too large: limit is {MOST_BODY_BYTES}"
    version = node.get(NODE).body["metadata"]["resourceVersion"]
    assert node.patch(NODE, {"metadata": {"labels": {"a": "b"}}}).code == 200
    assert node.get(NODE).body["metadata"]["resourceVersion"] == str(int(version) + 1), "a refusal took a version"


def test_whatever_is_stored_can_be_evicted_and_made_smaller(api: Served) -> None:
    api.pod("p", metadata={"finalizers": ["a/b"]})
    # Which client owns what is not counted: it is the server's own.
    whole = api.get(f"{PODS}/p").body
    del whole["metadata"]["managedFields"], whole["kind"], whole["apiVersion"]
    size = len(json.dumps(whole, separators=(",", ":")))
    room = MOST_BODY_BYTES - size - len('"message":"",')
    assert api.patch(f"{PODS}/p/status", {"status": {"message": "x" * room}}).code == 200
    assert api.evict("p").code == 201
    assert len(api.get(f"{PODS}/p").content) > MOST_BODY_BYTES
    assert api.patch(f"{PODS}/p/status", {"status": {"reason": "longer still"}}).code == 413
    assert api.patch(f"{PODS}/p/status", {"status": {"message": "x" * (room - 1)}}).code == 200
    assert len(api.get(f"{PODS}/p").content) > MOST_BODY_BYTES


def test_a_body_that_grows_by_being_read(api: Served) -> None:
    """A port takes 19 bytes of a body and 35 of the store, because it has a protocol."""
    ports = [{"containerPort": number % 65535 + 1} for number in range(120_000)]
    containers = [{"name": "c", "image": "i", "ports": ports}]
    body = {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    assert api.post(PODS, body).code == 413
    assert api.get(f"{PODS}/p").code == 404


def test_long_lists_are_merged_in_time(node: Served) -> None:
    """With a comparison of each with each, this takes a quarter of an hour."""
    finalizers = [f"a/{number}" for number in range(100_000)]
    assert node.patch(NODE, {"metadata": {"finalizers": finalizers}}, STRATEGIC).code == 200
    conditions = [{"type": f"a{number}", "status": "True"} for number in reversed(range(10_000))]
    order = [{"type": each["type"]} for each in conditions]
    for _ in range(2):
        patch = {"status": {"conditions": conditions, "$setElementOrder/conditions": order}}
        answer = node.patch(f"{NODE}/status", patch, STRATEGIC)
        assert (answer.code, answer.body["status"]["conditions"][0]["type"]) == (200, "a9999")
    dropped = {"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers[1:]}}
    assert node.patch(NODE, dropped, STRATEGIC).body["metadata"]["finalizers"] == ["a/0"]


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        # What is no list, or not there, has nothing to remove.
        ({"metadata": {"$deleteFromPrimitiveList/uid": ["a"]}}, 200),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": [{}]}}, 200),
        ({"metadata": {"$setElementOrder/finalizers": [[]], "finalizers": ["a/b"]}}, 500),
        ({"metadata": {"$retainKeys": [{}]}}, 422),
        ({"status": {"conditions": [{"type": []}]}}, 422),
    ],
)
def test_directives_that_make_no_sense(node: Served, patch: Json, code: int) -> None:
    assert node.patch(NODE, patch, STRATEGIC).code == code


def test_no_more_warnings_than_a_person_reads(api: Served) -> None:
    body = {"metadata": {"name": "p"}, **{f"a{number}": 1 for number in range(1000)}}
    answer = api.post(PODS, body, query="fieldValidation=Strict")
    assert (answer.code, answer.message.count("unknown field")) == (400, 100)
