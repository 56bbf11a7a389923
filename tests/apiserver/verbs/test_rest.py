"""Create, read, update, patch: what every resource can do, with Kubernetes' answers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.apiserver.served import APPLY, BUDGETS, JSON_PATCH, MERGE, PODS, STRATEGIC, Served, pod_document

Json = dict[str, Any]

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
QUARTERS = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}


def deployment(name: str = "d", **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
    }


def test_a_new_object_gets_what_only_the_server_knows(api: Served) -> None:
    metadata = api.post(PODS, pod_document("p", metadata={"uid": "mine", "generation": 9})).body["metadata"]
    assert re.fullmatch(r"[0-9a-f-]{36}", metadata["uid"])
    assert metadata["creationTimestamp"].endswith("Z")
    assert (metadata["generation"], metadata["namespace"]) == (1, "default")
    assert metadata["resourceVersion"] == str(api.store.version)


def test_a_name_can_be_generated(api: Served) -> None:
    names = [api.post(PODS, pod_document("", metadata={"generateName": "web-"})).body["metadata"]["name"] for _ in "ab"]
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"web-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


def test_unknown_fields_are_dropped_with_a_warning(api: Served) -> None:
    document = pod_document("p")
    document["spec"]["fromTheFuture"] = {"deep": [1, {"x": None}]}
    answer = api.post(PODS, document)
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.fromTheFuture\\""'
    assert "fromTheFuture" not in answer.body["spec"]
    answer = api.patch(f"{PODS}/p", {"spec": {"fromTheFuture": 1}})
    assert (answer.code, answer.body["metadata"]["generation"]) == (200, 1)
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.fromTheFuture\\""'


def test_a_write_that_changes_nothing_keeps_the_version(api: Served) -> None:
    pod = api.pod("p")
    for answer in (api("PUT", f"{PODS}/p", pod), api.patch(f"{PODS}/p", {}), api.patch(f"{PODS}/p/status", {})):
        assert answer.code == 200, answer.content
        assert answer.body["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]


def test_the_status_is_written_apart(api: Served) -> None:
    api.budget(minAvailable=1)
    api.patch(f"{BUDGETS}/pdb", {"spec": {"minAvailable": 2}, "status": {"currentHealthy": 7}})
    api.patch(f"{BUDGETS}/pdb/status", {"spec": {"minAvailable": 3}, "status": {"expectedPods": 5}})
    budget = api.get(f"{BUDGETS}/pdb").body
    assert (budget["spec"]["minAvailable"], budget["metadata"]["generation"]) == (2, 2)
    assert (budget["status"]["currentHealthy"], budget["status"]["expectedPods"]) == (0, 5)


def test_only_a_change_of_the_spec_is_a_new_generation(api: Served) -> None:
    api.post(DEPLOYMENTS, deployment())

    def generation(patch: Json) -> int:
        return int(api.patch(f"{DEPLOYMENTS}/d", patch).body["metadata"]["generation"])

    assert generation({"metadata": {"labels": {"a": "b"}}}) == 1
    assert generation({"spec": {"replicas": 1}}) == 1
    assert generation({"spec": {"replicas": 2}}) == 2
    # A deployment's annotations go into the history of its revisions.
    assert generation({"metadata": {"annotations": {"a": "b"}}}) == 3


def test_an_outdated_put_is_a_conflict_and_an_unconditional_one_is_not(api: Served) -> None:
    pod = api.pod("p")
    api.patch(f"{PODS}/p", {"metadata": {"labels": {"x": "1"}}})
    assert api("PUT", f"{PODS}/p", pod).code == 409
    del pod["metadata"]["resourceVersion"]
    assert api("PUT", f"{PODS}/p", pod).code == 200


def test_a_budget_must_be_put_with_its_version(api: Served) -> None:
    budget = api.budget(minAvailable=1)
    del budget["metadata"]["resourceVersion"]
    answer = api("PUT", f"{BUDGETS}/pdb", budget)
    assert answer.code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.message


def test_a_uid_in_a_patch_is_a_guard(api: Served) -> None:
    api.pod("p")
    answer = api.patch(f"{PODS}/p/status", {"metadata": {"uid": "zz"}, "status": {"phase": "Failed"}}, STRATEGIC)
    assert answer.code == 422
    assert 'metadata.uid: Invalid value: "zz": field is immutable' in answer.message


def test_a_patch_that_makes_nonsense_is_refused_with_the_result(api: Served) -> None:
    api.pod("p")
    answer = api.patch(f"{PODS}/p", {"spec": {"containers": "x"}})
    assert answer.code == 422
    assert answer.message.startswith(' "" is invalid: patch: Invalid value: ')
    assert (
        "cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container" in answer.message
    )


@pytest.mark.parametrize(
    ("kind", "body", "code", "text"),
    [
        ("application/json", {}, 415, "415: Unsupported Media Type"),
        (JSON_PATCH, {}, 400, "error decoding patch: json: cannot unmarshal object"),
        (STRATEGIC, b"[", 400, "unexpected end of JSON input"),
        (APPLY, {"metadata": {"name": "p"}}, 422, "fieldManager: Required value: is required for apply patch"),
    ],
)
def test_patches_that_are_none(api: Served, kind: str, body: Any, code: int, text: str) -> None:
    api.pod("p")
    answer = api.patch(f"{PODS}/p", body, kind)
    assert answer.code == code
    assert text in answer.message


def test_apply_creates_and_then_replaces_what_it_owns(api: Served) -> None:
    applied = b"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, labels: {a: b}}\nspec:\n"
    applied += b"  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n"
    applied += b"    spec: {containers: [{name: c, image: 'i:1'}]}\n"
    assert api.patch(f"{DEPLOYMENTS}/d", applied, APPLY, query="fieldManager=me").code == 201
    changed = applied.replace(b"i:1", b"i:2").replace(b"a: b", b"c: d")
    answer = api.patch(f"{DEPLOYMENTS}/d", changed, APPLY, query="fieldManager=me")
    assert (answer.code, answer.body["spec"]["template"]["spec"]["containers"][0]["image"]) == (200, "i:2")
    assert answer.body["metadata"]["labels"] == {"c": "d"}


def test_a_dry_run_of_any_write_writes_nothing(api: Served) -> None:
    api.pod("p")
    before = api.store.version
    assert api.post(PODS, pod_document("q"), query="dryRun=All").code == 201
    assert api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, query="dryRun=All").body["metadata"]["labels"][
        "a"
    ]
    assert api.store.version == before


def test_scale_is_a_view_of_the_workload(api: Served) -> None:
    api.post(DEPLOYMENTS, deployment(replicas=2))
    scale = api.get(f"{DEPLOYMENTS}/d/scale").body
    parent = api.get(f"{DEPLOYMENTS}/d").body
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
    assert (scale["metadata"]["uid"], scale["status"]["selector"]) == (parent["metadata"]["uid"], "app=web")
    assert api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 5}}).body["spec"]["replicas"] == 5
    scale["spec"]["replicas"] = 7
    assert api("PUT", f"{DEPLOYMENTS}/d/scale", scale).code == 409
    scale["metadata"].pop("resourceVersion")
    assert api("PUT", f"{DEPLOYMENTS}/d/scale", scale).body["spec"]["replicas"] == 7
    parent = api.get(f"{DEPLOYMENTS}/d").body
    assert (parent["spec"]["replicas"], parent["metadata"]["generation"]) == (7, 3)
    assert api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -1}}).code == 422


def test_a_pod_is_bound_once(api: Served) -> None:
    api.post(PODS, pod_document("p"))
    api.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "n6"}})
    assert api.get(f"{PODS}/p").body["status"]["nominatedNodeName"] == "n6"
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n7"}}
    assert api.post(f"{PODS}/p/binding", body).code == 201
    pod = api.get(f"{PODS}/p").body
    assert pod["spec"]["nodeName"] == "n7"
    assert "nominatedNodeName" not in pod["status"]
    assert [(each["type"], each["status"]) for each in pod["status"]["conditions"]] == [("PodScheduled", "True")]
    answer = api.post(f"{PODS}/p/binding", body)
    assert (answer.code, "already assigned to node" in answer.message) == (409, True)
    api.delete(f"{PODS}/p")
    assert "is being deleted" in api.post(f"{PODS}/p/binding", body).message
    assert api.post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {}}).code == 500


@pytest.mark.parametrize("part", ["binding", "eviction"])
def test_owners_that_are_named_twice_are_warned_of_where_nothing_keeps_them(api: Served, part: str) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    metadata = {"name": "p", "ownerReferences": [owner, owner]}
    target = {"target": {"name": "n"}} if part == "binding" else {}
    api.post(PODS, pod_document("p"))
    answer = api.post(f"{PODS}/p/{part}", {"metadata": metadata, **target})
    assert answer.code == 201
    assert "duplicate UID(s) observed: u" in answer.headers["warning"]


def test_events_are_one_collection_in_two_forms(api: Served) -> None:
    old = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "message": "said",
        "reason": "Because",
    }
    assert api.post("/api/v1/namespaces/default/events", old).code == 201
    new = api.get("/apis/events.k8s.io/v1/namespaces/default/events/e").body
    assert (new["note"], new["regarding"]["name"]) == ("said", "p")
    api.patch("/api/v1/namespaces/default/events/e", {"message": "changed", "count": 2})
    found = api.get("/api/v1/namespaces/default/events", query="fieldSelector=involvedObject.name%3Dp,reason%3DBecause")
    assert [(each["message"], each["count"]) for each in found.body["items"]] == [("changed", 2)]
    query = "fieldSelector=regarding.name%3Dp"
    assert len(api.get("/apis/events.k8s.io/v1/namespaces/default/events", query=query).body["items"]) == 1


def test_an_event_lives_where_its_object_does(api: Served) -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "elsewhere"}}
    answer = api.post("/api/v1/namespaces/default/events", event)
    assert (answer.code, "does not match event.namespace" in answer.message) == (422, True)
    event["involvedObject"] = {"kind": "Node", "name": "n1"}
    assert api.post("/api/v1/namespaces/default/events", event).code == 201


def codes_around_an_hour(api: Served) -> list[int]:
    """Of the event `e`, shortly before it is an hour old and shortly after."""
    codes = []
    for seconds in (3500, 200):
        api.clock.seconds += seconds
        api.keep_house()
        codes.append(api.get("/api/v1/namespaces/default/events/e").code)
    return codes


def test_old_events_are_dropped(api: Served) -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n1"}}
    api.post("/api/v1/namespaces/default/events", event)
    assert codes_around_an_hour(api) == [200, 404]


@pytest.mark.parametrize("key", ["lastTimestamp", "eventTime", "firstTimestamp"])
def test_events_of_the_future_are_dropped_as_well(api: Served, key: str) -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n1"}, key: "9999-12-31T23:59:59Z"}
    if key == "eventTime":
        event |= {
            "action": "a",
            "reason": "r",
            "reportingComponent": "a.b/c",
            "reportingInstance": "i",
            "type": "Normal",
        }
        event[key] = "9999-12-31T23:59:59.000000Z"
    made = api.post("/api/v1/namespaces/default/events", event, token="evictor")
    assert made.code == 201, made.content
    assert codes_around_an_hour(api) == [200, 404]


def test_a_user_with_more_than_its_share_of_events_loses_its_oldest(api: Served) -> None:
    path = "/api/v1/namespaces/default/events"
    regarding = {"involvedObject": {"kind": "Node", "name": "n1"}}

    def post(name: str, size: int, token: str) -> None:
        made = api.post(path, {"metadata": {"name": name}, **regarding, "message": "x" * size}, token=token)
        assert made.code == 201, made.content

    post("of-admin", 1000, "admin")
    post("of-node", 1000, "node")
    # 64 KiB are the most that a request may have, so 1 kB short of that 130 are just above 8 MiB.
    for number in range(135):
        post(f"e{number:03d}", 63 * 1024, "evictor")
    names = [each["metadata"]["name"] for each in api.get(path).body["items"]]
    assert names[-2:] == ["of-admin", "of-node"]
    assert names[-3] == "e134"
    assert 120 < len(names) < 132
    # Deleted by another user, they make room.
    for number in range(100, 135):
        api.delete(f"{path}/e{number}")
    before = len(api.get(path).body["items"])
    for number in range(20):
        post(f"f{number:03d}", 63 * 1024, "evictor")
    assert len(api.get(path).body["items"]) == before + 20
    # Grown by a patch they count with their new size.
    for number in range(20):
        post(f"g{number:03d}", 10, "evictor")
        assert api.patch(f"{path}/g{number:03d}", {"message": "x" * 60_000}, MERGE, token="evictor").code == 200
    assert "e099" in str(api.get(path).content)
    post("last", 10, "evictor")
    sizes = [len(each["message"]) for each in api.get(path).body["items"]]
    assert sum(sizes) < 8 * 2**20


def test_a_lease_is_made_by_put_and_renewed_with_its_version(api: Served) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"
    lease = {"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1", "renewTime": "2027-01-01T00:00:00.500000Z"}}
    made = api("PUT", path, lease)
    assert (made.code, made.body["spec"]["renewTime"]) == (201, "2027-01-01T00:00:00.500000Z")
    assert api("PUT", path, lease).code == 422
    assert api("PUT", path, made.body).code == 200


def test_namespaces_are_marked_and_must_exist(api: Served) -> None:
    made = api.post("/api/v1/namespaces", {"metadata": {"name": "x"}}).body
    assert (made["spec"], made["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    answer = api.post("/api/v1/namespaces/none/pods", pod_document("p"))
    assert (answer.code, answer.message) == (404, 'namespaces "none" not found')
    # Only `finalize` may take the finalizer away.
    api.patch("/api/v1/namespaces/x", {"spec": {"finalizers": None}})
    assert api.get("/api/v1/namespaces/x").body["spec"] == {"finalizers": ["kubernetes"]}


def test_a_job_knows_its_pods_by_its_uid(api: Served) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = api.post(
        "/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "j"}, "spec": {"template": template}}
    )
    assert job.code == 201, job.content
    uid = job.body["metadata"]["uid"]
    assert job.body["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job.body["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"
    assert job.body["metadata"]["labels"] == job.body["spec"]["template"]["metadata"]["labels"]


def test_rules_for_failures_make_a_job_wait_for_the_end_of_its_pods(api: Served) -> None:
    """How a pod ends is what the rules ask; and a condition that is named is meant to be True."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    spec = {"template": template, "podFailurePolicy": {"rules": [rule]}}
    job = api.post("/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "ruled"}, "spec": spec})
    assert job.code == 201, job.content
    assert job.body["spec"]["podReplacementPolicy"] == "Failed"
    (made,) = job.body["spec"]["podFailurePolicy"]["rules"]
    assert made["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_an_indexed_job_says_how_many(api: Served) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    spec = {"template": template, "completionMode": "Indexed", "parallelism": 2}
    job = api.post("/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "odd"}, "spec": spec})
    assert job.code == 422
    assert "spec.completions: Required value: when completion mode is Indexed" in job.body["message"]


@pytest.mark.parametrize(
    ("collection", "document", "field", "value"),
    [
        (DEPLOYMENTS, deployment(), "strategy", QUARTERS),
        ("/apis/apps/v1/namespaces/default/statefulsets", deployment(), "podManagementPolicy", "OrderedReady"),
        ("/apis/apps/v1/namespaces/default/daemonsets", deployment(), "revisionHistoryLimit", 10),
        ("/apis/apps/v1/namespaces/default/replicasets", deployment(), "replicas", 1),
    ],
)
def test_workloads_have_defaults_and_an_empty_status(
    api: Served, collection: str, document: Json, field: str, value: Any
) -> None:
    made = api.post(collection, {**document, "status": {"replicas": 9}}).body
    assert made["spec"][field] == value
    assert made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 30
    assert made["status"].get("replicas", 0) == 0
    other = api.patch(f"{collection}/d", {"spec": {"selector": {"matchLabels": {"app": "other"}}}})
    assert other.code == 422


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nothing", 404),
        ("POST", "/nothing", 404),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", 404),
        ("PUT", "/apis/policy/v1", 405),
        ("PATCH", "/version", 405),
        ("GET", "/api/v1/things", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/pods/p", 404),
        ("GET", "/api/v1//pods", 404),
        ("GET", "/api/v1/namespaces/default/pods/p/explode", 404),
        ("GET", "/apis/policy/v2/namespaces/default/poddisruptionbudgets", 404),
        ("POST", "/api/v1/pods", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("HEAD", PODS, 405),
        ("HEAD", f"{PODS}/p/log", 405),
        ("HEAD", "/apis/policy/v1", 405),
        ("GET", "/api/v1/namespaces/default//pods", 404),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405),
        ("BREW", "/api/v1/pods", 405),
        ("GET", "/api/v1/namespaces/default/pods/../../../healthz", 404),
    ],
)
def test_what_is_not_served(api: Served, method: str, path: str, code: int) -> None:
    assert api(method, path).code == code


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("/api/v1/namespaces//pods/p", 400, "Namespace parameter required."),
        ("/api/v1/namespaces//pods/p/log", 400, "Namespace parameter required."),
        ("/apis/apps/v1/namespaces//deployments/d/scale", 400, "Namespace parameter required."),
        ("/api/v1/namespaces//services/s/proxy/x", 400, "Namespace parameter required."),
        (f"{PODS}//status", 400, "name must be provided"),
        (f"{PODS}//proxy/x", 400, "name must be provided"),
        ("/api/v1/nodes//status", 400, "name must be provided"),
        ("/api/v1/namespaces//status", 400, "name must be provided"),
        (f"{PODS}//nope", 404, "the server could not find the requested resource"),
        ("/api/v1/namespaces//nodes", 404, "the server could not find the requested resource"),
        ("/api/v1/namespaces//status/x", 404, "the server could not find the requested resource"),
    ],
)
def test_a_path_with_a_gap(api: Served, path: str, code: int, message: str) -> None:
    answer = api.get(path)
    assert (answer.code, answer.message) == (code, message)


