"""Answers in the form that a client asks for: tables, metadata alone, YAML."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jettison.apiserver.http.forms import form_of
from jettison.apiserver.http.presenting import encode
from jettison.apiserver.http.requests import Request
from jettison.apiserver.http.yaml_answers import yaml_of
from jettison.errors import ApiError
from tests.apiserver.served import MERGE, PODS, Served, pod_document

Json = dict[str, Any]

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
YAML = "application/yaml"
OFFERED = (
    "only the following media types are accepted: "
    "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)
REVIEW = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("application/json;as=Table;v=v1;g=meta.k8s.io", ("Table", "meta.k8s.io/v1", "application/json")),
        ("application/json;g=meta.k8s.io;v=v1;as=Table", ("Table", "meta.k8s.io/v1", "application/json")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", ("Table", "meta.k8s.io/v1beta1", "application/json")),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", ("Table", "meta.k8s.io/v1", "application/yaml")),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,*/*", ("", "", "application/json")),
        ("application/json;as=Table;v=v1,application/yaml", ("", "", "application/yaml")),
        ("application/json;v=v1,application/yaml", ("", "", "application/yaml")),
        ("application/yaml;stream=watch,application/json", ("", "", "application/json")),
        (f"image/png,{METADATA}", ("PartialObjectMetadata", "meta.k8s.io/v1", "application/json")),
    ],
)
def test_the_first_wish_that_can_be_fulfilled(accept: str, expected: tuple[str, str, str]) -> None:
    form = form_of(Request("GET", PODS, b"", [(b"accept", accept.encode())]))
    assert (form.shape, form.api_version, form.content_type) == expected


@pytest.mark.parametrize(
    ("accept", "has_table", "message"),
    [
        ("application/json;as=Chair;v=v1;g=meta.k8s.io", True, OFFERED),
        ("application/json;g=meta.k8s.io;v=v1", True, OFFERED),
        (TABLE, False, OFFERED),
        ("image/png;as=Table;v=v1;g=meta.k8s.io", True, "406: Not Acceptable\n\nAvailable representations: "),
    ],
)
def test_no_wish_can_be_fulfilled(accept: str, has_table: bool, message: str) -> None:
    request = Request("GET", f"{PODS}/p", b"", [(b"accept", accept.encode())])
    with pytest.raises(ApiError) as caught:
        form_of(request, has_table=has_table)
    assert (caught.value.code, caught.value.reason) == (406, "NotAcceptable")
    assert caught.value.message.startswith(message)


def test_metadata_of_one(api: Served) -> None:
    api.pod("a", labels={"x": "y"})
    plain = api.get(f"{PODS}/a").body
    expected = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": plain["metadata"]}
    assert api.get(f"{PODS}/a", accept=METADATA).body == expected
    older = api.get(f"{PODS}/a", accept=METADATA.replace("v=v1", "v=v1beta1")).body
    assert older == {**expected, "apiVersion": "meta.k8s.io/v1beta1"}


def test_metadata_of_many(api: Served) -> None:
    empty = api.get(PODS, accept=METADATA_LIST).body
    assert (empty["kind"], empty["apiVersion"], empty["items"]) == (
        "PartialObjectMetadataList", "meta.k8s.io/v1", None,
    )  # fmt: skip
    api.pod("a")
    api.pod("b")
    found = api.get(PODS, accept=METADATA_LIST, query="limit=1").body
    assert found["metadata"]["remainingItemCount"] == 1
    assert [set(each) for each in found["items"]] == [{"kind", "apiVersion", "metadata"}]
    assert found["items"][0]["kind"] == "PartialObjectMetadata"


def test_metadata_of_what_was_written(api: Served) -> None:
    def kinds(method: str, path: str, body: Json | None = None, **options: Any) -> tuple[int, str]:
        answer = api(method, path, body, accept=METADATA, **options)
        return answer.code, answer.body["kind"]

    partial = "PartialObjectMetadata"
    assert kinds("POST", PODS, pod_document("a"), query="dryRun=All") == (201, partial)
    assert kinds("POST", PODS, pod_document("a")) == (201, partial)
    patch = {"metadata": {"labels": {"a": "b"}}}
    assert kinds("PATCH", f"{PODS}/a", patch, content_type=MERGE) == (200, partial)
    assert kinds("PUT", f"{PODS}/a", api.get(f"{PODS}/a").body) == (200, partial)
    assert kinds("DELETE", f"{PODS}/a", query="dryRun=All") == (200, partial)
    assert kinds("POST", REVIEWS, REVIEW) == (201, partial)
    assert kinds("POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}}) == (201, "Status")
    assert kinds("GET", f"{PODS}/a") == (404, "Status")


def test_metadata_of_a_scale(api: Served) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod_document("x")["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    assert api.post(path, {"metadata": {"name": "d"}, "spec": spec}).code == 201
    assert api.get(f"{path}/d/scale", accept=METADATA).body["kind"] == "PartialObjectMetadata"
    answer = api.get(f"{path}/d/scale", accept=METADATA_LIST)
    assert (answer.code, "(*autoscaling.Scale)" in answer.message) == (406, True)


def test_one_is_not_many(api: Served) -> None:
    answer = api.get(PODS, accept=METADATA)
    assert (answer.code, answer.body["reason"]) == (406, "NotAcceptable")
    assert answer.message == "you requested PartialObjectMetadata, but the requested object is a list (*core.PodList)"
    answer = api.post(PODS, pod_document("a"), accept=METADATA_LIST)
    why = "you requested PartialObjectMetadataList, but the requested object is not a list (*core.Pod)"
    assert (answer.code, answer.message) == (406, why)
    assert api.get(f"{PODS}/a").code == 200


@pytest.mark.parametrize("query", ["", "dryRun=All"])
def test_a_deleted_object_as_a_table(api: Served, query: str) -> None:
    api.pod("a", node="n1")
    table = api.delete(f"{PODS}/a", accept=TABLE, query=query).body
    assert (table["kind"], table["rows"][0]["cells"][0]) == ("Table", "a")


def test_yaml(api: Served) -> None:
    api.pod("a", labels={"version": "1.10", "yes": "no"})
    for path in (PODS, f"{PODS}/a"):
        answer = api.get(path, accept=YAML)
        assert (answer.code, answer.headers["content-type"]) == (200, YAML)
        assert yaml.safe_load(answer.content) == api.get(path).body
    assert answer.content.startswith(b"apiVersion: v1\nkind: Pod\nmetadata:\n  creationTimestamp: ")
    table = yaml.safe_load(api.get(PODS, accept=TABLE.replace("json", "yaml")).content)
    assert table["kind"] == "Table"


def test_refusals_in_yaml(api: Served) -> None:
    answer = api.get(f"{PODS}/none", accept=YAML)
    assert (answer.code, answer.headers["content-type"]) == (404, YAML)
    assert yaml.safe_load(answer.content)["reason"] == "NotFound"
    answer = api.get(f"{PODS}/none", accept=TABLE.replace("json", "yaml"))
    assert (answer.headers["content-type"], answer.body["reason"]) == ("application/json", "NotFound")


def test_no_watch_in_yaml(api: Served) -> None:
    answer = api.get(PODS, query="watch=true", accept=f"{YAML},application/json")
    assert answer.code == 406
    offered = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    assert yaml.safe_load(answer.content)["message"] == f"only the following media types are accepted: {offered}"
    answer = api.get(PODS, query="watch=true&includeObject=bogus", accept=TABLE)
    assert (answer.code, answer.message.startswith("Unable to convert to Table")) == (400, True)


@pytest.mark.parametrize("code", [404, 200])
def test_a_person_reads_refusals_too(api: Served, code: int) -> None:
    api.pod("200")
    answer = api.get(f"{PODS}/{code}", headers={"user-agent": "curl/8"})
    assert (answer.code, b'\n  "metadata": {' in answer.content) == (code, True)


# No kind that is served has a field for anything between two integers.
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63)
# `=` and `<<` mean something to PyYAML alone; Kubernetes writes them without quotes.
texts = st.text(st.characters(exclude_categories=["Cs"])).filter(
    lambda text: text not in ("=", "<<")
) | st.sampled_from(
    [
        "1",
        "no",
        "Y",
        "~",
        "a: b",
        "a:",
        "- a",
        "a #b",
        "0x1f",
        "1e3",
        ".5",
        "2027-01-15",
        "12:30",
        "a\nb\n",
        " a ",
        "a b  c" * 30,
    ]
)
values = st.recursive(
    scalars | texts, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
)


@given(values)
def test_yaml_says_what_json_said(value: object) -> None:
    assert yaml.safe_load(yaml_of(encode(value))) == value


@pytest.mark.parametrize("include", ["", "None", "Object"])
def test_a_table_is_one_document_however_many_rows_are_drawn_at_once(api: Served, include: str) -> None:
    """None, fewer than are drawn at once, as many, and more."""
    kind = {"": "PartialObjectMetadata", "Object": "ConfigMap", "None": None}[include]
    names: list[str] = []
    for count in (0, 1, 100, 101, 201):
        for name in (f"c{number:03d}" for number in range(len(names), count)):
            assert api.post(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"a": "1"}}).code == 201
            names.append(name)
        body = api.get(CONFIG_MAPS, query=f"includeObject={include}", accept=TABLE).body
        assert list(body) == ["kind", "apiVersion", "metadata", "columnDefinitions", "rows"]
        assert body["metadata"] == {"resourceVersion": str(api.store.version)}
        assert [row["cells"][:2] for row in body["rows"]] == [[name, 1] for name in names]
        assert all((row["object"] or {}).get("kind") == kind for row in body["rows"])


def test_rows_say_which_client_owns_which_field(api: Served) -> None:
    """As in the object itself, in lists, of one object and in watches; a row without an object says nothing."""
    made = api.post(PODS, pod_document("p"))
    owners = made.body["metadata"]["managedFields"]
    for include in ("", "Metadata", "Object"):
        for path in (PODS, f"{PODS}/p"):
            (row,) = api.get(path, query=f"includeObject={include}", accept=TABLE).body["rows"]
            assert row["object"]["metadata"]["managedFields"] == owners
    (rehearsed,) = api.post(PODS, pod_document("q"), query="dryRun=All", accept=TABLE).body["rows"]
    assert rehearsed["object"]["metadata"]["managedFields"]
    for path in (PODS, f"{PODS}/p"):
        assert api.get(path, query="includeObject=None", accept=TABLE).body["rows"][0]["object"] is None
