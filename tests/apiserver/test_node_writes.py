"""What a node may write of pods: it shows its static ones and reports on those bound to it, and that is all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.served import JSON_PATCH, MERGE, PODS, STRATEGIC, Served, pod_document

MIRROR = {"annotations": {"kubernetes.io/config.mirror": "u1"}}


def test_a_node_writes_only_what_is_its_own(api: Served) -> None:
    api.pod("mine", node="n1")
    api.pod("other", node="n2")
    status = {"status": {"phase": "Failed"}}
    assert api.patch(f"{PODS}/mine/status", status, token="node").code == 200
    assert api.patch(f"{PODS}/other/status", status, token="node").code == 403
    assert api.delete(f"{PODS}/other", token="node").code == 403
    assert api.delete(f"{PODS}/mine", {"gracePeriodSeconds": 0}, token="node").code == 200


def test_a_node_makes_only_mirrors(api: Served) -> None:
    answer = api.post(PODS, pod_document("x", node="n1"), token="node")
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden")
    assert answer.message == (
        'pods "x" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, '
        'node "n1" can only create mirror pods'
    )
    assert api.post(PODS, pod_document("x", node="n1", metadata=MIRROR), token="node").code == 201
    assert api.post(PODS, pod_document("y", node="n1"), token="admin").code == 201


def test_a_mirror_is_of_the_nodes_own(api: Served) -> None:
    answer = api.post(PODS, pod_document("x", node="n2", metadata=MIRROR), token="node")
    expected = 'pods "x" is forbidden: node "n1" can only create pods with spec.nodeName set to itself'
    assert (answer.code, answer.message) == (403, expected)


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (MERGE, {"metadata": {"labels": {"app": "other"}}}),
        (MERGE, {"metadata": {"labels": None}}),
        (STRATEGIC, {"metadata": {"labels": {"more": "x"}}, "status": {"phase": "Failed"}}),
        (JSON_PATCH, [{"op": "remove", "path": "/metadata/labels/app"}]),
    ],
)
def test_a_status_does_not_relabel(api: Served, kind: str, patch: Any) -> None:
    before = api.pod("p", node="n1")
    answer = api.patch(f"{PODS}/p/status", patch, kind, token="node")
    expected = 'pods "p" is forbidden: node "n1" cannot update labels through pod status'
    assert (answer.code, answer.message) == (403, expected)
    relabelled = {**before, "metadata": {**before["metadata"], "labels": {"app": "other"}}}
    assert api("PUT", f"{PODS}/p/status", relabelled, token="node").code == 403
    assert api.get(f"{PODS}/p").body == before
    assert api("PUT", f"{PODS}/p/status", {**before, "status": {"phase": "Failed"}}, token="node").code == 200
    assert api("PUT", f"{PODS}/p/status", relabelled | {"metadata": {"name": "p"}}, token="admin").code == 200