CUSTOM = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.mark.parametrize(
    ("method", "path", "code", "message"),
    [
        ("POST", "/apis/batch/v1/namespaces/default/cronjobs", 404, "Jettison does not serve cronjobs.batch"),
        ("GET", "/api/v1/persistentvolumes/v", 404, "Jettison does not serve persistentvolumes"),
        ("POST", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", 404,
         "Jettison does not serve horizontalpodautoscalers.autoscaling"),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", 404,
         "Jettison does not serve clusterroles.rbac.authorization.k8s.io"),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/things", 404, "the server could not find the requested resource"),
        ("GET", "/api/v1/things", 404, "the server could not find the requested resource"),
        ("POST", CUSTOM, 405, "Jettison has no custom resources"),
    ],
)  # fmt: skip
def test_what_kubernetes_would_have_is_refused_in_a_sentence(
    api: Served, method: str, path: str, code: int, message: str
) -> None:
    answer = api(method, path, {} if method == "POST" else None)
    assert (answer.code, answer.message) == (code, message)


def test_there_are_no_custom_resources(api: Served) -> None:
    """kubectl lists them where a manifest names an unknown kind, and takes anything but a list for a failure."""
    answer = api.get(CUSTOM)
    assert (answer.code, answer.body["kind"], answer.body["items"]) == (200, "CustomResourceDefinitionList", [])


