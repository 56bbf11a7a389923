"""JSON as Go reads it, complained about as Go complains; and YAML, read with a bound on what it may cost."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.apiserver.http.texts import duplicate_keys, parse_json, parse_yaml
from jettison.errors import InputError


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b'{"a":"b', "unexpected end of JSON input"),
        (b"[1,", "unexpected end of JSON input"),
        (b"x", "invalid character 'x' looking for beginning of value"),
        (b"\x81", "invalid character '\\x81' looking for beginning of value"),
        (b'\xef\xbb\xbf{"a":1}', "invalid character '\\ufeff' looking for beginning of value"),
        (b'{"a":\xc2\xa0}', "invalid character '\\u00a0' looking for beginning of value"),
        (b"\xc3\xa9", "invalid character 'é' looking for beginning of value"),
        (b"\x07", "invalid character '\\a' looking for beginning of value"),
        (b"'", "invalid character '\\'' looking for beginning of value"),
        (b"NaN", "invalid character 'N' looking for beginning of value"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"{} {}", "invalid character '{' after top-level value"),
        (b'"\n"', "invalid character '\\n' in string literal"),
        (b"[" * 100_000, "exceeded max depth"),
    ],
)
def test_what_is_no_json(text: bytes, complaint: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_json(text)
    assert str(refused.value) == complaint


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"\xff"', "\N{REPLACEMENT CHARACTER}"),
        (rb'"\ud800"', "\N{REPLACEMENT CHARACTER}"),
        (b"123456789012345678901234567890", 1.2345678901234568e29),
        (b"-9223372036854775808", -(2**63)),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_what_go_takes_all_the_same(text: bytes, value: Any) -> None:
    found = parse_json(text)
    assert found == value
    msgspec.json.encode(found)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (b'{"a":1,"b":{"a":1}}', []),
        (b'{"a" : 1, "a":2}', ["a"]),
        (b'{"a":{"b":1,"b":2},"c":[{"d":1,"d":1}]}', ["a.b", "c[0].d"]),
        (b'{"a":{"b":[[{"c":1},{"c":1,"c":1,"c":1}]],"d":1,"d":1},"a":1}', ["a.b[0][1].c", "a.d", "a"]),
        (b'{"a":{"b":1,"b":1},"a":{"b":1,"b":1}}', ["a.b", "a"]),
        (b'{"a":"\\":"}', []),
        (b'{"k:{\\"a\\":\\"b\\"}":1}', []),
        (b'{"a\\\\":1,"b":1,"b":1}', ["b"]),
        (b'{"a\\\\\\"":1,"a\\\\\\"":1}', ['a\\"']),
        (b'{"\xff":1,"\xff":1}', ["\N{REPLACEMENT CHARACTER}"]),
    ],
)
def test_keys_that_come_twice(text: bytes, keys: list[str]) -> None:
    assert duplicate_keys(text, parse_json(text)) == keys


def test_no_more_keys_are_named_than_a_person_reads() -> None:
    pairs = ",".join(f'"a{number}":1,"a{number}":1' for number in range(1000))
    short, long = f"{{{pairs}}}".encode(), f'{{"{"k" * 50_000}":{{{pairs}}}}}'.encode()
    assert len(duplicate_keys(short, parse_json(short))) == 100
    assert len(duplicate_keys(long, parse_json(long))) == 2


@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:x1e. \\u', max_size=30).map(str.encode))
def test_any_bytes_are_read_or_refused_as_python_has_it(data: bytes) -> None:
    try:
        value = parse_json(data)
    except InputError:
        return
    assert msgspec.json.encode(value)
    # Whatever we take, Python takes too: the dialect is not larger than it has to be.
    assert json.dumps(json.loads(data.decode("utf-8", "replace")))


NO_NUMBERS = ["1:20", "190:20:30", "1e400", "0x", "0b2", "1e", "NaN", "=", "<<"]


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
        ("a: 1\n---\nb: [", {"a": 1}),
        ("a: 1\n...\n@", {"a": 1}),
        ('{"a": 1}}', {"a": 1}),
        ("[y, N, yes, Off, 'y', yn]", [True, False, True, False, "y", "yn"]),
        ("[1e3, +.5, -.5, 1., 08, 12e03, 1_000, .5, 685_230.15]", [1000, 0.5, -0.5, 1, 8, 12000, 1000, 0.5, 685230.15]),
        ("[0o17, 017, 0x1F, 0b11, -0b1, +0x1, -0o7, 00]", [15, 15, 31, 3, -1, 1, -7, 0]),
        ("['1', 1:20, 190:20:30, 1e400, 0x, 0b2, 1e, NaN, =, <<]", ["1", *NO_NUMBERS]),
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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        # Kubernetes' reader of YAML names no line where that is the first one.
        (b"a: b: c", "yaml: mapping values are not allowed in this context"),
        (b"\tx: 1", "yaml: found character that cannot start any token"),
        (b"x: 1\ny: b: c", "yaml: line 2: mapping values are not allowed in this context"),
        (b"a: \x07", "yaml: control characters are not allowed"),
        (b"x: 1\na: \x07", "yaml: control characters are not allowed"),
    ],
)
def test_yaml_that_makes_no_sense(text: bytes, why: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_yaml(text)
    assert str(refused.value) == why
