"""More answers that random requests to Kubernetes v1.36.4 had shown to be different here: one line per mended rule."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.served import APPLY, PODS, STRATEGIC, Answer, Served, pod_document

Json = dict[str, Any]

APPS = "/apis/apps/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SERVICES = "/api/v1/namespaces/default/services"
SECRETS = "/api/v1/namespaces/default/secrets"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TEMPLATE: Json = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
JOB: Json = {"metadata": {"name": "j"}, "spec": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}}
HEADLESS: Json = {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}
EVENT: Json = {
    "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
    "eventTime": "2024-01-01T00:00:00.000000Z",
    "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    "reason": "R", "action": "A", "note": "m", "type": "Normal",
    "reportingController": "c.d/e", "reportingInstance": "i",
}  # fmt: skip


def causes(answer: Answer) -> list[str]:
    return [f"{each['field']}: {each['message']}" for each in answer.body["details"]["causes"]]


def fields(answer: Answer) -> list[str]:
    return [each["field"] for each in answer.body["details"]["causes"]]


def test_a_change_shows_lists_and_maps_that_are_there_and_empty(api: Served) -> None:
    api.pod("p")
    patch = {
        "spec": {"volumes": [], "resources": {"requests": {}}, "hostAliases": [{"ip": "1.2.3.4", "hostnames": []}]}
    }
    shown = causes(api.patch(f"{PODS}/p", patch))[0]
    for line in ('+ "Volumes": [],', '+   "Hostnames": []', '+  "Limits": null,', '+  "Requests": {},'):
        assert line in shown.split("\n")
    # By themselves they are no change.
    assert api.patch(f"{PODS}/p", {"spec": {"volumes": []}, "metadata": {"labels": {}}}).code == 200


def test_what_is_empty_is_set_all_the_same_for_debugging(api: Served) -> None:
    api.pod("p")
    container = {"name": "x", "image": "i", "ports": [], "restartPolicyRules": [], "resources": {"limits": {}}}
    answer = api.patch(f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": [container]}}, STRATEGIC)
    assert fields(answer) == [
        f"spec.ephemeralContainers[0].{each}" for each in ("ports", "resources", "restartPolicyRules")
    ]
    plain = {"name": "x", "image": "i", "command": []}
    made = api.patch(f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": [plain]}}, STRATEGIC)
    assert "command" not in made.body["spec"]["ephemeralContainers"][0]


def test_claims_of_a_whole_pod_are_refused_even_if_there_are_none(api: Served) -> None:
    answer = api.post(PODS, pod_document("p", resources={"claims": [], "limits": {"cpu": "1"}}))
    assert causes(answer) == ["spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level"]


@pytest.mark.parametrize(
    ("name", "why"), [("%2E", "may not be '.'"), ("%2E%2E", "may not be '..'"), ("a%25b", "may not contain '%'")]
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_names_that_no_object_can_have(api: Served, method: str, name: str, why: str) -> None:
    plain = name.replace("%2E", ".").replace("%25", "%")
    answer = api(method, f"{PODS}/{plain}")
    assert (answer.code, answer.message) == (400, f'Name parameter invalid: "{plain}": {why}')


def test_slashes_at_the_end_mean_nothing(api: Served) -> None:
    api.pod("p")
    assert api.get(f"{PODS}///").body["kind"] == "PodList"
    assert api.get(f"{PODS}/p//").body["kind"] == "Pod"
    assert api.get("/api/v1//").body["kind"] == "APIResourceList"
    assert api.get("/api/v1/namespaces/default//pods").code == 404


def test_unknown_paths_are_refused_in_the_form_that_was_asked_for(api: Served) -> None:
    answer = api.get("/api/v1/namespaces/default/configmaps/x/status", accept="application/yaml")
    assert answer.headers["content-type"] == "application/yaml"
    assert b"code: 404" in answer.content


def test_whether_a_body_can_be_read_comes_before_the_options_of_a_post(api: Served) -> None:
    assert api.post(PODS, b"x", content_type="text/plain", query="dryRun=x").code == 415
    assert api("PUT", f"{PODS}/p", b"x", content_type="text/plain", query="dryRun=x").code == 422


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("--", "'-' in numeric literal"),
        ("nope", "'o' in literal null (expecting 'u')"),
        ("[tru]", "']' in literal true (expecting 'e')"),
        ("x", "'x' looking for beginning of value"),
    ],
)
def test_values_that_begin_well(api: Served, text: str, why: str) -> None:
    assert f"json parse error: invalid character {why} (" in api.post(PODS, text.encode()).message
    assert "unexpected end of JSON input" in api.post(PODS, b"nul").message


def test_what_is_said_twice_is_merged(api: Served) -> None:
    body = (
        b'{"metadata": {"name": "p", "labels": {"a": "1", "b": "2"}}, "metadata": {"labels": {"b": "3"}},'
        b' "spec": {"containers": [{"name": "c"}], "containers": [{"image": "i"}]}}'
    )
    made = api.post(PODS, body)
    assert (made.code, made.body["metadata"]["labels"]) == (201, {"a": "1", "b": "3"})
    assert made.headers["warning"].count("duplicate field") == 2
    assert api.post(PODS, body, query="fieldValidation=Strict").code == 400


def test_a_text_that_is_no_time_counts_before_one_that_is_no_base64(api: Served) -> None:
    body = {"data": {"a": "!"}, "metadata": {"name": "s", "deletionTimestamp": "x"}}
    assert 'parsing time "x"' in api.post(SECRETS, body).message
    assert api.post(SECRETS, {"data": {"a": "!"}}).message.endswith("illegal base64 data at input byte 0")
    made = api.post(SECRETS, {"metadata": {"name": "s"}, "data": {"a": None}})
    assert (made.code, made.body["data"]) == (201, {"a": ""})


def test_the_labels_of_a_job_come_when_it_is_read_back(api: Served) -> None:
    bad = api.post(JOBS, {**JOB, "metadata": {"name": "-a"}})
    assert fields(bad) == ["metadata.name", "spec.template.labels", "spec.template.labels"]
    for query in ("dryRun=All", ""):
        assert api.post(JOBS, JOB, query=query).body["metadata"]["labels"]["job-name"] == "j"


def test_a_changed_job_is_looked_at_twice(api: Served) -> None:
    made = api.post(JOBS, JOB).body
    made["metadata"]["labels"] = {"A B": "1"}
    made["spec"]["maxFailedIndexes"] = 0
    found = fields(api("PUT", f"{JOBS}/j", made))
    rest = ["spec.backoffLimitPerIndex", "spec.maxFailedIndexes"]
    assert found == [*["metadata.labels"] * 3, *rest, "metadata.labels", *rest]


def test_failed_indexes_that_are_empty_are_there(api: Served) -> None:
    api.post(JOBS, JOB)
    answer = api.patch(f"{JOBS}/j/status", {"status": {"failedIndexes": ""}})
    why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
    assert causes(answer) == [f'status.failedIndexes: Invalid value: "": {why}']


def test_a_changed_secret_has_its_type_before_its_labels(api: Served) -> None:
    made = api.post(SECRETS, {"metadata": {"name": "s"}, "type": "a"}).body
    changed = {**made, "type": "b", "metadata": {**made["metadata"], "labels": {"A B": "1"}}}
    assert fields(api("PUT", f"{SECRETS}/s", changed)) == [*["metadata.labels"] * 3, "type", "metadata.labels"]


def test_the_status_of_a_stateful_set_comes_before_its_labels(api: Served) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, "serviceName": "s"}
    made = api.post(f"{APPS}/statefulsets", {"metadata": {"name": "s"}, "spec": spec}).body
    made["metadata"]["labels"] = {"a": "-a"}
    made["status"] = {"replicas": 3, "availableReplicas": 2}
    found = fields(api("PUT", f"{APPS}/statefulsets/s/status", made))
    assert found == ["metadata.labels", "metadata.labels", "status.availableReplicas", "metadata.labels"]


def test_a_list_that_is_always_written_is_null_without_elements(api: Served) -> None:
    made = api.post(JOBS, {**JOB, "spec": {**JOB["spec"], "podFailurePolicy": {"rules": []}}})
    assert made.body["spec"]["podFailurePolicy"] == {"rules": None}


def test_bytes_may_be_numbers(api: Served) -> None:
    texts = "/api/v1/namespaces/default/configmaps"
    made = api.post(texts, {"metadata": {"name": "c"}, "binaryData": {"a": [97, None], "b": []}}).body
    assert made["binaryData"] == {"a": "YQA=", "b": ""}
    answer = api.post(texts, {"metadata": {"name": "d"}, "binaryData": {"a": ["x"]}})
    assert answer.message.endswith("cannot unmarshal string into Go struct field ConfigMap.binaryData of type uint8")
    answer = api.post(texts, {"metadata": {"name": "d"}, "binaryData": {"a": [300]}})
    assert "cannot unmarshal number 300 into" in answer.message


def test_a_claim_has_its_kind_inlined(api: Served) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, "volumeClaimTemplates": [{"kind": []}]}
    answer = api.post(f"{APPS}/statefulsets", {"metadata": {"name": "s"}, "spec": spec})
    where = "PersistentVolumeClaim.spec.volumeClaimTemplates.TypeMeta.kind of type string"
    assert answer.message.endswith(f"cannot unmarshal array into Go struct field {where}")


def test_a_signal_to_stop_by_is_not_kept(api: Served) -> None:
    signal = {"name": "c", "image": "i", "lifecycle": {"stopSignal": "X"}}
    made = api.post(PODS, pod_document("p", containers=[signal])).body
    assert "lifecycle" not in made["spec"]["containers"][0]
    signal["lifecycle"] = {"stopSignal": "SIGTERM", "preStop": {"sleep": {"seconds": 1}}}
    made = api.post(PODS, pod_document("q", containers=[signal])).body
    assert made["spec"]["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": 1}}}


def test_labels_of_files_change_in_one_way(api: Served) -> None:
    answer = api.post(PODS, pod_document("p", securityContext={"seLinuxChangePolicy": "MountOption"}))
    assert causes(answer) == [
        'spec.securityContext.seLinuxChangePolicy: Unsupported value: "MountOption": supported values: "Recursive"'
    ]


def test_a_service_keeps_what_a_change_leaves_out(api: Served) -> None:
    api.post(SERVICES, {"metadata": {"name": "s"}, "spec": HEADLESS})
    kept = api.patch(f"{SERVICES}/s", {"spec": {"$retainKeys": ["ports"]}}, STRATEGIC).body["spec"]
    assert (kept["clusterIP"], kept["clusterIPs"]) == ("None", ["None"])
    answer = api.patch(f"{SERVICES}/s", {"spec": {"clusterIP": "10.0.0.77"}})
    assert causes(answer) == ['spec.clusterIPs[0]: Invalid value: ["10.0.0.77"]: may not change once set']


def test_a_service_loses_what_belonged_to_its_type(api: Served) -> None:
    port = {"port": 80, "nodePort": 30080}
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": "a/b", "ports": [port]}
    api.post(SERVICES, {"metadata": {"name": "s"}, "spec": spec})
    changed = api.patch(f"{SERVICES}/s", {"spec": {"type": "ClusterIP"}}).body["spec"]
    assert {"externalTrafficPolicy", "loadBalancerClass", "allocateLoadBalancerNodePorts"}.isdisjoint(changed)
    assert "nodePort" not in changed["ports"][0]
    named = api.patch(f"{SERVICES}/s", {"spec": {"type": "ExternalName", "externalName": "a.b"}}).body["spec"]
    assert named["type"] == "ExternalName"
    assert "internalTrafficPolicy" not in named


def test_addresses_of_a_service_are_looked_at_before_the_rest(api: Served) -> None:
    spec = {"type": "Bad", "clusterIP": "10.0.0.7", "clusterIPs": ["a"], "ports": []}
    answer = api.post(SERVICES, {"metadata": {"name": "s"}, "spec": spec})
    assert fields(answer) == ["spec.clusterIPs", "spec.clusterIPs[0]"]
    answer = api.post(
        SERVICES, {"metadata": {"name": "s"}, "spec": {"ipFamilyPolicy": "RequireDualStack", "ports": []}}
    )
    assert causes(answer) == [
        'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services'
    ]


def test_the_class_of_a_load_balancer_is_told_twice_of_a_change(api: Served) -> None:
    api.post(SERVICES, {"metadata": {"name": "s"}, "spec": HEADLESS})
    patch = {"spec": {"loadBalancerClass": "", "allocateLoadBalancerNodePorts": True}}
    assert fields(api.patch(f"{SERVICES}/s", patch)) == [
        "spec.loadBalancerClass", "spec.allocateLoadBalancerNodePorts", "spec.loadBalancerClass",
    ]  # fmt: skip


def test_new_events_are_applied(api: Served) -> None:
    api.post(EVENTS, EVENT)
    query = "fieldManager=m&force=true"
    assert api.patch(f"{EVENTS}/e", EVENT, APPLY, query=query).body["note"] == "m"
    late = {**EVENT, "deprecatedLastTimestamp": "2024-01-01T00:00:00Z"}
    answer = api.patch(f"{EVENTS}/e", late, APPLY, query=query)
    assert (answer.code, fields(answer)) == (422, ["lastTimestamp"])


def test_new_events_have_their_metadata_between_other_things(api: Served) -> None:
    made = {**EVENT, "metadata": {"name": "e", "labels": {"A B": "1"}}, "note": "x" * 1025, "type": "X"}
    assert fields(api.post(EVENTS, made)) == ["message", "metadata.labels", "type"]


def test_a_version_of_a_new_event_is_one_of_an_old_event(api: Served) -> None:
    api.post(EVENTS, EVENT)
    answer = api.delete(f"{EVENTS}/e", {"preconditions": {"resourceVersion": "1"}})
    assert answer.message.startswith('Operation cannot be fulfilled on Event "e": the ResourceVersion')
    assert answer.body["details"] == {"name": "e", "kind": "Event"}


def test_a_port_without_a_number_is_told_by_its_name(api: Served) -> None:
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    api.post(slices, {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [], "ports": [{}]})
    assert api.get(slices, accept=TABLE).body["rows"][0]["cells"][2] == "<unset>"


def test_what_a_strategic_patch_is_refused_with(api: Served) -> None:
    api.pod("p")
    limits = {"containers": [{"name": "d", "image": "i", "resources": {"limits": True}}]}
    refused = causes(api.patch(f"{PODS}/p", {"spec": limits, "$patch": "replace"}, STRATEGIC))[0]
    assert refused.startswith('patch: Invalid value: "map[spec:map[containers:[map[')
    assert refused.endswith("cannot restore map from bool")
    ordered = {"$setElementOrder/containers": [{"name": "d"}], **limits, "hostname": "h"}
    refused = causes(api.patch(f"{PODS}/p", {"spec": ordered}, STRATEGIC))[0]
    assert refused.startswith('patch: Invalid value: "map[spec:map[hostname:h]]": ')


def test_what_may_be_a_number_or_a_text_is_looked_at_late_in_an_apply(api: Served) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    spec["strategy"] = {"rollingUpdate": {"maxUnavailable": {}}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    answer = api.patch(f"{APPS}/deployments/d", body, APPLY, query="fieldManager=m")
    assert answer.message.endswith("json: cannot unmarshal object into Go value of type int32")
    spec["template"] = {"spec": {"containers": [{"name": {"a": 1}}]}}
    answer = api.patch(f"{APPS}/deployments/d", body, APPLY, query="fieldManager=m")
    assert ".spec.template.spec.containers[name=a=1].name: expected string" in answer.message


def test_a_version_that_is_not_there_yet_is_waited_for_where_a_cache_answers(api: Served) -> None:
    api.store.patience_seconds = 0.1
    name = "fieldSelector=metadata.name%3Dp&"
    waited = ("", "limit=1&", "resourceVersionMatch=Exact&", name, f"limit=1&resourceVersionMatch=NotOlderThan&{name}")
    at_once = (f"limit=1&{name}", f"resourceVersionMatch=Exact&{name}")
    for query, seconds in (*((each, 1) for each in waited), *((each, None) for each in at_once)):
        answer = api.get(PODS, query=f"{query}resourceVersion=99999999999")
        assert (answer.code, answer.body["details"].get("retryAfterSeconds")) == (504, seconds)
    for path in ("events", "events/e"):
        answer = api.get(f"/api/v1/namespaces/default/{path}", query="resourceVersion=99999999999")
        assert (answer.code, "retryAfterSeconds" in answer.body["details"]) == (504, False)


def test_a_table_of_nodes_tells_their_architecture(api: Served) -> None:
    api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    api.patch("/api/v1/nodes/n/status", {"status": {"nodeInfo": {"architecture": "arm64"}}})
    (row,) = api.get("/api/v1/nodes", accept=TABLE).body["rows"]
    assert row["cells"][8] == "<unknown> (arm64)"


def test_rules_are_asked_for_a_namespace(api: Served) -> None:
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = api.post(reviews, {"spec": {}})
    assert (answer.code, answer.message) == (400, "no namespace on request")
    assert api.post(reviews, {"spec": {"namespace": "default"}}).body["spec"] == {}


def test_an_empty_list_of_init_containers_is_none(api: Served) -> None:
    api.pod("p")
    refused = causes(api.patch(f"{PODS}/p", {"spec": {"initContainers": [], "hostNetwork": True}}))[0]
    assert "InitContainers" not in refused


@pytest.mark.parametrize("kind", ["deployments", "statefulsets", "daemonsets"])
@pytest.mark.parametrize("status", [{"collisionCount": 1}, {"collisionCount": None}])
def test_collisions_are_not_uncounted(api: Served, kind: str, status: Json) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    api.post(f"{APPS}/{kind}", {"metadata": {"name": "w"}, "spec": spec})
    assert api.patch(f"{APPS}/{kind}/w/status", {"status": {"collisionCount": 2}}).code == 200
    shown = status["collisionCount"] or 0
    refused = api.patch(f"{APPS}/{kind}/w/status", {"status": status})
    assert causes(refused) == [f"status.collisionCount: Invalid value: {shown}: cannot be decremented"]


def test_a_binding_without_a_name(api: Served) -> None:
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {}, "target": {"kind": "Node", "name": "n"}}
    answer = api.post("/api/v1/namespaces/default/bindings", binding)
    assert (answer.code, answer.message) == (400, "Name parameter required.")


def test_an_eviction_leaves_a_condition_without_a_time(api: Served) -> None:
    """Where the status of the condition stays the same, its time does, too."""
    api.pod("p", node="n")
    api.patch(f"{PODS}/p/status", {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}})
    assert api.evict("p").code == 201
    (condition,) = api.get(f"{PODS}/p").body["status"]["conditions"]
    assert (condition["reason"], condition["lastTransitionTime"]) == ("EvictionByEvictionAPI", None)


def test_owners_are_shown_in_the_order_of_go(api: Served) -> None:
    owner = {"controller": True, "apiVersion": "v1", "uid": "1", "name": "n", "kind": "Node"}
    made = api.post(PODS, pod_document("p", metadata={"ownerReferences": [owner, {**owner, "uid": "2"}]}))
    shown = '{"apiVersion":"v1","kind":"Node","name":"n","uid":"1","controller":true}'
    assert causes(made)[0].startswith(f"metadata.ownerReferences: Invalid value: [{shown},")


def test_an_empty_overhead_is_one(api: Served) -> None:
    answer = api.post(PODS, pod_document("p", overhead={}))
    why = "Pod Overhead set without corresponding RuntimeClass defined Overhead"
    assert (answer.code, answer.message) == (403, f'pods "p" is forbidden: pod rejected: {why}')


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (
            {"metadata": {"finalizers": [{}]}},
            "element 0: associative list without keys has an element that's a map type",
        ),
        ({"metadata": {"finalizers": [["a"]]}}, "element 0: not supported: associative list with lists as elements"),
        (
            {"metadata": {"finalizers": [None]}},
            "element 0: associative list without keys has an element that's an explicit null",
        ),
        ({"bogus": 1, "metadata": {"finalizers": [1]}}, "field not declared in schema"),
    ],
)
def test_what_cannot_be_applied(api: Served, config: Json, why: str) -> None:
    node = {"apiVersion": "v1", "kind": "Node", **config}
    answer = api.patch("/api/v1/nodes/n", node, APPLY, query="fieldManager=m")
    where = ".bogus" if "bogus" in config else ".metadata.finalizers"
    said = f"failed to create typed patch object (/; /v1, Kind=Node): {where}: {why}"
    assert (answer.code, answer.message) == (500, said)


@pytest.mark.parametrize(
    ("containers", "why"),
    [
        ([1, 2], ".spec.containers: element 0: associative list with keys may not have non-map elements"),
        (
            [{"name": "c"}, {"name": "c"}, 3, 4],
            (
                'errors:\n  .spec.containers: duplicate entries for key [name="c"]\n'
                "  .spec.containers: element 2: associative list with keys may not have non-map elements"
            ),
        ),
    ],
)
def test_elements_after_one_that_cannot_be_named_are_not_looked_at(
    api: Served, containers: list[Any], why: str
) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    answer = api.patch(f"{PODS}/p", pod, APPLY, query="fieldManager=m")
    assert answer.message == f"failed to create typed patch object (/p; /v1, Kind=Pod): {why}"


def test_an_apply_to_a_time_that_is_a_number(api: Served) -> None:
    api.pod("p")
    condition = {"type": "Ready", "lastTransitionTime": 1.5}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"conditions": [condition]}}
    answer = api.patch(f"{PODS}/p/status", pod, APPLY, query="fieldManager=m&force=true")
    assert answer.message.endswith("json: cannot unmarshal number into Go value of type string")


def test_an_apply_to_what_has_no_owners(api: Served) -> None:
    """Its fields get an owner first, in the part that is applied. That fails where elements cannot be told apart."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert "managedFields" not in api.post(accounts, {"metadata": {"name": "a"}, "secrets": [{}]}).body["metadata"]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
    answer = api.patch(f"{accounts}/a", account, APPLY, query="fieldManager=m")
    why = "associative list with keys has an element that omits all key fields"
    to = "failed to convert new object (default/a; /v1, Kind=ServiceAccount) to smd typed: .secrets: element 0: "
    assert answer.message.startswith(f"failed to create manager for existing fields: {to}{why}")
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}}
    api.post("/api/v1/nodes", node)
    api.patch("/api/v1/nodes/n", {"metadata": {"managedFields": []}})
    applied = {"apiVersion": "v1", "kind": "Node", **node, "status": {"capacity": {"cpu": "2"}}}
    refused = api.patch("/api/v1/nodes/n/status", applied, APPLY, query="fieldManager=m")
    assert causes(refused) == [
        '.status.capacity.cpu: conflict with "before-first-apply" with subresource "status" using v1'
    ]


