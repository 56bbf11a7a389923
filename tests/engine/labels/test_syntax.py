"""What may be a label key or value."""

from __future__ import annotations

import pytest

from jettison.engine.labels.syntax import (
    NODE_LABELS,
    is_administrators_label,
    label_key_complaints,
    label_value_complaints,
)


@pytest.mark.parametrize("key", ["a", "A-b_c.9", "example.com/Foo", "a" * 63, "x" * 253 + "/" + "a" * 63, "0.1-a/b"])
def test_valid_keys(key: str) -> None:
    """A name of 63 bytes, with or without a DNS subdomain of 253 in front."""
    assert label_key_complaints(key) == []


@pytest.mark.parametrize(
    ("key", "openings"),
    [
        ("", ["name part must be non-empty", "name part must consist of"]),
        ("a/", ["name part must be non-empty", "name part must consist of"]),
        ("/a", ["prefix part must be non-empty"]),
        ("A/b", ["prefix part a lowercase RFC 1123 subdomain must consist of"]),
        ("a..b/c", ["prefix part a lowercase RFC 1123 subdomain must consist of"]),
        ("a/b/c", ["a valid label key must consist of"]),
        ("-a", ["name part must consist of"]),
        ("a\n", ["name part must consist of"]),
        ("a" * 64, ["name part must be no more than 63 bytes"]),
        ("é" * 32, ["name part must be no more than 63 bytes", "name part must consist of"]),
        ("x" * 254 + "/a", ["prefix part must be no more than 253 bytes"]),
    ],
)
def test_every_fault_of_a_key_is_named(key: str, openings: list[str]) -> None:
    """Lengths count bytes: 32 letters `é` are 64."""
    complaints = label_key_complaints(key)
    assert len(complaints) == len(openings)
    assert all(text.startswith(opening) for text, opening in zip(complaints, openings, strict=True))


@pytest.mark.parametrize(
    ("value", "count"), [("", 0), ("a", 0), ("-a", 1), ("a" * 63, 0), ("a" * 64, 1), ("-" * 64, 2), ("a\n", 1)]
)
def test_values_may_be_empty_but_not_long(value: str, count: int) -> None:
    """The same alphabet as a name, 63 bytes at most."""
    assert len(label_value_complaints(value)) == count


@pytest.mark.timeout(60)
@pytest.mark.parametrize("key", ["a." * 5_000 + "/b", "a-" * 5_000 + "/b", "a" * 10_000 + "!", "-" * 10_000 + "/x"])
def test_long_nonsense_is_refused_quickly(key: str) -> None:
    """No pattern may take more than linear time: a selector comes from any client of the API."""
    assert label_key_complaints(key)


@pytest.mark.parametrize(
    "key", ["a", "example.com/a", "sub.node.kubernetes.io/a", "kubelet.kubernetes.io/a", *sorted(NODE_LABELS)]
)
def test_a_node_may_say_this_of_itself(key: str) -> None:
    assert not is_administrators_label(key)


@pytest.mark.parametrize(
    "key",
    [
        "kubernetes.io/a",
        "k8s.io/a",
        "x.k8s.io/a",
        "node-role.kubernetes.io/a",
        "node-restriction.kubernetes.io/a",
        # It ends in a prefix that a node may use, and is reserved all the same.
        "node.kubernetes.io.node-restriction.kubernetes.io/a",
    ],
)
def test_an_administrator_says_this_of_nodes(key: str) -> None:
    assert is_administrators_label(key)
