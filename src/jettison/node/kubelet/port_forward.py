"""Ports of a pod for a client elsewhere: each connection of the client is a pair of SPDY streams, for data and errors.

kubectl since 1.31 sends the frames of SPDY in messages of WebSocket; before it, and for every API server of Kubernetes,
they are the connection itself. Older clients of WebSocket, the official Python client among them, have one connection
for each port that they name at the beginning, and a pair of numbered channels for it (`ChannelForward`). A pod with a
network of its own is entered by a thread that ends with the connection.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from jettison.errors import ApiError, StartError, StreamError
from jettison.node.kubelet import spdy, websocket
from jettison.node.kubelet.stream_connection import PIECE_BYTES, StreamConnection
from jettison.node.kubelet.upgrades import SPDY, StreamRequest
from jettison.runtimes.linux.files.kernel_files import PROC, reason
from jettison.runtimes.linux.processes import read_process
from jettison.runtimes.machine.background_tasks import in_own_thread

PROTOCOL: Final = "portforward.k8s.io"
TUNNEL: Final = f"SPDY/3.1+{PROTOCOL}"
CHANNELS: Final = "v4.channel.k8s.io"

MOST_STREAMS: Final = 256
"""Of one client at once; a browser opens a dozen."""

# Of numbered channels there are 256, and each port takes two.
_MOST_PORTS: Final = 128
_CONNECT_SECONDS: Final = 10.0
_PAIR_SECONDS: Final = 30.0
_MOST_PENDING: Final = 8
_CLONE_NEWNET: Final = 0x40000000

Dial = Callable[[int], Awaitable[socket.socket]]
"""From a port of the pod to a connection with it. Raises StartError."""


class Bytes(Protocol):
    """What frames of SPDY travel on."""

    async def read(self) -> bytes:
        """Empty at the end."""

    async def write(self, data: bytes) -> None:
        """Raises OSError when the other side is gone."""


class Tunnel:
    """Bytes in messages of WebSocket, whose boundaries mean nothing."""

    def __init__(self, connection: StreamConnection) -> None:
        self._connection = connection
        self._reader = websocket.WebSocketReader()

    async def read(self) -> bytes:
        """Several messages may come at once, or a part of one."""
        while True:
            data = await self._connection.read()
            if not data:
                return b""
            pieces = []
            try:
                for event in self._reader.read(data):
                    match event:
                        case websocket.MessagePiece(piece, _):
                            pieces.append(piece)
                        case websocket.WebSocketPing(payload):
                            await self._connection.write(websocket.pong_frame(payload))
                        case websocket.Closed():
                            return b""
            except StreamError as error:
                with suppress(OSError):
                    await self._connection.write(websocket.close_frame(error.code))
                raise
            if any(pieces):
                return b"".join(pieces)

    async def write(self, data: bytes) -> None:
        """As one message."""
        await self._connection.write(websocket.message_frame(data))


class ChannelForward:
    """One connection for each port: the first message of channel 2n is the port, then come data; 2n + 1 has errors."""

    def __init__(self, connection: StreamConnection, ports: Sequence[int], dial: Dial) -> None:
        self._connection = connection
        self._ports = ports
        self._dial = dial
        self._reader = websocket.WebSocketReader()
        self._pending: list[asyncio.Queue[bytes]] = [asyncio.Queue(_MOST_PENDING) for _ in ports]

    async def run(self) -> None:
        """Until the client has gone; then no connection is left."""
        for place, port in enumerate(self._ports):
            for channel in (2 * place, 2 * place + 1):
                await self._send(channel, port.to_bytes(2, "little"))
        carrying = [asyncio.create_task(self._carry(place)) for place in range(len(self._ports))]
        try:
            with suppress(OSError, StreamError):
                await self._take()
        finally:
            for task in carrying:
                task.cancel()
            await asyncio.gather(*carrying, return_exceptions=True)

    async def _take(self) -> None:
        channel = -1
        while data := await self._connection.read():
            for event in self._reader.read(data):
                match event:
                    case websocket.MessagePiece(piece, is_first):
                        if is_first:
                            channel = -1
                        if channel < 0 and piece:
                            channel, piece = piece[0], piece[1:]
                        if piece and channel % 2 == 0 and channel // 2 < len(self._ports):
                            await self._pending[channel // 2].put(piece)
                    case websocket.WebSocketPing(payload):
                        await self._connection.write(websocket.pong_frame(payload))
                    case websocket.Closed():
                        return

    async def _carry(self, place: int) -> None:
        with suppress(OSError):
            try:
                reader, writer = await asyncio.open_connection(sock=await self._dial(self._ports[place]))
            except StartError as error:
                complaint = f"error forwarding port {self._ports[place]} to the pod: {error}"
                await self._send(2 * place + 1, complaint.encode())
                return
            pod = StreamConnection(reader, writer)
            sending = asyncio.create_task(self._feed(place, pod))
            try:
                while data := await pod.read():
                    await self._send(2 * place, data)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                writer.transport.abort()

    async def _feed(self, place: int, pod: StreamConnection) -> None:
        while True:
            await pod.write(await self._pending[place].get())

    async def _send(self, channel: int, data: bytes) -> None:
        await self._connection.write(websocket.message_frame(bytes((channel,)) + data))


@dataclass(slots=True)
class _Pair:
    """One connection of the client's."""

    port: str
    streams: dict[str, int] = field(default_factory=dict)
    pending: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(_MOST_PENDING))
    has_room: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class PortForward:
    """Of one client. `dial` connects with the pod."""

    def __init__(self, connection: Bytes, dial: Dial, *, most_streams: int = MOST_STREAMS) -> None:
        self._connection = connection
        self._dial = dial
        self._most_streams = most_streams
        self._reader, self._writer = spdy.SpdyReader(), spdy.SpdyWriter()
        self._pairs: dict[str, _Pair] = {}
        self._by_stream: dict[int, _Pair] = {}

    async def run(self) -> None:
        """Until the client has gone; then no connection is left."""
        try:
            with suppress(OSError, StreamError):
                while data := await self._connection.read():
                    for event in self._reader.read(data):
                        await self._take(event)
        finally:
            tasks = [pair.task for pair in self._pairs.values() if pair.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, event: spdy.Event) -> None:
        match event:
            case spdy.Opened(stream, headers, is_last):
                await self._open(stream, headers, is_last=is_last)
            case spdy.Data(stream, data, is_last) if stream in self._by_stream:
                pair = self._by_stream[stream]
                if stream == pair.streams.get("data"):
                    await _put(pair, data, is_last=is_last)
            case spdy.Reset(stream) if stream in self._by_stream:
                pair = self._by_stream[stream]
                if stream == pair.streams.get("data") and pair.task is not None:
                    pair.task.cancel()
            case spdy.SpdyPing(number):
                await self._connection.write(spdy.ping_frame(number))
            case _:
                return

    async def _open(self, stream: int, headers: spdy.Headers, *, is_last: bool) -> None:
        kind, port, request = (headers.get(name, "") for name in ("streamtype", "port", "requestid"))
        pair = self._pairs.get(request)
        is_known = kind in ("data", "error") and (pair is None or (kind not in pair.streams and pair.port == port))
        # A number that is taken would be counted once, however many pairs have it.
        if not is_known or stream in self._by_stream or len(self._by_stream) >= self._most_streams:
            await self._connection.write(spdy.reset_frame(stream, spdy.REFUSED_STREAM))
            return
        if pair is None:
            pair = self._pairs[request] = _Pair(port)
            pair.task = asyncio.create_task(self._expire(request, pair))
        pair.streams[kind] = stream
        self._by_stream[stream] = pair
        await self._connection.write(self._writer.accept(stream))
        if is_last and kind == "data":
            await _put(pair, b"", is_last=True)
        if len(pair.streams) == 2:
            assert pair.task is not None
            pair.task.cancel()
            pair.task = asyncio.create_task(self._serve(request, pair))

    async def _expire(self, request: str, pair: _Pair) -> None:
        """A stream that stays alone is given up."""
        await asyncio.sleep(_PAIR_SECONDS)
        with suppress(OSError):
            for stream in pair.streams.values():
                await self._connection.write(spdy.reset_frame(stream, spdy.CANCEL))
        self._forget(request, pair)

    async def _serve(self, request: str, pair: _Pair) -> None:
        try:
            complaint = b""
            try:
                await self._carry(pair)
            except (StartError, OSError) as error:
                why = str(error) if isinstance(error, StartError) else reason(error)
                complaint = f"error forwarding port {pair.port} to the pod: {why}".encode()
            with suppress(OSError):
                await self._connection.write(
                    spdy.data_frame(pair.streams["error"], complaint, is_last=True)
                    + spdy.data_frame(pair.streams["data"], b"", is_last=True)
                )
        finally:
            self._forget(request, pair)

    def _forget(self, request: str, pair: _Pair) -> None:
        self._pairs.pop(request, None)
        for stream in pair.streams.values():
            self._by_stream.pop(stream, None)

    async def _carry(self, pair: _Pair) -> None:
        if not _is_port(pair.port):
            raise StartError(f"`{pair.port[:20]}` is not a port of 1 to 65535")
        connection = await self._dial(int(pair.port))
        reader, writer = await asyncio.open_connection(sock=connection, limit=PIECE_BYTES)
        pod = StreamConnection(reader, writer)
        sending = asyncio.create_task(_send(pair, pod, writer))
        try:
            while data := await pod.read():
                await self._connection.write(spdy.data_frame(pair.streams["data"], data))
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            writer.transport.abort()


