"""SPDY/3.1 as Kubernetes' clients and container runtimes speak it: bytes to events and back, without input or output.

Neither of them has flow control, so there is none here: what is not read stays in the connection. The payload of a data
frame is passed on in the pieces in which it came, so a frame of 16 MiB costs no more memory than a piece. Headers are
compressed with a state that lasts as long as the connection. What a header block expands to is bounded: a kilobyte of
zlib can hold a megabyte of zeros.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from jettison.errors import StreamError

MOST_CONTROL_BYTES: Final = 16 * 1024
"""Of a control frame, and of the headers in it when they are unpacked. Those of Kubernetes have 100."""

REFUSED_STREAM: Final = 3
CANCEL: Final = 5

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_CONTROL: Final = 0x8000
_VERSION: Final = 3
_FIN: Final = 1
_HEAD: Final = 8
_STREAM_MASK: Final = 0x7FFFFFFF
_LONGEST_PIECE: Final = 0xFFFFFF
# The window has to hold the dictionary; the default would be 270 KB for each connection.
_WINDOW_BITS: Final = 11
_MEMORY_LEVEL: Final = 1

# The words with which both sides begin to compress; Appendix of the protocol's third draft.
_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow"
    " authorization cache-control connection content-base content-encoding content-language content-length"
    " content-location content-md5 content-range content-type date etag expect expires from host if-match"
    " if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma"
    " proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade"
    " user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie"
    " keep-alive origin"
)
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    words = [word.replace("_", " ").encode() for word in _WORDS.split()]
    return b"".join(struct.pack(">I", len(word)) + word for word in words) + _REST.encode()


DICTIONARY: Final = _dictionary()

Headers = Mapping[str, str]


class Opened(NamedTuple):
    """The other side begins a stream."""

    stream: int
    headers: Headers
    is_last: bool


class Accepted(NamedTuple):
    """The other side takes a stream that was begun here."""

    stream: int


class Data(NamedTuple):
    """A piece of a stream; with the last one the other side says no more on it."""

    stream: int
    data: bytes
    is_last: bool


class Reset(NamedTuple):
    """The other side has given the stream up."""

    stream: int


class SpdyPing(NamedTuple):
    """To be answered with the same number."""

    number: int


class Leaving(NamedTuple):
    """The other side is about to close the connection."""


Event = Opened | Accepted | Data | Reset | SpdyPing | Leaving


class SpdyReader:
    """Bytes to events."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        # Of the data frame whose payload is being read.
        self._stream = self._left = 0
        self._is_last = False

    def read(self, data: bytes) -> Iterator[Event]:
        """Everything that is complete by now. Raises StreamError for what is no SPDY, or too much of it."""
        self._buffer += data
        while True:
            if self._left:
                if not self._buffer:
                    return
                piece = bytes(self._buffer[: self._left])
                del self._buffer[: len(piece)]
                self._left -= len(piece)
                yield Data(self._stream, piece, self._is_last and not self._left)
                continue
            if len(self._buffer) < _HEAD:
                return
            kind, number, flags_and_length = struct.unpack_from(">HHI", self._buffer)
            flags, length = flags_and_length >> 24, flags_and_length & _LONGEST_PIECE
            if not kind & _CONTROL:
                self._stream, self._left = (kind << 16) | number, length
                self._is_last = bool(flags & _FIN)
                del self._buffer[:_HEAD]
                if not length:
                    yield Data(self._stream, b"", self._is_last)
                continue
            if kind & ~_CONTROL != _VERSION or length > MOST_CONTROL_BYTES:
                raise StreamError(f"no frame of SPDY/3.1 with at most {MOST_CONTROL_BYTES} bytes")
            if len(self._buffer) < _HEAD + length:
                return
            payload = bytes(self._buffer[_HEAD : _HEAD + length])
            del self._buffer[: _HEAD + length]
            event = self._control(number, flags, payload)
            if event is not None:
                yield event

    def _control(self, kind: int, flags: int, payload: bytes) -> Event | None:
        try:
            if kind == _GOAWAY:
                return Leaving()
            # Settings, windows and whatever else is optional.
            if kind not in (_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING):
                return None
            (number,) = struct.unpack_from(">I", payload)
            if kind == _PING:
                return SpdyPing(number)
            stream = number & _STREAM_MASK
            if kind == _RST_STREAM:
                return Reset(stream)
            # Also of an answer that is not read: the state of the compression goes on.
            headers = self._headers(payload[10 if kind == _SYN_STREAM else 4 :])
            return Accepted(stream) if kind == _SYN_REPLY else Opened(stream, headers, bool(flags & _FIN))
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise StreamError(f"a frame of SPDY/3.1 is malformed: {error}") from error

    def _headers(self, packed: bytes) -> Headers:
        block = self._inflate.decompress(packed, MOST_CONTROL_BYTES)
        if self._inflate.unconsumed_tail:
            raise StreamError(f"headers of more than {MOST_CONTROL_BYTES} bytes")
        texts, place = [], 4
        (count,) = struct.unpack_from(">I", block)
        # Each pair takes 8 bytes at least.
        if count > len(block) // 8:
            raise StreamError(f"headers of {count} pairs in {len(block)} bytes")
        for _ in range(2 * count):
            (length,) = struct.unpack_from(">I", block, place)
            if length > len(block) - place - 4:
                raise StreamError("a header is longer than its frame")
            texts.append(block[place + 4 : place + 4 + length].decode())
            place += 4 + length
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}


class SpdyWriter:
    """Frames to bytes. Compressed headers must be sent in the order in which they were made."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(wbits=_WINDOW_BITS, memLevel=_MEMORY_LEVEL, zdict=DICTIONARY)

    def open(self, stream: int, headers: Headers) -> bytes:
        """Begin a stream."""
        return _frame(_SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + self._packed(headers))

    def accept(self, stream: int) -> bytes:
        """Take a stream of the other side's."""
        return _frame(_SYN_REPLY, struct.pack(">I", stream) + self._packed({}))

    def _packed(self, headers: Headers) -> bytes:
        block = [struct.pack(">I", len(headers))]
        for pair in headers.items():
            for text in pair:
                data = text.encode()
                block += (struct.pack(">I", len(data)), data)
        return self._deflate.compress(b"".join(block)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def data_frame(stream: int, data: bytes, *, is_last: bool = False) -> bytes:
    """A piece of a stream, of up to 16 MiB."""
    return struct.pack(">II", stream, (_FIN << 24 if is_last else 0) | len(data)) + data


def reset_frame(stream: int, status: int) -> bytes:
    """Give a stream up."""
    return _frame(_RST_STREAM, struct.pack(">II", stream, status))


def ping_frame(number: int) -> bytes:
    """The answer to a ping."""
    return _frame(_PING, struct.pack(">I", number))


def leaving_frame() -> bytes:
    """The last one of a connection."""
    return _frame(_GOAWAY, struct.pack(">II", 0, 0))


def _frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">HHI", _CONTROL | _VERSION, kind, len(payload)) + payload
