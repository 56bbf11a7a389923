"""Discovery documents: the legacy ones, one per group version, and the aggregated ones.

kubectl up to 1.25 walks the legacy documents; 1.26 to 1.29 know the aggregated form as `v2beta1` and take a `v2`
document for an empty one; later ones ask for `v2`. Everything follows from the table of resources, so the documents
are built once.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from jettison.apiserver.http.forms import JSON, parse_accept
from jettison.apiserver.objects.resources import GROUP_VERSIONS, RESOURCES, Resource, Subresource

KUBERNETES = "1.36.4"
"""The release whose behaviour we serve; clients choose by it what they ask for."""

_AGGREGATED = "apidiscovery.k8s.io"
_AGGREGATED_VERSIONS = ("v2", "v2beta1")


@dataclass(frozen=True, slots=True)
class Document:
    """An answer that never changes while the server runs. The tag lets a client keep its copy: 304 saves 10 kB."""

    content_type: str
    body: bytes
    etag: str


def document(path: str, accept: str) -> Document | None:
    """The answer to a GET of a discovery path, or None where there is none; a trailing slash makes no difference."""
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


@cache
def version_document() -> Document:
    """`gitVersion` has to be a semantic version, or `kubectl version` ends with 1."""
    major, minor, _ = KUBERNETES.split(".")
    return encoded(
        {
            "major": major,
            "minor": minor,
            "emulationMajor": major,
            "emulationMinor": minor,
            "minCompatibilityMajor": major,
            "minCompatibilityMinor": minor,
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
    digest = hashlib.sha256(f"{row.group}/{row.version}/{row.kind}".encode()).digest()
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
