"""Which client owns which field, and server-side apply. Entries and texts are those of Kubernetes v1.36."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jettison.apiserver.objects.ownership.field_sets import difference, intersection, paths, union, without
from jettison.apiserver.objects.ownership.walks import compare, cut, fields_of, merge, spot_of
from tests.apiserver.served import APPLY, JSON_PATCH, PODS, STRATEGIC, Served, pod_document

Json = dict[str, Any]

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def entries(answer: Any, *keys: str) -> list[Any]:
    listed = answer.body["metadata"].get("managedFields", [])
    return [tuple(each.get(key, "") for key in keys) for each in listed]


def owned(answer: Any, manager: str, subresource: str = "") -> list[str]:
    for each in answer.body["metadata"].get("managedFields", []):
        if (each["manager"], each.get("subresource", "")) == (manager, subresource):
            return list(paths(each["fieldsV1"]))
    return []


def apply(api: Served, document: Json, manager: str, force: bool = False, path: str = DEPLOYMENTS) -> Any:
    query = f"fieldManager={manager}" + ("&force=true" if force else "")
    return api.patch(f"{path}/{document['metadata']['name']}", document, APPLY, query=query)


def deployment(**spec: Any) -> Json:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    whole = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": whole}


def test_sets() -> None:
    one: Json = {"f:a": {".": {}, "f:b": {}}, "f:c": {}}
    two: Json = {"f:a": {"f:b": {}, "f:d": {}}}
    assert union(one, two) == {"f:a": {".": {}, "f:b": {}, "f:d": {}}, "f:c": {}}
    assert intersection(one, two) == {"f:a": {"f:b": {}}}
    assert difference(one, two) == {"f:a": {}, "f:c": {}}
    assert difference(two, {"f:a": {}}) == two, "a field takes nothing below it along"
    assert without(two, {"f:a": {}}) == {}
    keyed: Json = {"f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {"f:name": {}}, 'v:"x"': {}}}
    assert list(paths(keyed)) == ['.ports[="x"]', '.ports[containerPort=80,protocol="TCP"].name']


def test_what_a_created_pod_has(api: Served) -> None:
    """Taken from kube-apiserver; what admission adds, such as tolerations, is no client's."""
    answer = api.post(PODS, pod_document("p", node="n"), headers={"user-agent": "python-requests/2"})
    container = ("f:image", "f:imagePullPolicy", "f:name", "f:resources", "f:terminationMessagePath")
    spec = ("dnsPolicy", "enableServiceLinks", "nodeName", "restartPolicy", "schedulerName", "securityContext")
    (entry,) = answer.body["metadata"]["managedFields"]
    assert entry.pop("time")
    assert entry == {
        "manager": "python-requests", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:containers": {
                    'k:{"name":"c"}': {".": {}, **{key: {} for key in container}, "f:terminationMessagePolicy": {}},
                },
                **{f"f:{key}": {} for key in spec}, "f:terminationGracePeriodSeconds": {},
            },
        },
    }  # fmt: skip


def test_a_status_is_another_entry_and_takes_nothing_of_the_rest(api: Served) -> None:
    api.post(PODS, pod_document("p"), query="fieldManager=maker")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"nodeName": "x"}}
    answer = api.patch(f"{PODS}/p/status", ready, STRATEGIC, query="fieldManager=node")
    assert entries(answer, "manager", "subresource") == [("maker", ""), ("node", "status")]
    assert owned(answer, "node", "status")[:2] == [".status.conditions", '.status.conditions[type="Ready"]']
    again = api.patch(f"{PODS}/p/status", ready, STRATEGIC, query="fieldManager=node")
    assert again.body == answer.body, "a write that changes nothing is none"