def test_an_empty_namespace_is_all_of_them(api: Served) -> None:
    api.pod("p")
    assert [each["metadata"]["name"] for each in api.get("/api/v1/namespaces//pods").body["items"]] == ["p"]
    # Only to read: Kubernetes would delete the pods of all namespaces.
    assert api.delete("/api/v1/namespaces//pods").code == 405


def test_a_stranger_is_told_nothing(api: Served) -> None:
    for path in ("/api/v1/things", PODS, f"{PODS}/p/eviction", "/nothing"):
        assert api.get(path, token="forged").code == 401
    assert api.get("/healthz", token="forged").code == 401


def test_priority_comes_from_the_class(api: Served) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert api.post(classes, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}).code == 201
    spec = api.post(PODS, pod_document("a", priorityClassName="high")).body["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    answer = api.post(PODS, pod_document("b", priorityClassName="none"))
    assert (answer.code, answer.message) == (403, 'pods "b" is forbidden: no PriorityClass with name none was found')
    answer = api.post(PODS, pod_document("c", priority=5))
    assert "the integer value of priority (5) must not be provided in pod spec" in answer.message
    assert (
        api.post(PODS, pod_document("d", priorityClassName="system-node-critical")).body["spec"]["priority"]
        == 2000001000
    )


def test_one_class_may_be_the_default(api: Served) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert api.post(classes, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}).code == 201
    spec = api.post(PODS, pod_document("a")).body["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (7, "usual")
    answer = api.post(classes, {"metadata": {"name": "too"}, "value": 8, "globalDefault": True})
    assert answer.code == 403
    assert answer.message.endswith("PriorityClass usual is already marked as default. Only one default can exist")


@pytest.mark.parametrize(
    ("document", "code", "text"),
    [
        ({"metadata": {"name": "system-mine"}, "value": 1}, 422, "metadata.name: Forbidden: priority class names"),
        ({"metadata": {"name": "x"}, "value": 1_000_000_001}, 422, "value: Forbidden: maximum allowed value"),
        ({"metadata": {"name": "x"}, "value": 1, "preemptionPolicy": "Maybe"}, 422, "preemptionPolicy: Unsupported"),
        ({"metadata": {"name": "x"}, "value": -2_147_483_648}, 201, ""),
    ],
)
def test_rules_of_priority_classes(api: Served, document: Json, code: int, text: str) -> None:
    answer = api.post("/apis/scheduling.k8s.io/v1/priorityclasses", document)
    assert answer.code == code
    assert text in answer.body.get("message", "")


def test_a_priority_never_changes(api: Served) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.post(classes, {"metadata": {"name": "x"}, "value": 1})
    assert "value: Forbidden: may not be changed in an update." in api.patch(f"{classes}/x", {"value": 2}).message
    assert api.delete(f"{classes}/system-node-critical").code == 403
    assert api.delete(f"{classes}/x").code == 200


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]),
        ([{"operator": "Exists"}], []),
        ([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}], ["node.kubernetes.io/unreachable"]),
        (
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}],
            ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"],
        ),
    ],
)
def test_five_minutes_on_a_dead_node(api: Served, given: list[Json], added: list[str]) -> None:
    found = api.post(PODS, pod_document("p", tolerations=given)).body["spec"].get("tolerations", [])
    assert [each["key"] for each in found[len(given) :]] == added
    assert all(each["tolerationSeconds"] == 300 for each in found[len(given) :])


