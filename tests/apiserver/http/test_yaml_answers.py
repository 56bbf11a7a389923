"""YAML as Kubernetes writes it, letter by letter."""

from __future__ import annotations

import pytest

from jettison.apiserver.http.presenting import encode
from jettison.apiserver.http.yaml_answers import yaml_of

LONG = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead of its own"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("web", "web"),
        ("", '""'),
        ("1", '"1"'),
        ("1e3", '"1e3"'),
        ("0x1f", '"0x1f"'),
        ("08", '"08"'),
        ("1.5Gi", "1.5Gi"),
        ("-", "'-'"),
        ("-x", "-x"),
        ("yes", '"yes"'),
        ("yEs", "yEs"),
        ("null", '"null"'),
        ("2026-11-17T13:15:40Z", '"2026-11-17T13:15:40Z"'),
        ("2026-13-41", "2026-13-41"),
        ("12:30", '"12:30"'),
        ("a: b", "'a: b'"),
        ("a:b", "a:b"),
        ("it's #1", "'it''s #1'"),
        ("it's", "it's"),
        ("*x", "'*x'"),
        (" a", "' a'"),
        ("tab\there", '"tab\\there"'),
        ("\U0001f600", '"\\U0001F600"'),
        ("\u00e9t\u00e9", "\u00e9t\u00e9"),
        ("a\nb\n", "|\n  a\n  b"),
        ("a\nb", "|-\n  a\n  b"),
        ("a\n\n", "|+\n  a\n"),
        (" a\nb", "|2-\n   a\n  b"),
        # Broken at the first space behind column 80, and quoted because of its colon.
        (LONG, f"'{LONG[:82]}\n  {LONG[83:]}'"),
    ],
)
def test_a_text(text: str, written: str) -> None:
    assert yaml_of(encode({"k": text})).decode() == f"k: {written}\n"


def test_keys_are_sorted_by_their_numbers() -> None:
    value = {"a10": 1, "a9": [], "a": {}, "b/x": None, "1": True, "a-b": [{"z": [1, "x"]}, "y"]}
    lines = ['"1": true', "a: {}", "a-b:", "- z:", "  - 1", "  - x", '- "y"', "a9: []", "a10: 1", "b/x: null"]
    assert yaml_of(encode(value)).decode().splitlines() == lines


def test_a_key_that_is_too_long_for_one_line() -> None:
    key = "k" * 129
    assert yaml_of(encode({key: {"a": 1, "b": 2}})).decode() == f"? {key}\n: a: 1\n  b: 2\n"
