"""Discovery in the forms that different generations of clients ask for; all follow from the table of resources."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jettison.apiserver.http import discovery
from jettison.apiserver.http.forms import parse_accept
from jettison.apiserver.objects.protobuf import fields
from jettison.apiserver.objects.resources import GROUP_VERSIONS, RESOURCES
from tests.apiserver.served import Served

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
NEW_KUBECTL = f"{AGGREGATED.format('v2')},{AGGREGATED.format('v2beta1')},application/json"
OLD_KUBECTL = f"{AGGREGATED.format('v2beta1')},application/json"


def read(path: str, accept: str = "application/json, */*") -> dict[str, Any]:
    found = discovery.document(path, accept)
    assert found is not None
    decoded: dict[str, Any] = json.loads(found.body)
    return decoded


def test_the_legacy_heads_differ_between_core_and_groups() -> None:
    assert read("/api") == {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    assert "apiVersion" not in read("/api/v1")
    assert {key: read("/apis/policy/v1")[key] for key in ("kind", "apiVersion", "groupVersion")} == {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "policy/v1",
    }
    version = {"groupVersion": "policy/v1", "version": "v1"}
    group = {"name": "policy", "versions": [version], "preferredVersion": version}
    assert group in read("/apis")["groups"]
    assert read("/apis/policy") == {"kind": "APIGroup", "apiVersion": "v1", **group}


def test_kubectl_drain_finds_the_eviction_subresource() -> None:
    """It looks for group and version: without them it deletes instead of evicting."""
    entry = next(each for each in read("/api/v1")["resources"] if each["name"] == "pods/eviction")
    assert entry == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }


def test_a_budgets_entry_is_that_of_kubernetes() -> None:
    assert read("/apis/policy/v1")["resources"][0] == {
        "name": "poddisruptionbudgets",
        "singularName": "poddisruptionbudget",
        "namespaced": True,
        "kind": "PodDisruptionBudget",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["pdb"],
        "storageVersionHash": "EVWiDmWqyJw=",
    }


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/policy", "/apis/policy/v1"])
def test_a_slash_at_the_end_makes_no_difference(path: str) -> None:
    assert discovery.document(path + "/", "*/*") == discovery.document(path, "*/*")


@pytest.mark.parametrize(
    "path", ["/apis/nope", "/apis/policy/v1beta1", "/apis//v1", "/api/v2", "//", "", "/apis/policy/v1/x"]
)
def test_there_is_nothing_elsewhere(path: str) -> None:
    assert discovery.document(path, "*/*") is None


@pytest.mark.parametrize(
    ("accept", "version"),
    [(NEW_KUBECTL, "v2"), (OLD_KUBECTL, "v2beta1"), (AGGREGATED.format("v9") + "," + OLD_KUBECTL, "v2beta1")],
)
def test_a_client_gets_the_version_that_it_asked_for(accept: str, version: str) -> None:
    """kubectl up to 1.29 takes a v2 document for an empty one."""
    for path in ("/api", "/apis"):
        found = discovery.document(path, accept)
        assert found is not None
        assert found.content_type == AGGREGATED.format(version)
        assert json.loads(found.body)["apiVersion"] == f"apidiscovery.k8s.io/{version}"


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/*", "application/json", f"text/html,{AGGREGATED.format('v9')},*/*"]
)
def test_others_get_the_legacy_document(accept: str) -> None:
    assert read("/apis", accept)["kind"] == "APIGroupList"


@pytest.mark.parametrize("accept", ["image/png", "application/vnd.kubernetes.protobuf", AGGREGATED.format("v1")])
def test_what_cannot_be_had_is_not_given(accept: str) -> None:
    assert discovery.document("/apis", accept) is None


def legacy_facts() -> set[tuple[object, ...]]:
    paths = (f"/apis/{group}/{version}" if group else f"/api/{version}" for group, version in GROUP_VERSIONS)
    found: set[tuple[object, ...]] = set()
    for listing in map(read, paths):
        for entry in listing["resources"]:
            gone = tuple(entry.get(key) or "" for key in ("group", "version"))
            names = tuple(entry.get("shortNames", ())), tuple(entry.get("categories", ()))
            found.add((listing["groupVersion"], entry["name"], entry["kind"], *gone, tuple(entry["verbs"]), *names))
    return found


def aggregated_facts() -> set[tuple[object, ...]]:
    found: set[tuple[object, ...]] = set()
    for item in (*read("/api", NEW_KUBECTL)["items"], *read("/apis", NEW_KUBECTL)["items"]):
        for version in item["versions"]:
            home = "/".join(filter(None, (item["metadata"].get("name"), version["version"])))
            for entry in version["resources"]:
                names = tuple(entry.get("shortNames", ())), tuple(entry.get("categories", ()))
                subresources = entry.get("subresources", ())
                below = [(part, f"{entry['resource']}/{part['subresource']}", ((), ())) for part in subresources]
                for part, name, shown in ((entry, entry["resource"], names), *below):
                    kind = part["responseKind"]
                    facts = kind["kind"], kind["group"], kind["version"], tuple(part["verbs"]), *shown
                    found.add((home, name, *facts))
    return found


def test_both_forms_tell_the_same_about_every_resource() -> None:
    assert legacy_facts() == aggregated_facts()
    assert len(legacy_facts()) == len(RESOURCES) + sum(len(row.subresources) for row in RESOURCES)


def test_the_version_is_a_semantic_one() -> None:
    told = json.loads(discovery.version_document().body)
    assert told["gitVersion"] == "v1.36.4+jettison"
    assert (told["major"], told["minor"]) == ("1", "36")
    assert told["minCompatibilityMinor"] == "35", "clients of the release before are served as well"


def test_every_path_of_the_index_answers(api: Served) -> None:
    answer = api.get("/")
    assert answer.content.startswith(b'{\n  "paths": [\n    "/api"')
    listed = answer.body["paths"]
    assert {"/apis/", "/apis/batch/v1", "/livez/ping", "/metrics", "/openapi/v3", "/readyz", "/version"} <= set(listed)
    assert {path: code for path in listed if (code := api.get(path).code) != 200} == {}
    assert api.delete("/").code == 200, "the method does not matter there"


def test_events_of_both_groups_are_stored_as_the_same() -> None:
    known = set()
    for path in ("/api/v1", "/apis/events.k8s.io/v1"):
        found = discovery.document(path, "application/json")
        assert found is not None
        resources = json.loads(found.body)["resources"]
        known |= {each["storageVersionHash"] for each in resources if each["name"] == "events"}
    assert known == {"r2yiGXH7wu8="}


def test_openapi_3_says_that_the_server_validates() -> None:
    """The presence of fieldValidation on PATCH is all that kubectl 1.27 and later look for."""
    index = discovery.document("/openapi/v3", "application/json")
    assert index is not None
    parts = json.loads(index.body)["paths"]
    assert len(parts) == len(GROUP_VERSIONS)
    kinds = set()
    for part in parts.values():
        found = discovery.document(part["serverRelativeURL"].partition("?")[0], "application/json")
        assert found is not None
        for item in json.loads(found.body)["paths"].values():
            assert "fieldValidation" in {each["name"] for each in item["patch"]["parameters"]}
            kinds.add(tuple(item["patch"]["x-kubernetes-group-version-kind"].values()))
    assert kinds == {(row.group, row.version, row.kind) for row in RESOURCES if "patch" in row.verbs}


def test_openapi_2_comes_in_protobuf_for_old_kubectls() -> None:
    found = discovery.document("/openapi/v2", discovery.PROTOBUF_V2)
    assert found is not None
    assert found.content_type == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    document = dict(fields(found.body))
    assert document[1] == b"2.0"
    paths = document[8]
    assert isinstance(paths, bytes)
    names = [dict(fields(item))[1] for _, item in fields(paths) if isinstance(item, bytes)]
    assert b"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}" in names
    plain = discovery.document("/openapi/v2", "application/json")
    assert plain is not None
    assert [each.encode() for each in json.loads(plain.body)["paths"]] == names


def test_openapi_has_nothing_elsewhere() -> None:
    assert discovery.document("/openapi/v3/apis/nope/v1", "*/*") is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("application/json; as=Table ;v=v1, text/html;q=0.1,,", ["application/json as=Table v=v1", "text/html"]),
        (
            "text/html;q=0.1,application/yaml;q=0.5,application/json",
            ["application/json", "application/yaml", "text/html"],
        ),
        ("*/*,application/*,application/yaml", ["application/yaml", "application/*", "*/*"]),
        # A wildcard goes behind what is written out, whatever its quality.
        ("*/*;q=0.9,application/yaml;q=0.1", ["application/yaml", "*/*"]),
        ("application/yaml;q=x,application/json;q=0.1", ["application/json", "application/yaml"]),
        ("*,json,a/b/c,a/,application/json;as;v=1=2", ["application/json", "*/*"]),
        ("", ["*/*"]),
    ],
)
def test_an_accept_header_is_sorted_as_kubernetes_does(header: str, expected: list[str]) -> None:
    choices = parse_accept(header)
    assert [" ".join((each.name, *(f"{k}={v}" for k, v in each.parameters.items()))) for each in choices] == expected
