"""What a pod is told about itself, as a kubelet would tell it."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.engine.numbers.quantity import parse
from jettison.errors import ManifestError
from jettison.manifests.pod_fields import (
    PodPlace,
    ResourceField,
    check_field,
    check_resource,
    field_text,
    resource_text,
)

POD: dict[str, Any] = {
    "metadata": {
        "name": "web",
        "namespace": "ns",
        "uid": "u1",
        "labels": {"tier": "front", "app": 'a"b\n'},
        "annotations": {"example.com/Note": "x"},
    },
    "spec": {
        "serviceAccountName": "robot",
        "containers": [
            {"name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "65Mi "}, "requests": {"cpu": "250m"}}},
            {"name": "free"},
        ],
        "initContainers": [{"name": "i", "resources": {"requests": {"hugepages-2Mi": "4Mi"}}}],
    },
}
AROUND = PodPlace("n1", ("10.0.0.1", "fd00::1"), ("10.1.0.2",), {"cpu": parse("3920m"), "memory": parse("2Gi")})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u1"),
        ("metadata.labels", 'app="a\\"b\\n"\ntier="front"'),
        ("metadata.annotations", 'example.com/Note="x"'),
        ("metadata.labels['tier']", "front"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['example.com/Note']", "x"),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "robot"),
        ("status.hostIP", "10.0.0.1"),
        ("status.hostIPs", "10.0.0.1,fd00::1"),
        ("status.podIP", "10.1.0.2"),
        ("status.podIPs", "10.1.0.2"),
    ],
)
def test_fields(path: str, text: str) -> None:
    assert field_text(POD, path, AROUND) == text


@pytest.mark.parametrize(
    ("container", "resource", "divisor", "text"),
    [
        ("c", "limits.cpu", "1", "2"),
        ("c", "limits.cpu", "1m", "1500"),
        ("c", "limits.cpu", "0", "2"),
        ("c", "limits.memory", " 1Mi", "65"),
        ("c", "limits.memory", "1Gi", "1"),
        ("c", "limits.memory", "1", "68157440"),
        ("c", "requests.cpu", "1m", "250"),
        ("c", "requests.memory", "1", "0"),
        ("free", "limits.cpu", "1m", "3920"),
        ("free", "limits.memory", "1Mi", "2048"),
        ("free", "limits.ephemeral-storage", "1", "0"),
        ("free", "requests.cpu", "1", "0"),
        ("i", "requests.hugepages-2Mi", "1Mi", "4"),
        ("i", "limits.hugepages-2Mi", "1", "0"),
    ],
)
def test_resources_are_rounded_up_and_default_to_the_nodes(
    container: str, resource: str, divisor: str, text: str
) -> None:
    assert resource_text(POD, check_resource(ResourceField(container, resource, divisor)), AROUND) == text


def test_what_is_not_known_is_refused() -> None:
    assert check_field("metadata.labels", is_file=True)
    for path, is_file in (
        ("metadata.labels", False),
        ("status.podIP", True),
        ("spec.x", True),
        ("spec.tier['a']", True),
    ):
        with pytest.raises(ManifestError, match="is not known, there are"):
            check_field(path, is_file=is_file)
    for resource, divisor in (("limits.gpu", "1"), ("cpu", "1"), ("limits.cpu", "-1"), ("limits.cpu", "x")):
        with pytest.raises(ManifestError):
            check_resource(ResourceField("c", resource, divisor))
    with pytest.raises(ManifestError, match="container d not found"):
        resource_text(POD, ResourceField("d", "limits.cpu"), AROUND)
