"""Answers that random requests to Kubernetes v1.36.4 had shown to be different here: one line per mended rule."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.served import APPLY, BUDGETS, JSON_PATCH, MERGE, PODS, STRATEGIC, Answer, Served, pod_document

Json = dict[str, Any]

APPS = "/apis/apps/v1/namespaces/default"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
SECRETS = "/api/v1/namespaces/default/secrets"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
TEMPLATE: Json = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
DAEMONS: Json = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
EVENT: Json = {
    "metadata": {"name": "e"},
    "eventTime": "2024-01-01T00:00:00.000000Z",
    "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    "reason": "R", "action": "A", "note": "m", "type": "Normal",
    "reportingController": "c.d/e", "reportingInstance": "i",
}  # fmt: skip
SLICE: Json = {
    "metadata": {"name": "s"}, "addressType": "IPv4", "ports": [{"port": 80}],
    "endpoints": [{"addresses": ["1.2.3.4"]}],
}  # fmt: skip


NAMES = "`resourceClaimName`, `resourceClaimTemplateName`"


def shown_claim(name: str, template: str) -> str:
    return f'Invalid value: {{"Name":"a","ResourceClaimName":{name},"ResourceClaimTemplateName":{template}}}'


BOTH_NAMES = shown_claim('"b"', '"c"')


def causes(answer: Answer) -> list[str]:
    return [f"{each['field']}: {each['message']}" for each in answer.body["details"]["causes"]]


@pytest.mark.parametrize(
    ("number", "made"), [(2**31, -(2**31)), (2**32 + 5, 5), (2**63, 0), (3.0, 3), (-(2**31) - 1, 2**31 - 1)]
)
@pytest.mark.parametrize("kind", [STRATEGIC, APPLY])
def test_a_number_that_is_converted_loses_its_high_bits(api: Served, kind: str, number: float, made: int) -> None:
    api.post(f"{APPS}/daemonsets", DAEMONS)
    patch: Json = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}}
    patch |= {"spec": {"minReadySeconds": number}}
    answer = api.patch(f"{APPS}/daemonsets/d", patch, kind, query="fieldManager=m&force=true" if kind == APPLY else "")
    if made < 0:
        assert causes(answer) == [f"spec.minReadySeconds: Invalid value: {made}: must be greater than or equal to 0"]
    else:
        assert answer.body["spec"].get("minReadySeconds", 0) == made, answer.body


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"apiVersion": {}}, 'Invalid value: "map[apiVersion:map[]]": unrecognized type: string'),
        ({"status": {"podIP": 1.5}}, 'Invalid value: "map[status:map[podIP:1.5]]": unrecognized type: string'),
        ({"kind": 5}, 'Invalid value: "map[kind:5]": cannot convert int64 to string'),
        ({"spec": {"priority": 1.5}}, 'Invalid value: "map[spec:map[priority:1.5]]": cannot convert float64 to int32'),
        (
            # Fields are looked at in the order of the struct, and the first mistake counts.
            {"status": {"startTime": "x"}, "metadata": {"generation": "1"}},
            'Invalid value: "map[metadata:map[generation:1] status:map[startTime:x]]": unrecognized type: int64',
        ),
        (
            {"spec": {"priority": 2.0**80, "hostNetwork": "x"}},
            'Invalid value: "map[spec:map[hostNetwork:x priority:1.2089258196146292e+24]]": unrecognized type: bool',
        ),
    ],
)
def test_a_strategic_patch_of_the_wrong_type(api: Served, patch: Json, why: str) -> None:
    api.pod("p")
    assert causes(api.patch(f"{PODS}/p", patch, STRATEGIC)) == [f"patch: {why}"]


def test_only_a_put_names_the_uid_that_it_means(api: Served) -> None:
    api.post(f"{APPS}/daemonsets", DAEMONS)
    patch = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "uid": "x"}}
    answer = api.patch(f"{APPS}/daemonsets/d", patch, APPLY, query="fieldManager=m")
    assert (answer.code, causes(answer)) == (422, ['metadata.uid: Invalid value: "x": field is immutable'] * 2)


@pytest.mark.parametrize(
    ("version", "shown"), [("http://x", "/, Kind="), ("a/b", "a/b, Kind=Pod"), ("v2", "/v2, Kind=Pod")]
)
def test_an_apply_of_another_kind(api: Served, version: str, shown: str) -> None:
    patch = {"apiVersion": version, "kind": "Pod", "metadata": {"name": "p"}}
    assert api.patch(f"{PODS}/p", patch, APPLY, query="fieldManager=m").message == f"invalid object type: {shown}"


def test_an_apply_with_a_null_in_a_list_where_a_text_belongs(api: Served) -> None:
    patch = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "generateName": [None]}}
    answer = api.patch(f"{PODS}/p", patch, APPLY, query="fieldManager=m")
    shown = "&value.valueUnstructured{Value:[]interface {}{interface {}(nil)}}"
    assert answer.message.endswith(f".metadata.generateName: expected string, got {shown}")
    patch = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "deletionTimestamp": ["a"]}}
    answer = api.patch(f"{PODS}/p", patch, APPLY, query="fieldManager=m")
    assert answer.message.endswith(".metadata.deletionTimestamp: expected any scalar, got &{[a]}")


def test_the_first_moment_is_no_moment(api: Served) -> None:
    first = "0001-01-01T00:00:00Z"
    made = api.post("/api/v1/namespaces/default/events", {
        "metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "lastTimestamp": first,
    })  # fmt: skip
    assert made.body["lastTimestamp"] is None
    api.budget(minAvailable=1)
    answer = api.patch(f"{BUDGETS}/pdb/status", {"status": {"disruptedPods": {"p": first}}})
    assert answer.body["status"]["disruptedPods"] == {"p": None}


@pytest.mark.parametrize("text", ["2024-01-01T1:00:00Z", "2024-01-01T01:00:00,5Z", "2024-01-01T02:00:00+01:00"])
def test_times_that_go_takes(api: Served, text: str) -> None:
    api.pod("p")
    answer = api.patch(f"{PODS}/p/status", {"status": {"startTime": text}})
    assert answer.body["status"]["startTime"] == "2024-01-01T01:00:00Z"


def test_yaml_has_no_whole_number_with_a_point(api: Served) -> None:
    body = b"metadata: {name: p}\nspec: {containers: [{name: c, image: i}], terminationGracePeriodSeconds: 5.0}"
    made = api("POST", PODS, body, content_type="application/yaml")
    assert made.body["spec"]["terminationGracePeriodSeconds"] == 5


def test_an_element_of_the_wrong_type_belongs_to_the_struct_around_the_list(api: Served) -> None:
    answer = api.post(PODS, pod_document("p", containers=[{"name": "c", "image": "i", "env": []}, []]))
    where = "Go struct field PodSpec.spec.containers of type v1.Container"
    assert answer.message.endswith(f"json: cannot unmarshal array into {where}")
    answer = api.post(EVENTS, {**EVENT, "note": {}})
    assert answer.message.endswith("json: cannot unmarshal object into Go struct field Event.note of type string")


def test_a_class_that_a_new_pod_names_is_believed(api: Served) -> None:
    made = api.post(PODS, {**pod_document("p"), "status": {"qosClass": "Guaranteed", "phase": "Failed"}})
    assert made.body["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


def test_fields_of_features_that_are_off_are_dropped(api: Served) -> None:
    made = api.post(PODS, pod_document("p", schedulingGroup={"podGroupName": "g"}))
    assert (made.code, "schedulingGroup" in made.body["spec"]) == (201, False)
    status = {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "a"}]}
    assert status.keys().isdisjoint(api.patch(f"{PODS}/p/status", {"status": status}).body["status"])


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ({"name": "", "resourceClaimName": "a"}, ["name: Required value"]),
        ({"name": "a.b", "resourceClaimName": "a"}, ['name: Invalid value: "a.b": must not contain dots']),
        ({"name": "a"}, [f"{shown_claim('null', 'null')}: must specify one of: {NAMES}"]),
        (
            {"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "c"},
            [f"{BOTH_NAMES}: at most one of {NAMES.replace(',', ' or')} may be specified"],
        ),
    ],
)
def test_a_pods_claims(api: Served, claim: Json, expected: list[str]) -> None:
    found = causes(api.post(PODS, pod_document("p", resourceClaims=[claim])))
    place = "spec.resourceClaims[0]"
    assert found == [place + (": " if each.startswith("Invalid") else ".") + each for each in expected]


def test_a_containers_claims(api: Served) -> None:
    claims = [{"name": "a", "request": "R"}, {"name": "a"}, {"name": "a", "request": "s"}]
    container = {"name": "c", "image": "i", "resources": {"claims": claims}}
    pod = pod_document("p", containers=[container], resourceClaims=[{"name": "a", "resourceClaimName": "b"}])
    first, *rest = causes(api.post(PODS, pod))
    where = "spec.containers[0].resources.claims"
    assert first.startswith(f'{where}[0].request: Invalid value: "R": a lowercase RFC 1123 label')
    assert rest == [f'{where}[{index}]: Duplicate value: "a"' for index in (1, 2)]


def test_rules_for_restarts_of_an_init_container_need_its_policy(api: Served) -> None:
    rules = [{"action": "FailIndex", "exitCodes": {"operator": "In", "values": [0]}}]
    answer = api.post(
        PODS, pod_document("p", initContainers=[{"name": "i", "image": "i", "restartPolicyRules": rules}])
    )
    why = "Required value: must specify restartPolicy when restart rules are used"
    assert causes(answer) == [f"spec.initContainers[0].restartPolicy: {why}"]


def test_what_a_complaint_shows_is_in_the_order_of_go(api: Served) -> None:
    api.post(f"{APPS}/daemonsets", DAEMONS)
    patch = [{"op": "add", "path": "/spec/selector", "value": {"matchLabels": {"b": "c", "a": "b"}}}]
    answer = api.patch(f"{APPS}/daemonsets/d", patch, JSON_PATCH)
    assert causes(answer)[0] == 'spec.selector: Invalid value: {"matchLabels":{"a":"b","b":"c"}}: field is immutable'


def test_the_number_of_a_template_is_no_part_of_the_metadata_alone(api: Served) -> None:
    key = "deprecated.daemonset.template.generation"
    assert api.post(f"{APPS}/daemonsets", DAEMONS).body["metadata"]["annotations"] == {key: "1"}
    assert "annotations" not in api.get(f"{APPS}/daemonsets/d", accept=METADATA).body["metadata"]
    (row,) = api.get(f"{APPS}/daemonsets", accept=TABLE).body["rows"]
    assert "annotations" not in row["object"]["metadata"]
    api.patch(f"{APPS}/daemonsets/d", {"metadata": {"annotations": {"a": "b"}}})
    assert api.get(f"{APPS}/daemonsets/d", accept=METADATA).body["metadata"]["annotations"] == {"a": "b"}


def test_a_claim_in_a_stateful_set_says_what_it_is(api: Served) -> None:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "v"}, "spec": wanted}
    spec = {**DAEMONS["spec"], "serviceName": "s", "volumeClaimTemplates": [claim]}
    made = api.post(f"{APPS}/statefulsets", {"metadata": {"name": "s"}, "spec": spec}).body
    answer = api("PUT", f"{APPS}/statefulsets/s", made, query="fieldValidation=Strict")
    assert (answer.code, answer.body["spec"]["volumeClaimTemplates"][0]["kind"]) == (200, "PersistentVolumeClaim")


def test_an_event_is_refused_as_one_of_the_core_group(api: Served) -> None:
    assert api.post(EVENTS, {**EVENT, "type": "x"}).message == (
        'Event "e" is invalid: type: Invalid value: "": has invalid value: x'
    )
    api.post(EVENTS, EVENT)
    assert causes(api.patch(f"{EVENTS}/e", {"note": None})) == ['message: Invalid value: "": field is immutable']
    shown = '{"Kind":"","Namespace":"","Name":"x","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}'
    assert causes(api.patch(f"{EVENTS}/e", {"related": {"name": "x"}})) == [
        f"related: Invalid value: {shown}: field is immutable"
    ]
    assert api.delete(f"{EVENTS}/e", query="propagationPolicy=Foreground").body["status"] == "Success"


def test_an_event_of_the_core_group_has_no_empty_fields_in_the_other(api: Served) -> None:
    api.post(
        "/api/v1/namespaces/default/events", {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
    )
    assert {"reportingController", "reportingInstance"}.isdisjoint(api.get(f"{EVENTS}/e").body)


def test_endpoint_slices(api: Served) -> None:
    assert api("PUT", f"{SLICES}/s", SLICE).code == 404
    assert causes(api.post(SLICES, {**SLICE, "addressType": "x"})) == [
        'addressType: Unsupported value: "x": supported values: "FQDN", "IPv4", "IPv6"'
    ]
    (protocol,) = causes(api.post(SLICES, {**SLICE, "ports": [{"port": 1, "appProtocol": "*"}]}))
    assert protocol.startswith('ports[0].appProtocol: Invalid value: "*": name part must consist of')
    api.post(SLICES, SLICE)
    assert api.patch(f"{SLICES}/s", {"metadata": {"annotations": {"a": "b"}}}).body["metadata"]["generation"] == 1
    assert api.patch(f"{SLICES}/s", {"metadata": {"labels": {"a": "b"}}}).body["metadata"]["generation"] == 2
    assert api.patch(f"{SLICES}/s", {"ports": [{"port": 81}]}).body["metadata"]["generation"] == 3
    assert causes(api.patch(f"{SLICES}/s", {"addressType": "IPv6"})) == [
        'addressType: Invalid value: "IPv6": field is immutable'
    ]


@pytest.mark.parametrize(
    ("hints", "mistakes"),
    [
        ({"forZones": [{"name": "a"}, {"name": "a"}]}, ['forZones[1].name: Duplicate value: "a"']),
        ({"forNodes": [{"name": "a"}, {"name": "a"}]}, ['forNodes[1].name: Duplicate value: "a"']),
        ({"forZones": [{"name": f"z{n}"} for n in range(9)]}, ["forZones: Too many: 9: must have at most 8 items"]),
    ],
)
def test_hints_of_an_endpoint(api: Served, hints: Json, mistakes: list[str]) -> None:
    value = {**SLICE, "endpoints": [{"addresses": ["10.0.0.1"], "hints": hints}]}
    assert causes(api.post(SLICES, value)) == [f"endpoints[0].hints.{each}" for each in mistakes]
    named = {**SLICE, "endpoints": [{"addresses": ["10.0.0.1"], "hints": {"forNodes": [{"name": "A"}]}}]}
    (why,) = causes(api.post(SLICES, named))
    assert why.startswith('endpoints[0].hints.forNodes[0].name: Invalid value: "A": a lowercase RFC 1123')


def test_nodes(api: Served) -> None:
    networks = {"metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.0.0.0/24", "x"]}}
    where = "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[1]: <nil>"
    assert causes(api.post(NODES, networks))[1] == (f"spec.podCIDRs: Internal error: {where} (invalid CIDR address: x)")
    old = {"metadata": {"name": "n"}, "spec": {"externalID": "x", "configSource": {"configMap": {"name": "a"}}}}
    made = api.post(NODES, {**old, "status": {"capacity": {"memory": "1n"}, "config": {}}})
    text = "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    assert (made.headers["warning"], "configSource" in made.body["spec"]) == (f'299 - "{text}"', False)
    assert (made.body["status"]["capacity"], "config" in made.body["status"]) == ({"memory": "1m"}, False)
    found = causes(api.patch(f"{NODES}/n/status", {"status": {"declaredFeatures": ["B", "A", "A", "a"]}}))
    assert found[:2] == [
        'status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically',
        'status.declaredFeatures[2]: Duplicate value: "A"',
    ]
    assert found[2].startswith('status.declaredFeatures[3]: Invalid value: "a": invalid feature name "a": must start')


def test_the_finalizers_of_a_namespace(api: Served) -> None:
    why = "name is neither a standard finalizer name nor is it fully qualified"
    answer = api.post(NAMESPACES, {"metadata": {"name": "n"}, "spec": {"finalizers": ["x"]}})
    assert causes(answer) == [f'spec.finalizers: Invalid value: "x": {why}']
    made = api.post(NAMESPACES, {"metadata": {"name": "n"}}).body
    body = {**made, "spec": {"finalizers": ["x"]}}
    assert causes(api("PUT", f"{NAMESPACES}/n/finalize", body)) == [f'spec.finalizers[0]: Invalid value: "x": {why}']
    body = {**made, "metadata": {**made["metadata"], "generateName": "a.b"}}
    assert api("PUT", f"{NAMESPACES}/n/finalize", body).code == 200


def test_the_whole_of_a_namespace_is_looked_at_before_its_change(api: Served) -> None:
    made = api.post(NAMESPACES, {"metadata": {"name": "n"}}).body
    body = {**made, "metadata": {**made["metadata"], "generateName": "a.b", "labels": {"-": ""}}}
    found = [each.split(":")[0] for each in causes(api("PUT", f"{NAMESPACES}/n", body))]
    common = ["metadata.labels", "metadata.labels"]
    assert found == [*common, "metadata.generateName", "metadata.labels", "metadata.labels"]


def test_a_certificate_that_is_none(api: Served) -> None:
    body: Json = {"metadata": {"name": "s"}, "type": "kubernetes.io/tls"}
    made = api.post(SECRETS, {**body, "stringData": {"tls.crt": "u", "tls.key": "x"}})
    assert made.headers["warning"] == '299 - "tls: failed to find any PEM data in certificate input"'


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("continue=e30", "continue key is not valid: server does not recognize this encoded version "),
        ("continue=x&resourceVersion=y", "continue key is not valid: illegal base64 data at input byte 0"),
    ],
)
def test_a_token_is_looked_at_first(api: Served, query: str, message: str) -> None:
    assert api.get(PODS, query=query).message == f"invalid continue token: {message}"


def changed(api: Served, patch: Any, kind: str = STRATEGIC, query: str = "") -> tuple[int, str]:
    metadata = {"name": "q", "labels": {"a": "b"}, "finalizers": ["a/b"]}
    api.post(PODS, {"metadata": metadata, "spec": TEMPLATE["spec"]})
    answer = api.patch(f"{PODS}/q", patch, kind, query=query)
    return answer.code, answer.body.get("message", "")


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        # A null where there is nothing to remove is not shown.
        (
            {"spec": {"hostname": {"a": None}}},
            422,
            ' "" is invalid: patch: Invalid value: "map[spec:map[hostname:map[]]]": unrecognized type: string',
        ),
        (
            {"metadata": {"finalizers": 2**63}},
            422,
            (
                ' "" is invalid: patch: Invalid value: "map[metadata:map[finalizers:9.223372036854776e+18]]": '
                "cannot restore slice from float64"
            ),
        ),
        (
            {"metadata": {"$setElementOrder/containers": ["a"]}},
            500,
            'unable to find api field in struct ObjectMeta for the json field "containers"',
        ),
        ({"spec": {"$setElementOrder/containers": "a"}}, 500, "expected a []interface {}, but received a string"),
        (
            {"metadata": {"labels": {"$setElementOrder/x": ["a"]}}},
            500,
            "merging an object in json but data type is not struct, instead is: map",
        ),
        ({"$deleteFromPrimitiveList/finalizers": [{"a": "b"}]}, 200, ""),
        (
            {"metadata": {"$deleteFromPrimitiveList/finalizers": [{}]}},
            500,
            "list element types are not identical: [[a/b] [map[]]]",
        ),
    ],
)
def test_strategic_patches(api: Served, patch: Json, code: int, message: str) -> None:
    assert changed(api, patch) == (code, message)


def test_a_patch_is_shown_with_the_escapes_of_its_client(api: Served) -> None:
    code, message = changed(api, b'{"spec":{"hostname":{"a":"\\u00e9\xc3\xa9<"}}}', MERGE)
    assert (code, r"\"hostname\":{\"a\":\"\\u00e9é\\u003c\"}" in message) == (422, True), message


def test_a_patch_may_look_at_the_owners_of_fields(api: Served) -> None:
    look = [{"op": "test", "path": "/metadata/managedFields/0/operation", "value": "Update"}]
    assert changed(api, look, JSON_PATCH)[0] == 200


def test_a_merge_patch_that_is_not_looked_at_beforehand(api: Served) -> None:
    assert changed(api, b'{"spec":', MERGE, "fieldValidation=Ignore") == (400, "Invalid JSON Patch")


@pytest.mark.parametrize("path", [PODS, f"{PODS}/q", NODES])
@pytest.mark.parametrize("token", ["admin", ""])
def test_a_timeout_that_is_none_is_refused_before_anything_else(api: Served, path: str, token: str) -> None:
    answer = api.get(path, query="timeout=bad", token=token)
    why = 'time: invalid duration "bad"'
    assert (answer.code, answer.message) == (400, f"invalid timeout specified in the request URL - {why}")


def test_a_watch_has_no_timeout_of_that_name(api: Served) -> None:
    assert api.get(PODS, query="watch=1&timeoutSeconds=1&resourceVersion=0&timeout=bad").code == 200


def applied(api: Served, path: str, value: Json) -> tuple[int, str]:
    answer = api.patch(path, {"apiVersion": "v1", **value}, APPLY, query="fieldManager=m")
    return answer.code, answer.message


def test_the_order_in_which_an_apply_is_looked_at(api: Served) -> None:
    twice = {"kind": "Pod", "metadata": {"managedFields": [{}], "finalizers": ["a/b", "a/b"]}}
    assert applied(api, f"{PODS}/p", twice) == (400, "metadata.managedFields must be nil")
    account = {"kind": "ServiceAccount", "secrets": [{"kind": "x"}]}
    keys = 'omits all key fields ["name"] (and doesn\'t have default values for any key fields)'
    assert applied(api, "/api/v1/namespaces/default/serviceaccounts/s", account) == (
        500,
        (
            "failed to create typed patch object (/; /v1, Kind=ServiceAccount): "
            f".secrets: element 0: associative list with keys has an element that {keys}"
        ),
    )
    code, message = applied(api, f"{PODS}/p", {"kind": "Pod", "metadata": {"uid": "u"}})
    assert (code, message.partition(": ")[2]) == (
        409,
        "uid mismatch: the provided object specified uid u, and no existing object was found",
    )


def test_the_generation_of_kinds_that_do_not_count_it_is_the_clients(api: Served) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    assert api.post(maps, {"metadata": {"name": "c", "generation": 7}}).body["metadata"]["generation"] == 7
    assert causes(api.post(maps, {"metadata": {"name": "d", "generation": -1}})) == [
        "metadata.generation: Invalid value: -1: must be greater than or equal to 0"
    ]


def test_an_object_that_a_put_makes_keeps_what_is_said_of_its_deletion(api: Served) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    metadata = {"name": "l", "deletionGracePeriodSeconds": 5}
    assert api("PUT", f"{leases}/l", {"metadata": metadata}).body["metadata"]["deletionGracePeriodSeconds"] == 5
    made = api.post(leases, {"metadata": {**metadata, "name": "m"}}).body
    assert "deletionGracePeriodSeconds" not in made["metadata"]


def test_a_watch_of_endpoints_is_warned_of(api: Served) -> None:
    path = "/api/v1/namespaces/default/endpoints"
    watched = api.get(path, query="watch=1&timeoutSeconds=1")
    assert watched.headers["warning"].startswith('299 - "v1 Endpoints is deprecated in v1.33+')
    assert "warning" not in api.patch(f"{path}/x", {}, "text/plain").headers


def test_a_watch_of_metadata_as_a_list_ends_where_the_first_object_is_due(api: Served) -> None:
    api.pod("p")
    accept = METADATA.replace("PartialObjectMetadata", "PartialObjectMetadataList")
    answer = api.get(PODS, query="watch=1&timeoutSeconds=30", accept=accept)
    assert (answer.code, answer.content) == (200, b"")


def test_jobs_of_which_nothing_has_succeeded(api: Served) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    api.post(path, {"metadata": {"name": "j"}, "spec": {"template": template}})
    labels = api.patch(f"{path}/j", {"metadata": {"labels": None}}).body["metadata"]["labels"]
    assert labels["job-name"] == "j"  # those of its template
    found = {text: api.get(path, query=f"fieldSelector=status.successful{text}").body["items"] for text in ("=0", "=1")}
    assert [len(items) for items in found.values()] == [1, 0]


def test_services(api: Served) -> None:
    path, only = "/api/v1/namespaces/default/services", "may only be used when `type` is 'LoadBalancer'"
    spec = {
        "clusterIP": "None", "ports": [{"port": 80}], "loadBalancerSourceRanges": ["x"], "loadBalancerClass": "a",
        "externalTrafficPolicy": "Local", "healthCheckNodePort": 5, "allocateLoadBalancerNodePorts": True,
    }  # fmt: skip
    ranges = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    assert causes(api.post(path, {"metadata": {"name": "s"}, "spec": spec})) == [
        f"spec.LoadBalancerSourceRanges: Forbidden: {only}",
        f'spec.LoadBalancerSourceRanges[0]: Invalid value: "x": {ranges}',
        f"spec.allocateLoadBalancerNodePorts: Forbidden: {only}",
        f"spec.loadBalancerClass: Forbidden: {only}",
        'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services',
        (
            "spec.healthCheckNodePort: Invalid value: 5: may only be set when `type` is 'LoadBalancer' and "
            "`externalTrafficPolicy` is 'Local'"
        ),
    ]
    api.post(path, {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}})
    status = {"status": {"loadBalancer": {"ingress": [{"hostname": "h"}]}}}
    assert causes(api.patch(f"{path}/s/status", status)) == [
        "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
    ]


def test_workloads(api: Served) -> None:
    debugged = {"spec": {**TEMPLATE["spec"], "ephemeralContainers": [{"name": "e", "image": "i"}]}}
    spec: Json = {"selector": {"matchLabels": {"a": "b"}}, "template": debugged}
    assert causes(api.post(f"{APPS}/replicasets", {"metadata": {"name": "r"}, "spec": spec})) == [
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
        "spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template",
    ]
    bare = {**spec, "template": {**TEMPLATE, "metadata": {"labels": {}}}}
    assert causes(api.post(f"{APPS}/replicasets", {"metadata": {"name": "r"}, "spec": bare})) == [
        "spec.template.metadata.labels: Invalid value: {}: `selector` does not match template `labels`"
    ]
    unlabelled = {**bare, "selector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}
    made = api.post(f"{APPS}/replicasets", {"metadata": {"name": "r"}, "spec": unlabelled}).body
    assert "labels" not in made["spec"]["template"]["metadata"]
    mounted = {"name": "c", "image": "i", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    pod = {"containers": [mounted], "hostname": "A", "subdomain": "B"}
    spec = {**spec, "template": {**TEMPLATE, "spec": pod}, "serviceName": "s"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claimed = {**spec, "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": claim}]}
    assert api.post(f"{APPS}/statefulsets", {"metadata": {"name": "s"}, "spec": claimed}).code == 201
    empty = {**spec, "volumeClaimTemplates": [{"metadata": {"name": "d"}}]}
    where = "spec.volumeClaimTemplates[0].spec"
    assert causes(api.post(f"{APPS}/statefulsets", {"metadata": {"name": "t"}, "spec": empty})) == [
        f"{where}.accessModes: Required value: at least 1 access mode is required",
        f"{where}.resources[storage]: Required value",
    ]
    controllers = "/api/v1/namespaces/default/replicationcontrollers"
    named = {"metadata": {"name": "r", "generateName": "Bad_"}, "spec": {"template": TEMPLATE}}
    assert api.post(controllers, named).code == 201


def test_a_status_keeps_the_number_of_a_template(api: Served) -> None:
    api.post(f"{APPS}/daemonsets", DAEMONS)
    status = {"currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 0}
    written = api("PUT", f"{APPS}/daemonsets/d/status", {**DAEMONS, "status": status}).body
    assert written["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}


def test_more_answers(api: Served) -> None:
    classed = {"metadata": {"name": "p"}, "spec": {**TEMPLATE["spec"], "runtimeClassName": ""}}
    answer = api.post(PODS, classed)
    assert (answer.code, answer.message) == (500, "resource name may not be empty")
    event = api.get("/api/v1/namespaces/default/events/x", query="resourceVersion=bad")
    assert (event.code, event.message.partition(":")[0]) == (400, "invalid resource version")
    # What is wrong with the options is told before the version is waited for.
    listed = api.delete(PODS, {"propagationPolicy": "Bad"}, query="resourceVersion=999999999")
    assert listed.code == 422
    # YAML is read in the order of its keys.
    text = b"spec: {initContainers: 1, containers: 2}\napiVersion: v1\nkind: Pod\n"
    assert "PodSpec.spec.containers of type" in api.post(PODS, text, content_type="application/yaml").message
    api.post(f"{APPS}/deployments", {"metadata": {"name": "d"}, "spec": DAEMONS["spec"]})
    assert api.get(f"{APPS}/deployments/d/scale", accept=TABLE).body["columnDefinitions"][0]["format"] == ""
    made = api.post(NODES, {"metadata": {"name": "n"}}).body
    body = {**made, "metadata": {**made["metadata"], "namespace": "x"}}
    assert "namespace" not in api("PUT", f"{NODES}/n", body).body["metadata"]
    named = api.post(PODS, {"metadata": {"name": "p"}, "spec": {**TEMPLATE["spec"], "restartPolicy": "<"}})
    assert causes(named)[0].startswith(r'spec.restartPolicy: Unsupported value: "\u003c": supported values:')
    operation = api.patch(f"{NODES}/n", [{"op": 1, "path": "/x"}], JSON_PATCH, query="fieldValidation=Ignore")
    assert operation.code == 422
    emptied = api.post(SLICES, {"metadata": {"name": "t"}, "addressType": "IPv4", "endpoints": [], "ports": []}).body
    assert (emptied["endpoints"], emptied["ports"]) == (None, None)
    topology = {"addresses": ["1.2.3.4"], "deprecatedTopology": {"a": "b"}}
    assert api.post(SLICES, {**SLICE, "endpoints": [topology]}).body["endpoints"] == [
        {"addresses": ["1.2.3.4"], "conditions": {}}
    ]


def test_warnings_of_annotations_and_preferences(api: Served) -> None:
    rule = 'non-functional in v1.27+; use the \\"seccompProfile\\" field instead'
    keys = ("seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/c")
    metadata = {"name": "p", "annotations": dict.fromkeys(keys, "runtime/default")}
    told = api.post(PODS, {"metadata": metadata, "spec": TEMPLATE["spec"]}).headers["warning"]
    assert told == ", ".join(f'299 - "metadata.annotations[{key}]: {rule}"' for key in keys)
    term = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    spec = {**TEMPLATE["spec"], "affinity": {"nodeAffinity": preferred}}
    told = api.post(PODS, {"metadata": {"name": "q"}, "spec": spec}).headers["warning"]
    assert "preference.matchExpressions[0].values[0]: b c is invalid, a valid label must be" in told


def test_empty_lists_and_maps_of_a_template_count(api: Served) -> None:
    debugger = {"name": "d", "image": "i", "restartPolicyRules": []}
    pod = {**TEMPLATE["spec"], "resources": {"claims": []}, "ephemeralContainers": [debugger]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {**TEMPLATE, "spec": pod}}
    mistakes = [
        "ephemeralContainers[0].restartPolicyRules: Forbidden: cannot be set for an Ephemeral Container",
        "resources.claims: Forbidden: claims may not be set for Resources at pod-level",
        "ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template",
    ]
    for kind in ("deployments", "replicasets", "daemonsets", "statefulsets"):
        found = causes(api.post(f"{APPS}/{kind}", {"metadata": {"name": "x"}, "spec": spec}))
        assert sorted(found) == sorted(f"spec.template.spec.{each}" for each in mistakes), kind


@pytest.mark.parametrize(
    ("unavailable", "surge", "mistakes"),
    [
        (0, "80", ['maxSurge: Invalid value: "80": a valid percent string']),
        ("x", "-1", ["maxUnavailable: Invalid", 'maxSurge: Invalid value: "-1": a valid percent string']),
        ("+0", "0%", ["maxUnavailable: Invalid", "maxUnavailable: Required value: cannot be 0"]),
        (1, "80", ["maxSurge: Invalid", 'maxSurge: Invalid value: "80": may not be set when']),
    ],
)
def test_a_number_in_quotes_counts_beside_the_complaint_about_it(
    api: Served, unavailable: Any, surge: Any, mistakes: list[str]
) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}
    answer = api.post(f"{APPS}/daemonsets", {**DAEMONS, "spec": {**DAEMONS["spec"], "updateStrategy": strategy}})
    for found, mistake in zip(causes(answer), mistakes, strict=True):
        assert found.startswith(f"spec.updateStrategy.rollingUpdate.{mistake}")


def test_limits_of_a_daemon_set_that_is_not_rolled(api: Served) -> None:
    strategy = {"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}
    made = api.post(f"{APPS}/daemonsets", {**DAEMONS, "spec": {**DAEMONS["spec"], "updateStrategy": strategy}}).body
    assert made["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}


def test_each_further_controller_is_told_with_the_first(api: Served) -> None:
    owners = [{"apiVersion": "v1", "kind": each, "name": "n", "uid": each, "controller": True} for each in "ABC"]
    found = causes(api.post(PODS, pod_document("p", metadata={"ownerReferences": owners})))
    assert [each.rpartition("references for ")[2] for each in found] == ["A/n and B/n", "A/n and C/n"]


def test_devices_without_a_name_are_not_told_twice(api: Served) -> None:
    devices = [{"name": "", "devicePath": "/a"}, {"name": "", "devicePath": "/b"}]
    container = {"name": "c", "image": "i", "volumeDevices": devices}
    found = causes(api.post(PODS, pod_document("p", containers=[container])))
    where = "spec.containers[0].volumeDevices"
    assert found == [f"{where}[{index}].name: {why}" for index in (0, 1) for why in ("Required value", 'Not found: ""')]


def test_owners_of_fields_in_the_template_of_a_job(api: Served) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    pod = {**TEMPLATE["spec"], "restartPolicy": "Never"}
    api.post(jobs, {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}})
    patch = {"spec": {"template": {"metadata": {"managedFields": [{"manager": "m"}]}}}}
    (why,) = causes(api.patch(f"{jobs}/j", patch, MERGE))
    assert '"managedFields":[{"manager":"m"}],"Spec"' in why


def test_port_0_of_an_endpoint_slice_is_shown(api: Served) -> None:
    made = api("POST", SLICES, {**SLICE, "ports": [{"port": 0}]}, accept=TABLE).body
    assert made["rows"][0]["cells"][2] == "0"


@pytest.mark.parametrize("name", [{"x": 1}, ["c"], {}])
def test_no_element_that_a_patch_removes_has_an_object_for_its_name(api: Served, name: object) -> None:
    api.post(PODS, pod_document("p"))
    answer = api.patch(f"{PODS}/p", {"spec": {"containers": [{"$patch": "delete", "name": name}]}}, STRATEGIC)
    assert (answer.code, len(answer.body["spec"]["containers"])) == (200, 1)


def test_a_strategic_patch_has_its_fields_as_they_are_written(api: Served) -> None:
    api.post(PODS, pod_document("p"))
    answer = api.patch(f"{PODS}/p", {"Kind": "Node", "apiversion": "v2"}, STRATEGIC)
    assert (answer.code, answer.body["kind"]) == (200, "Pod")


@pytest.mark.parametrize("version", ["", "/"])
def test_a_patch_that_leaves_no_version_leaves_nothing(api: Served, version: str) -> None:
    api.post(PODS, pod_document("p"))
    answer = api.patch(f"{PODS}/p", {"apiVersion": version}, MERGE)
    why = "the name of the object (p based on URL) was undeterminable: name must be provided"
    assert (answer.code, answer.body["message"]) == (400, why)


@pytest.mark.parametrize(
    ("path", "version", "kind", "served"),
    [
        (f"{APPS}/deployments", "apps/v1beta2", "Deployment", "apps/v1"),
        (f"{APPS}/daemonsets", "extensions/v1beta1", "DaemonSet", "apps/v1"),
        (SLICES, "discovery.k8s.io/v1beta1", "EndpointSlice", "discovery.k8s.io/v1"),
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "authorization.k8s.io/v1beta1",
         "SelfSubjectAccessReview", "authorization.k8s.io/v1"),
    ],
)  # fmt: skip
def test_a_version_that_was_served_once(api: Served, path: str, version: str, kind: str, served: str) -> None:
    answer = api.post(path, {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}})
    why = f"the API version in the data ({version}) does not match the expected API version ({served})"
    assert (answer.code, answer.message) == (400, why)
    other = api.post(PODS, {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}})
    short = version.partition("/")[2]
    assert other.message.endswith(f"converting ({short}.{kind}) to (core.Pod): unknown conversion")


@pytest.mark.parametrize(
    ("said", "claimed"),
    [
        ({"apiVersion": "v1", "apiversion": "v2", "kind": "Pod"}, ("v2", "Pod")),
        ({"apiversion": "v2", "apiVersion": "v1", "KIND": "Job"}, ("v1", "Job")),
        ({"APIVERSION": "v2", "Kind": "Job", "kind": None}, ("v2", "Job")),
    ],
)
def test_version_and_kind_count_in_any_case(api: Served, said: Json, claimed: tuple[str, str]) -> None:
    version, kind = claimed
    why = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
    answer = api.post(
        PODS, {**said, **pod_document("p")} if "apiVersion" not in said else {**pod_document("p"), **said}
    )
    assert answer.message == f'{kind} in version "{version}" cannot be handled as a Pod: {why}'
    wrong = api.post(PODS, {"apiVersion": "v1", "kinD": 5})
    assert "cannot unmarshal number into Go struct field .kind of type string" in wrong.message


@pytest.mark.parametrize(
    ("content_type", "code"),
    [
        ("application/json; charset=utf-8", 201), ("application/json;", 201), ('APPLICATION/JSON ; a="b;c" ;', 201),
        ("application/json; =", 415), ("application/json; a", 415), ("application/json;;a=b", 415),
        ("application/json;;", 415),
        ("application/json; a=", 415),
    ],
)  # fmt: skip
def test_a_media_type_with_broken_parameters_is_unknown(api: Served, content_type: str, code: int) -> None:
    assert api("POST", PODS, pod_document("p"), content_type=content_type).code == code


def test_a_namespace_that_is_to_be_on_its_way_out_has_the_wrong_phase(api: Served) -> None:
    patch = {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}
    answer = api.patch(f"{NAMESPACES}/default/status", patch)
    found = causes(answer)
    assert found[0].startswith("metadata.deletionTimestamp: ")
    why = "may only be 'Terminating' if `deletionTimestamp` is not empty"
    assert found[-1] == f'status.Phase: Invalid value: "Active": {why}'


def test_conflicts_name_writers_of_a_subresource_first(api: Served) -> None:
    api.post(PODS, pod_document("p", metadata={"labels": {"a": "b"}}), query="fieldManager=m")
    api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}, MERGE, query="fieldManager=m")
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "c"}}}
    config |= {"status": {"phase": "Failed"}}
    answer = api.patch(f"{PODS}/p/status", config, APPLY, query="fieldManager=n")
    assert answer.message == (
        'Apply failed with 2 conflicts: conflicts with "m" with subresource "status" using v1:\n- .status.phase\n'
        'conflicts with "m" using v1:\n- .metadata.labels.a'
    )


def test_the_owners_of_what_the_last_finalizer_held_are_shown_without_it(api: Served) -> None:
    api.post(PODS, pod_document("p", metadata={"finalizers": ["a/b"]}))
    api.delete(f"{PODS}/p", query="gracePeriodSeconds=0")
    answer = api.patch(f"{PODS}/p", {"metadata": {"finalizers": []}}, MERGE)
    assert (answer.code, api.get(f"{PODS}/p").code) == (200, 404)
    (entry,) = answer.body["metadata"]["managedFields"]
    assert "f:finalizers" not in entry["fieldsV1"]["f:metadata"]
