"""No row of requests makes more of an object than could be sent whole, nor takes the square of its length in time."""

from __future__ import annotations

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


def test_depth_adds_up_over_requests(node: Served) -> None:
    codes = []
    levels: Json = {}
    for _ in range(29):
        levels = {"x": levels}
    for times in range(20):
        add = {"op": "add", "path": "/x" * (30 * times + 1), "value": levels}
        codes.append(node.patch(NODE, [add], JSON_PATCH).code)
    assert codes == [200] * 3 + [422] * 17
    assert node.get(NODE).code == 200
    assert node.patch(NODE, {"x": None}).code == 200


@pytest.mark.parametrize("part", ["", "/status"])
def test_size_adds_up_over_requests(node: Served, part: str) -> None:
    def grow(key: str) -> Json:
        return {"status": {key: NEARLY}} if part else {key: NEARLY}

    assert node.patch(NODE + part, grow("a")).code == 200
    for kind in ("application/merge-patch+json", STRATEGIC):
        answer = node.patch(NODE + part, grow("b"), kind)
        assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    assert answer.message == f"Request entity too large: limit is {MOST_BODY_BYTES}"
    version = node.get(NODE).body["metadata"]["resourceVersion"]
    assert node.patch(NODE, {"metadata": {"labels": {"a": "b"}}}).code == 200
    assert node.get(NODE).body["metadata"]["resourceVersion"] == str(int(version) + 1), "a refusal took a version"


def test_whatever_is_stored_can_be_evicted_and_made_smaller(api: Served) -> None:
    api.pod("p", metadata={"finalizers": ["a/b"]})
    size = len(api.get(f"{PODS}/p").content)
    assert api.patch(f"{PODS}/p", {"x": "x" * (MOST_BODY_BYTES - size)}).code == 200
    assert api.evict("p").code == 201
    assert len(api.get(f"{PODS}/p").content) > MOST_BODY_BYTES
    assert api.patch(f"{PODS}/p/status", {"status": {"message": "longer still"}}).code == 413
    assert api.patch(f"{PODS}/p", {"x": "x" * (MOST_BODY_BYTES - size - 1)}).code == 200
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
    conditions = [{"type": f"a{number}", "status": "True"} for number in range(10_000)]
    order = [{"type": each["type"]} for each in reversed(conditions)]
    for _ in range(2):
        patch = {"status": {"conditions": conditions, "$setElementOrder/conditions": order}}
        answer = node.patch(f"{NODE}/status", patch, STRATEGIC, token="node")
        assert (answer.code, answer.body["status"]["conditions"][0]["type"]) == (200, "a9999")
    dropped = {"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers[1:]}}
    assert node.patch(NODE, dropped, STRATEGIC).body["metadata"]["finalizers"] == ["a/0"]


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"$deleteFromPrimitiveList/uid": ["a"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": [{}]}},
        {"metadata": {"$setElementOrder/finalizers": [[]], "finalizers": ["a/b"]}},
        {"metadata": {"$retainKeys": [{}]}},
        {"status": {"conditions": [{"type": []}]}},
    ],
)
def test_directives_that_make_no_sense(node: Served, patch: Json) -> None:
    assert node.patch(NODE, patch, STRATEGIC).code == 422


def test_no_more_warnings_than_a_person_reads(api: Served) -> None:
    body = {"metadata": {"name": "p"}, **{f"a{number}": 1 for number in range(1000)}}
    answer = api.post(PODS, body, query="fieldValidation=Strict")
    assert (answer.code, answer.message.count("unknown field")) == (400, 100)