def test_elements_of_the_same_keys_are_one_value_and_one_that_is_alone_has_fields(api: Served) -> None:
    api.post(PODS, pod_document("p"))
    alone, element = {"type": "A", "status": "True"}, '.status.conditions[type="A"]'

    def written(by: str, *conditions: Json) -> Any:
        shown = api.get(f"{PODS}/p").body
        shown["status"]["conditions"] = list(conditions)
        return api("PUT", f"{PODS}/p/status", shown, query=f"fieldManager={by}")

    assert f"{element}.status" in owned(written("me", alone), "me", "status")
    both = written("you", alone, {**alone, "status": "False"})
    assert not any(each.startswith(element) for each in owned(both, "me", "status"))
    assert [each for each in owned(both, "you", "status") if each.startswith(element)] == [element]
    again = written("me", alone)
    assert f"{element}.status" in owned(again, "me", "status")
    assert element not in owned(again, "you", "status")


def test_a_write_takes_what_it_changes_and_a_removal_is_nobodys(api: Served) -> None:
    api.post(PODS, pod_document("p", labels={"a": "1", "b": "1"}), query="fieldManager=one")
    answer = api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "2", "b": None}}}, query="fieldManager=two")
    assert owned(answer, "two") == [".metadata.labels.a"]
    assert ".metadata.labels" in owned(answer, "one")
    assert not {".metadata.labels.a", ".metadata.labels.b"} & set(owned(answer, "one"))


def test_evicting_and_binding_change_no_entry(api: Served) -> None:
    api.post(PODS, pod_document("p", metadata={"finalizers": ["a/b"]}), query="fieldManager=one")
    before = api.get(f"{PODS}/p").body["metadata"]["managedFields"]
    binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}
    assert api.post(f"{PODS}/p/binding", binding).code == 201
    assert api.evict("p").code == 201
    assert api.get(f"{PODS}/p").body["metadata"]["managedFields"] == before


def test_an_eviction_through_a_budget_is_a_write_of_its_status(api: Served) -> None:
    """By the server, as in Kubernetes; and it takes the number of disruptions from the client that has counted it."""
    api.pod("p")
    api.budget(status={"disruptionsAllowed": 2, "currentHealthy": 2, "desiredHealthy": 0, "expectedPods": 2})
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/pdb"
    before = api.get(path)
    assert api.evict("p", {"dryRun": ["All"]}).code == 201
    assert api.get(path).body["metadata"]["managedFields"] == before.body["metadata"]["managedFields"]
    assert api.evict("p").code == 201
    after = api.get(path)
    assert ("kube-apiserver", "Update", "policy/v1", "status") in entries(
        after, "manager", "operation", "apiVersion", "subresource"
    )
    spent = [".status.disruptedPods", ".status.disruptedPods.p", ".status.disruptionsAllowed"]
    assert sorted(owned(after, "kube-apiserver", "status")) == spent
    counted = before.body["metadata"]["managedFields"][-1]["manager"]
    assert ".status.disruptionsAllowed" in owned(before, counted, "status")
    assert ".status.disruptionsAllowed" not in owned(after, counted, "status")


@pytest.mark.parametrize("part", ["ephemeralcontainers", "resize"])
def test_a_client_owns_what_it_sends_to_a_part_and_the_part_leaves_alone(api: Served, part: str) -> None:
    api.post(PODS, pod_document("p"), query="fieldManager=one")
    sent = api.get(f"{PODS}/p").body
    sent["metadata"]["labels"] = {"q": "1"}
    sent["spec"]["terminationGracePeriodSeconds"] = 5
    sent["status"]["message"] = "m"
    answer = api("PUT", f"{PODS}/p/{part}", sent, query="fieldManager=two")
    assert (answer.code, answer.body["spec"]["terminationGracePeriodSeconds"]) == (200, 30)
    assert {".metadata.labels.q", ".spec.terminationGracePeriodSeconds", ".status.message"} <= {
        *owned(answer, "two", part)
    }
    assert ".spec.terminationGracePeriodSeconds" not in owned(answer, "one")


