"""Pods as a drain sees them."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.engine.budgets.budget import GuardedPod
from jettison.engine.drain.filters import NodePod
from jettison.errors import ManifestError
from jettison.manifests.node_pods import node_pod_from


def document(metadata: dict[str, Any] | None = None, **spec: object) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "ns", "uid": "u", **(metadata or {})}, "spec": spec}


def test_a_plain_pod() -> None:
    assert node_pod_from(document(nodeName="n1")) == NodePod(GuardedPod("p", "ns"), "u", "n1")


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        (None, False),
        ([{"name": "v", "hostPath": {"path": "/"}}], False),
        ([{"name": "v", "emptyDir": None}], False),
        ([{"name": "v", "emptyDir": {}}], True),
        ([{"name": "c", "configMap": {}}, {"name": "v", "emptyDir": {"medium": "Memory"}}], True),
    ],
)
def test_only_an_empty_dir_is_local_storage(volumes: object, expected: bool) -> None:
    assert node_pod_from(document(volumes=volumes)).has_empty_dir is expected


@pytest.mark.parametrize(
    ("annotations", "expected"), [({"kubernetes.io/config.mirror": ""}, True), ({"x": "y"}, False)]
)
def test_a_mirror_pod_is_known_by_its_annotation(annotations: dict[str, str], expected: bool) -> None:
    assert node_pod_from(document({"annotations": annotations})).is_mirror is expected


def test_a_terminating_pod_has_a_deadline() -> None:
    pod = node_pod_from(document({"deletionTimestamp": "2023-11-14T22:13:20Z"}))
    assert (pod.deadline_ns, pod.guarded.is_terminating) == (1_700_000_000 * 10**9, True)


@pytest.mark.parametrize("source", [None, {"metadata": []}, {"metadata": {"name": "p"}, "spec": {"volumes": [1]}}])
def test_what_is_no_pod_is_refused(source: object) -> None:
    with pytest.raises(ManifestError):
        node_pod_from(source)
