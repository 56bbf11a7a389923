"""Protocol buffers, as far as tables of messages need them: a message is a dictionary.

A table has a line per message and a row per field: number, name and type. Types: `string`, `bytes`, `bool`, `int`
(every integer and enumeration), `map` (from string to string) or the name of another message; `[]` before a type says
that the field repeats. Unknown fields are skipped when an answer is decoded.

The package of that name costs 4 MB of an agent's memory for the same. An absent field decodes as its zero (`""`, 0,
False, an empty list or dictionary, for a message None). Bytes come from another program, and may be anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

Message = dict[str, Any]
T = TypeVar("T")


class Field(NamedTuple):
    """One row. `kind` is the type without `[]`."""

    number: int
    name: str
    kind: str
    is_repeated: bool


Messages = Mapping[str, tuple[Field, ...]]


_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5
_SIGN, _ALL = 1 << 63, (1 << 64) - 1
_LONGEST_VARINT = 10

MOST_FIELDS = 100_000
"""Of one answer, with those of all messages in it: 1 to 2 µs and up to 500 bytes each. The containers of a full node
have 10,000."""


class WireError(ValueError):
    """These bytes are not such a message."""


def parse_table(text: str) -> dict[str, tuple[Field, ...]]:
    """`Name: 1 field type, 2 other []type` in each line; a line that begins with blanks goes on with the one before."""
    found = {}
    for line in text.replace("\n    ", " ").splitlines():
        name, _, fields = line.partition(":")
        if name:
            found[name] = tuple(_row(field) for field in fields.split(",") if field.strip())
    return found


def _row(text: str) -> Field:
    number, name, kind = text.split()
    return Field(int(number), name, kind.removeprefix("[]"), kind.startswith("[]"))


def encode(table: Messages, name: str, message: Mapping[str, Any]) -> bytes:
    """A field that is missing, None or zero is not written, but an empty message inside another one is."""
    found = bytearray()
    for field in table[name]:
        value = message.get(field.name)
        if value is None:
            continue
        if field.kind == "map":
            for key, text in value.items():
                entry = _text(1, key.encode()) + _text(2, text.encode())
                found += _text(field.number, entry)
        elif field.is_repeated:
            for each in value:
                found += _one(table, field, each, is_always=True)
        else:
            found += _one(table, field, value, is_always=False)
    return bytes(found)


def decode(table: Messages, name: str, data: bytes) -> Message:
    """Raises WireError."""
    return _Decoding(table).message(name, data)


def _one(table: Messages, field: Field, value: Any, *, is_always: bool) -> bytes:
    if field.kind in ("int", "bool"):
        return _varint(field.number << 3 | _VARINT) + _varint(int(value) & _ALL) if value or is_always else b""
    if field.kind == "string":
        value = value.encode()
    elif field.kind != "bytes":
        return _text(field.number, encode(table, field.kind, value))
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


class _Decoding:
    """One answer, whose fields are counted."""

    def __init__(self, table: Messages) -> None:
        self._table = table
        self._left = MOST_FIELDS

    def message(self, name: str, data: bytes) -> Message:
        fields = {field.number: field for field in self._table[name]}
        found: Message = {field.name: _absent(field) for field in fields.values()}
        for number, kind, value in self._counted(_parts(data)):
            field = fields.get(number)
            if field is None:
                continue
            if field.kind == "map":
                key, text = self._entry(_bytes(field, value))
                found[field.name][key] = text
            elif field.is_repeated and kind == _LENGTH and field.kind == "int":
                found[field.name] += [_signed(each) for each in self._counted(_packed(_bytes(field, value)))]
            elif field.is_repeated:
                found[field.name].append(self._value(field, value))
            else:
                found[field.name] = self._value(field, value)
        return found

    def _counted(self, values: Iterator[T]) -> Iterator[T]:
        for value in values:
            self._left -= 1
            if self._left < 0:
                raise WireError(f"the answer has more than {MOST_FIELDS} fields")
            yield value

    def _entry(self, data: bytes) -> tuple[str, str]:
        found = {1: b"", 2: b""}
        for number, _, value in self._counted(_parts(data)):
            if number in found and isinstance(value, bytes):
                found[number] = value
        return _string(found[1]), _string(found[2])

    def _value(self, field: Field, value: int | bytes) -> Any:
        if field.kind in ("int", "bool"):
            if not isinstance(value, int):
                raise WireError(f"field `{field.name}` is no number")
            return bool(value) if field.kind == "bool" else _signed(value)
        data = _bytes(field, value)
        if field.kind == "bytes":
            return data
        return _string(data) if field.kind == "string" else self.message(field.kind, data)


def _string(data: bytes) -> str:
    """What is no UTF-8 is shown as what it is, and never becomes half a surrogate pair."""
    return data.decode("utf-8", "backslashreplace")


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value & _SIGN else value