def test_a_client_owns_what_waits_for_a_feature(api: Served) -> None:
    """Kubernetes drops it, after it has noted which client has sent it."""
    document = pod_document("p")
    document["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    document["spec"]["containers"][0]["lifecycle"] = {"stopSignal": "SIGKILL"}
    answer = api.post(PODS, document, query="fieldManager=one")
    assert "schedulingGroup" not in answer.body["spec"]
    assert "lifecycle" not in answer.body["spec"]["containers"][0]
    found = owned(answer, "one")
    assert ".spec.schedulingGroup.podGroupName" in found
    assert any(each.endswith(".lifecycle.stopSignal") for each in found)
    mount = {"name": "v", "mountPath": "/v"}
    status = {"containerStatuses": [{"name": "c", "volumeMounts": [{**mount, "volumeStatus": {"image": {}}}]}]}
    answer = api.patch(f"{PODS}/p/status", {"status": status}, query="fieldManager=two")
    assert answer.body["status"]["containerStatuses"][0]["volumeMounts"] == [mount]


def test_apply_owns_what_it_says_and_removes_what_it_says_no_more(api: Served) -> None:
    first = deployment(replicas=2, minReadySeconds=5)
    first["metadata"]["annotations"] = {"a": "1", "b": "1"}
    made = apply(api, first, "me")
    assert (made.code, entries(made, "manager", "operation")) == (201, [("me", "Apply")])
    api.patch(f"{DEPLOYMENTS}/d", {"metadata": {"annotations": {"b": "2", "c": "3"}}}, query="fieldManager=other")
    second = deployment(replicas=3)
    answer = apply(api, second, "me")
    assert answer.code == 200, answer.content
    assert answer.body["metadata"]["annotations"] == {"b": "2", "c": "3"}
    assert (answer.body["spec"]["replicas"], "minReadySeconds" in answer.body["spec"]) == (3, False)
    # A list with keys is taken apart: what others have added stays.
    more = [{"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "x", "image": "y"}}]
    api.patch(f"{DEPLOYMENTS}/d", more, JSON_PATCH, query="fieldManager=other")
    answer = apply(api, deployment(), "me")
    assert [each["name"] for each in answer.body["spec"]["template"]["spec"]["containers"]] == ["c", "x"]
    assert answer.body["spec"]["replicas"] == 1, "what no client wants any more is the default again"


def test_conflicts(api: Served) -> None:
    apply(api, deployment(replicas=2), "one")
    api.patch(f"{DEPLOYMENTS}/d", {"spec": {"replicas": 5}}, query="fieldManager=scaler")
    answer = apply(api, deployment(replicas=2), "one")
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "scaler" using apps/v1: .spec.replicas'
    assert answer.body["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "scaler" using apps/v1',
            "field": ".spec.replicas",
        }
    ]
    apply(api, deployment(replicas=5), "two")
    answer = apply(api, deployment(replicas=1, minReadySeconds=1), "three")
    assert answer.message == (
        'Apply failed with 2 conflicts: conflicts with "scaler" using apps/v1:\n- .spec.replicas\n'
        'conflicts with "two":\n- .spec.replicas'
    )
    forced = apply(api, deployment(replicas=1), "three", force=True)
    assert (forced.code, forced.body["spec"]["replicas"]) == (200, 1)
    assert ".spec.replicas" not in owned(forced, "two") + owned(forced, "scaler")
    assert apply(api, deployment(replicas=1), "four").code == 200, "to say the same is no conflict"


def test_what_cannot_be_applied(api: Served) -> None:
    assert apply(api, {**deployment(), "kind": "Pod"}, "me").message == "invalid object type: apps/v1, Kind=Pod"
    wrong = deployment(bogus=1)
    text = (
        "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.bogus: field not declared in schema"
    )
    assert (apply(api, wrong, "me").code, apply(api, wrong, "me").message) == (500, text)
    twice = deployment()
    twice["spec"]["template"]["spec"]["containers"] *= 2
    assert 'duplicate entries for key [name="c"]' in apply(api, twice, "me").message
    given = deployment()
    given["metadata"]["managedFields"] = []
    assert apply(api, given, "me").message == "metadata.managedFields must be nil"


def test_a_client_may_reset_and_hand_over(api: Served) -> None:
    api.post(PODS, pod_document("p"), query="fieldManager=one")
    whole = api.get(f"{PODS}/p").body
    whole["metadata"]["managedFields"][0]["manager"] = "heir"
    assert entries(api("PUT", f"{PODS}/p", whole, query="fieldManager=x"), "manager") == [("heir",)]
    whole["metadata"]["resourceVersion"] = ""
    whole["metadata"]["managedFields"] = [{"operation": "Steal"}]
    assert entries(api("PUT", f"{PODS}/p", whole), "manager") == [("heir",)], "nonsense is not heard"
    whole["metadata"]["managedFields"] = [{}]
    assert entries(api("PUT", f"{PODS}/p", whole), "manager") == []


def test_kubectl_goes_over_from_the_clients_side(api: Served) -> None:
    """What kubectl applied on its own side, with an annotation, it may apply on the server's without a conflict."""
    key = "kubectl.kubernetes.io/last-applied-configuration"
    first = deployment(replicas=2)
    noted = {**first, "metadata": {"name": "d", "annotations": {key: json.dumps(first)}}}
    api.post(DEPLOYMENTS, noted, query="fieldManager=kubectl-client-side-apply")
    answer = apply(api, deployment(replicas=3), "kubectl")
    assert (answer.code, answer.body["spec"]["replicas"]) == (200, 3)
    assert json.loads(answer.body["metadata"]["annotations"][key])["spec"]["replicas"] == 3
    api.patch(f"{DEPLOYMENTS}/d", {"spec": {"replicas": 9}}, query="fieldManager=scaler")
    assert apply(api, deployment(replicas=3), "kubectl").code == 409


def test_entries_are_few(api: Served) -> None:
    api.post(PODS, pod_document("p"), query="fieldManager=m")
    for number in range(15):
        patch = {"metadata": {"annotations": {f"a{number}": "x"}}}
        answer = api.patch(f"{PODS}/p", patch, query=f"fieldManager=m{number:02}")
        api.clock.seconds += 1
    names = [each for (each,) in entries(answer, "manager")]
    assert (len(names), names[0], names[-1]) == (10, "ancient-changes", "m14")
    assert {".metadata.annotations.a0", ".spec.dnsPolicy"} <= set(owned(answer, "ancient-changes"))


def test_entries_survive_a_restart_byte_for_byte(api: Served) -> None:
    """What is written is what is read: a checksum is over the whole."""
    from jettison.apiserver.storage.stored import Stored

    api.post(PODS, pod_document("p"), query="fieldManager=m")
    content = api.get(f"{PODS}/p").content
    body = b"{" + content.partition(b'"apiVersion":"v1",')[2]
    again = Stored.read("pods", ("default", "p"), 1, body)
    assert (again.body, len(again.managed), "managedFields" in again.object["metadata"]) == (body, 1, False)


@pytest.mark.parametrize(
    ("live", "applied", "expected"),
    [
        (["a", "b", "c"], ["c", "a"], ["b", "c", "a"]),
        (["a", "b"], ["x", "a"], ["x", "a", "b"]),
        (["a", "b", "c"], ["b"], ["a", "b", "c"]),
        ([], ["a"], ["a"]),
    ],
)
def test_order_of_merged_lists(live: list[str], applied: list[str], expected: list[str]) -> None:
    def value(names: list[str]) -> Json:
        return {"spec": {"containers": [{"name": name} for name in names]}}

    merged = merge(spot_of("Pod"), value(live), value(applied))
    assert [each["name"] for each in merged["spec"]["containers"]] == expected


def test_atomic_values_are_one_field() -> None:
    place = spot_of("Pod")
    old = {"spec": {"tolerations": [{"key": "a"}], "nodeSelector": {"a": "1"}}}
    new = {"spec": {"tolerations": [{"key": "b"}], "nodeSelector": {"a": "1", "b": "2"}}}
    assert compare(place, old, new).modified == {"f:spec": {"f:tolerations": {}, "f:nodeSelector": {}}}
    assert fields_of(place, old) == {"f:spec": {"f:tolerations": {}, "f:nodeSelector": {}}}
    assert cut(place, new, {"f:spec": {"f:tolerations": {}}}) == {"spec": {"nodeSelector": {"a": "1", "b": "2"}}}


SCALED: Json = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}}
REPLICAS: Json = {"f:spec": {"f:replicas": {}}}


