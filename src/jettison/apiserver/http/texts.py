"""JSON from clients: read as Go reads it, and refused in Go's words. And YAML.

Few clients send YAML, so it is read safely rather than fast.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Final, NoReturn

import msgspec
import yaml

from jettison.apiserver.connections.limits import MOST_BODY_BYTES
from jettison.engine.numbers.strconv import INT64_MAX, quote
from jettison.errors import InputError, ManifestError
from jettison.manifests.files.decoding import is_too_deep, without_surrogates
from jettison.manifests.files.plain_files import plain_text
from jettison.manifests.files.plain_yaml import load_first

_decode = msgspec.json.Decoder().decode
_KEY: Final = re.compile(rb'"\s*:')
# A regular expression for 19 digits would take longer than the body of an eviction takes to be read.
_DIGITS_AS_ZEROS: Final = bytes(ord("0") if chr(each).isdecimal() else ord(" ") for each in range(256))
_LONG_NUMBER: Final = b"0" * 19
_UINT64: Final = 2**64
_CUT: Final = "unexpected end of JSON input"
# As upstream. A path can be as long as the text, so the sum of their lengths is limited, too.
_MOST_DUPLICATES: Final = 100
_MOST_DUPLICATE_CHARS: Final = 65_536
# What Python's decoder says, and where in the grammar Go would say it is.
_PLACES: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Illegal trailing comma before end of array": "looking for beginning of value",
}


def parse_json(data: bytes) -> Any:
    """The value, or an InputError with what Go would say."""
    if is_too_deep(data):
        raise InputError("exceeded max depth")
    try:
        value = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _parse_slowly(data)
    return _within_64_bits(value) if _LONG_NUMBER in data.translate(_DIGITS_AS_ZEROS) else value


def _parse_slowly(data: bytes) -> Any:
    """Go takes more than the standard: broken UTF-8 and lone surrogates become U+FFFD."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        return _within_64_bits(without_surrogates(value))
    except json.JSONDecodeError as error:
        raise InputError(_complaint(text, error)) from error
    except (RecursionError, ValueError) as error:
        raise InputError("exceeded max depth") from error


def _refuse_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError("Expecting value", name, 0)


def _complaint(text: str, error: json.JSONDecodeError) -> str:
    position = error.pos
    if error.msg.startswith("Unterminated string") or position >= len(text.rstrip()):
        return _CUT
    message = error.msg.partition(": line")[0]
    if message == "Expecting value" and (begun := _begun(text[position:])):
        return begun
    if message == "Expecting ',' delimiter":
        place = f"after {_container(text[:position])}"
    else:
        place = _PLACES.get(message, "looking for beginning of value")
    return f"invalid character {_quoted(text[position])} {place}"


def _begun(text: str) -> str:
    """What is wrong with a value that begins well; empty where it does not. Go looks at one character after another."""
    if text[0] == "-":
        return f"invalid character {_quoted(text[1])} in numeric literal" if text[1:] else _CUT
    literal = next((each for each in ("true", "false", "null") if text[0] == each[0]), "")
    for index, char in enumerate(literal):
        if index == len(text):
            return _CUT
        if text[index] != char:
            return f"invalid character {_quoted(text[index])} in literal {literal} (expecting {_quoted(char)})"
    return ""


def _container(prefix: str) -> str:
    """Whether the error is in an object or an array: look for the bracket that is still open."""
    depth = 0
    for char in reversed(re.sub(r'"(?:[^"\\]|\\.)*"', "", prefix)):
        depth += (char in "]}") - (char in "[{")
        if depth < 0:
            return "object key:value pair" if char == "{" else "array element"
    return "top-level value"


def _quoted(char: str) -> str:
    """A character between single quotes, with Go's escapes, or a byte that belongs to none."""
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"'\\x{code & 0xFF:x}'"
    return {"'": r"'\''", '"': "'\"'"}.get(char) or f"'{quote(char)[1:-1]}'"


