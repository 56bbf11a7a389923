"""Deletion: grace can only get shorter, finalizers hold an object, and only the node ends a pod's grace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jettison.manifests.times import time_text
from tests.apiserver.served import BUDGETS, PODS, Served, pod_document

Json = dict[str, Any]


def ending(api: Served, name: str = "p") -> tuple[str, int]:
    metadata = api.get(f"{PODS}/{name}").body["metadata"]
    return metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]


def at(api: Served, seconds: int) -> str:
    return time_text(api.clock.now_ns() + seconds * 10**9)


@pytest.mark.parametrize(
    ("spec", "phase", "options", "grace"),
    [
        ({}, "Running", None, 30),
        ({"terminationGracePeriodSeconds": 45}, "Running", None, 45),
        ({"terminationGracePeriodSeconds": 45}, "Running", {"gracePeriodSeconds": 100}, 100),
        ({}, "Running", {"gracePeriodSeconds": -3}, 1),
        ({}, "Running", {"gracePeriodSeconds": 10**15}, 10**15),
        ({}, "Running", {"gracePeriodSeconds": 0}, None),
        ({"terminationGracePeriodSeconds": 0}, "Running", None, None),
        ({}, "Succeeded", {"gracePeriodSeconds": 60}, None),
        ({}, "Failed", None, None),
        ({"nodeName": ""}, "Pending", {"gracePeriodSeconds": 60}, None),
    ],
)
def test_grace_of_the_first_deletion(
    api: Served, spec: Json, phase: str, options: Json | None, grace: int | None
) -> None:
    """Not on a node or ended: none. Else what is asked, else what the pod says."""
    node = spec.pop("nodeName", "n1")
    api.pod("p", node=node, phase=phase, **spec)
    answer = api.delete(f"{PODS}/p", options)
    assert (answer.code, answer.body["kind"]) == (200, "Pod")
    found = api.get(f"{PODS}/p")
    if grace is None:
        assert found.code == 404
        assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 0
    else:
        assert found.body["metadata"]["deletionGracePeriodSeconds"] == grace
        assert found.body["metadata"]["generation"] == 2


def test_a_grace_under_way_gets_shorter_never_longer(api: Served) -> None:
    api.pod("p", terminationGracePeriodSeconds=45)
    api.delete(f"{PODS}/p")
    began = api.clock.seconds
    assert ending(api) == (at(api, 45), 45)
    api.clock.seconds = began + 3
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 90})
    api.delete(f"{PODS}/p")
    assert ending(api) == (time_text((began + 45) * 10**9), 45)
    api.clock.seconds = began + 5
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 20})
    assert ending(api) == (time_text((began + 20) * 10**9), 20)
    # Five seconds after the beginning are over already: a second is what is left.
    api.clock.seconds = began + 12
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 5})
    assert ending(api) == (time_text((began + 12) * 10**9), 1)
    assert api.get(f"{PODS}/p").body["metadata"]["generation"] == 2
    assert api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0}).code == 200
    assert api.get(f"{PODS}/p").code == 404


def test_time_alone_removes_no_pod(api: Served) -> None:
    api.pod("p")
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 1})
    api.clock.seconds += 1000
    api.keep_house()
    assert api.get(f"{PODS}/p").code == 200


def test_a_finalizer_holds_a_pod_until_it_is_gone(api: Served) -> None:
    api.pod("p", metadata={"finalizers": ["example.com/hold"]})
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert ending(api)[1] == 0
    assert api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}}).code == 200
    assert api.get(f"{PODS}/p").code == 404


def test_removing_a_finalizer_during_the_grace_does_not_end_it(api: Served) -> None:
    api.pod("p", metadata={"finalizers": ["example.com/hold"]})
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 20})
    api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    assert ending(api)[1] == 20


def test_no_finalizer_is_added_to_what_is_going(api: Served) -> None:
    api.pod("p")
    api.delete(f"{PODS}/p")
    answer = api.patch(f"{PODS}/p", {"metadata": {"finalizers": ["example.com/late"]}})
    assert answer.code == 422
    said = "no new finalizers can be added if the object is being deleted, found new finalizers"
    assert f'metadata.finalizers: Forbidden: {said} []string{{"example.com/late"}}' in answer.message


def test_a_name_is_not_free_before_its_pod_is_gone(api: Served) -> None:
    api.pod("p")
    api.delete(f"{PODS}/p")
    answer = api.post(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    assert (answer.code, answer.message) == (409, 'object is being deleted: pods "p" already exists')


@pytest.mark.parametrize(
    ("policy", "finalizers"), [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"]), ("Background", None)]
)
def test_the_policy_hands_the_object_to_the_garbage_collector(
    api: Served, policy: str, finalizers: list[str] | None
) -> None:
    api.pod("p")
    api.delete(f"{PODS}/p", {"propagationPolicy": policy})
    assert api.get(f"{PODS}/p").body["metadata"].get("finalizers") == finalizers


def test_what_goes_at_once_is_shown_with_the_finalizer_that_it_had(api: Served) -> None:
    """A second policy takes away what the first one had added. Nothing is written in between."""
    api.post(PODS, pod_document("p"))
    api.delete(f"{PODS}/p", {"propagationPolicy": "Foreground"})
    since = api.store.version
    gone = api.delete(f"{PODS}/p", {"propagationPolicy": "Background"}).body
    assert gone["metadata"]["finalizers"] == ["foregroundDeletion"]
    lines = api.get(PODS, query=f"watch=1&resourceVersion={since}&timeoutSeconds=1").content.splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["DELETED"]


def test_a_policy_that_takes_the_last_finalizer_leaves_no_list(api: Served) -> None:
    api.pod("p", metadata={"finalizers": ["orphan"]})
    assert "finalizers" not in api.delete(f"{PODS}/p", {"propagationPolicy": "Background"}).body["metadata"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"propagationPolicy": "Bad"}, 'propagationPolicy: Unsupported value: "Bad"'),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, "cannot be both set"),
        ({"dryRun": ["Some"]}, 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
    ],
)
def test_impossible_options_are_refused(api: Served, options: Json, text: str) -> None:
    api.pod("p")
    answer = api.delete(f"{PODS}/p", options)
    assert answer.code == 422
    assert text in answer.message
    assert answer.message.startswith('DeleteOptions.meta.k8s.io "" is invalid: ')


def test_a_body_wins_over_the_query(api: Served) -> None:
    api.pod("p")
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 3}, query="gracePeriodSeconds=9&dryRun=All")
    assert ending(api)[1] == 3


def test_options_of_another_kind_are_none(api: Served) -> None:
    api.pod("p")
    assert api.delete(f"{PODS}/p", {"kind": "Pod", "apiVersion": "v1"}).code == 400
    assert api.delete(f"{PODS}/p", {"kind": "DeleteOptions", "apiVersion": "policy/v1"}).code == 200


def test_a_dry_run_shows_what_would_be(api: Served) -> None:
    api.pod("p")
    before = api.store.version
    answer = api.delete(f"{PODS}/p", query="dryRun=All&gracePeriodSeconds=7")
    assert answer.body["metadata"]["managedFields"] == api.get(f"{PODS}/p").body["metadata"]["managedFields"]
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 7
    assert api.store.version == before


def test_a_pod_removed_at_once_is_told_twice(api: Served) -> None:
    """MODIFIED with its end, then DELETED: three consecutive versions for an eviction, two for a deletion."""
    api.pod("p")
    since = api.store.version
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    lines = api.get(PODS, query=f"watch=1&resourceVersion={since}&timeoutSeconds=1").content.splitlines()
    assert [line[9:16] for line in lines] == [b"MODIFIE", b"DELETED"]


def test_what_has_no_grace_is_gone_and_answers_with_a_status(api: Served) -> None:
    uid = api.budget(minAvailable=1)["metadata"]["uid"]
    answer = api.delete(f"{BUDGETS}/pdb")
    details = {"name": "pdb", "group": "policy", "kind": "poddisruptionbudgets", "uid": uid}
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


def test_a_collection_is_deleted_by_selector_and_shown(api: Served) -> None:
    for name in "abc":
        api.pod(name, labels={"app": "web" if name != "c" else "db"})
    answer = api.delete(PODS, {"gracePeriodSeconds": 0}, query="labelSelector=app%3Dweb")
    assert (answer.body["kind"], [each["metadata"]["name"] for each in answer.body["items"]]) == ("PodList", ["a", "b"])
    assert [each["metadata"]["name"] for each in api.get(PODS).body["items"]] == ["c"]


def test_202_where_dependents_are_not_to_be_orphaned_and_the_client_waits(api: Served) -> None:
    api.pod("p")
    assert api.delete(f"{PODS}/p", {"orphanDependents": False}).code == 202


def test_a_namespace_goes_when_everything_in_it_has(api: Served) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "x"}})
    pod = {
        "metadata": {"name": "p", "finalizers": ["example.com/hold"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    api.post("/api/v1/namespaces/x/pods", pod)
    api.post("/apis/policy/v1/namespaces/x/poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": {}})
    answer = api.delete("/api/v1/namespaces/x")
    assert (answer.body["kind"], answer.body["status"]["phase"]) == ("Namespace", "Terminating")
    api.keep_house()
    assert len(api.get("/apis/policy/v1/namespaces/x/poddisruptionbudgets").body["items"]) == 1
    conditions = api.get("/api/v1/namespaces/x").body["status"]["conditions"]
    assert [(each["status"], each["reason"]) for each in conditions] == [
        ("False", "ResourcesDiscovered"),
        ("False", "ParsedGroupVersions"),
        ("False", "ContentDeleted"),
        ("False", "ContentRemoved"),
        ("False", "ContentHasNoFinalizers"),
    ]
    api.patch("/api/v1/namespaces/x/pods/p", {"metadata": {"finalizers": None}})
    api.keep_house()
    assert api.get("/api/v1/namespaces/x").code == 404


def test_a_namespace_says_what_holds_it(api: Served) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "x"}})
    path = "/apis/policy/v1/namespaces/x/poddisruptionbudgets"
    api.post(path, {"metadata": {"name": "b", "finalizers": ["example.com/hold"]}, "spec": {}})
    assert api.delete("/api/v1/namespaces/x", {"propagationPolicy": "Foreground"}).body["metadata"]["finalizers"]
    api.keep_house()
    conditions = api.get("/api/v1/namespaces/x").body["status"]["conditions"]
    assert [(each["status"], each["message"]) for each in conditions[3:]] == [
        ("True", "Some resources are remaining: poddisruptionbudgets.policy has 1 resource instances"),
        ("True", "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"),
    ]
    api.patch(f"{path}/b", {"metadata": {"finalizers": None}})
    api.keep_house()
    assert api.get("/api/v1/namespaces/x").code == 404


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_stay(api: Served, name: str) -> None:
    answer = api.delete(f"/api/v1/namespaces/{name}")
    assert (answer.code, answer.message) == (
        403,
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
    )
    # A precondition that does not hold is reported first.
    assert api.delete(f"/api/v1/namespaces/{name}", {"preconditions": {"uid": "x"}}).code == 409
    assert api.delete(f"/api/v1/namespaces/{name}", {"propagationPolicy": "Sometimes"}).code == 422
    assert api.delete(f"/api/v1/namespaces/{name}", query="dryRun=All").code == 403


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("gracePeriodSeconds=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
        ("gracePeriodSeconds=99999999999999999999", 400, "value out of range"),
        ("propagationPolicy=", 422, 'propagationPolicy: Unsupported value: ""'),
        ("dryRun=", 422, 'dryRun: Unsupported value: [""]'),
        ("uid=other", 409, "the UID in the precondition (other) does not match"),
        ("resourceVersion=1", 409, "the ResourceVersion in the precondition (1) does not match"),
    ],
)
def test_options_in_the_query(api: Served, query: str, code: int, text: str) -> None:
    api.pod("p")
    answer = api.delete(f"{PODS}/p", query=query)
    assert answer.code == code
    assert text in answer.message


def test_everything_in_a_query_is_a_yes_that_is_no_clear_no(api: Served) -> None:
    for name, word, finalizers in (("a", "x", ["orphan"]), ("b", "", ["orphan"]), ("c", "False", None)):
        api.pod(name)
        answer = api.delete(f"{PODS}/{name}", query=f"orphanDependents={word}")
        assert answer.body["metadata"].get("finalizers") == finalizers


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        (b'{"kind":"Pod"}', 'no kind "Pod" is registered for version "meta.k8s.io/v1" in scheme '),
        (b'{"kind":"Pod","apiVersion":"v1"}', 'no kind "Pod" is registered for version "v1" in scheme '),
        (b'{"kind":5}', "json: cannot unmarshal number into Go struct field .kind of type string"),
    ],
)
def test_a_body_that_is_no_options(api: Served, body: bytes, text: str) -> None:
    api.pod("p")
    answer = api.delete(f"{PODS}/p", body)
    assert answer.code == 400
    assert text in answer.message


def test_preconditions_of_other_kinds(api: Served) -> None:
    api.budget(minAvailable=1)
    answer = api.delete(f"{BUDGETS}/pdb", {"preconditions": {"resourceVersion": "1"}})
    assert answer.message.startswith('Operation cannot be fulfilled on PodDisruptionBudget.policy "pdb": the Resource')
    assert answer.body["details"] == {"name": "pdb", "group": "policy", "kind": "PodDisruptionBudget"}
    api.post("/api/v1/namespaces", {"metadata": {"name": "x"}})
    answer = api.delete("/api/v1/namespaces/x", {"preconditions": {"uid": "x"}})
    assert "Precondition failed: UID in precondition: x, UID in object meta: " in answer.message
    assert answer.body["details"] == {"name": "x", "kind": "namespaces"}


def test_the_policy_counts_while_a_finalizer_holds_the_pod(api: Served) -> None:
    api.pod("p")
    api.patch(f"{PODS}/p", {"metadata": {"finalizers": ["a/b"]}})
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 9})
    answer = api.delete(f"{PODS}/p", {"propagationPolicy": "Orphan"})
    assert answer.body["metadata"]["finalizers"] == ["a/b"]
    answer = api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0, "propagationPolicy": "Orphan"})
    assert answer.body["metadata"]["finalizers"] == ["a/b", "orphan"]
    answer = api.delete(f"{PODS}/p", {"propagationPolicy": "Background"})
    assert answer.body["metadata"]["finalizers"] == ["a/b"]
    # The status is as good a place to let go as any.
    assert api.patch(f"{PODS}/p/status", {"metadata": {"finalizers": None}}).code == 200
    assert api.get(f"{PODS}/p").code == 404


def test_pods_of_a_job_stay_unless_the_client_says_otherwise(api: Served) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    path = "/apis/batch/v1/namespaces/default/jobs"
    for name in "ab":
        api.post(path, {"metadata": {"name": name}, "spec": {"template": template}})
    answer = api.delete(f"{path}/a")
    assert answer.body["metadata"]["finalizers"] == ["orphan"]
    assert "child pods are preserved by default" in answer.headers["warning"]
    answer = api.delete(f"{path}/b", {"propagationPolicy": "Background"})
    assert answer.body["status"] == "Success"
    assert "warning" not in answer.headers


def test_a_collection_is_shown_as_it_was(api: Served) -> None:
    for name in "abc":
        api.pod(name)
    answer = api.delete(PODS, query="limit=2")
    assert [each["metadata"]["name"] for each in answer.body["items"]] == ["a", "b"]
    assert not any("deletionTimestamp" in each["metadata"] for each in answer.body["items"])
    assert answer.body["metadata"]["remainingItemCount"] == 1
    left = api.get(PODS).body["items"]
    assert ["deletionTimestamp" in each["metadata"] for each in left] == [True, True, False]
    assert api.delete(PODS, query="resourceVersionMatch=Exact").code == 422


def test_a_name_is_taken_until_its_last_finalizer_is_gone(api: Served) -> None:
    api.budget(minAvailable=1)
    api.patch(f"{BUDGETS}/pdb", {"metadata": {"finalizers": ["a/b"]}})
    api.delete(f"{BUDGETS}/pdb")
    answer = api.post(BUDGETS, {"metadata": {"name": "pdb"}, "spec": {}})
    assert answer.message == 'object is being deleted: poddisruptionbudgets.policy "pdb" already exists'


def test_a_mistake_in_the_metadata_is_a_cause_as_often_as_it_is_looked_for(api: Served) -> None:
    api.pod("p")
    api.budget(minAvailable=1)
    for path, labels, finalizers in ((f"{PODS}/p", 4, 2), (f"{BUDGETS}/pdb", 2, 1)):
        answer = api.patch(path, {"metadata": {"labels": {"a b": ""}}})
        assert len(answer.body["details"]["causes"]) == labels
        assert answer.message.count("metadata.labels") == 1
        api.patch(path, {"metadata": {"finalizers": ["a/b"]}})
        api.delete(path)
        answer = api.patch(path, {"metadata": {"finalizers": ["a/b", "c/d"]}})
        assert len(answer.body["details"]["causes"]) == finalizers


def test_what_an_update_cannot_change_is_ignored_or_refused(api: Served) -> None:
    api.budget(minAvailable=1)
    old = api.get(f"{BUDGETS}/pdb").body

    def put(**metadata: Any) -> Any:
        return api("PUT", f"{BUDGETS}/pdb", {**old, "metadata": {**old["metadata"], **metadata}})

    answer = put(creationTimestamp="2020-01-01T00:00:00Z")
    assert (answer.code, answer.body["metadata"]) == (200, old["metadata"])
    answer = put(uid="abc")
    key = "/registry/poddisruptionbudgets/default/pdb"
    found = f"UID in precondition: abc, UID in object meta: {old['metadata']['uid']}"
    assert answer.code == 409
    assert answer.message == (
        'Operation cannot be fulfilled on poddisruptionbudgets.policy "pdb": StorageError: invalid object, Code: 4, '
        f"Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {found}"
    )
    answer = put(resourceVersion="x")
    assert (answer.code, answer.message) == (500, 'strconv.ParseUint: parsing "x": invalid syntax')
    answer = put(name="")
    assert answer.message == "the name of the object (pdb based on URL) was undeterminable: name must be provided"
    answer = put(name="other", namespace="elsewhere")
    assert answer.message.startswith("the namespace of the provided object does not match")


def test_a_former_key_is_no_part_of_a_selector(api: Served) -> None:
    key = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
    former = {"key": key, "operator": "Exists"}
    for name, selector, kept in (
        ("a", {"matchExpressions": [former]}, {"matchExpressions": [former]}),
        ("b", {"matchExpressions": [{**former, "operator": "DoesNotExist"}]}, {}),
        ("c", {"matchLabels": {"a": "b"}, "matchExpressions": [former]}, {"matchLabels": {"a": "b"}}),
    ):
        answer = api.post(BUDGETS, {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector}})
        assert answer.body["spec"]["selector"] == kept


def test_metadata_of_a_budget_is_looked_at_last(api: Served) -> None:
    answer = api.post(BUDGETS, {"metadata": {"name": "x", "labels": {"a b": ""}}, "spec": {"minAvailable": -1}})
    assert [each["field"] for each in answer.body["details"]["causes"]] == ["spec.minAvailable"]