def scaled(replicas: int, **metadata: Any) -> Json:
    return {**SCALED, "metadata": {"name": "d", **metadata}, "spec": {"replicas": replicas}}


def of_scale(api: Served) -> list[Json]:
    listed = api.get(f"{DEPLOYMENTS}/d").body["metadata"].get("managedFields", [])
    return [{**each, "time": each.get("time", "")} for each in listed if each["fieldsV1"] == REPLICAS]


def test_a_scale_that_is_written_takes_the_replicas(api: Served) -> None:
    """The entry has the version of the object, the part that was written, and no time: so it is in Kubernetes."""
    made = api.post(DEPLOYMENTS, deployment(replicas=2), query="fieldManager=maker")
    assert ".spec.replicas" in owned(made, "maker")
    answer = api("PUT", f"{DEPLOYMENTS}/d/scale", scaled(3), query="fieldManager=scaler")
    assert (answer.code, answer.body["spec"], "managedFields" in answer.body["metadata"]) == (
        200, {"replicas": 3}, False,
    )  # fmt: skip
    (mine,) = of_scale(api)
    assert mine == {
        "manager": "scaler", "operation": "Update", "apiVersion": "apps/v1", "time": "", "fieldsType": "FieldsV1",
        "fieldsV1": REPLICAS, "subresource": "scale",
    }  # fmt: skip
    assert ".spec.replicas" not in owned(api.get(f"{DEPLOYMENTS}/d"), "maker")
    assert api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 4}}, query="fieldManager=other").code == 200
    assert [each["manager"] for each in of_scale(api)] == ["other"]


