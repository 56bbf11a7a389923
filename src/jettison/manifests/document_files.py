"""Files with several YAML or JSON documents: pods and the priority classes they name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jettison.errors import ManifestError
from jettison.manifests.plain_yaml import load_documents


def parse_documents(text: str, source: str) -> list[dict[str, Any]]:
    """Every document of a file that is not empty; each must be an object with a kind. A v1 List is unpacked."""
    found = load_documents(text, source, refuses_duplicates=True)
    return [document for each in found if each is not None for document in _unpacked(each, source)]


def _unpacked(document: object, source: str) -> Iterable[dict[str, Any]]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ManifestError(f"{source}: a document has no kind, expected Pod, PriorityClass or List")
    if document["kind"] in ("List", "PodList"):
        items = document.get("items") or []
        if not isinstance(items, list):
            raise ManifestError(f"{source}: items is a {type(items).__name__}, expected a list")
        for item in items:
            yield from _unpacked({"kind": "Pod", **item} if isinstance(item, dict) else item, source)
    else:
        yield document
