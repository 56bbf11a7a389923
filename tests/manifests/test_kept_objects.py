"""Values of ConfigMaps and Secrets as files have them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.errors import ManifestError
from jettison.manifests.kept_objects import identity, is_key, object_values


def test_values_are_bytes() -> None:
    secret = {"kind": "Secret", "data": {"a": "YWI=\n", "b": "Yw=="}, "stringData": {"b": "é", "c": None}}
    assert object_values(secret, 100).data == {"a": b"ab", "b": "é".encode(), "c": b""}
    config_map = {"kind": "ConfigMap", "data": {"a": "x"}, "binaryData": {"b": "AAE="}}
    assert object_values(config_map, 100) == ({"a": b"x"}, {"b": b"\0\1"})
    assert object_values({"kind": "ConfigMap"}, 0) == ({}, {})


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"kind": "ConfigMap", "data": {"n": 5}}, r"data\[n\] is a number, expected a text: put it in quotes"),
        ({"kind": "ConfigMap", "data": ["n"]}, "data is a list, expected a map"),
        ({"kind": "ConfigMap", "data": {"a/b": ""}}, "key `a/b` is not made of letters"),
        ({"kind": "ConfigMap", "data": {"../x": ""}}, "is not made of letters"),
        ({"kind": "ConfigMap", "data": {"..": ""}}, "is not made of letters"),
        ({"kind": "ConfigMap", "data": {5: ""}}, "key `5` is not made of letters"),
        ({"kind": "ConfigMap", "data": {"x" * 254: ""}}, "is not made of letters"),
        ({"kind": "Secret", "data": {"a": "not base64"}}, r"data\[a\] is not base64; `stringData` takes plain text"),
        ({"kind": "Secret", "data": {"a": "é"}}, "is not base64"),
        ({"kind": "ConfigMap", "data": {"a": "x" * 101}}, "101 bytes of values, at most 100 are allowed"),
    ],
)
def test_what_no_api_would_have_kept_is_refused(document: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ManifestError, match=complaint):
        object_values(document, 100)


def test_names() -> None:
    assert identity({"kind": "Secret", "metadata": {"name": "s"}}) == ("Secret", "default", "s")
    assert identity({"kind": "Secret", "metadata": {"name": "s", "namespace": "n"}}) == ("Secret", "n", "s")
    nameless: list[Any] = [None, {}, {"name": 5}, [], {"name": ""}]
    for metadata in nameless:
        with pytest.raises(ManifestError, match=r"a Secret has no metadata\.name"):
            identity({"kind": "Secret", "metadata": metadata})
    assert [is_key(key) for key in ("a.b_c-D", ".x", "", ".", "..", "..x", "a b", "ä")] == [True, True, *[False] * 6]