def _within_64_bits(value: Any) -> Any:
    """Longer integers become floats: they cannot be stored otherwise, and no known field takes them."""
    if isinstance(value, dict):
        return {key: _within_64_bits(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_within_64_bits(item) for item in value]
    if type(value) is int and not -_UINT64 // 2 <= value < _UINT64:
        return float(value) if abs(value) < 10**300 else float("1e300")
    return value


def go_text(value: Any) -> str:
    """A value as Go prints it with `%+v`."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if value is None:
        return "<nil>"
    if isinstance(value, float) or (type(value) is int and value > INT64_MAX):
        return _float_text(float(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _float_text(value: float) -> str:
    """As Go: with an exponent from a million on, and below a ten-thousandth."""
    number = Decimal(repr(value)).normalize()
    exponent = number.adjusted()
    if -4 <= exponent < 6:
        return f"{number:f}"
    digits = str(abs(number.scaleb(-exponent)))
    return f"{'-' if value < 0 else ''}{digits}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def depth_of(value: Any) -> int:
    """How many objects and lists are around its innermost part, itself included: none for a number."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if items is None else 1 + max(map(depth_of, items), default=0)


def _count_keys(value: Any) -> int:
    items: Iterable[Any] = ()
    count = 0
    if type(value) is dict:
        items, count = value.values(), len(value)
    elif type(value) is list:
        items = value
    for item in items:
        if type(item) is dict or type(item) is list:
            count += _count_keys(item)
    return count


def duplicate_keys(data: bytes, value: Any) -> list[str]:
    """The paths that the text has twice, in its order. `value` is what the text says, where the last one counts.

    Looking for them takes as long as everything else about a small request; counting tells that there are none.
    """
    # A quote in a text, as in the managedFields of every object with conditions, is no end of a key.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    if len(_KEY.findall(plain)) == _count_keys(value):
        return []
    pairs = json.loads(data.decode("utf-8", "surrogateescape"), object_pairs_hook=_Pairs)
    found: dict[str, None] = {}
    room = _MOST_DUPLICATE_CHARS
    for path in _duplicates(pairs, []):
        found[without_surrogates(path)] = None
        room -= len(path)
        if room < 0 or len(found) == _MOST_DUPLICATES:
            break
    return list(found)


def with_doubles(data: bytes) -> Any:
    """What a text with keys that it has twice says: Go reads the second value into what it made of the first."""
    return _merged(json.loads(data.decode("utf-8", "surrogateescape"), object_pairs_hook=_Pairs))


def _merged(value: Any, before: Any = None) -> Any:
    if isinstance(value, _Pairs):
        # Written into, not copied: a large object may be named as often as there is room for.
        found = before if isinstance(before, dict) else {}
        for key, item in value:
            found[key] = _merged(item, found.get(key))
        return found
    if isinstance(value, list):
        known = before if isinstance(before, list) else []
        return [_merged(item, known[index] if index < len(known) else None) for index, item in enumerate(value)]
    return without_surrogates(value)


class _Pairs(list[tuple[str, Any]]):
    """An object with every key as often as it was written."""


def _duplicates(value: list[Any], path: list[str]) -> Iterator[str]:
    """Each key once per object: a long path is not put together as often as its last key is repeated."""
    if isinstance(value, _Pairs):
        seen: dict[str, bool] = {}
        for key, item in value:
            step = f".{key}" if path else key
            if seen.get(key) is False:
                yield "".join([*path, step])
            seen[key] = key in seen
            if isinstance(item, list):
                yield from _duplicates(item, [*path, step])
    else:
        for index, item in enumerate(value):
            if isinstance(item, list):
                yield from _duplicates(item, [*path, f"[{index}]"])


def parse_yaml(body: bytes) -> Any:
    """The first document of YAML as a JSON value, or an InputError."""
    try:
        return _as_json(load_first(plain_text(body, "yaml"), "yaml", most=MOST_BODY_BYTES))
    except ManifestError as error:
        if isinstance(error.__cause__, yaml.reader.ReaderError):
            # Upstream does not know where it has read it.
            raise InputError("yaml: control characters are not allowed") from error
        if not isinstance(error.__cause__, yaml.MarkedYAMLError):
            raise
        raise InputError(_yaml_complaint(error.__cause__)) from error


def _as_json(value: Any) -> Any:
    """What goes from YAML to JSON loses the point of a whole number, and its keys are sorted."""
    if isinstance(value, dict):
        return {key: _as_json(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    return int(value) if isinstance(value, float) and abs(value) < 10**21 and value == int(value) else value


def _yaml_complaint(error: yaml.MarkedYAMLError) -> str:
    """Kubernetes counts lines from one for what it cannot read, from zero for what makes no sense, and says no zero."""
    lines = [mark.line for mark in (error.problem_mark, error.context_mark) if mark is not None]
    if lines and lines[0] and isinstance(error, yaml.scanner.ScannerError):
        lines[0] += 1
    line = next(filter(None, lines), 0)
    return f"yaml: {f'line {line}: ' if line else ''}{error.problem or error.context}"
