"""How much a manifest may say.

An agent reads manifests while it guards a node, in one thread with its memory locked: a document must not cost it more
than a millisecond or a megabyte. These bounds are ten times what a big pod needs. Files are measured by the child that
reads them, before the agent sees anything of them; the pods of an API before they are decoded
(`runtimes.kube.bounded_answers`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from jettison.errors import ManifestError

LARGEST_FILE = 2**20
LARGEST_DOCUMENT = 256 * 1024
"""Bytes of one document as JSON; a command may be half of it, the most that the kernel passes to a program."""

MOST_VALUES = 4000
"""Texts, numbers, lists and maps of one document. They are what costs: a map of one key takes 184 bytes of memory."""

MOST_FILE_VALUES = 10_000
MOST_FILES = 1000
MOST_DOCUMENTS = 500
"""Of one directory, as are the files and the bytes of all their documents together."""

LARGEST_TOTAL = 4 * 2**20

LARGEST_MEMORY = 300_000
"""Bytes that the documents of one file may take once they are decoded, or a part of a pod from an API; with all that is
made of them it is at most 1 MB. A text of 256 KiB takes four times as much as soon as it has an emoji."""

LARGEST_OBJECT = 512 * 1024
"""Bytes of an object as an API sends it, with its status and managedFields, which say every field's name once more."""

MOST_OBJECT_VALUES = 4 * MOST_VALUES

REFUSED = "jettison.dev/refused"
"""The annotation of a stand-in, with the reason; notes of this kind are taken off what an API says. As a field beside
`metadata` it marks an object of an API that was too large to be decoded."""

WEIGHT = "jettison.dev/weight"
"""A field beside `metadata` with the bytes of memory that an object of an API takes, about."""

_DEEPEST = 32
_MOST_NAMES = 64
_LONGEST_NAME = 63


def check_document(document: object, name: str, most: int = MOST_VALUES) -> int:
    """How many values it has; a ManifestError when it is too large. Stops at the bound, so it takes 0.5 ms at most."""
    values = size = 0
    level: list[Any] = [document]
    for _ in range(_DEEPEST):
        values += len(level)
        if values > most:
            raise ManifestError(f"{name}: more than {most} values")
        below: list[Any] = []
        for value in level:
            if isinstance(value, str):
                size += len(value)
            elif isinstance(value, dict):
                size += sum(map(len, value))
                below += value.values()
            elif isinstance(value, list | tuple):
                below += value
        if size > LARGEST_DOCUMENT:
            raise ManifestError(f"{name}: more than {LARGEST_DOCUMENT} bytes of text")
        if not below:
            return values
        level = below
    raise ManifestError(f"{name}: nested more than {_DEEPEST} levels deep")


def check_memory(document: object, name: str) -> None:
    """A ManifestError when what was decoded takes too much. For a thread or another process: it takes a millisecond."""
    size = 0
    seen: set[int] = set()
    pending: list[Any] = [document]
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        size += sys.getsizeof(value)
        if size > LARGEST_MEMORY:
            raise ManifestError(f"{name}: takes more than {LARGEST_MEMORY} bytes of memory")
        if isinstance(value, dict):
            pending += value
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def stand_in(document: Mapping[str, Any], why: str) -> dict[str, Any]:
    """What is left of a pod that is too large to be looked at: its name, those of its containers, and why."""
    metadata, spec = document["metadata"], document.get("spec")
    kept = {key: metadata[key] for key in ("name", "namespace", "uid") if isinstance(metadata.get(key), str)}
    containers = spec.get("containers") if isinstance(spec, dict) else None
    listed = containers[:_MOST_NAMES] if isinstance(containers, list) else []
    found = [each.get("name") for each in listed if isinstance(each, dict)]
    names = [{"name": name} for name in found if isinstance(name, str) and len(name) <= _LONGEST_NAME]
    kept["annotations"] = {REFUSED: why}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": {"containers": names}}