def test_people_get_their_answers_indented(api: Served) -> None:
    assert b"\n" not in api.get(PODS).content
    assert b'\n  "kind"' in api.get(PODS, query="pretty=true").content
    assert b'\n  "kind"' in api.get(PODS, headers={"user-agent": "curl/8.5"}).content
    assert b"\n" not in api.get(PODS, query="pretty=false", headers={"user-agent": "curl/8.5"}).content


def test_a_document_that_the_client_knows_is_not_sent_again(api: Served) -> None:
    first = api.get("/apis")
    again = api.get("/apis", headers={"if-none-match": first.headers["etag"]})
    assert (again.code, again.content) == (304, b"")


SETS = "/apis/apps/v1/namespaces/default"
WORKLOAD = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
}
OLD_NUMBER = "deprecated.daemonset.template.generation"


def test_a_slash_at_the_end_means_nothing(api: Served) -> None:
    api.pod("p")
    assert api.get(f"{PODS}/").body["kind"] == "PodList"
    assert api.get(f"{PODS}/p/").body == api.get(f"{PODS}/p").body


@pytest.mark.parametrize("path", ["/apis", "/apis/policy", "/healthz", "/livez", "/openapi/v3"])
def test_lists_of_groups_take_any_method(api: Served, path: str) -> None:
    assert api("DELETE", path).content == api.get(path).content


