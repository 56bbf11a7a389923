"""ConfigMaps and Secrets of manifest directories: found by name, and told of when they are wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from jettison import events
from jettison.agent.pods.directories import ManifestDirectory
from jettison.agent.pods.manifest_objects import ManifestObjects, check_objects
from jettison.errors import ContentError
from jettison.runtimes.configuration import ObjectKind, TokenOrder
from jettison.runtimes.kept_text import KeptObject

FILE = """
kind: ConfigMap
metadata: {name: same, namespace: ns}
data: {a: one}
---
kind: Secret
metadata: {name: same}
stringData: {b: two}
---
kind: Secret
metadata: {name: same}
stringData: {b: other}
---
kind: ConfigMap
metadata: {name: wrong}
data: {a/b: ""}
"""


@pytest.fixture
def directory(tmp_path: Path) -> ManifestDirectory:
    (tmp_path / "objects.yaml").write_text(FILE)
    found = ManifestDirectory(tmp_path, lambda _: None)
    assert found.look_now()
    return found


def test_they_are_found_by_kind_namespace_and_name(directory: ManifestDirectory) -> None:
    objects = ManifestObjects([directory])

    def read(kind: ObjectKind, namespace: str, name: str) -> KeptObject | None:
        found = asyncio.run(objects.read(kind, namespace, name))
        return None if found is None else found.take_apart()

    assert read(ObjectKind.CONFIG_MAP, "ns", "same") == KeptObject({"a": b"one"})
    assert read(ObjectKind.SECRET, "default", "same") == KeptObject({"b": b"two"})
    assert read(ObjectKind.SECRET, "ns", "same") is None
    with pytest.raises(ContentError, match=r"configmap .wrong. of .*objects.yaml cannot be used: data: key `a/b`"):
        read(ObjectKind.CONFIG_MAP, "default", "wrong")


def test_there_are_no_tokens(directory: ManifestDirectory) -> None:
    with pytest.raises(ContentError, match="no API that issues tokens"):
        asyncio.run(ManifestObjects([directory]).token(TokenOrder("ns", "a", "p", "u", "", 600)))


def test_what_is_wrong_is_told_of(directory: ManifestDirectory) -> None:
    said: list[object] = []
    assert check_objects([directory], said.append) == {str(directory.path / "objects.yaml")}
    told = [fact.why for fact in said if isinstance(fact, events.ActionFailed)]
    assert ["is there twice, the second is left out" in told[0], "key `a/b`" in told[1]] == [True, True]
