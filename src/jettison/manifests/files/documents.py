"""Pods of a file made complete: namespace, uid, and the priority of the class they name."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from jettison.errors import ManifestError
from jettison.manifests.pods import CONFIG_SOURCE

SYSTEM_CLASSES: Mapping[str, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class PriorityClasses:
    """Names to priorities, as the admission of a cluster would resolve them."""

    def __init__(self, documents: Iterable[Mapping[str, Any]] = ()) -> None:
        self.values = dict(SYSTEM_CLASSES)
        self.default = ("", 0)
        for document in documents:
            metadata, value = document.get("metadata"), document.get("value")
            name = metadata.get("name") if isinstance(metadata, Mapping) else None
            if not isinstance(name, str) or not isinstance(value, int) or isinstance(value, bool):
                raise ManifestError(f"PriorityClass `{name}`: value is `{value}`, expected a whole number")
            if name.startswith("system-") and name not in SYSTEM_CLASSES:
                raise ManifestError(f"PriorityClass `{name}`: names that start with system- are reserved")
            self.values.setdefault(name, value)
            if document.get("globalDefault") is True:
                self.default = (name, value)

    def resolve(self, spec: dict[str, Any], source: str) -> None:
        """Write the priority into a pod's spec. A priority without a class stays: a bare host has no admission."""
        name = spec.get("priorityClassName")
        if name in (None, ""):
            if spec.get("priority") is None:
                spec["priorityClassName"], spec["priority"] = self.default
            return
        if not isinstance(name, str) or name not in self.values:
            known = ", ".join(sorted(self.values))
            raise ManifestError(f"{source}: no PriorityClass `{name}`, there are {known}")
        spec["priority"] = self.values[name]


def prepare_pod(
    document: Mapping[str, Any], source: str, classes: PriorityClasses, *, is_static: bool, generation: int = 0
) -> dict[str, Any]:
    """A pod as it would come back from an API server: namespace, uid, priority and source filled in.

    The uid follows from content and origin, so that a restarted agent recognises its pods, and a changed manifest is
    another pod. `generation` tells a pod that is admitted again from its first life.
    """
    metadata = document.get("metadata")
    spec = document.get("spec")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise ManifestError(f"{source}: a pod has no metadata.name")
    if not isinstance(spec, dict):
        raise ManifestError(f"{source}: pod `{metadata['name']}` has no spec")
    if spec.get("ephemeralContainers"):
        raise ManifestError(f"{source}: pod `{metadata['name']}`: spec.ephemeralContainers: cannot be set on create")
    prepared = {**document, "metadata": dict(metadata), "spec": dict(spec)}
    prepared["metadata"].setdefault("namespace", "default")
    classes.resolve(prepared["spec"], f"{source}: pod `{metadata['name']}`")
    _default_requests(prepared["spec"])
    if is_static:
        annotations = prepared["metadata"].get("annotations") or {}
        if not isinstance(annotations, dict):
            raise ManifestError(f"{source}: annotations of pod `{metadata['name']}` are not a map")
        prepared["metadata"]["annotations"] = {**annotations, CONFIG_SOURCE: "file"}
    content = repr((source, generation, is_static, prepared))
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()
    prepared["metadata"].setdefault("uid", str(uuid.UUID(bytes=digest[:16], version=5)))
    return prepared


def _default_requests(spec: dict[str, Any]) -> None:
    """A container with a limit and no request asks for the limit, as upstream: else no such pod were Guaranteed."""
    for kind in ("containers", "initContainers"):
        if isinstance(spec.get(kind), list):
            spec[kind] = [_with_requests(each) for each in spec[kind]]


def _with_requests(container: object) -> object:
    resources = container.get("resources") if isinstance(container, dict) else None
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if not isinstance(container, dict) or not isinstance(resources, dict) or not isinstance(limits, dict):
        return container
    requests = resources.get("requests") or {}
    if not isinstance(requests, dict):
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}
