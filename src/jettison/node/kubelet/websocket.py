"""WebSocket (RFC 6455), the server's side: bytes to events and back, without any input or output.

The payload of a message is passed on in the pieces in which it came. A message that claims more than 32 MiB is refused
by its head; a smaller one costs no more memory than a piece.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from jettison.errors import StreamError

MOST_MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""As API servers and kubelets have it."""

NORMAL, PROTOCOL_ERROR, TOO_LARGE = 1000, 1002, 1009

_CONTINUED, _TEXT, BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_MOST_CONTROL_BYTES: Final = 125
# What a client's key is joined with, by the RFC.
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class MessagePiece(NamedTuple):
    """Of a message, text or bytes."""

    data: bytes
    is_first: bool


class WebSocketPing(NamedTuple):
    """To be answered with the same bytes."""

    data: bytes


class Closed(NamedTuple):
    """The client says goodbye."""


Event = MessagePiece | WebSocketPing | Closed


def accept_key(key: str) -> str:
    """What a server shows to prove that it has understood."""
    digest = hashlib.sha1(key.encode("ascii", "replace") + _MAGIC, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


class WebSocketReader:
    """Bytes to events."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._left = 0
        self._mask = b""
        # Of the message, whose frames may be many.
        self._size = 0
        self._is_inside = self._is_final = False
        self._is_first = True

    def read(self, data: bytes) -> Iterator[Event]:
        """Everything that is complete by now. Raises StreamError with the code to close with."""
        self._buffer += data
        while True:
            if self._left:
                if not self._buffer:
                    return
                yield self._piece()
            elif not (yield from self._next_frame()):
                return

    def _piece(self) -> MessagePiece:
        packed = bytes(self._buffer[: self._left])
        del self._buffer[: len(packed)]
        self._left -= len(packed)
        piece = MessagePiece(_unmasked(packed, self._mask), self._is_first)
        # The mask goes on where it was.
        turn = len(packed) % 4
        self._mask = self._mask[turn:] + self._mask[:turn]
        self._is_first = False
        self._end_frame()
        return piece

    def _end_frame(self) -> None:
        if not self._left and self._is_final:
            self._is_inside = False

    def _next_frame(self) -> Generator[Event, None, bool]:
        """Whether there was one."""
        head = self._head()
        if head is None:
            return False
        kind, is_final, length, size = head
        if kind in (_CLOSE, _PING, _PONG):
            return (yield from self._control(kind, length, size))
        if (kind == _CONTINUED) != self._is_inside or kind not in (_CONTINUED, _TEXT, BINARY):
            raise StreamError("a frame of WebSocket in the wrong place", PROTOCOL_ERROR)
        self._size = length + (self._size if kind == _CONTINUED else 0)
        if self._size > MOST_MESSAGE_BYTES:
            raise StreamError(f"a message of more than {MOST_MESSAGE_BYTES} bytes", TOO_LARGE)
        self._mask = bytes(self._buffer[size - 4 : size])
        del self._buffer[:size]
        self._is_first = kind != _CONTINUED
        self._is_inside, self._is_final, self._left = True, is_final, length
        if not length:
            yield MessagePiece(b"", self._is_first)
            self._end_frame()
        return True

    def _head(self) -> tuple[int, bool, int, int] | None:
        """Kind, whether it is the last frame of its message, length of the payload and of the head itself."""
        if len(self._buffer) < 2:
            return None
        first, second = self._buffer[0], self._buffer[1]
        if first & 0x70 or not second & 0x80:
            raise StreamError("a frame of WebSocket with an extension or without a mask", PROTOCOL_ERROR)
        length, size = second & 0x7F, 6
        if length >= 126:
            size += 2 if length == 126 else 8
            if len(self._buffer) < size - 4:
                return None
            (length,) = struct.unpack_from(">H" if length == 126 else ">Q", self._buffer, 2)
        if length > MOST_MESSAGE_BYTES:
            raise StreamError(f"a message of more than {MOST_MESSAGE_BYTES} bytes", TOO_LARGE)
        if len(self._buffer) < size:
            return None
        return first & 0x0F, bool(first & 0x80), length, size

    def _control(self, kind: int, length: int, size: int) -> Generator[Event, None, bool]:
        if length > _MOST_CONTROL_BYTES:
            raise StreamError("a control frame of WebSocket that is too long", PROTOCOL_ERROR)
        if len(self._buffer) < size + length:
            return False
        payload = _unmasked(bytes(self._buffer[size : size + length]), bytes(self._buffer[size - 4 : size]))
        del self._buffer[: size + length]
        if kind != _PONG:
            yield Closed() if kind == _CLOSE else WebSocketPing(payload)
        return True


def message_frame(data: bytes) -> bytes:
    """One message of bytes."""
    return _frame(BINARY, data)


def pong_frame(data: bytes) -> bytes:
    """The answer to a ping."""
    return _frame(_PONG, data)


def close_frame(code: int = NORMAL) -> bytes:
    """The last one."""
    return _frame(_CLOSE, struct.pack(">H", code))


def _frame(kind: int, data: bytes) -> bytes:
    size = len(data)
    if size < 126:
        head = struct.pack(">BB", 0x80 | kind, size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", 0x80 | kind, 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | kind, 127, size)
    return head + data


def _unmasked(data: bytes, mask: bytes) -> bytes:
    """As one large number: a loop over the bytes would take a hundred times as long."""
    if not data:
        return data
    pattern = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "little") ^ int.from_bytes(pattern, "little")).to_bytes(len(data), "little")