def test_every_answer_about_endpoints_says_that_they_are_old(api: Served) -> None:
    path = "/api/v1/namespaces/default/endpoints"
    old = '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
    assert api.get(path).headers["warning"] == old
    assert (api.get(f"{path}/none").code, api.get(f"{path}/none").headers["warning"]) == (404, old)
    assert "warning" not in api("HEAD", path).headers


def test_a_lease_keeps_nothing_of_an_election(api: Served) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    wanted = {"holderIdentity": "me", "strategy": "whatever", "preferredHolder": "you"}
    assert api.post(path, {"metadata": {"name": "l"}, "spec": wanted}).body["spec"] == {"holderIdentity": "me"}
    assert api.patch(f"{path}/l", {"spec": wanted}).body["spec"] == {"holderIdentity": "me"}


def test_a_node_gets_no_configuration_from_the_api(api: Served) -> None:
    assert api.post("/api/v1/nodes", {"metadata": {"name": "n1"}}).code == 201
    assert "configSource" not in api.patch("/api/v1/nodes/n1", {"spec": {"configSource": {}}}).body["spec"]


def test_a_daemon_set_counts_its_templates(api: Served) -> None:
    def number(value: Json) -> str:
        return str(value["metadata"]["annotations"][OLD_NUMBER])

    path = f"{SETS}/daemonsets"
    assert number(api.post(path, {"metadata": {"name": "d"}, "spec": WORKLOAD}).body) == "1"
    assert number(api.patch(f"{path}/d", {"spec": {"minReadySeconds": 3}}).body) == "1"
    changed = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}
    assert number(api.patch(f"{path}/d", changed).body) == "2"
    assert number(api.patch(f"{path}/d", {"metadata": {"annotations": {OLD_NUMBER: "9"}}}).body) == "2"


