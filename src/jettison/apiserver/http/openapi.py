"""As much OpenAPI as `kubectl apply` and `create` ask for: which kinds take which parameters, and no schemas.

kubectl from 1.27 on reads version 3 and looks for `fieldValidation` on the PATCH of a kind: where it is, the server
validates, and kubectl does not. Older ones read version 2 in protobuf only; a kind without a schema is not validated
by them, and `dryRun` on its PATCH tells that a dry run will not write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from jettison.apiserver.http.discovery import Document, encoded, tagged
from jettison.apiserver.http.forms import parse_accept
from jettison.apiserver.objects.resources import GROUP_VERSIONS, RESOURCES, Resource

PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
# What clients ask for is no media type: an @ must not be in one, and kubectl fails on an answer that repeats it.
_PROTOBUF_V2_TYPE = PROTOBUF_V2.replace("@", ".")

_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")
_INFO = {"title": "Kubernetes", "version": "v1"}
_ROOT = "/openapi/v3"


def document(path: str, accept: str) -> Document | None:
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
        content = encoded({"openapi": "3.0.0", "info": _INFO, "paths": paths})
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
