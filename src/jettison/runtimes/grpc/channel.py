"""gRPC's unary calls over one HTTP/2 connection to a socket of this machine, each with a deadline.

The connection is opened by the first call and again by the first one after it was lost: a runtime may die, hang or be
restarted at any moment. h2 costs 1.5 MB; a whole gRPC library costs 3 to 13 and buffers an answer of any size.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError

from jettison.errors import ContainerRuntimeError, UnreachableError
from jettison.runtimes.linux.files.kernel_files import reason

MOST_BYTES = 16 * 1024 * 1024
"""The largest answer that is taken; the lists of a node with 500 containers have about 1 MB."""

FEW_FRAMES, FRAMES_OF_A_CALL = 400, 50
"""How many frames that carry little or nothing a runtime may send: a few, and more for each call that is under way. h2
takes 40 µs for each, so that a runtime that sends nothing else would hold up the event loop; containerd sends 6."""

OK, UNKNOWN, DEADLINE_EXCEEDED, NOT_FOUND, FAILED_PRECONDITION, UNIMPLEMENTED = 0, 2, 4, 5, 9, 12
"""Codes of gRPC."""

Metadata = tuple[tuple[str, str], ...]
"""Headers of a call, by lower-case names."""

_CONNECT_SECONDS = 5.0
# A message is behind one byte (compressed or not) and its length.
_PREFIX = struct.Struct(">BI")
# The type of the first frame that a server sends.
_SETTINGS = b"\x04"
_CREDENTIALS = struct.Struct("=3i")
_FRAME_HEAD = 9
_SMALL_FRAME = 128
# What a terminal could take for an order, in a message of a program that passes on what a registry said.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_LONGEST_MESSAGE = 4096


class Channel:
    """To one socket. Belongs to one event loop."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._pid = 0

    async def call(self, method: str, request: bytes, seconds: float, metadata: Metadata = ()) -> bytes:
        """The answer's message. Raises ContainerRuntimeError with what the runtime said, and UnreachableError."""
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connected()
                return await connection.call(method, request, seconds, metadata)
        except TimeoutError as error:
            what = method.rpartition("/")[2]
            raise UnreachableError(f"container runtime `{self.path}`: no answer to {what} in {seconds:g} s") from error

    @property
    def pid(self) -> int:
        """The process that listens; 0 without a connection."""
        return self._pid if self._connection is not None and self._connection.is_usable else 0

    def close(self) -> None:
        """Calls that are under way fail."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is None or not self._connection.is_usable:
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                transport, connection = await loop.create_unix_connection(
                    lambda: _Connection(self.path, self._most_bytes), str(self.path)
                )
        except OSError as error:
            why = "no answer" if isinstance(error, TimeoutError) else reason(error)
            raise UnreachableError(f"container runtime `{self.path}`: {why}") from error
        self._pid, owner = _peer(transport.get_extra_info("socket"))
        if owner not in (0, os.geteuid()):
            transport.abort()
            raise UnreachableError(f"container runtime `{self.path}`: served by user {owner}, allowed is root")
        return connection


def _peer(connected: socket.socket) -> tuple[int, int]:
    """Process and user of the other end."""
    data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(data)
    return pid, user


class _Http(H2Connection):
    """h2 remembers how each of its last 65,536 streams was closed, which are 8 MB after some days of questions. Frames
    that come late for a call that was given up belong to the latest of them.
    """

    MAX_CLOSED_STREAMS = 512


class _Call:
    """One stream: what is still to be sent, and what has come."""

    __slots__ = ("code", "data", "done", "message", "rest")

    def __init__(self, request: bytes) -> None:
        self.rest = memoryview(_PREFIX.pack(0, len(request)) + request)
        self.data = bytearray()
        self.code: int | None = None
        self.message = ""
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def read_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        found = {bytes(name): bytes(value) for name, value in headers}
        status = found.get(b":status", b"200")
        if status != b"200":
            self.fail(ContainerRuntimeError(f"HTTP status {status.decode('ascii', 'replace')}", UNKNOWN))
        elif b"grpc-status" in found:
            code = found[b"grpc-status"]
            self.code = int(code) if code.isdigit() and len(code) < 4 else UNKNOWN
            self.message = _clean(found.get(b"grpc-message", b""))

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def finish(self) -> None:
        """The stream has ended: with a status, or it is no gRPC."""
        if self.done.done():
            return
        if self.code != OK:
            code = UNKNOWN if self.code is None else self.code
            self.fail(ContainerRuntimeError(self.message or f"status {code}", code))
            return
        compressed, length = _PREFIX.unpack_from(self.data) if len(self.data) >= _PREFIX.size else (1, 0)
        if compressed or length != len(self.data) - _PREFIX.size:
            self.fail(ContainerRuntimeError("the answer is no single uncompressed message", UNKNOWN))
        else:
            self.done.set_result(bytes(self.data[_PREFIX.size :]))


class _Allowance:
    """Counts what a runtime sends against what it was asked for, frame by frame, before h2 looks at it."""

    def __init__(self, most_bytes: int) -> None:
        self._head = b""
        self._skip = 0
        self._most = 2 * most_bytes
        self._small, self._bytes = FEW_FRAMES, self._most

    def renew(self, under_way: int) -> None:
        """For one more call, beside those under way."""
        most = FEW_FRAMES + FRAMES_OF_A_CALL * under_way
        self._small = min(max(self._small, FEW_FRAMES) + FRAMES_OF_A_CALL, most)
        self._bytes = self._most

    def spend(self, data: bytes) -> None:
        """Raises ProtocolError where it is used up."""
        self._bytes -= len(data)
        at = 0
        while at < len(data) and self._small >= 0:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
            else:
                part = data[at : at + _FRAME_HEAD - len(self._head)]
                step = len(part)
                self._head += part
                if len(self._head) == _FRAME_HEAD:
                    self._skip = int.from_bytes(self._head[:3], "big")
                    self._small -= self._skip < _SMALL_FRAME
                    self._head = b""
            at += step
        if self._small < 0 or self._bytes < 0:
            raise ProtocolError("it sends more than it was asked for")


class _Connection(asyncio.Protocol):
    """One HTTP/2 connection with any number of calls on it."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._http = _Http(H2Configuration(client_side=True, header_encoding=None))
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, _Call] = {}
        self._is_greeted = False
        self._allowance = _Allowance(most_bytes)
        self.is_usable = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._http.initiate_connection()
        self.is_usable = True
        self._flush()

    async def call(self, method: str, request: bytes, seconds: float, metadata: Metadata = ()) -> bytes:
        """Cancelled or late, it tells the runtime that the answer is no longer wanted."""
        number, call = 0, _Call(request)
        self._allowance.renew(len(self._calls) + 1)
        headers = (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", method.encode()),
            (b":authority", b"localhost"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"user-agent", b"jettison"),
            (b"grpc-timeout", b"%dm" % min(max(round(seconds * 1000), 1), 99_999_999)),
            *((name.encode(), value.encode()) for name, value in metadata),
        )
        try:
            number = self._http.get_next_available_stream_id()
            self._http.send_headers(number, headers)
            self._calls[number] = call
            self._send(number, call)
            self._flush()
        except ProtocolError as error:
            self._calls.pop(number, None)
            raise UnreachableError(f"container runtime `{self._path}`: {_named(error)}") from error
        try:
            return await call.done
        finally:
            if self._calls.pop(number, None) is not None:
                self._reset(number)

    def close(self) -> None:
        """Now."""
        self.is_usable = False
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            if not self._is_greeted and data[3:4] not in (_SETTINGS, b""):
                # h2 would wait for megabytes of a frame whose length is `220`, the greeting of a mail server.
                raise ProtocolError("it does not begin with its settings")
            self._is_greeted = True
            self._allowance.spend(data)
            events = self._http.receive_data(data)
            for event in events:
                self._hear(event)
        except ProtocolError as error:
            self._fail_all(f"it does not speak HTTP/2 as it should: {_named(error)}")
            self.close()
        else:
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        self._fail_all("the connection was lost" if exc is None else f"the connection was lost: {exc}")

    def _hear(self, event: Event) -> None:
        if isinstance(event, ConnectionTerminated):
            self._fail_all("it is shutting down")
            self.close()
            return
        if isinstance(event, WindowUpdated):
            for stream, waiting in list(self._calls.items()):
                self._send(stream, waiting)
            return
        call = self._calls.get(getattr(event, "stream_id", None) or 0)
        if isinstance(event, DataReceived):
            # Also for a call that was given up: what is not acknowledged blocks all others.
            self._http.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
            if call is not None:
                self._take(event.stream_id, call, event.data or b"")
        elif call is None:
            return
        elif isinstance(event, ResponseReceived | TrailersReceived):
            call.read_headers(event.headers or ())
        elif isinstance(event, StreamEnded):
            del self._calls[event.stream_id]
            call.finish()
        elif isinstance(event, StreamReset):
            del self._calls[event.stream_id]
            call.fail(UnreachableError(f"container runtime `{self._path}`: it has broken the call off"))

    def _take(self, number: int, call: _Call, data: bytes) -> None:
        if len(call.data) + len(data) > self._most_bytes:
            del self._calls[number]
            self._reset(number)
            call.fail(ContainerRuntimeError(f"the answer has more than {self._most_bytes} bytes", UNKNOWN))
        else:
            call.data += data

    def _send(self, number: int, call: _Call) -> None:
        """As much as the runtime takes now."""
        while call.rest:
            size = min(len(call.rest), self._http.local_flow_control_window(number), self._http.max_outbound_frame_size)
            if size <= 0:
                return
            part, call.rest = call.rest[:size], call.rest[size:]
            self._http.send_data(number, bytes(part), end_stream=not call.rest)

    def _reset(self, number: int) -> None:
        if self.is_usable:
            try:
                self._http.reset_stream(number, ErrorCodes.CANCEL)
            except ProtocolError:
                return  # it has ended meanwhile
            self._flush()

    def _flush(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._http.data_to_send())

    def _fail_all(self, why: str) -> None:
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.fail(UnreachableError(f"container runtime `{self._path}`: {why}"))


def _named(error: ProtocolError) -> str:
    """Some have no text."""
    return str(error) or type(error).__name__


def _clean(message: bytes) -> str:
    text = unquote(message.decode("ascii", "backslashreplace"), errors="backslashreplace")
    text = _CONTROL.sub(" ", text).strip()
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"