def test_a_rolling_update_that_is_named_gets_no_partition(api: Served) -> None:
    path = f"{SETS}/statefulsets"
    named = {**WORKLOAD, "updateStrategy": {"type": "RollingUpdate"}}
    strategy = api.post(path, {"metadata": {"name": "a"}, "spec": named}).body["spec"]["updateStrategy"]
    assert strategy == {"type": "RollingUpdate"}
    strategy = api.post(path, {"metadata": {"name": "b"}, "spec": WORKLOAD}).body["spec"]["updateStrategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}


def test_a_scale_as_a_table(api: Served) -> None:
    path = f"{SETS}/replicasets"
    assert api.post(path, {"metadata": {"name": "r"}, "spec": {**WORKLOAD, "replicas": 3}}).code == 201
    table = api.get(f"{path}/r/scale", accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"][:3] == ["r", 3, 0]


def test_a_collection_is_deleted_as_of_a_version(api: Served) -> None:
    """Kubernetes reads it in parts, and a part of a list as of a version is of exactly that version."""
    api.pod("a")
    version = api.get(PODS).body["metadata"]["resourceVersion"]
    api.pod("b")
    found = api.delete(PODS, {}, query=f"resourceVersion={version}").body["items"]
    assert [each["metadata"]["name"] for each in found] == ["a"]


def test_a_deleted_object_is_shown_with_its_managers(api: Served) -> None:
    api.pod("p")
    assert api.delete(f"{PODS}/p").body["metadata"]["managedFields"]


def test_an_apply_to_a_part_of_nothing(api: Served) -> None:
    for body in (b"{", b"{}"):
        answer = api("PATCH", f"{PODS}/none/status", body, content_type=APPLY, query="fieldManager=m")
        assert (answer.code, answer.message) == (404, 'pods "none" not found')


def test_yaml_that_cannot_be_read(api: Served) -> None:
    answer = api("PATCH", f"{PODS}/p", b'{"a": ', content_type=APPLY, query="fieldManager=m")
    why = "yaml: line 1: did not find expected node content"
    assert answer.message == f"error decoding YAML: error converting YAML to JSON: {why}"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        *(
            ({"kind": kind, "apiVersion": "v1"}, f"converting (v1.{kind}) to (core.ServiceAccount): unknown conversion")
            for kind in ("List", "PodList", "Status", "DeleteOptions", "WatchEvent")
        ),
        (
            {"kind": "Pod", "apiVersion": "v1", "metadata": []},
            "json: cannot unmarshal array into Go struct field Pod.metadata of type v1.ObjectMeta",
        ),
    ],
)
def test_another_kind_is_read_before_it_is_refused(api: Served, body: Json, why: str) -> None:
    answer = api.post("/api/v1/namespaces/default/serviceaccounts", body)
    assert answer.message == f'{body["kind"]} in version "v1" cannot be handled as a ServiceAccount: {why}'