@pytest.mark.parametrize(
    ("field", "code"),
    [("reportingController", 200), ("reportingComponent", 400), ("source", 400), ("regarding.uid", 200)],
)
def test_what_newer_events_are_selected_by(api: Served, field: str, code: int) -> None:
    api.post(EVENTS, EVENT)
    assert api.get(EVENTS, query=f"fieldSelector={field}%3Dx").code == code
    found = api.get(EVENTS, query="fieldSelector=reportingController%3Dc.d/e").body["items"]
    assert [each["metadata"]["name"] for each in found] == ["e"]


def test_an_endpoint_without_a_name(api: Served) -> None:
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    made = api.post(slices, {"metadata": {"name": "s"}, "addressType": "FQDN", "endpoints": [{"addresses": [""]}]})
    assert causes(made) == ["endpoints[0].addresses[0]: Required value"]


def test_a_template_that_cannot_change_is_shown_with_what_is_empty(api: Served) -> None:
    api.post(JOBS, JOB)
    container = {**TEMPLATE["spec"]["containers"][0], "command": [], "image": "j"}
    pod = {"containers": [container], "tolerations": [], "nodeSelector": {}}
    (shown,) = causes(api.patch(f"{JOBS}/j", {"spec": {"template": {"spec": pod}}}))
    for text in ('"Command":[]', '"Args":null', '"Tolerations":[]', '"NodeSelector":{}'):
        assert text in shown


@pytest.mark.parametrize("kind", ["text/plain", "Application/merge-patch+json", ""])
def test_the_type_of_a_patch_is_looked_at_first(api: Served, kind: str) -> None:
    answer = api.patch(f"{PODS}/none", {}, kind, accept="text/html")
    assert (answer.code, answer.message) == (415, "415: Unsupported Media Type")
