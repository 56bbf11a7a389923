"""YAML bodies: what JSON can say, as JSON; everything else refused, quickly and without harm."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.apiserver.http.yaml_texts import parse_yaml
from jettison.errors import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("a: 1", {"a": 1}),
        ("a: 2030-01-01", {"a": "2030-01-01"}),
        ("a: !!timestamp x", {"a": "x"}),
        ("7: a\n2.5: b\nyes: c", {"7": "a", "2.5": "b", "true": "c"}),
        ("a: &x [1, 2]\nb: *x", {"a": [1, 2], "b": [1, 2]}),
        ("a: 1\n---\nb: 2", {"a": 1}),
        ("a: 18446744073709551615", {"a": 2**64 - 1}),
        ('{"a": [true, null, 1.5, "x"]}', {"a": [True, None, 1.5, "x"]}),
    ],
)
def test_what_json_can_say(text: str, expected: object) -> None:
    assert parse_yaml(text.encode()) == expected


def bomb() -> str:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    return "\n".join([*lines, *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))])


@pytest.mark.parametrize(
    "text",
    [
        bomb(),
        "a: &a [*a]",
        "&a {*a : *a}",
        "a: &x " + "y" * 100_000 + "\nb: [" + "*x," * 90 + "]",
        "[" * 300_000,
        "{a: " * 300_000,
        "- " * 300_000,
        "a: .nan",
        "a: .inf",
        "a: 99999999999999999999",
        "a: 0x" + "f" * 10_000,
        "a: !!binary aGk=",
        "a: !!set {x}",
        "a: !!python/object/apply:os.system [id]",
        "? [a]\n: b",
        "a: !!int x",
        "a: !!float x",
        "a: !!bool x",
        "a: !!map x",
        "a: !!omap [a]",
        "a: b: c",
        "\x07",
        "%YAML 9.9\n---\na",
    ],
)
def test_what_it_cannot(text: str) -> None:
    with pytest.raises(InputError):
        parse_yaml(text.encode())


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(InputError, match="yaml:1: not UTF-8"):
        parse_yaml(b"\xff\xfe")


@given(st.text("ab01:-&*[]{}!?,|>'\"#% \n\t.", max_size=60))
def test_noise_is_a_json_value_or_refused(text: str) -> None:
    try:
        found: Any = parse_yaml(text.encode())
    except InputError:
        return
    assert json.loads(json.dumps(found)) == found
