"""How large a document may be."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.errors import ManifestError
from jettison.manifests.files.bounds import (
    LARGEST_DOCUMENT,
    LARGEST_MEMORY,
    MOST_VALUES,
    REFUSED,
    check_document,
    check_memory,
    stand_in,
)


def test_values_are_counted_at_every_depth() -> None:
    assert check_document({"a": [1, {"b": None}], "c": "x"}, "pod") == 6
    assert check_document(None, "pod") == 1


def nested(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([0] * MOST_VALUES, "pod: more than 4000 values"),
        ({str(n): 0 for n in range(MOST_VALUES)}, "pod: more than 4000 values"),
        ([{"a": []}] * (MOST_VALUES // 2), "pod: more than 4000 values"),
        ("x" * (LARGEST_DOCUMENT + 1), "pod: more than 262144 bytes"),
        ({"x" * (LARGEST_DOCUMENT + 1): 1}, "pod: more than 262144 bytes"),
        (nested(40), "pod: nested more than 32 levels deep"),
    ],
)
def test_too_much_is_refused(document: object, complaint: str) -> None:
    with pytest.raises(ManifestError, match=complaint):
        check_document(document, "pod")


def test_of_what_is_too_large_the_names_are_left() -> None:
    containers: list[Any] = [{"name": f"c{n}", "env": []} for n in range(1000)]
    large = {"metadata": {"name": "a", "uid": "u", "labels": {}}, "spec": {"containers": [7, {"name": 8}, *containers]}}
    left = stand_in(large, "why")
    assert left["metadata"] == {"name": "a", "uid": "u", "annotations": {REFUSED: "why"}}
    assert left["spec"]["containers"][0] == {"name": "c0"}
    assert len(left["spec"]["containers"]) == 62
    assert stand_in({"metadata": {}, "spec": None}, "why")["spec"] == {"containers": []}
    assert stand_in({"metadata": {}, "spec": {"containers": {"a": 1}}}, "why")["spec"] == {"containers": []}


def test_memory_is_what_python_takes_and_shared_texts_count_once() -> None:
    long = "x" * (LARGEST_MEMORY // 2)
    check_memory({"a": [long, long, long]}, "pod")
    check_memory([{"name": "a", "value": f"v{number}"} for number in range(900)], "pod")
    larger: list[Any] = [
        [long, long + "y"],
        {long: 1, long + "y": 2},
        [{"k": []} for _ in range(4000)],
        "\N{GRINNING FACE}" * 160_000,
    ]
    for large in larger:
        with pytest.raises(ManifestError, match="pod: takes more than 300000 bytes of memory"):
            check_memory(large, "pod")
