"""Documents at the door: types are checked, values normalised, unknown fields kept and noted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.apiserver.objects.resources import RESOURCES
from jettison.apiserver.objects.schema import empty_struct, read_document
from jettison.errors import InputError
from jettison.manifests.files.kinds import SCALARS, structs

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("document", "found", "field", "wanted"),
    [
        ({"spec": []}, "array", "Pod.spec", "v1.PodSpec"),
        ({"spec": {"containers": {}}}, "object", "PodSpec.spec.containers", "[]v1.Container"),
        ({"spec": {"containers": [{"image": 5}]}}, "number", "Container.spec.containers.image", "string"),
        ({"spec": {"hostNetwork": "yes"}}, "string", "PodSpec.spec.hostNetwork", "bool"),
        ({"spec": {"priority": 2**31}}, "number 2147483648", "PodSpec.spec.priority", "int32"),
        ({"spec": {"priority": True}}, "bool", "PodSpec.spec.priority", "int32"),
        ({"metadata": {"labels": {"a": 1}}}, "number", "ObjectMeta.metadata.labels", "string"),
        ({"metadata": {"uid": 1}}, "number", "ObjectMeta.metadata.uid", "types.UID"),
        ({"metadata": {"generation": 1.5}}, "number 1.5", "ObjectMeta.metadata.generation", "int64"),
    ],
)
def test_a_field_of_the_wrong_type(document: Any, found: str, field: str, wanted: str) -> None:
    with pytest.raises(InputError) as refused:
        read_document("Pod", document)
    assert str(refused.value) == f"json: cannot unmarshal {found} into Go struct field {field} of type {wanted}"


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([], "json: cannot unmarshal array into Go value of type v1.Pod"),
        ({"metadata": {"creationTimestamp": "soon"}}, 'parsing time "soon" as "2006-01-02T15:04:05Z07:00"'),
        ({"spec": {"overhead": {"cpu": "much"}}}, "quantities must match the regular expression"),
    ],
)
def test_a_text_that_is_no_value(document: Any, complaint: str) -> None:
    with pytest.raises(InputError) as refused:
        read_document("Pod", document)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "document", "expected"),
    [
        ("PriorityClass", {"value": 1, "globalDefault": False, "description": ""}, {"value": 1}),
        ("PriorityClass", {"value": None}, {"value": 0}),
        ("Lease", {"spec": {"holderIdentity": ""}}, {"spec": {"holderIdentity": ""}}),
        ("Node", {"spec": {"unschedulable": False, "taints": None}}, {"spec": {}}),
        (
            "PodDisruptionBudget",
            {"spec": {"selector": {}, "minAvailable": 0}},
            {"spec": {"selector": {}, "minAvailable": 0}},
        ),
    ],
)
def test_values_are_written_as_go_writes_them(kind: str, document: Json, expected: Json) -> None:
    value, _ = read_document(kind, document)
    assert {key: value[key] for key in expected} == expected


def test_times_are_written_in_utc_to_the_second_or_the_microsecond() -> None:
    value, _ = read_document("Lease", {"spec": {"renewTime": "2027-01-01T01:00:00.000000+01:00"}})
    assert value["spec"]["renewTime"] == "2027-01-01T00:00:00.000000Z"
    with pytest.raises(InputError, match=r'cannot parse "Z" as "\.000000"'):
        read_document("Lease", {"spec": {"renewTime": "2027-01-01T01:00:00Z"}})
    value, _ = read_document("Pod", {"status": {"startTime": "2027-01-01T01:00:00.9+01:00"}})
    assert value["status"]["startTime"] == "2027-01-01T00:00:00Z"


def test_quantities_are_canonical() -> None:
    container = {"name": "c", "resources": {"limits": {"memory": "1.5Gi ", "cpu": 0.5, "example.com/x": 3}}}
    value, _ = read_document("Pod", {"spec": {"containers": [container]}})
    limits = value["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"memory": "1536Mi", "cpu": "500m", "example.com/x": "3"}


def test_unknown_fields_are_dropped_and_noted_in_their_order() -> None:
    document = {"x": 1, "spec": {"containers": [{"y": None}], "z": {}}, "metadata": {"w": []}}
    value, unknown = read_document("Pod", document)
    assert unknown == ["x", "spec.containers[0].y", "spec.z", "metadata.w"]
    assert ("x" in value, "z" in value["spec"], value["metadata"]) == (False, False, {})


def test_every_type_that_is_named_exists_and_every_kind_has_one() -> None:
    known = structs()
    for struct in known.values():
        for field in struct.fields.values():
            assert field.type.base in SCALARS or field.type.base in known, f"{struct.name}.{field.name}"
            if field.merge_key:
                assert field.merge_key in known[field.type.base].fields, f"{struct.name}.{field.name}"
    # What is measured is only ever read.
    for resource in [each for each in RESOURCES if each.is_stored or "create" in each.verbs]:
        assert "metadata" in known[resource.struct].fields


@pytest.mark.parametrize("name", sorted(structs()))
def test_reading_is_done_after_once(name: str) -> None:
    """What was read and written is read again as the same value: else no write would ever change nothing."""
    value = empty_struct(name)
    assert read_document(name, value)[0] == {**value, "metadata": value.get("metadata", {})}


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
_KEYS = st.sampled_from(["metadata", "spec", "status", "containers", "name", "labels", "conditions", "resources", "x"])
_DOCUMENTS = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=15
)


@given(st.sampled_from(sorted(structs())), _DOCUMENTS)
def test_anything_is_read_or_refused(name: str, document: Any) -> None:
    try:
        value, _ = read_document(name, document)
    except InputError:
        return
    assert read_document(name, value)[0] == value
