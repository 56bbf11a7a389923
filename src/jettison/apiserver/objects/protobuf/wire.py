"""The wire format: a message is a row of (field number, value) pairs, nothing more is known without a schema."""

from __future__ import annotations

from collections.abc import Iterator

from jettison.apiserver.http.statuses import bad_request
from jettison.errors import ApiError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
# Seven bits a byte: ten hold 64.
_LONGEST_VARINT = 10


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Every pair in order; numbers are unsigned, whoever knows the field's type knows better."""
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
