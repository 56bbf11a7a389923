"""Typing mistakes in manifests, at every depth."""

from __future__ import annotations

import json

import pytest

from jettison.errors import ManifestError
from jettison.manifests.files.document_files import parse_documents
from jettison.manifests.files.kinds import structs, unknown_fields


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        ({"sepc": {}}, 'unknown field "sepc", did you mean `spec`?'),
        ({"metadata": {"nmae": "x"}}, 'unknown field "metadata.nmae", did you mean `name`?'),
        (
            {"spec": {"containers": [{"comand": ["x"]}]}},
            'unknown field "spec.containers[0].comand", did you mean `command`?',
        ),
        (
            {"spec": {"containers": [{}, {"resources": {"limit": {"memory": "1Gi"}}}]}},
            'unknown field "spec.containers[1].resources.limit", did you mean `limits`?',
        ),
        (
            {"spec": {"volumes": [{"name": "v", "emptyDir": {"sizelimit": "1Gi"}}]}},
            'unknown field "spec.volumes[0].emptyDir.sizelimit", did you mean `sizeLimit`?',
        ),
        (
            {"spec": {"containers": [{"livenessProbe": {"exec": {"comand": ["x"]}}}]}},
            'unknown field "spec.containers[0].livenessProbe.exec.comand", did you mean `command`?',
        ),
        ({"spec": {"zzzzzz": 1}}, 'unknown field "spec.zzzzzz"'),
        ({"spec": {"priorty": 1, "restartpolicy": 2}}, "did you mean `priority`?; unknown field"),
    ],
)
def test_a_mistyped_field_is_named_with_the_nearest(pod: dict[str, object], said: str) -> None:
    with pytest.raises(ManifestError) as refusal:
        parse_documents(json.dumps({"kind": "Pod", "metadata": {"name": "web"}, **pod}), "a.yaml")

    assert str(refusal.value).startswith("a.yaml: Pod `")
    assert said in str(refusal.value)


def test_a_mistyped_field_of_a_priority_class() -> None:
    with pytest.raises(ManifestError, match=r'PriorityClass `gold`: unknown field "valeu", did you mean `value`'):
        parse_documents("{kind: PriorityClass, metadata: {name: gold}, valeu: 5}", "a.yaml")


def test_what_kubernetes_has_and_a_host_has_not_is_no_typing_mistake() -> None:
    """Labels and annotations may be called anything; a wrong shape is for others to name."""
    spec = {"dnsPolicy": "None", "hostAliases": [], "volumes": [{"secret": {"secretName": "s"}}], "containers": "none"}
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"comand": "x"}}, "spec": spec, "status": {}}

    assert list(unknown_fields("Pod", pod)) == []
    assert parse_documents(json.dumps(pod), "a.yaml") == [pod]


def test_ten_thousand_mistakes_are_told_in_a_line() -> None:
    pod = {"kind": "Pod", "spec": {f"{'x' * 60}{number}": 1 for number in range(10_000)}}

    with pytest.raises(ManifestError) as refusal:
        parse_documents(json.dumps(pod), "a.yaml")
    assert len(str(refusal.value)) < 700


def test_every_type_that_is_named_is_there() -> None:
    """A field of a struct that is not listed could not be looked through."""
    for struct in structs().values():
        for field in struct.fields.values():
            base = field.type.base
            assert not field.type.is_struct or base in structs(), base