async def _put(pair: _Pair, data: bytes, *, is_last: bool) -> None:
    """For the pod. While that does not read, nothing more is read from the client; once it is gone, all is dropped."""
    for piece in ([data] if data else []) + ([b""] if is_last else []):
        while pair.pending.full() and pair.task is not None and not pair.task.done():
            room = asyncio.ensure_future(pair.has_room.wait())
            await asyncio.wait((room, pair.task), return_when=asyncio.FIRST_COMPLETED)
            room.cancel()
        if not pair.pending.full():
            pair.pending.put_nowait(piece)
        if pair.pending.full():
            pair.has_room.clear()


async def _take_next(pair: _Pair) -> bytes:
    data = await pair.pending.get()
    pair.has_room.set()
    return data


async def _send(pair: _Pair, pod: StreamConnection, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await _take_next(pair):
            await pod.write(data)
        writer.write_eof()
    # A pod that does not listen any more may still talk: what comes for it is dropped.
    while await _take_next(pair):
        continue


async def open_forward(
    request: StreamRequest, connection: StreamConnection, dial: Dial
) -> PortForward | ChannelForward:
    """Answer the request. Raises ApiError before the answer."""
    wanted = (PROTOCOL,) if request.upgrade == SPDY else (TUNNEL, CHANNELS)
    chosen = next((each for each in wanted if each in request.offered), None)
    if chosen is None:
        offered = " ".join(request.offered)[:200]
        message = f"unable to upgrade: unable to negotiate protocol: client supports [{offered}]"
        raise ApiError(f"{message}, server accepts [{' '.join(wanted)}]", code=403)
    ports = _ports(request) if chosen == CHANNELS else ()
    await connection.write(request.answer(chosen))
    if chosen == CHANNELS:
        return ChannelForward(connection, ports, dial)
    return PortForward(connection if request.upgrade == SPDY else Tunnel(connection), dial)


def _ports(request: StreamRequest) -> list[int]:
    named = [each for text in request.parameters.get("port", ()) for each in text.split(",")]
    if not 0 < len(named) <= _MOST_PORTS or not all(map(_is_port, named)):
        raise ApiError(f"`port` has to name 1 to {_MOST_PORTS} ports, each of 1 to 65535", code=400)
    return [int(each) for each in named]


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536


def dialer(pid: int, start_ticks: int) -> Dial:
    """Into the network of a process, which must still be that process."""

    async def dial(port: int) -> socket.socket:
        # A thread that has entered another network does not come back.
        return await in_own_thread(partial(_connected, pid, start_ticks, port), socket.socket.close)

    return dial


def _connected(pid: int, start_ticks: int, port: int) -> socket.socket:
    try:
        _enter_network(pid, start_ticks)
        failure: OSError | None = None
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            connection = socket.socket(family, socket.SOCK_STREAM)
            try:
                connection.settimeout(_CONNECT_SECONDS)
                connection.connect((address, port))
                connection.setblocking(False)
                return connection
            except OSError as error:
                connection.close()
                # Where there is no IPv6, the first complaint says more.
                failure = failure or error
        assert failure is not None
        raise failure
    except OSError as error:
        raise StartError(f"cannot connect with port {port}: {reason(error)}") from error


def _enter_network(pid: int, start_ticks: int) -> None:
    """Nothing to do where it is ours."""
    place = PROC / str(pid) / "ns" / "net"
    namespace = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        process = read_process(pid)
        if process is None or process.start_ticks != start_ticks:
            raise StartError("the pod does not run any more")
        ours = (PROC / "thread-self" / "ns" / "net").stat()
        if os.fstat(namespace).st_ino == ours.st_ino:
            return
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(namespace, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(namespace)
