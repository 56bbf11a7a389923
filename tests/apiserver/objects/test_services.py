"""Services, Endpoints and EndpointSlices: kept, filled in, checked, printed; clients are told that nothing routes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.served import APPLY, Served

Json = dict[str, Any]

SERVICES = "/api/v1/namespaces/default/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def service(name: str = "web", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}, **spec}}


def test_a_service_is_kept_and_the_client_is_told(api: Served) -> None:
    answer = api.post(SERVICES, service())
    assert answer.code == 201, answer.content
    assert answer.body["spec"] == {
        "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
        "selector": {"app": "web"}, "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
    }  # fmt: skip
    assert answer.body["status"] == {"loadBalancer": {}}
    assert "nothing routes traffic" in answer.headers["warning"]
    again = api.patch(f"{SERVICES}/web", {"metadata": {"labels": {"a": "b"}}})
    assert "warning" not in again.headers, "once is enough"
    table = api.get(SERVICES, accept=TABLE).body
    assert [each["name"] for each in table["columnDefinitions"]][:5] == [
        "Name", "Type", "Cluster-IP", "External-IP", "Port(s)",
    ]  # fmt: skip
    assert table["rows"][0]["cells"][:5] == ["web", "ClusterIP", "<none>", "<none>", "80/TCP"]
    assert table["rows"][0]["cells"][6] == "app=web"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"ports": []}, "spec.ports: Required value"),
        ({"ports": [], "clusterIP": "None"}, ""),
        ({"type": "ExternalName", "ports": []}, "spec.externalName: Required value"),
        ({"type": "ExternalName", "ports": [], "externalName": "a.example."}, ""),
        ({"type": "Door"}, 'spec.type: Unsupported value: "Door": supported values: "ClusterIP", "ExternalName"'),
        ({"type": "NodePort", "clusterIP": "None"}, "may not be set to 'None' for NodePort services"),
        ({"ports": [{"port": 80}, {"port": 81}]}, "spec.ports[0].name: Required value"),
        ({"ports": [{"port": 0}]}, "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"),
        ({"ports": [{"port": 80, "nodePort": 30000}]}, "may not be used when `type` is 'ClusterIP'"),
        ({"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]}, "spec.ports[1]: Duplicate value"),
        ({"externalIPs": ["127.0.0.1"]}, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ({"sessionAffinity": "ClientIP"}, ""),
        ({"clusterIP": "10.0.0.300"}, "must be a valid IP address"),
        ({"externalIPs": ["010.1.1.1"]}, 'spec.externalIPs[0]: Invalid value: "010.1.1.1": must not have leading 0s'),
        ({"externalIPs": ["::ffff:1.2.3.4"]}, "must not be an IPv4-mapped IPv6 address"),
        ({"type": "LoadBalancer", "loadBalancerSourceRanges": [" 1.2.3.0/24 "]}, ""),
        (
            {"type": "LoadBalancer", "loadBalancerSourceRanges": ["1.2.3.4/24"]},
            'spec.LoadBalancerSourceRanges[0]: Invalid value: "1.2.3.4/24": must not have bits set beyond the prefix',
        ),
        (
            {"type": "LoadBalancer", "loadBalancerSourceRanges": ["1.2.3.0/024"]},
            "must not have leading 0s in IP or prefix length",
        ),
        (
            {"type": "LoadBalancer", "loadBalancerSourceRanges": ["::ffff:1.2.3.0/120"]},
            "must not have an IPv4-mapped IPv6 address",
        ),
        ({"selector": {"a b": "c"}}, "spec.selector: Invalid value"),
    ],
)
def test_services(api: Served, spec: Json, text: str) -> None:
    answer = api.post(SERVICES, service(**spec))
    assert answer.code == (422 if text else 201), answer.content
    assert text in (answer.message if text else "")


def test_an_address_stays(api: Served) -> None:
    assert api.post(SERVICES, service(clusterIP="10.0.0.5")).body["spec"]["clusterIPs"] == ["10.0.0.5"]
    answer = api.patch(f"{SERVICES}/web", {"spec": {"clusterIP": "10.0.0.6", "clusterIPs": ["10.0.0.6"]}})
    assert answer.message.endswith('spec.clusterIPs[0]: Invalid value: ["10.0.0.6"]: may not change once set')
    assert api.patch(f"{SERVICES}/web/status", {"status": {"loadBalancer": {}}}).code == 200
    assert api("DELETE", f"{SERVICES}/web").body["metadata"]["name"] == "web"


def test_endpoints(api: Served) -> None:
    subsets = [{"addresses": [{"ip": f"10.0.0.{each}"} for each in range(1, 6)], "ports": [{"port": 80}]}]
    assert api.post(ENDPOINTS, {"metadata": {"name": "web"}, "subsets": subsets}).code == 201
    row = api.get(f"{ENDPOINTS}/web", accept=TABLE).body["rows"][0]["cells"]
    assert row[:2] == ["web", "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more..."]
    wrong = {"metadata": {"name": "x"}, "subsets": [{"ports": [{"port": 80}]}]}
    assert "must specify `addresses` or `notReadyAddresses`" in api.post(ENDPOINTS, wrong).message


def test_slices(api: Served) -> None:
    made = {
        "metadata": {"name": "s"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [{"port": 80}],
    }
    answer = api.post(SLICES, made)
    assert (answer.code, answer.body["ports"]) == (201, [{"name": "", "protocol": "TCP", "port": 80}])
    assert api.get(SLICES, accept=TABLE).body["rows"][0]["cells"][:4] == ["s", "IPv4", "80", "10.0.0.1"]
    assert "must be an IPv6 address" in api.post(SLICES, {**made, "addressType": "IPv6"}).message


@pytest.mark.parametrize(
    ("kind", "address", "text"),
    [
        ("IPv6", "2001:DB8::1", 'must be in canonical form ("2001:db8::1")'),
        ("IPv6", "::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
        ("IPv6", "1.2.3.4", "must be an IPv6 address"),
        ("IPv4", "01.2.3.4", "must not have leading 0s"),
        ("IPv4", "127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
    ],
)
def test_addresses_of_slices(api: Served, kind: str, address: str, text: str) -> None:
    document = {"metadata": {"name": "w"}, "addressType": kind, "endpoints": [{"addresses": [address]}]}
    answer = api.post(SLICES, document)
    assert answer.code == 422
    assert text in answer.message


def test_a_list_of_the_wrong_type_has_the_name_of_its_kind_in_go(api: Served) -> None:
    answer = api.post(SLICES, {"metadata": {"name": "w"}, "addressType": "IPv4", "ports": -1})
    assert answer.message.endswith("Go struct field EndpointSlice.ports of type []v1.EndpointPort")


@pytest.mark.parametrize(
    ("spec", "policy", "families"),
    [
        ({}, "SingleStack", ["IPv4"]),
        ({"selector": {}}, "RequireDualStack", ["IPv4", "IPv6"]),
        ({"selector": {}, "ipFamilies": ["IPv6"]}, "RequireDualStack", ["IPv6", "IPv4"]),
        ({"selector": {}, "ipFamilyPolicy": "SingleStack"}, "SingleStack", ["IPv4"]),
        ({"ipFamilyPolicy": "PreferDualStack"}, "PreferDualStack", ["IPv4"]),
    ],
)
def test_families_of_a_headless_service(api: Served, spec: Json, policy: str, families: list[str]) -> None:
    wanted = {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"a": "b"}, **spec}
    made = api.post("/api/v1/namespaces/default/services", {"metadata": {"name": "s"}, "spec": wanted})
    assert made.code == 201, made.content
    assert (made.body["spec"]["ipFamilyPolicy"], made.body["spec"]["ipFamilies"]) == (policy, families)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"ipFamilyPolicy": "RequireDualStack"}, "this cluster is not configured for dual-stack services"),
        ({"ipFamilies": ["IPv6"]}, 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'),
        ({"ipFamilies": ["IPv4", "IPv6"]}, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families"),
        ({"ipFamilies": ["IPv4", "IPv4"]}, 'spec.ipFamilies[1]: Duplicate value: "IPv4"'),
        (
            {"ipFamilyPolicy": "Bogus"},
            '"Bogus": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"',
        ),
        ({"trafficDistribution": "Bogus"}, '"PreferClose", "PreferSameZone", "PreferSameNode"'),
    ],
)
def test_families_that_a_headless_service_cannot_have(api: Served, spec: Json, complaint: str) -> None:
    wanted = {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"a": "b"}, **spec}
    answer = api.post("/api/v1/namespaces/default/services", {"metadata": {"name": "s"}, "spec": wanted})
    assert (answer.code, complaint in answer.message) == (422, True), answer.message


def test_a_service_that_was_dual_says_so_to_become_single(api: Served) -> None:
    path = "/api/v1/namespaces/default/services"
    assert (
        api.post(path, {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}).code == 201
    )
    answer = api.patch(f"{path}/s", {"spec": {"ipFamilies": ["IPv4"]}})
    assert "must be 'SingleStack' to release the secondary IP family" in answer.message
    changed = api.patch(f"{path}/s", {"spec": {"ipFamilyPolicy": "SingleStack"}})
    assert changed.body["spec"]["ipFamilies"] == ["IPv4"]


def test_what_a_headless_service_does_not_look_at(api: Served) -> None:
    spec = {"clusterIP": "None", "ports": [{"port": 80}], "sessionAffinity": "ClientIP", "externalName": "a.b"}
    made = api.post("/api/v1/namespaces/default/services", {"metadata": {"name": "s"}, "spec": spec})
    for text in ("spec.SessionAffinity is ignored for headless services", "spec.externalName is ignored when"):
        assert text in made.headers["warning"]


def test_a_put_makes_a_service(api: Served) -> None:
    spec = {"clusterIP": "None", "ports": [{"port": 80}]}
    assert api("PUT", "/api/v1/namespaces/default/services/s", {"metadata": {"name": "s"}, "spec": spec}).code == 201


def test_a_put_or_apply_that_makes_an_object_knows_no_uid_and_no_version(api: Served) -> None:
    """The version is read, and does not matter; the uid is that of another object."""
    path, document = f"{SERVICES}/web", service(clusterIP="None")
    document["metadata"]["resourceVersion"] = "x"
    assert api("PUT", path, document).code == 500
    applied = {"apiVersion": "v1", "kind": "Service", **document}
    assert api.patch(path, applied, APPLY, query="fieldManager=m").code == 500
    document["metadata"] = {"name": "web", "uid": "u"}
    for query, root in (("", "/registry"), ("dryRun=All", "")):
        answer = api("PUT", path, document, query=query)
        where = f"Key: {root}/services/specs/default/web, ResourceVersion: 0"
        assert (answer.code, answer.body["reason"]) == (409, "Conflict")
        assert where in answer.message
        assert answer.message.endswith("Precondition failed: UID in precondition: u, UID in object meta: ")
    document["metadata"] = {"name": "web", "resourceVersion": "5"}
    assert api("PUT", path, document).code == 201


def test_an_applied_status_of_a_service_that_is_not_there_would_make_it(api: Served) -> None:
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    document = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, **status}
    answer = api.patch(f"{SERVICES}/web/status", document, APPLY, query="fieldManager=m")
    assert answer.message == 'Service "web" is invalid: spec.ports: Required value'


def test_the_endpoints_of_a_service_go_with_it(api: Served) -> None:
    """Kubernetes leaves slices to their controller."""
    api.post(SERVICES, {"metadata": {"name": "web", "finalizers": ["a.b/c"]}, "spec": {"clusterIP": "None"}})
    for name in ("web", "other"):
        api.post(ENDPOINTS, {"metadata": {"name": name}})
    api.post(SLICES, {"metadata": {"name": "web"}, "addressType": "IPv4"})
    assert api.delete(f"{SERVICES}/web").body["metadata"]["deletionTimestamp"]
    assert api.get(f"{ENDPOINTS}/web").code == 200, "the service is still there"
    api.patch(f"{SERVICES}/web", {"metadata": {"finalizers": []}})
    codes = [
        api.get(path).code for path in (f"{SERVICES}/web", f"{ENDPOINTS}/web", f"{ENDPOINTS}/other", f"{SLICES}/web")
    ]
    assert codes == [404, 404, 200, 200]
    api.post(SERVICES, {"metadata": {"name": "other"}, "spec": {"clusterIP": "None"}})
    api.delete(f"{SERVICES}/other", query="dryRun=All")
    assert api.get(f"{ENDPOINTS}/other").code == 200
    api.delete(f"{SERVICES}/other")
    assert api.get(f"{ENDPOINTS}/other").code == 404
