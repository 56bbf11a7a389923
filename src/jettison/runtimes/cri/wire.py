"""Protocol buffers, as far as the table of messages needs them: a message is a dictionary.

The package of that name costs 4 MB of an agent's memory for the same. An absent field decodes as its zero (`""`, 0,
False, an empty list or dictionary, for a message None). Bytes come from another program, and may be anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jettison.runtimes.cri.messages import MESSAGES, Field

Message = dict[str, Any]

_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5
_SIGN, _ALL = 1 << 63, (1 << 64) - 1
_LONGEST_VARINT = 10


class WireError(ValueError):
    """These bytes are not such a message."""


def encode(name: str, message: Mapping[str, Any]) -> bytes:
    """A field that is missing, None or zero is not written, but an empty message inside another one is."""
    found = bytearray()
    for field in MESSAGES[name]:
        value = message.get(field.name)
        if value is None:
            continue
        if field.kind == "map":
            for key, text in value.items():
                entry = _text(1, key.encode()) + _text(2, text.encode())
                found += _text(field.number, entry)
        elif field.is_repeated:
            for each in value:
                found += _one(field, each, is_always=True)
        else:
            found += _one(field, value, is_always=False)
    return bytes(found)


def decode(name: str, data: bytes) -> Message:
    """Raises WireError."""
    fields = {field.number: field for field in MESSAGES[name]}
    found: Message = {field.name: _absent(field) for field in fields.values()}
    for number, kind, value in _parts(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.kind == "map":
            key, text = _entry(_bytes(field, value))
            found[field.name][key] = text
        elif field.is_repeated and kind == _LENGTH and field.kind == "int":
            found[field.name] += [_signed(each) for each in _packed(_bytes(field, value))]
        elif field.is_repeated:
            found[field.name].append(_value(field, value))
        else:
            found[field.name] = _value(field, value)
    return found


def _one(field: Field, value: Any, *, is_always: bool) -> bytes:
    if field.kind in ("int", "bool"):
        return _varint(field.number << 3 | _VARINT) + _varint(int(value) & _ALL) if value or is_always else b""
    if field.kind == "string":
        value = value.encode()
    elif field.kind != "bytes":
        return _text(field.number, encode(field.kind, value))
    return _text(field.number, value) if value or is_always else b""


def _text(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _absent(field: Field) -> Any:
    if field.kind == "map":
        return {}
    if field.is_repeated:
        return []
    return {"string": "", "bytes": b"", "int": 0, "bool": False}.get(field.kind)


def _parts(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, wire type and raw value of each field."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield number, kind, value
            continue
        if kind == _LENGTH:
            length, at = _read_varint(data, at)
        elif kind in (_EIGHT, _FOUR):
            length = 8 if kind == _EIGHT else 4
        else:
            raise WireError(f"field {number} has wire type {kind}")
        if length > len(data) - at:
            raise WireError(f"field {number} has {length} bytes, {len(data) - at} are left")
        yield number, kind, data[at : at + length]
        at += length


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= len(data):
            raise WireError("the message ends inside a number")
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & _ALL, at + place + 1
    raise WireError("a number has more than ten bytes")


def _packed(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _read_varint(data, at)
        yield value


def _bytes(field: Field, value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise WireError(f"field `{field.name}` is a number, expected {field.kind}")
    return value


def _value(field: Field, value: int | bytes) -> Any:
    if field.kind in ("int", "bool"):
        if not isinstance(value, int):
            raise WireError(f"field `{field.name}` is no number")
        return bool(value) if field.kind == "bool" else _signed(value)
    data = _bytes(field, value)
    if field.kind == "bytes":
        return data
    return _string(data) if field.kind == "string" else decode(field.kind, data)


def _entry(data: bytes) -> tuple[str, str]:
    found = {1: b"", 2: b""}
    for number, _, value in _parts(data):
        if number in found and isinstance(value, bytes):
            found[number] = value
    return _string(found[1]), _string(found[2])


def _string(data: bytes) -> str:
    """What is no UTF-8 is shown as what it is, and never becomes half a surrogate pair."""
    return data.decode("utf-8", "backslashreplace")


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value & _SIGN else value
