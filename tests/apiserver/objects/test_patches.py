"""The patch types, on plain documents."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.apiserver.connections.limits import MOST_BODY_BYTES
from jettison.apiserver.objects.patches import apply_json_patch, apply_merge_patch, apply_strategic_patch
from jettison.errors import ApiError

Json = dict[str, Any]

DOCUMENT: Json = {"a": {"b": [1, 2, 3], "c/d": {"e~f": None}}, "n": 1}


@pytest.mark.parametrize(
    ("operation", "path", "expected"),
    [
        ({"op": "add", "path": "/a/b/1", "value": 9}, ("a", "b"), [1, 9, 2, 3]),
        ({"op": "add", "path": "/a/b/-", "value": 9}, ("a", "b"), [1, 2, 3, 9]),
        ({"op": "add", "path": "/x", "value": {}}, ("x",), {}),
        ({"op": "remove", "path": "/a/b/0"}, ("a", "b"), [2, 3]),
        ({"op": "replace", "path": "/n", "value": "t"}, ("n",), "t"),
        ({"op": "replace", "path": "/a/c~1d/e~0f", "value": 5}, ("a", "c/d"), {"e~f": 5}),
        ({"op": "move", "from": "/n", "path": "/a/b/0"}, ("a", "b"), [1, 1, 2, 3]),
        ({"op": "copy", "from": "/a/b", "path": "/y"}, ("y",), [1, 2, 3]),
        ({"op": "test", "path": "/a/b", "value": [1, 2, 3]}, ("n",), 1),
        ({"op": "test", "path": "/absent", "value": None}, ("n",), 1),
        ({"op": "replace", "path": "", "value": {"whole": True}}, ("whole",), True),
        # Against the standard, and as in Kubernetes.
        ({"op": "replace", "path": "/absent", "value": 7}, ("absent",), 7),
        ({"op": "copy", "from": "/absent", "path": "/y"}, ("y",), None),
        ({"op": "add", "path": "/x"}, ("x",), None),
        ({"op": "remove", "path": "/a/b/-1"}, ("a", "b"), [1, 2]),
        ({"op": "add", "path": "a/x", "value": 2}, ("x",), 2),
    ],
)
def test_json_patch(operation: Json, path: tuple[str, ...], expected: Any) -> None:
    before = copy.deepcopy(DOCUMENT)
    found: Any = apply_json_patch(DOCUMENT, [operation], MOST_BODY_BYTES)
    for step in path:
        found = found[step]
    assert found == expected
    assert before == DOCUMENT, "the stored document was changed"


def test_a_json_patch_sorts_the_keys_of_objects_that_it_leads_through() -> None:
    """Also where a key is empty, and whatever an operation says that has no `from`."""
    document = {"z": 1, "b": {"y": 1, "": {"d": 1, "c": {"q": 1, "p": 1}}}, "a": {"y": 1, "x": 1}}
    patch = [{"op": "replace", "path": "/b//d", "value": 2, "from": 5}]
    found: Any = apply_json_patch(document, patch, MOST_BODY_BYTES)
    assert [list(found), list(found["b"]), list(found["b"][""])] == [["a", "b", "z"], ["", "y"], ["c", "d"]]
    assert [list(found["a"]), list(found["b"][""]["c"])] == [["y", "x"], ["q", "p"]]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nope"},
        {"op": "remove", "path": ""},
        {"op": "remove", "path": "/a/b/3"},
        {"op": "add", "path": "/a/b/-9", "value": 1},
        {"op": "add", "path": "/a/b/x", "value": 1},
        {"op": "add", "path": "/n/x", "value": 1},
        {"op": "replace", "path": "/nope/x", "value": 1},
        {"op": "replace", "path": "/a/b/9", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "copy", "from": "", "path": "/x"},
        {"op": "move", "from": "/a", "path": "/a/b/0"},
        {"op": "test", "path": "/n", "value": True},
        {"op": "explode", "path": "/n"},
        {"op": "add", "path": "n", "value": 1},
        {"path": "/n"},
        {"op": "add", "path": 5, "value": 1},
    ],
)
def test_json_patch_that_does_not_fit(operation: Json) -> None:
    with pytest.raises(ApiError) as refused:
        apply_json_patch(DOCUMENT, [operation], MOST_BODY_BYTES)
    assert (refused.value.code, refused.value.details) == (422, {})


def _nest(levels: int) -> Json:
    found: Json = {}
    for _ in range(levels - 1):
        found = {"x": found}
    return found


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "copy", "from": "", "path": f"/z{each}"} for each in range(40)],
        [{"op": "copy", "from": "/text", "path": f"/z{each}"} for each in range(4)],
        [{"op": "move", "from": "/text", "path": "/t"}, {"op": "move", "from": "/t", "path": "/text"}] * 2,
        [{"op": "add", "path": "/ones/0", "value": 1}] * 200,
        [{"op": "remove", "path": "/ones/0"}] * 200,
        [{"op": "add", "path": "/deep/x", "value": _nest(99)}],
        [{"op": "replace", "path": "/deep", "value": _nest(100)}],
        [{"op": "copy", "from": "/half", "path": "/half" + "/x" * 50}],
        [{"op": "copy", "from": "/half", "path": "/new"}, {"op": "move", "from": "/half", "path": "/new" + "/x" * 50}],
    ],
    ids=["doubling", "copies", "moves", "insertions", "removals", "add", "replace", "copy", "move"],
)
def test_json_patch_that_grows(patch: list[Json]) -> None:
    document = {"text": "x" * 1_000_000, "deep": {}, "half": _nest(50), "ones": [1] * 500_000}
    with pytest.raises(ApiError) as refused:
        apply_json_patch(document, patch, MOST_BODY_BYTES)
    assert refused.value.code == 422


def test_json_patch_may_grow_as_far_as_a_body() -> None:
    document = {"text": "x" * 1_000_000, "deep": {}, "half": _nest(50)}
    patch = [
        *({"op": "copy", "from": "/text", "path": f"/z{each}"} for each in range(3)),
        {"op": "add", "path": "/deep/x", "value": _nest(98)},
        {"op": "copy", "from": "/half", "path": "/half" + "/x" * 49},
    ]
    found = apply_json_patch(document, patch, MOST_BODY_BYTES)
    assert (found["deep"], found["half"], len(found)) == (_nest(99), _nest(99), 6)


def test_json_patch_may_make_a_long_list() -> None:
    """At its end, and for as long as a list is that a cluster has, at its beginning."""
    patch = [{"op": "add", "path": f"/ones/{place}", "value": 2} for place in ("-", "0") for _ in range(5000)]
    found = apply_json_patch({"ones": [1] * 1000}, patch, MOST_BODY_BYTES)
    assert found == {"ones": [2] * 5000 + [1] * 1000 + [2] * 5000}


@pytest.mark.parametrize(("patch", "code"), [({}, 400), ([1], 400), ([{"op": "test", "path": ""}] * 10_001, 413)])
def test_json_patch_that_is_none(patch: Any, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        apply_json_patch(DOCUMENT, patch, MOST_BODY_BYTES)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [  # the examples of RFC 7386
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(target: Any, patch: Any, expected: Any) -> None:
    assert apply_merge_patch(target, patch) == expected


POD: Json = {
    "metadata": {
        "labels": {"a": "1", "b": "2"},
        "finalizers": ["x/one", "x/two"],
        "ownerReferences": [{"uid": "1", "name": "one"}],
    },
    "spec": {
        "containers": [
            {"name": "a", "image": "a:1", "env": [{"name": "E", "value": "1"}]},
            {"name": "b", "image": "b:1"},
        ],
        "tolerations": [{"key": "t"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("patch", "path", "expected"),
    [
        ({"metadata": {"labels": {"a": None, "c": "3"}}}, "metadata.labels", {"b": "2", "c": "3"}),
        ({"metadata": {"labels": {"$patch": "replace", "z": "9"}}}, "metadata.labels", {"z": "9"}),
        ({"metadata": {"labels": {"$patch": "delete"}}}, "metadata.labels", {}),
        ({"metadata": {"finalizers": ["x/three"]}}, "metadata.finalizers", ["x/three", "x/one", "x/two"]),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/one"]}}, "metadata.finalizers", ["x/two"]),
        (
            {"metadata": {"ownerReferences": [{"uid": "2", "name": "two"}]}},
            "metadata.ownerReferences",
            [{"uid": "2", "name": "two"}, {"uid": "1", "name": "one"}],
        ),
        ({"spec": {"tolerations": [{"key": "u"}]}}, "spec.tolerations", [{"key": "u"}]),
        (
            {"spec": {"containers": [{"name": "b", "image": "b:2"}]}},
            "spec.containers",
            [POD["spec"]["containers"][0], {"name": "b", "image": "b:2"}],
        ),
        (
            {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
            "spec.containers",
            [{"name": "b", "image": "b:1"}],
        ),
        (
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "n", "image": "n:1"}]}},
            "spec.containers",
            [{"name": "n", "image": "n:1"}],
        ),
        (
            {"spec": {"containers": [{"name": "a", "env": [{"name": "F", "value": "2"}]}]}},
            "spec.containers.0.env",
            [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}],
        ),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": []}},
            "spec.containers",
            [POD["spec"]["containers"][1], POD["spec"]["containers"][0]],
        ),
        (
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}},
            "spec.volumes",
            [{"name": "v", "hostPath": {"path": "/x"}}],
        ),
        (
            {"status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "New", "status": "True"}]}},
            "status.conditions",
            [
                {"type": "Ready", "status": "True"},
                {"type": "Other", "status": "False"},
                {"type": "New", "status": "True"},
            ],
        ),
    ],
)
def test_strategic_merge_patch(patch: Json, path: str, expected: Any) -> None:
    before = copy.deepcopy(POD)
    found: Any = apply_strategic_patch(POD, patch, "Pod")
    for step in path.split("."):
        found = found[int(step)] if step.isdigit() else found[step]
    assert found == expected
    assert before == POD, "the stored document was changed"


def test_a_budgets_selector_is_replaced_as_a_whole() -> None:
    old = {"spec": {"selector": {"matchLabels": {"a": "1"}}, "minAvailable": 1}}
    patch = {"spec": {"selector": {"matchLabels": {"b": "2"}}}}
    new = apply_strategic_patch(old, patch, "PodDisruptionBudget")
    assert new == {"spec": {"selector": {"matchLabels": {"b": "2"}}, "minAvailable": 1}}


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"spec": {"containers": [{"image": "without a name"}]}}, 500),
        ({"spec": {"containers": ["text"]}}, 500),
        ({"spec": {"$patch": "explode"}}, 500),
        ({"spec": {"volumes": [{"name": "v", "$retainKeys": "name"}]}}, 400),
        ({"metadata": {"finalizers": [{}]}}, 500),
        ({"spec": {"$setElementOrder/containers": "x", "containers": []}}, 500),
    ],
)
def test_strategic_patch_that_does_not_fit(patch: Json, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        apply_strategic_patch(POD, patch, "Pod")
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (
            {"spec": {"containers": [{"name": "a"}], "$setElementOrder/containers": [{}]}},
            "map: map[] does not contain declared merge key: name",
        ),
        (
            {"spec": {"containers": [{"name": "a"}], "$setElementOrder/containers": ["a"]}},
            "expected a map[string]interface {}, but received a string",
        ),
        ({"spec": {"$setElementOrder/containers": ["a"]}}, "value for key 0 is not a map"),
        (
            {"spec": {"hostAliases": [], "$setElementOrder/hostAliases": []}},
            "no elements in any of the given slices",
        ),
        (
            {"spec": {"tolerations": [], "$setElementOrder/tolerations": []}},
            "map: map[key:t] does not contain declared merge key: ",
        ),
        (
            {"spec": {"tolerations": [{"key": "u"}], "$setElementOrder/tolerations": ["u"]}},
            "The order in patch list:\n[map[key:u]]\n doesn't match $setElementOrder list:\n[u]\n",
        ),
        (
            {"spec": {"containers": [{"name": "a"}, {"$patch": "x"}], "$setElementOrder/containers": [{"name": "a"}]}},
            (
                "The order in patch list:\n[map[name:a] map[$patch:x]]\n"
                " doesn't match $setElementOrder list:\n[map[name:a]]\n"
            ),
        ),
        (
            {"spec": {"containers": [{"$patch": "replace"}, {"image": "i"}]}},
            "map: map[image:i] does not contain declared merge key: name",
        ),
        ({"spec": {"$setElementOrder/volumes": None}}, "expected a []interface {}, but received a %!s(<nil>)"),
        ({"spec": {"$patch": 1}}, "unknown patch type: %!s(int64=1) in map: map[$patch:1]"),
    ],
)
def test_what_is_wrong_with_a_strategic_patch(patch: Json, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        apply_strategic_patch(POD, patch, "Pod")
    assert refused.value.message == message


def test_a_list_that_is_new_keeps_the_nulls_of_a_patch_only_with_an_order() -> None:
    element = {"ip": "1.2.3.4", "hostnames": None}
    order = {"$setElementOrder/hostAliases": [{"ip": "1.2.3.4"}]}
    ordered = apply_strategic_patch(POD, {"spec": {"hostAliases": [element], **order}}, "Pod")
    plain = apply_strategic_patch(POD, {"spec": {"hostAliases": [element]}}, "Pod")
    assert [each["spec"]["hostAliases"] for each in (ordered, plain)] == [[element], [{"ip": "1.2.3.4"}]]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abc"), _JSON, max_size=3), _JSON)
def test_a_merge_patch_is_done_after_one_application(target: Json, patch: Any) -> None:
    once = apply_merge_patch(target, patch)
    assert apply_merge_patch(once, patch) == once


_NAMED = st.lists(
    st.builds(lambda n, i: {"name": n, "image": i}, st.sampled_from("abcd"), st.sampled_from("xy")), max_size=4
)


@given(_NAMED, _NAMED)
def test_a_strategic_patch_loses_no_element_and_doubles_none(old: list[Json], patch: list[Json]) -> None:
    unique = list({each["name"]: each for each in old}.values())
    merged = apply_strategic_patch({"spec": {"containers": unique}}, {"spec": {"containers": patch}}, "Pod")
    names = [each["name"] for each in merged["spec"]["containers"]]
    assert sorted(names) == sorted({each["name"] for each in [*unique, *patch]})