def test_a_scale_to_zero_is_no_clients(api: Served) -> None:
    """Go leaves a zero out, so the field is removed rather than set; what no client owns is not tracked again."""
    api.post(DEPLOYMENTS, deployment(replicas=2), query="fieldManager=maker")
    for replicas in (0, 3):
        assert api("PUT", f"{DEPLOYMENTS}/d/scale", scaled(replicas), query="fieldManager=scaler").code == 200
        assert of_scale(api) == []
        assert ".spec.replicas" not in owned(api.get(f"{DEPLOYMENTS}/d"), "maker")


def test_a_write_that_leaves_the_number_splits_the_entry(api: Served) -> None:
    """An update's entry is not known again under the version of a scale: it comes back apart, without a time."""
    api.post(DEPLOYMENTS, deployment(replicas=2), query="fieldManager=maker")
    assert api("PUT", f"{DEPLOYMENTS}/d/scale", scaled(2), query="fieldManager=scaler").code == 200
    (apart,) = of_scale(api)
    assert (apart["manager"], apart.get("subresource", ""), apart["time"]) == ("maker", "", "")


def test_a_scale_is_applied(api: Served) -> None:
    api.post(DEPLOYMENTS, deployment(replicas=2), query="fieldManager=maker")
    refused = api.patch(f"{DEPLOYMENTS}/d/scale", scaled(5), APPLY, query="fieldManager=pilot")
    assert refused.code == 409
    assert refused.message == (
        'Apply failed with 1 conflict: conflict with "maker" using autoscaling/v1: .spec.replicas'
    )
    taken = api.patch(f"{DEPLOYMENTS}/d/scale", scaled(5), APPLY, query="fieldManager=pilot&force=true")
    assert (taken.code, taken.body["spec"]) == (200, {"replicas": 5})
    (mine,) = of_scale(api)
    assert (mine["manager"], mine["operation"], mine["apiVersion"], mine["subresource"]) == (
        "pilot", "Apply", "apps/v1", "scale",
    )  # fmt: skip
    # The same again changes nothing, not even the version.
    again = api.patch(f"{DEPLOYMENTS}/d/scale", scaled(5), APPLY, query="fieldManager=pilot")
    assert again.body == taken.body
    conflict = apply(api, deployment(replicas=9), "other")
    assert 'conflict with "pilot" with subresource "scale": .spec.replicas' in conflict.message


