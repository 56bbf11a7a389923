"""The schemas for `kubectl explain`: what is served is described, in words of our own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from jettison.apiserver.http.schemas import _words, components
from jettison.apiserver.objects.resources import RESOURCES, Resource
from jettison.manifests.files.kinds import structs

Json = dict[str, Any]


def schemas() -> Iterator[tuple[Resource, dict[str, Json]]]:
    """Each resource, with the schemas of its group by the names of their structs."""
    rows = sorted(RESOURCES, key=lambda row: (row.group, row.version))
    for _, group in groupby(rows, key=lambda row: (row.group, row.version)):
        together = list(group)
        found = {name.rpartition(".")[2]: each for name, each in components(together).items()}
        yield from ((row, found) for row in together if row.struct in found)


def undescribed(row: Resource, found: dict[str, Json]) -> Iterator[str]:
    fields = structs()[row.struct].fields
    parts = [fields[name].type.base for name in ("spec", "status") if name in fields]
    for struct in (row.struct, *parts):
        if "description" not in found[struct]:
            yield struct
        for name, each in found[struct]["properties"].items():
            if "description" not in each:
                yield f"{struct}.{name}"


def test_every_kind_is_described_with_its_spec_and_status() -> None:
    checked = list(schemas())
    assert {"Pod", "PodDisruptionBudget", "Job", "StatefulSet", "Service"} <= {row.kind for row, _ in checked}
    missing = {each for row, found in checked for each in undescribed(row, found)}
    assert not missing, sorted(missing)


def test_words_are_about_fields_that_exist() -> None:
    """A misspelt name would describe nothing, and not be missed."""
    known = structs()
    strange = [
        f"{struct}.{name}"
        for struct, words in _words().items()
        for name in words
        if struct not in known or (name != "." and name not in known[struct].fields)
    ]
    assert not strange
