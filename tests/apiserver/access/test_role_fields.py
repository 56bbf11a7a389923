"""Where a role names fields: what an evictor can make of a node, by every way to change one, is a cordon."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any, Final

import pytest

from jettison.apiserver.objects.resources import RESOURCES, Resource
from tests.apiserver.served import APPLY, JSON_PATCH, MERGE, PODS, STRATEGIC, Json, Served

NODES: Final = "/api/v1/nodes"
OWNER: Final = {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "no-such-uid"}
TAINT: Final = {"key": "x", "effect": "NoExecute"}
LIMIT: Final = 'in API group "" at the cluster scope: only spec.unschedulable may be changed'


@pytest.fixture
def node(api: Served) -> Json:
    document = {
        "metadata": {"name": "n1", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x/y"]},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24"},
    }
    assert api.post(NODES, document).code == 201
    return api.patch(f"{NODES}/n1/status", {"status": {"capacity": {"cpu": "1"}}}).body


@pytest.mark.parametrize(
    ("kind", "patch", "is_cordoned"),
    [
        (STRATEGIC, {"spec": {"unschedulable": True}}, True),
        (MERGE, {"spec": {"unschedulable": True}}, True),
        (JSON_PATCH, [{"op": "add", "path": "/spec/unschedulable", "value": True}], True),
        (STRATEGIC, {"spec": {"unschedulable": None}}, False),
        (MERGE, {"spec": {"unschedulable": False}}, False),
        # As kubectl cordon sends it where it cannot patch otherwise, and with what does not change anything.
        (MERGE, {"metadata": {"name": "n1", "labels": {"a": "b"}}, "spec": {"unschedulable": True}}, True),
        (MERGE, {"metadata": {"labels": {"new": None}, "ownerReferences": []}, "spec": {"unschedulable": True}}, True),
        (JSON_PATCH, [{"op": "test", "path": "/metadata/labels/a", "value": "b"}], None),
        (MERGE, {}, None),
        # Not kept, whichever client sends it.
        (MERGE, {"metadata": {"managedFields": [{"manager": "x"}]}, "spec": {"unschedulable": True}}, True),
        (MERGE, {"status": {"phase": "Running"}, "spec": {"unschedulable": True}}, True),
    ],
)
def test_an_evictor_cordons(api: Served, node: Json, kind: str, patch: Any, is_cordoned: bool | None) -> None:
    before = api.patch(f"{NODES}/n1", {"spec": {"unschedulable": None if is_cordoned else True}}).body
    dry = api.patch(f"{NODES}/n1", patch, kind, token="evictor", query="dryRun=All")
    answer = api.patch(f"{NODES}/n1", patch, kind, token="evictor")
    assert (dry.code, answer.code) == (200, 200), answer.content
    after = api.get(f"{NODES}/n1").body
    if is_cordoned is not None:
        assert after["spec"].pop("unschedulable", False) is is_cordoned
        before["spec"].pop("unschedulable", None)
    for each in (before, after):
        del each["metadata"]["resourceVersion"]
        # That it has cordoned the node is on record.
        del each["metadata"]["managedFields"]
    assert after == before
    assert after["status"] == node["status"]


PATCHES: Final[list[tuple[str, Any, str]]] = [
    (MERGE, {"spec": {"taints": [TAINT]}}, "spec.taints"),
    (MERGE, {"spec": {"taints": None}}, "spec.taints"),
    (MERGE, {"spec": None}, "spec.podCIDR"),
    (STRATEGIC, {"spec": {"unschedulable": True, "taints": [TAINT]}}, "spec.taints"),
    (STRATEGIC, {"spec": {"taints": [{"$patch": "replace"}, TAINT]}}, "spec.taints"),
    (STRATEGIC, {"spec": {"$patch": "replace", "unschedulable": True}}, "spec.podCIDR"),
    (STRATEGIC, {"metadata": {"$retainKeys": ["name"], "name": "n1"}}, "metadata."),
    (JSON_PATCH, [{"op": "add", "path": "/spec/taints/-", "value": TAINT}], "spec.taints"),
    (JSON_PATCH, [{"op": "remove", "path": "/metadata/finalizers"}], "metadata.finalizers"),
    (JSON_PATCH, [{"op": "copy", "from": "/spec/podCIDR", "path": "/metadata/labels/z"}], "metadata.labels"),
    (JSON_PATCH, [{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/z"}], "metadata.labels"),
    (MERGE, {"spec": {"providerID": "p"}}, "spec.providerID"),
    (MERGE, {"metadata": {"ownerReferences": [OWNER]}}, "metadata.ownerReferences"),
    (STRATEGIC, {"metadata": {"ownerReferences": [OWNER]}}, "metadata.ownerReferences"),
    (MERGE, {"metadata": {"finalizers": ["x/y", "foregroundDeletion"]}}, "metadata.finalizers"),
    (STRATEGIC, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/y"]}}, "metadata.finalizers"),
    (MERGE, {"metadata": {"finalizers": None}}, "metadata.finalizers"),
    (MERGE, {"metadata": {"labels": {"a": "other"}}}, "metadata.labels"),
    (MERGE, {"metadata": {"labels": None}}, "metadata.labels"),
    (MERGE, {"metadata": {"annotations": {"z": "z"}}}, "metadata.annotations"),
    (MERGE, {"metadata": {"generateName": "z"}}, "metadata.generateName"),
    (APPLY, {"apiVersion": "v1", "kind": "Node", "spec": {"taints": [TAINT]}}, "spec.taints"),
    (
        APPLY,
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"z": "z"}}},
        "metadata.labels",
    ),
    # The later of two values of the same key counts.
    (MERGE, b'{"spec":{"unschedulable":true},"spec":{"taints":[{"key":"x","effect":"NoExecute"}]}}', "spec.taints"),
]


@pytest.mark.parametrize(("kind", "patch", "field"), PATCHES)
def test_an_evictor_changes_nothing_else_of_a_node(api: Served, node: Json, kind: str, patch: Any, field: str) -> None:
    query = "fieldManager=x&force=true" if kind == APPLY else ""
    for dry in ("", "dryRun=All&"):
        answer = api.patch(f"{NODES}/n1", patch, kind, token="evictor", query=dry + query)
        assert answer.code == 403, answer.content
        assert answer.message.startswith(f'nodes "n1" is forbidden: User "evictor" cannot patch {field}')
        assert answer.message.endswith(LIMIT)
    assert api.get(f"{NODES}/n1").body == node


def test_whatever_it_sends_a_cordon_is_all_that_comes_of_it(api: Served, node: Json) -> None:
    """Seeded: four hundred patches of every kind, of values that are there, that are not, and that are nonsense."""
    chance = random.Random(9)
    places = [
        *(["metadata", key] for key in ("name", "labels", "annotations", "finalizers", "ownerReferences", "uid")),
        *(["metadata", key] for key in ("deletionTimestamp", "generation", "resourceVersion", "namespace", "selfLink")),
        *(["spec", key] for key in ("unschedulable", "taints", "podCIDR", "providerID", "externalID", "more")),
        *(["status"], ["spec"], ["metadata"], ["kind"], ["more"], ["metadata", "labels", "a"]),
    ]
    values = [None, True, False, "", "n1", 0, [], {}, ["x/y"], [TAINT], [OWNER], {"a": "b"}, {"$patch": "delete"}]
    codes = set()
    for _ in range(400):
        kind = chance.choice((MERGE, STRATEGIC, JSON_PATCH, APPLY))
        changes = [(path, chance.choice(values)) for path in chance.sample(places, chance.randint(1, 3))]
        if kind == JSON_PATCH:
            verbs = ("add", "replace", "remove")
            patch: Any = [{"op": chance.choice(verbs), "path": "/" + "/".join(at), "value": new} for at, new in changes]
        else:
            patch = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}} if kind == APPLY else {}
            for at, new in changes:
                inner = patch
                for step in at[:-1]:
                    if not isinstance(inner.get(step), dict):
                        inner[step] = {}
                    inner = inner[step]
                inner[at[-1]] = deepcopy(new)
        query = "fieldManager=x&force=true" if kind == APPLY else ""
        answer = api.patch(f"{NODES}/n1", patch, kind, token="evictor", query=query)
        # A version that is no number, and a patch that does not fit, Kubernetes takes for its own mistakes.
        mistakes = (
            *("strconv.ParseUint", "failed to create typed patch object", "failed to convert new object"),
            *("list element types are not identical", "does not contain declared merge key", "unknown patch type"),
            *("merging lists cannot yet be specified", "The order in patch list"),
        )
        assert answer.code < 500 or any(each in answer.message for each in mistakes), (kind, patch, answer.content)
        codes.add(answer.code)
        after = api.get(f"{NODES}/n1").body
        after["spec"].pop("unschedulable", None)
        for key in ("resourceVersion", "managedFields"):
            after["metadata"][key] = node["metadata"][key]
        assert after == node, (kind, patch)
    assert {200, 403} <= codes


def test_a_refusal_is_short_however_much_was_sent(api: Served, node: Json) -> None:
    del node
    labels = {f"k{number:05}": "x" for number in range(4_000)}
    answer = api.patch(f"{NODES}/n1", {"metadata": {"labels": labels}}, token="evictor")
    assert (answer.code, len(answer.message) < 400) == (403, True)


def test_an_evictor_makes_no_node_by_a_patch(api: Served) -> None:
    applied = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n9"}, "spec": {"unschedulable": True}}
    body = json.dumps(applied).encode()
    answer = api.patch(f"{NODES}/n9", body, APPLY, token="evictor", query="fieldManager=x")
    expected = 'User "evictor" cannot create resource "nodes" in API group "" at the cluster scope'
    assert (answer.code, answer.message) == (403, f'nodes "n9" is forbidden: {expected}')
    assert api.patch(f"{NODES}/n9", body, APPLY, query="fieldManager=x").code == 201


def test_of_an_event_an_evictor_counts_and_makes_no_other(api: Served) -> None:
    events = "/api/v1/namespaces/default/events"
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "r", "message": "m", "count": 1}
    assert api.post(events, event, token="evictor").code == 201
    told = {"count": 2, "message": "again", "lastTimestamp": "2030-01-01T00:00:00Z"}
    assert api.patch(f"{events}/e", told, token="evictor").code == 200
    newer = events.replace("/api/v1", "/apis/events.k8s.io/v1")
    for path, patch in ((events, {"involvedObject": {"name": "q"}}), (newer, {"regarding": {"name": "q"}})):
        answer = api.patch(f"{path}/e", patch, token="evictor")
        assert (answer.code, "involvedObject" in answer.message) == (403, True)
    assert api.patch(f"{events}/e", {"reason": "other"}, token="evictor").code == 403
    assert api("PUT", f"{events}/new", {**event, "metadata": {"name": "new"}}, token="evictor").code == 403


def _writes(resource: Resource) -> list[tuple[str, str, str]]:
    base = f"/api/{resource.version}" if not resource.group else f"/apis/{resource.group}/{resource.version}"
    items = f"{base}/namespaces/default/{resource.plural}" if resource.is_namespaced else f"{base}/{resource.plural}"
    # A measurement of a node or a pod is called as the node or the pod.
    plural = resource.plural if resource.group != "metrics.k8s.io" else resource.qualified
    found = [("POST", items, plural), ("DELETE", items, plural)]
    for part in ("", *(f"/{each.name}" for each in resource.subresources)):
        found += [(method, f"{items}/x{part}", f"{plural}{part}") for method in ("PUT", "PATCH", "DELETE")]
        found += [("POST", f"{items}/x{part}", f"{plural}{part}")] if part else []
    return found


@pytest.mark.parametrize("role", ["viewer", "evictor"])
def test_every_other_write_is_refused(api: Served, role: str) -> None:
    """Statuses, bindings, scales, finalizers, leases, collections: whatever the table of resources has."""
    mine = {("POST", "pods/eviction"), ("PATCH", "nodes"), ("POST", "events"), ("PATCH", "events")}
    allowed = (mine if role == "evictor" else set()) | {
        ("POST", f"selfsubject{kind}reviews") for kind in ("", "access", "rules")
    }
    writes = [write for resource in RESOURCES for write in _writes(resource)]
    assert len(writes) > 150
    for method, path, target in writes:
        kind = MERGE if method == "PATCH" else "application/json"
        code = api(method, path, {}, token=role, content_type=kind).code
        assert (code == 403) is ((method, target) not in allowed), (method, path, code)


def test_an_evictor_ends_no_pod_past_its_budget(api: Served, node: Json) -> None:
    del node
    api.pod("p", node="n1")
    api.budget(minAvailable=1, status={"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1})
    assert api.evict("p", {"gracePeriodSeconds": 0, "propagationPolicy": "Foreground"}, token="evictor").code == 429
    for patch in ({"metadata": {"labels": {"app": "other"}}}, {"metadata": {"ownerReferences": [OWNER]}}):
        assert api.patch(f"{PODS}/p", patch, token="evictor").code == 403
        assert api.patch(f"{PODS}/p/status", patch, token="evictor").code == 403
    assert api.delete(f"{PODS}/p", token="evictor").code == 403


SMALL, STATUS, POD = 65536, 131072, 524288
REVIEW: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.mark.parametrize(
    ("token", "method", "path", "most"),
    [
        ("viewer", "POST", REVIEW, SMALL),
        ("evictor", "POST", f"{PODS}/p/eviction", SMALL),
        ("evictor", "POST", "/api/v1/namespaces/default/events", SMALL),
        ("evictor", "PATCH", f"{NODES}/n1", SMALL),
        ("node", "POST", PODS, POD),
        ("node", "PATCH", f"{PODS}/p/status", STATUS),
        ("node", "PATCH", f"{NODES}/n1/status", STATUS),
        ("node", "DELETE", f"{PODS}/p", SMALL),
    ],
)
def test_a_role_has_bodies_as_large_as_its_work(api: Served, token: str, method: str, path: str, most: int) -> None:
    """3 MB of small values take the server seconds, in which it answers no other request."""
    assert api.post(NODES, {"metadata": {"name": "n1"}}).code == 201
    api.pod("p", node="n1")
    for size, is_read in ((most, True), (most + 1, False)):
        body = b"[" + b" " * (size - 1)
        answer = api(method, path, body, content_type=MERGE if method == "PATCH" else "application/json", token=token)
        assert (answer.code == 413) is not is_read, answer.content
    assert answer.message == f"Request entity too large: limit is {most}"
    assert api(method, path, b" " * 3_000_000, content_type=MERGE).code != 413


def test_small_patches_do_not_add_up_to_a_large_object(api: Served) -> None:
    """A node's status is in every list of nodes. One that an administrator has made large can be made smaller."""
    assert api.post(NODES, {"metadata": {"name": "n1"}}).code == 201
    codes = []
    for number in range(4):
        said = [{"type": f"T{number}-{each}", "status": "True", "message": "x" * 1000} for each in range(40)]
        codes.append(api.patch(f"{NODES}/n1/status", {"status": {"conditions": said}}, STRATEGIC, token="node"))
    assert [each.code for each in codes] == [200, 200, 413, 413]
    assert codes[-1].message == f"Request entity too large: limit is {STATUS}"
    more = {"status": {"volumesInUse": ["x" * 200_000]}}
    assert api.patch(f"{NODES}/n1/status", more).code == 200
    ready = {"type": "Ready", "status": "True"}
    assert api.patch(f"{NODES}/n1/status", {"status": {"conditions": [ready]}}, STRATEGIC, token="node").code == 413
    fewer = {"status": {"conditions": [ready]}}
    assert api.patch(f"{NODES}/n1/status", fewer, token="node").code == 200


def test_a_small_patch_copies_little_for_a_role(api: Served) -> None:
    assert api.post(NODES, {"metadata": {"name": "n1", "annotations": {"a": "x" * 20_000}}}).code == 201
    patch = [{"op": "copy", "from": "/metadata", "path": f"/metadata/x{each}"} for each in range(5)]
    assert api.patch(f"{NODES}/n1", patch, JSON_PATCH, token="evictor").code == 422
    assert api.patch(f"{NODES}/n1", patch, JSON_PATCH).code == 200
