"""Bodies in protobuf, decoded into the JSON values that the rest of the server uses.

kubectl from 1.32 on and Go programs with a recent client-go send built-in kinds in protobuf and do not fall back to
JSON when it is refused. They all take JSON as an answer, so nothing is ever encoded here.

Go writes fields that were not set, with their zero values; they are handed on, and `apiserver/objects/schema` leaves
them out as it does with those of JSON documents.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jettison.apiserver.http.statuses import bad_request
from jettison.apiserver.http.texts import parse_json
from jettison.errors import ApiError, InputError
from jettison.manifests.files.kinds import Struct, Type, structs
from jettison.manifests.times import time_text

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"


def decode(body: bytes, api_version: str, kind: str) -> dict[str, Any]:
    """The object in a body; `api_version` and `kind` are those of the path, for a client that names none.

    Of a kind that is not served, only the names come back: the caller compares them with the path and refuses it.
    """
    if not body:
        raise InputError("empty data")
    if not body.startswith(_MAGIC):
        prefix = " ".join(map(str, _MAGIC))
        raise InputError(f"provided data does not appear to be a protobuf message, expected prefix [{prefix}]")
    envelope = dict(fields(body[len(_MAGIC) :]))
    names = dict(fields(_bytes(envelope.get(1, b""))))
    api_version = _text(names.get(1, b"")) or api_version
    kind = _text(names.get(2, b"")) or kind
    found: dict[str, Any] = {"apiVersion": api_version, "kind": kind}
    struct = structs().get(struct_of(api_version, kind))
    if struct is not None:
        found |= _object(_bytes(envelope.get(2, b"")), struct, struct.name)
    return found


def _object(data: bytes, struct: Struct, message: str) -> dict[str, Any]:
    """The fields of a struct that travel as this message: all of them, or those of a part that JSON inlines.

    Hostile nesting ends by itself: no served struct contains its own kind, and what is unknown is not looked into.
    """
    found: dict[str, Any] = {}
    names = numbers().get(message, {})
    for number, raw in fields(data):
        name = names.get(number)
        if name is None:
            continue
        if name.startswith(INLINE):
            found |= _object(_bytes(raw), struct, name.removeprefix(INLINE))
            continue
        kind = struct.fields[name].type
        match kind.shape:
            case ():
                value = _value(kind, raw)
                if value is not None:
                    found[name] = value
            case ("[]", *_):
                found.setdefault(name, []).append(_value(kind.element, raw))
            case _:
                entry = dict(fields(_bytes(raw)))
                value = _value(kind.element, entry.get(2, b""))
                found.setdefault(name, {})[_text(entry.get(1, b""))] = value
    return found


def _value(kind: Type, raw: int | bytes) -> Any:
    match kind.base:
        case "string":
            return _text(raw)
        case "bytes":
            return base64.b64encode(_bytes(raw)).decode("ascii")
        case "int32" | "int64":
            return signed(_integer(raw))
        case "bool":
            return _integer(raw) != 0
        case "quantity":
            return _text(dict(fields(_bytes(raw))).get(1, b"")) or None
        case "intOrString":
            return _int_or_string(dict(fields(_bytes(raw))))
        case "time" | "microtime":
            return _time(dict(fields(_bytes(raw))), is_micro=kind.base == "microtime")
        case "any":
            return _json(_bytes(dict(fields(_bytes(raw))).get(1, b"")))
        case name:
            struct = structs().get(name)
            return None if struct is None else _object(_bytes(raw), struct, name)


def _bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise malformed("a number stands where a message or a text should be")
    return raw


def _integer(raw: int | bytes) -> int:
    if isinstance(raw, bytes):
        raise malformed("a message or a text stands where a number should be")
    return raw


def _text(raw: int | bytes) -> str:
    try:
        return _bytes(raw).decode("utf-8")
    except UnicodeDecodeError as error:
        raise malformed("a text is not UTF-8") from error


def _int_or_string(parts: Mapping[int, int | bytes]) -> int | str:
    is_text = parts.get(1, 0) == 1
    return _text(parts.get(3, b"")) if is_text else signed(_integer(parts.get(2, 0)))


def _time(parts: Mapping[int, int | bytes], *, is_micro: bool) -> str | None:
    """An empty message is a time that was not set."""
    seconds, nanoseconds = signed(_integer(parts.get(1, 0))), signed(_integer(parts.get(2, 0)))
    if not parts:
        return None
    try:
        whole = time_text(seconds * 10**9)
    except OverflowError as error:
        raise malformed(f"a time is {seconds} seconds from 1970") from error
    return f"{whole[:-1]}.{nanoseconds // 1000 % 10**6:06d}Z" if is_micro else whole


def _json(raw: bytes) -> Any:
    try:
        return parse_json(raw) if raw else None
    except InputError as error:
        raise malformed(f"embedded JSON does not parse: {error}") from error


# The wire format: a message is a row of (field number, value) pairs; nothing more is known without a schema.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
# Seven bits a byte: ten hold 64.
_LONGEST_VARINT = 10


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Every pair in order; numbers are unsigned, until the field's type tells otherwise."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _varint(message, position)
            yield number, value
            continue
        if kind == _BYTES:
            length, position = _varint(message, position)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise malformed(f"wire type {kind} of field {number} is unknown")
        end = position + length
        if end > len(message):
            raise malformed(f"field {number} ends behind the message")
        yield number, message[position:end]
        position = end


def signed(value: int) -> int:
    """Negative numbers travel as their 64-bit complement, also those of 32 bits."""
    return value - (1 << 64) if value >= 1 << 63 else value


def malformed(what: str) -> ApiError:
    """The refusal of a body that is no message."""
    return bad_request(f"the object provided is unrecognized: malformed protobuf: {what}")


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = 0
    for index in range(_LONGEST_VARINT):
        if position >= len(message):
            raise malformed("a number ends behind the message")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & (2**64 - 1), position
    raise malformed(f"a number is longer than {_LONGEST_VARINT} bytes")


# The numbers that fields travel under, from `protobuf_numbers.txt`; `schema` knows what they hold.
INLINE = "+"
"""Begins the name of a struct whose fields are its parent's in JSON and a message of their own here."""

_STRUCTS = {("events.k8s.io/v1", "Event"): "EventsV1Event"}


def struct_of(api_version: str, kind: str) -> str:
    """The struct that describes a kind: two of them share the name Event."""
    return _STRUCTS.get((api_version, kind), kind)


@cache
def numbers() -> Mapping[str, Mapping[int, str]]:
    """Per struct, the field behind each number."""
    found: dict[str, dict[int, str]] = {}
    current: dict[int, str] = {}
    for line in files(__package__).joinpath("protobuf_numbers.txt").read_text("ascii").splitlines():
        if line.startswith("  "):
            pairs = (each.partition(":") for each in line.split())
            current.update({int(number): name for name, _, number in pairs})
        elif line and not line.startswith("#"):
            current = found[line] = {}
    return found