def test_a_group_without_a_name_is_the_core(api: Served) -> None:
    for version in ("/v1", "/"):
        answer = api.post(
            "/api/v1/namespaces/default/serviceaccounts", {"apiVersion": version, "metadata": {"name": "a"}}
        )
        assert answer.code in (201, 409)
    answer = api.post("/api/v1/namespaces/default/serviceaccounts", {"apiVersion": "/a", "metadata": {"name": "b"}})
    assert 'no kind "ServiceAccount" is registered for version "a" in scheme' in answer.message


def test_how_many_pods_of_a_set_may_be_missing_is_not_kept(api: Served) -> None:
    path, strategy = f"{SETS}/statefulsets", {"rollingUpdate": {"maxUnavailable": 2}}
    made = api.post(path, {"metadata": {"name": "s"}, "spec": {**WORKLOAD, "updateStrategy": strategy}}).body
    assert made["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}
    changed = api.patch(f"{path}/s", {"spec": {"updateStrategy": strategy}}).body
    assert changed["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}


def test_claims_of_a_set_are_whole(api: Served) -> None:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "v"}, "spec": wanted}
    spec = {**WORKLOAD, "volumeClaimTemplates": [claim]}
    made = api.post(f"{SETS}/statefulsets", {"metadata": {"name": "s"}, "spec": spec}).body
    found = made["spec"]["volumeClaimTemplates"][0]
    assert (found["apiVersion"], found["kind"]) == ("v1", "PersistentVolumeClaim")
    assert (found["spec"]["volumeMode"], found["status"]) == ("Filesystem", {"phase": "Pending"})


