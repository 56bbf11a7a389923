"""What the server serves, for clients: discovery documents, and as much OpenAPI as kubectl asks for.

Of discovery there are the legacy documents, one per group version, and the aggregated ones. kubectl up to 1.25 walks
the legacy documents; 1.26 to 1.29 know the aggregated form as `v2beta1` and take a `v2` document for an empty one;
later ones ask for `v2`.

OpenAPI says which kinds take which parameters of `kubectl apply` and `create`; version 3 has the schemas that `kubectl
explain` shows. kubectl from 1.27 on reads version 3 and looks for `fieldValidation` on the PATCH of a kind: where it
is, the server validates, and kubectl does not. Older ones read version 2 in protobuf only; a kind without a schema is
not validated by them, and `dryRun` on its PATCH tells that a dry run will not write.

Everything follows from the table of resources, so the documents are built once.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from jettison.apiserver.http import health
from jettison.apiserver.http.forms import JSON, parse_accept
from jettison.apiserver.http.schemas import components
from jettison.apiserver.objects.resources import GROUP_VERSIONS, RESOURCES, Resource, Subresource
from jettison.values import frozen

KUBERNETES = "1.36.4"
"""The release whose behaviour we serve; clients choose by it what they ask for."""

_AGGREGATED = "apidiscovery.k8s.io"
_AGGREGATED_VERSIONS = ("v2", "v2beta1")

PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
# What clients ask for is no media type: an @ must not be in one, and kubectl fails on an answer that repeats it.
_PROTOBUF_V2_TYPE = PROTOBUF_V2.replace("@", ".")

_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")
_INFO = {"title": "Kubernetes", "version": "v1"}
_ROOT = "/openapi/v3"
_ROOTS = ("/openapi/v2", _ROOT)


@frozen
class Document:
    """An answer that never changes while the server runs. The tag lets a client keep its copy: 304 saves 10 kB."""

    content_type: str
    body: bytes
    etag: str


def document(path: str, accept: str) -> Document | None:
    """The answer to a GET of a path of discovery or OpenAPI, or None where there is none.

    In discovery a trailing slash makes no difference.
    """
    if path == "/":
        return _index()
    if path.startswith("/openapi/"):
        return _openapi(path, accept)
    path = path.rstrip("/")
    if path not in ("/api", "/apis"):
        return _legacy().get(path)
    for choice in parse_accept(accept):
        if choice.content_type != JSON:
            continue
        wanted = choice.parameters
        if not wanted.get("as"):
            return _legacy()[path]
        is_aggregated = wanted["as"] == "APIGroupDiscoveryList" and wanted.get("g") == _AGGREGATED
        if is_aggregated and wanted.get("v") in _AGGREGATED_VERSIONS:
            return _aggregated(path, wanted["v"])
    return None


def takes_any_method(path: str) -> bool:
    """The lists of groups are no resources of their group: Kubernetes does not look at the method there."""
    parts = path.strip("/").split("/")
    return parts[0] in ("", "openapi") or (parts[0] == "apis" and len(parts) < 3)


@cache
def version_document() -> Document:
    """`gitVersion` has to be a semantic version, or `kubectl version` ends with 1."""
    major, minor, _ = KUBERNETES.split(".")
    return _printed(
        {
            "major": major,
            "minor": minor,
            "emulationMajor": major,
            "emulationMinor": minor,
            "minCompatibilityMajor": major,
            "minCompatibilityMinor": str(int(minor) - 1),
            "gitVersion": f"v{KUBERNETES}+jettison",
            "gitCommit": "",
            "gitTreeState": "",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "python",
            "platform": "linux",
        }
    )


def group_version(group: str, version: str) -> str:
    """`policy/v1`, or `v1` alone in the core group."""
    return f"{group}/{version}" if group else version


def encoded(value: Mapping[str, Any], content_type: str = JSON) -> Document:
    """A document of JSON."""
    return tagged(msgspec.json.encode(value) + b"\n", content_type)


def tagged(body: bytes, content_type: str) -> Document:
    """A document with the tag that its content gives it."""
    return Document(content_type, body, f'"{hashlib.sha256(body).hexdigest()[:32].upper()}"')


def _printed(value: Mapping[str, Any]) -> Document:
    """A document for people, on several lines."""
    return tagged(msgspec.json.format(msgspec.json.encode(value), indent=2), JSON)


@cache
def _index() -> Document:
    """Every path that is no object, for a look around: `kubectl get --raw /`."""
    known = (*_legacy(), "/apis/", *health.paths(), *_ROOTS, "/version")
    return _printed({"paths": sorted(known)})


@cache
def _legacy() -> Mapping[str, Document]:
    groups = [_group(name, versions) for name, versions in _named_groups().items()]
    found = {
        "/api": encoded({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        "/apis": encoded({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
    }
    for group in groups:
        found[f"/apis/{group['name']}"] = encoded({"kind": "APIGroup", "apiVersion": "v1", **group})
    for name, version in GROUP_VERSIONS:
        listing = {"groupVersion": group_version(name, version), "resources": list(_entries(name, version))}
        # The list of the core group alone has no apiVersion of its own.
        head = {"kind": "APIResourceList", "apiVersion": "v1"} if name else {"kind": "APIResourceList"}
        found[f"/apis/{name}/{version}" if name else f"/api/{version}"] = encoded({**head, **listing})
    return found


def _named_groups() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, version in GROUP_VERSIONS:
        if name:
            found.setdefault(name, []).append(version)
    return found


def _group(name: str, versions: Iterable[str]) -> dict[str, Any]:
    listed = [{"groupVersion": group_version(name, version), "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _rows(group: str, version: str) -> Iterator[Resource]:
    return (row for row in RESOURCES if (row.group, row.version) == (group, version))


def _entries(group: str, version: str) -> Iterator[dict[str, Any]]:
    for row in _rows(group, version):
        entry: dict[str, Any] = {
            "name": row.plural,
            "singularName": row.singular,
            "namespaced": row.is_namespaced,
            "kind": row.kind,
            "verbs": list(row.verbs),
        }
        if row.is_stored:
            entry["storageVersionHash"] = _storage_hash(row)
        yield entry | _names(row)
        for part in row.subresources:
            name = {"name": f"{row.plural}/{part.name}", "singularName": "", "namespaced": row.is_namespaced}
            foreign = {"group": part.group, "version": part.version} if part.group else {}
            yield name | foreign | {"kind": part.kind, "verbs": list(part.verbs)}


def _names(row: Resource) -> dict[str, Any]:
    named = {"shortNames": list(row.short_names), "categories": list(row.categories)}
    return {key: names for key, names in named.items() if names}


def _storage_hash(row: Resource) -> str:
    """Opaque to clients; computed as Kubernetes does it, so a tool that compares clusters sees no difference."""
    group = "" if row.stored_as else row.group
    digest = hashlib.sha256(f"{group}/{row.version}/{row.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode("ascii")


@cache
def _aggregated(path: str, form: str) -> Document:
    groups = {"": ["v1"]} if path == "/api" else _named_groups()
    items = [
        {"metadata": {"name": name} if name else {}, "versions": [_aggregated_version(name, each) for each in versions]}
        for name, versions in groups.items()
    ]
    listing = {"kind": "APIGroupDiscoveryList", "apiVersion": f"{_AGGREGATED}/{form}", "metadata": {}, "items": items}
    return encoded(listing, f"{JSON};g={_AGGREGATED};v={form};as=APIGroupDiscoveryList")


def _aggregated_version(group: str, version: str) -> dict[str, Any]:
    resources = [_aggregated_entry(row) for row in _rows(group, version)]
    return {"version": version, "freshness": "Current", "resources": resources}


def _aggregated_entry(row: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": row.plural,
        "responseKind": {"group": "", "version": "", "kind": row.kind},
        "scope": "Namespaced" if row.is_namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
        **_names(row),
    }
    if row.subresources:
        entry["subresources"] = [_aggregated_part(part) for part in row.subresources]
    return entry


def _aggregated_part(part: Subresource) -> dict[str, Any]:
    kind = {"group": part.group, "version": part.version, "kind": part.kind}
    return {"subresource": part.name, "responseKind": kind, "verbs": list(part.verbs)}


def _openapi(path: str, accept: str) -> Document | None:
    """The answer to a GET below `/openapi`, or None where there is none."""
    if path == "/openapi/v2":
        wanted = (choice.name for choice in parse_accept(accept))
        return _version_2_protobuf() if PROTOBUF_V2 in wanted else encoded(_version_2())
    return _version_3().get(path)


def _item_path(row: Resource) -> str:
    root = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
    scope = "/namespaces/{namespace}" if row.is_namespaced else ""
    return f"{root}{scope}/{row.plural}/{{name}}"


def _patched() -> Iterator[Resource]:
    return (row for row in RESOURCES if "patch" in row.verbs)


def _operation(row: Resource, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    kind = {"group": row.group, "version": row.version, "kind": row.kind}
    responses = {"200": {"description": "OK"}}
    return {"patch": {"x-kubernetes-group-version-kind": kind, "parameters": parameters, "responses": responses}}


@cache
def _version_3() -> Mapping[str, Document]:
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS]
    found, index = {}, {}
    for group, version in GROUP_VERSIONS:
        rows = (row for row in _patched() if (row.group, row.version) == (group, version))
        paths = {_item_path(row): _operation(row, parameters) for row in rows}
        part = f"apis/{group}/{version}" if group else f"api/{version}"
        schemas = {"schemas": components(list(_rows(group, version)))}
        content = encoded({"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": schemas})
        # Clients keep a document as long as its hash is the same.
        tag = content.etag.strip('"')
        index[part] = {"serverRelativeURL": f"{_ROOT}/{part}?hash={tag}"}
        found[f"{_ROOT}/{part}"] = content
    return {_ROOT: encoded({"paths": index}), **found}


@cache
def _version_2() -> dict[str, Any]:
    parameters = [{"name": name, "in": "query", "type": "string"} for name in _PARAMETERS]
    paths = {_item_path(row): _operation(row, parameters) for row in _patched()}
    return {"swagger": "2.0", "info": _INFO, "paths": paths}


@cache
def _version_2_protobuf() -> Document:
    """The same in gnostic's protobuf; the numbers are those of its OpenAPIv2 messages."""
    items = _version_2()["paths"].items()
    paths = b"".join(_field(2, _field(1, path) + _field(2, _path_item(item))) for path, item in items)
    info = _field(1, _INFO["title"]) + _field(2, _INFO["version"])
    body = _field(1, "2.0") + _field(2, info) + _field(8, paths)
    return tagged(body, _PROTOBUF_V2_TYPE)


def _path_item(item: Mapping[str, Any]) -> bytes:
    operation = item["patch"]
    # Extensions travel as YAML, of which JSON is a part.
    kind = msgspec.json.encode(operation["x-kubernetes-group-version-kind"])
    extension = _field(1, "x-kubernetes-group-version-kind") + _field(2, _field(2, kind))
    parameters = (
        # A parameter, not in the body, in the query: three messages around each.
        _field(8, _field(1, _field(2, _field(3, _field(2, each["in"]) + _field(4, each["name"])))))
        for each in operation["parameters"]
    )
    return _field(8, b"".join(parameters) + _field(13, extension))


def _field(number: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*groups, value))