@pytest.mark.parametrize(
    ("body", "query", "code", "message"),
    [
        ({**scaled(5), "kind": "Deployment"}, "fieldManager=m", 400, "autoscaling/v1, Kind=Deployment"),
        (scaled(5), "", 422, "fieldManager: Required value: is required for apply patch"),
        (scaled(-1), "fieldManager=m&force=true", 422, "spec.replicas: Invalid value: -1"),
        (
            scaled(5, uid="x"),
            "fieldManager=m&force=true",
            409,
            'on deployments/scale.apps "d": Precondition failed: UID in precondition: x',
        ),
        (scaled(5, resourceVersion="1"), "fieldManager=m&force=true", 409, "the object has been modified"),
        (scaled(5, name="e"), "fieldManager=m&force=true", 400, "does not match the name on the URL"),
    ],
)
def test_a_scale_that_cannot_be_applied(api: Served, body: Json, query: str, code: int, message: str) -> None:
    api.post(DEPLOYMENTS, deployment(replicas=2))
    answer = api.patch(f"{DEPLOYMENTS}/d/scale", body, APPLY, query=query)
    assert (answer.code, message in answer.message) == (code, True), answer.message
    assert api.get(f"{DEPLOYMENTS}/d").body["spec"]["replicas"] == 2


def test_a_scale_of_nothing(api: Served) -> None:
    for kind, query in ((APPLY, "fieldManager=m"), (STRATEGIC, "")):
        answer = api.patch(f"{DEPLOYMENTS}/d/scale", scaled(5), kind, query=query)
        assert (answer.code, answer.message) == (404, 'deployments.apps "d" not found')


def test_a_rehearsed_change_shows_its_owners(api: Served) -> None:
    """A dry run answers as the change would, with the fields that the client would own."""
    api.post(DEPLOYMENTS, deployment(replicas=2), query="fieldManager=maker")
    answer = api.patch(f"{DEPLOYMENTS}/d", {"spec": {"replicas": 3}}, query="fieldManager=other&dryRun=All")
    assert owned(answer, "other") == [".spec.replicas"]
    assert owned(api.get(f"{DEPLOYMENTS}/d"), "other") == []


def test_an_apply_with_another_uid(api: Served) -> None:
    """A uid in an apply is no condition: it is a field that cannot be changed."""
    api.post(DEPLOYMENTS, deployment(replicas=2))
    document = deployment(replicas=2)
    document["metadata"]["uid"] = "another"
    answer = apply(api, document, "m", force=True)
    assert (answer.code, "metadata.uid: Invalid value" in answer.message) == (422, True), answer.content


DAEMONS = "/apis/apps/v1/namespaces/default/daemonsets"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
OLD_EVENTS = "/api/v1/namespaces/default/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def test_an_apply_that_changes_nothing_has_no_time(api: Served) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    assert entries(apply(api, document, "one", path=CONFIG_MAPS), "manager", "time")[0][1]
    both = apply(api, document, "two", path=CONFIG_MAPS)
    assert entries(both, "manager", "time")[0] == ("two", "")
    assert apply(api, document, "two", path=CONFIG_MAPS).body == both.body
    changed = {**document, "data": {"b": "1"}}
    assert all(time for _, time in entries(apply(api, changed, "two", path=CONFIG_MAPS), "manager", "time"))


