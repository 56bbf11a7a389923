"""Paths, and names that try to be paths."""

from __future__ import annotations

import pytest

from jettison.errors import InputError
from jettison.runtimes.kube.kinds import BUDGETS, NODES, PODS, Kind


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("ns"), "/api/v1/namespaces/ns/pods"),
        (PODS.path("ns", "p", "eviction"), "/api/v1/namespaces/ns/pods/p/eviction"),
        (NODES.path("ignored", "n1"), "/api/v1/nodes/n1"),
        (BUDGETS.path("ns", "b", "status"), "/apis/policy/v1/namespaces/ns/poddisruptionbudgets/b/status"),
        (Kind("g", "things", version="v2").path("ns"), "/apis/g/v2/namespaces/ns/things"),
        (PODS.path("ns", "a?x=1#y z"), "/api/v1/namespaces/ns/pods/a%3Fx%3D1%23y%20z"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize("name", [".", "..", "a/b", "../../secrets", "%2e%2e"])
def test_a_name_does_not_become_another_path(name: str) -> None:
    with pytest.raises(InputError, match="cannot be a name"):
        PODS.path("ns", name)
    with pytest.raises(InputError, match="cannot be a name"):
        PODS.path(name, "p")


@pytest.mark.parametrize("name", ["\udcff", "a\ud800"])
def test_bytes_that_are_no_text_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="is not UTF-8"):
        PODS.path("ns", name)