def test_a_scale_of_zero_is_left_out(api: Served) -> None:
    assert api.post(f"{SETS}/replicasets", {"metadata": {"name": "r"}, "spec": {**WORKLOAD, "replicas": 0}}).code == 201
    scale = api.get(f"{SETS}/replicasets/r/scale").body
    assert (scale["spec"], scale["status"]["replicas"]) == ({}, 0)


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        (PODS, {"spec": {"preemptionPolicy": {}}}, "PodSpec.spec.preemptionPolicy of type v1.PreemptionPolicy"),
        (PODS, {"status": {"phase": []}}, "PodStatus.status.phase of type v1.PodPhase"),
        ("/api/v1/namespaces", {"status": {"phase": 1}}, "NamespaceStatus.status.phase of type v1.NamespacePhase"),
        (
            PODS,
            {"spec": {"containers": [{"securityContext": {"capabilities": {"drop": {}}}}]}},
            "Capabilities.spec.containers.securityContext.capabilities.drop of type []v1.Capability",
        ),
        (
            PODS,
            {"spec": {"containers": [{"securityContext": {"capabilities": {"drop": [1]}}}]}},
            "Capabilities.spec.containers.securityContext.capabilities.drop of type v1.Capability",
        ),
    ],
)
def test_a_type_is_called_by_its_own_name(api: Served, path: str, body: Json, where: str) -> None:
    assert api.post(path, body).message.endswith(f"into Go struct field {where}")


def test_a_client_that_takes_no_type_of_ours_is_told_so_first(api: Served) -> None:
    answer = api.get("/api/v1/namespaces/default/endpoints", accept="application/*")
    assert (answer.code, answer.message.partition(":")[0], "warning" in answer.headers) == (406, "406", False)


def test_a_version_that_is_none_comes_before_the_form(api: Served) -> None:
    assert api.get(PODS, query="watch=true&resourceVersion=x", accept="application/yaml").code == 500


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (MERGE, {"spec": {"zz": 1, "bogus": 1, "containers": [{"name": "c", "image": "i", "nope": 1}]}}),
        (
            JSON_PATCH,
            [
                {"op": "add", "path": "/spec/zz", "value": 1},
                {"op": "add", "path": "/spec/containers/0/nope", "value": 1},
                {"op": "add", "path": "/spec/bogus", "value": 1},
            ],
        ),
    ],
)
def test_warnings_come_in_the_order_of_sorted_keys(api: Served, kind: str, patch: Json) -> None:
    api.pod("p")
    found = api.patch(f"{PODS}/p", patch, kind).headers["warning"]
    assert re.findall(r'field \\"([^\\]*)', found) == ["spec.bogus", "spec.containers[0].nope", "spec.zz"]


def test_a_patch_that_does_not_fit_is_refused_with_the_whole_object(api: Served) -> None:
    """As Go would have written it; only the objects that the patch leads through are sorted."""
    api.pod("p", labels={"app": "web"})
    answer = api.patch(f"{PODS}/p", {"metadata": {"labels": {"n": 1}}})
    shown = json.loads(answer.message.partition("Invalid value: ")[2].rpartition(": json: cannot")[0])
    document = json.loads(shown)
    assert list(document) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert list(document["metadata"]) == sorted(document["metadata"])
    assert list(document["metadata"]["managedFields"][0])[:3] == ["manager", "operation", "apiVersion"]
    assert list(document["spec"])[:3] == ["containers", "restartPolicy", "terminationGracePeriodSeconds"]