def test_the_number_of_a_template_is_a_field_of_the_client_that_makes_the_set(api: Served) -> None:
    spec = {key: item for key, item in deployment()["spec"].items() if key != "replicas"}
    made = api.post(DAEMONS, {"metadata": {"name": "d"}, "spec": spec}, query="fieldManager=one")
    annotation = ".metadata.annotations.deprecated.daemonset.template.generation"
    assert annotation in owned(made, "one")
    assert made.body["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}
    put = api("PUT", f"{DAEMONS}/d", {"metadata": {"name": "d"}, "spec": spec}, query="fieldManager=two")
    assert owned(put, "two") == [annotation], "a client that leaves it out says 0"
    assert put.body["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}


def test_what_the_server_fills_in_later_is_no_clients(api: Served) -> None:
    made = api.post(SERVICES, {"metadata": {"name": "s"}, "spec": {"clusterIP": "None"}}, query="fieldManager=one")
    assert made.body["spec"]["clusterIPs"] == ["None"]
    assert ".spec.clusterIP" in owned(made, "one")
    assert not [each for each in owned(made, "one") if each.startswith((".spec.clusterIPs", ".spec.ipFamil"))]
    patched = api.patch(f"{SERVICES}/s", {"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": ""}})
    assert "clusterIPs" not in patched.body["spec"]
    back = api.patch(f"{SERVICES}/s", {"spec": {"type": "ClusterIP", "clusterIP": "None"}})
    assert back.body["spec"]["clusterIPs"] == ["None"]


def test_a_client_owns_what_it_asks_for_and_does_not_get(api: Served) -> None:
    """As upstream: the owners are noted before the kind has its say."""
    made = api.post("/api/v1/namespaces", {"metadata": {"generateName": "n-"}}, query="fieldManager=one")
    assert owned(made, "one") == [".metadata.generateName"], "the label follows from the name, which came later"
    assert made.body["metadata"]["labels"] == {"kubernetes.io/metadata.name": made.body["metadata"]["name"]}
    path = f"/api/v1/namespaces/{made.body['metadata']['name']}"
    patched = api.patch(path, {"spec": {"finalizers": ["a.b/c"]}}, query="fieldManager=two")
    assert patched.body["spec"] == {"finalizers": ["kubernetes"]}
    assert owned(patched, "two") == [".spec.finalizers"]


def test_an_empty_set_of_labels_of_a_template_is_none(api: Served) -> None:
    template = {
        "metadata": {"labels": {}},
        "spec": deployment()["spec"]["template"]["spec"] | {"restartPolicy": "Never"},
    }
    job = {"metadata": {"name": "j"}, "spec": {"template": template}}
    made = api.post("/apis/batch/v1/namespaces/default/jobs", job, query="fieldManager=one")
    assert not [each for each in owned(made, "one") if "template.metadata" in each]


def test_an_event_has_the_fields_of_the_group_that_it_came_by(api: Served) -> None:
    event = {
        "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "R",
        "action": "A", "note": "n", "type": "Normal", "eventTime": "2024-01-01T00:00:00.000000Z",
        "reportingController": "a/b", "reportingInstance": "i",
    }  # fmt: skip
    made = api.post(NEW_EVENTS, event, query="fieldManager=one")
    assert entries(made, "manager", "apiVersion") == [("one", "events.k8s.io/v1")]
    assert ".note" in owned(made, "one")
    for path in (f"{NEW_EVENTS}/e", f"{OLD_EVENTS}/e"):
        assert owned(api.get(path), "one") == owned(made, "one")
    assert api.get(NEW_EVENTS).body["items"][0]["metadata"] == made.body["metadata"]
    other = api.patch(f"{OLD_EVENTS}/e", {"message": "m"}, query="fieldManager=two")
    assert entries(other, "manager", "apiVersion") == [("two", "v1")], "entries of another group cannot be read"


def test_of_two_entries_of_one_client_the_last_one_counts(api: Served) -> None:
    """A write of a scale leaves two, and the one with the replicas comes first."""
    api.post(DEPLOYMENTS, deployment(), query="fieldManager=one")
    api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 1}}, query="fieldManager=two")
    assert entries(api.get(f"{DEPLOYMENTS}/d"), "manager") == [("one",), ("one",)]
    left = api.patch(f"{DEPLOYMENTS}/d", {"metadata": {"labels": {"a": "b"}}}, query="fieldManager=three")
    assert entries(left, "manager") == [("one",), ("three",)]
    assert ".spec.replicas" not in owned(left, "one")
