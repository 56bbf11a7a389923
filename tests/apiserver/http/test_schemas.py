"""The schemas for `kubectl explain`: what is served is described, in words of our own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from jettison.apiserver.http.schemas import _marks, _words, component, components
from jettison.apiserver.objects.resources import RESOURCES, Resource
from jettison.manifests.files.kinds import structs

Json = dict[str, Any]


def schemas() -> Iterator[tuple[Resource, dict[str, Json]]]:
    """Each resource, with the schemas of its group by the names of their structs."""
    rows = sorted(RESOURCES, key=lambda row: (row.group, row.version))
    for _, group in groupby(rows, key=lambda row: (row.group, row.version)):
        together = list(group)
        found = {name.rpartition(".")[2]: each for name, each in components(together).items()}
        yield from ((row, found) for row in together if component(row.struct, row) in found)


def test_every_kind_and_every_field_in_it_is_described() -> None:
    checked = list(schemas())
    assert {"Pod", "PodDisruptionBudget", "Job", "StatefulSet", "Service"} <= {row.kind for row, _ in checked}
    kinds = {component(row.struct, row) for row, found in checked if "description" not in found[row.kind]}
    assert not kinds, sorted(kinds)
    missing = {
        f"{struct}.{name}"
        for _, found in checked
        for struct, schema in found.items()
        for name, each in schema.get("properties", {}).items()
        if "description" not in each
    }
    assert not missing, sorted(missing)


def found_for(kind: str) -> dict[str, Json]:
    return next(found for row, found in schemas() if row.kind == kind)


def test_what_must_be_there() -> None:
    assert found_for("Deployment")["DeploymentSpec"]["required"] == ["selector", "template"]
    assert found_for("Pod")["PodSpec"]["required"] == ["containers"]
    assert "required" not in found_for("PodDisruptionBudget")["PodDisruptionBudgetStatus"]


def test_the_only_texts_that_a_field_may_have() -> None:
    pod = found_for("Pod")
    assert pod["PodSpec"]["properties"]["restartPolicy"]["enum"] == ["Always", "Never", "OnFailure"]
    assert pod["HostPathVolumeSource"]["properties"]["type"]["enum"][:2] == ["", "BlockDevice"]
    assert pod["PersistentVolumeClaimSpec"]["properties"]["accessModes"]["items"]["enum"][0] == "ReadOnlyMany"
    assert "enum" not in pod["PodSpec"]["properties"]["schedulerName"]


def test_a_schema_has_the_name_of_kubernetes() -> None:
    """Two groups have an Event and an EndpointPort; the table of structs tells them apart by longer names."""
    assert found_for("EndpointSlice")["EndpointSlice"]["properties"]["ports"]["items"]["$ref"].endswith(".EndpointPort")
    assert "Event" in dict(next(found for row, found in schemas() if row.struct == "EventsV1Event"))


def test_words_are_about_fields_that_exist() -> None:
    """A misspelt name would describe nothing, and not be missed."""
    known = structs()
    strange = [
        f"{struct}.{name}"
        for struct, words in (*_words().items(), *_marks().items())
        for name in words
        if struct not in known or (name != "." and name not in known[struct].fields)
    ]
    assert not strange
