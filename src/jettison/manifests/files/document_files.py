"""Files with several YAML or JSON documents: pods, and the priority classes, ConfigMaps and Secrets they name."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from jettison.engine.config.suggestions import did_you_mean
from jettison.errors import ManifestError, kind_in_words
from jettison.manifests.files import bounds
from jettison.manifests.files.decoding import shortened
from jettison.manifests.files.kinds import unknown_fields
from jettison.manifests.files.plain_yaml import load_documents

_KINDS = ("Pod", "PriorityClass", "ConfigMap", "Secret")
_MOST_UNKNOWN = 5


def parse_documents(text: str, source: str) -> list[dict[str, Any]]:
    """Every document of a file that is not empty; each must be an object with a kind. A v1 List is unpacked."""
    found = load_documents(text, source, most=2 * bounds.LARGEST_FILE, refuses_duplicates=True)
    documents = [document for each in found if each is not None for document in _unpacked(each, source)]
    if len(documents) > bounds.MOST_DOCUMENTS:
        raise ManifestError(f"{source}: {len(documents)} documents, at most {bounds.MOST_DOCUMENTS} are allowed")
    values = sum(bounds.check_document(each, _named(each, source)) for each in documents)
    if values > bounds.MOST_FILE_VALUES:
        raise ManifestError(f"{source}: {values} values, a file has at most {bounds.MOST_FILE_VALUES}")
    bounds.check_memory(documents, source)
    for document in documents:
        _refuse_unknown(document, source)
    return documents


def _refuse_unknown(document: dict[str, Any], source: str) -> None:
    """A mistyped limit is no limit. Kubernetes' API refuses such a document too, unless it is told not to."""
    kind = document["kind"]
    if kind not in _KINDS:
        return
    said = []
    for path, known in islice(unknown_fields(kind, document), _MOST_UNKNOWN):
        said.append(f'unknown field "{shortened(path)}"{did_you_mean(path.rpartition(".")[2], known)}')
    if said:
        raise ManifestError(f"{_named(document, source)}: {'; '.join(said)}")


def _named(document: dict[str, Any], source: str) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{source}: {shortened(document['kind'])} `{shortened(str(name))}`"


def _unpacked(document: object, source: str) -> Iterable[dict[str, Any]]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        known = ", ".join(_KINDS)
        raise ManifestError(f"{source}: a document has no kind, expected {known} or List")
    if document["kind"] in ("List", "PodList"):
        items = document.get("items") or []
        if not isinstance(items, list):
            raise ManifestError(f"{source}: items is {kind_in_words(items)}, expected a list")
        for item in items:
            yield from _unpacked({"kind": "Pod", **item} if isinstance(item, dict) else item, source)
    else:
        yield document
