"""Answers an API server on the kubelet's port, over HTTPS, one request per connection.

It listens where other machines may reach it. So only a client with a certificate of the cluster's authority and the one
right name is answered. Until that is known a connection is a stranger's. Strangers are few, of one address fewer still,
and where there are too many the oldest is dropped: an API server needs milliseconds to show its certificate, so
connections that say nothing cannot keep it out. After that, streams and other requests are counted, each kind by
itself, so that neither keeps out the other.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Final

from jettison.agent.http.server import Answer, Query, Request, encode_answer, parse_head, plain, read_head, read_query
from jettison.apiserver.access.identity import CLIENT_NAME
from jettison.apiserver.connections.hangups import until_hung_up
from jettison.apiserver.verbs.log_query import LogQuery
from jettison.clock import SYSTEM_CLOCK
from jettison.errors import ApiError, JettisonError, ManifestError, RuntimeFailure, ServeError, StreamError
from jettison.manifests.times import parse_time
from jettison.node.kubelet.agent_questions import AgentQuestions
from jettison.node.kubelet.commands import converse, open_channels, refuse
from jettison.node.kubelet.inside import CommandInside, Inside, LogInside, RuntimeInside, TerminalInside
from jettison.node.kubelet.port_forward import dialer, open_forward
from jettison.node.kubelet.stream_connection import StreamConnection
from jettison.node.kubelet.upgrades import StreamRequest, read_stream_request
from jettison.node.logs.host_logs import HostLogs
from jettison.runtimes.host.processes.processes import WayIn
from jettison.runtimes.kube.credentials import memory_file
from jettison.runtimes.machine.silence import keep_alive

MOST_STREAMS: Final = 32
MOST_QUESTIONS: Final = 16
MOST_STRANGERS: Final = 32
MOST_OF_ONE_ADDRESS: Final = 16
HEAD_BYTES: Final = 64 * 1024
"""The words of a command are in the head."""

HANDSHAKE_SECONDS: Final = 5.0
STALL_SECONDS: Final = 60.0
"""For a client that has asked for a log or a reading to read on; streams may stall for longer."""

READINGS: Final = frozenset(
    {"/healthz", "/metrics", "/metrics/resource", "/metrics/probes", "/configz", "/stats/summary", "/pods"}
)
"""What the agent itself answers."""

_TLS_BUFFER: Final = 32 * 1024
_RETRY_SECONDS: Final = 1.0
# A handshake takes 2 ms of a processor: no more than 50 of them a second.
_PAUSE_SECONDS: Final = 0.02
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
    b"X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
)


class KubeletServer:
    """`context` demands certificates of the cluster's authority; whose they are is looked at here."""

    def __init__(
        self,
        questions: AgentQuestions,
        logs: HostLogs,
        context: ssl.SSLContext,
        *,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        stall_seconds: float = STALL_SECONDS,
        most_streams: int = MOST_STREAMS,
    ) -> None:
        self.context = context
        self._questions = questions
        self._logs = logs
        self._handshake_seconds = handshake_seconds
        self._stall_seconds = stall_seconds
        self._most = {True: most_streams, False: MOST_QUESTIONS}
        # Streams (True) and other requests.
        self._open = {True: 0, False: 0}
        # Oldest first, each with its address.
        self._strangers: dict[asyncio.Task[None], str] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there is no connection, of whatever client."""
        return not self._connections

    def accept_from(self, listener: socket.socket) -> None:
        """From now on."""
        # asyncio keeps 256 KiB for every TLS connection, and has no other place to say how much.
        SSLProtocol.max_size = _TLS_BUFFER
        self._accepting = asyncio.create_task(self._accept(listener))

    async def close(self) -> None:
        """Close all connections."""
        tasks = [*self._connections, *([] if self._accepting is None else [self._accepting])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError:  # no descriptors, or already gone
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            keep_alive(connection)
            self._make_room(address[0])
            task = asyncio.create_task(self._serve(connection))
            self._strangers[task] = address[0]
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
            task.add_done_callback(lambda done: self._strangers.pop(done, None))
            await asyncio.sleep(_PAUSE_SECONDS)

    def _make_room(self, address: str) -> None:
        """For one more stranger: of too many the oldest goes, and first one of the same address."""
        neighbours = [task for task, each in self._strangers.items() if each == address]
        if len(neighbours) >= MOST_OF_ONE_ADDRESS:
            crowd = neighbours
        elif len(self._strangers) >= MOST_STRANGERS:
            crowd = list(self._strangers)
        else:
            return
        del self._strangers[crowd[0]]
        crowd[0].cancel()

    async def _serve(self, connection: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            reader, writer = await self._shake_hands(connection)
        except OSError:  # no certificate, a wrong one, no TLS at all, or too slow
            return
        finally:
            self._strangers.pop(task, None)
        is_done = False
        try:
            # Gone, or too slow to read what it asked for.
            with suppress(OSError):
                is_done = await self._answer(reader, writer)
        finally:
            (writer.close if is_done else writer.transport.abort)()
            with suppress(OSError):
                await writer.wait_closed()

    async def _shake_hands(self, connection: socket.socket) -> tuple[StreamReader, StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = StreamReader(HEAD_BYTES, loop)
        protocol = StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            connection,
            ssl=self.context,
            ssl_handshake_timeout=self._handshake_seconds,
            # The last piece is on its way, and may take as long as every other.
            ssl_shutdown_timeout=self._stall_seconds,
        )
        return reader, StreamWriter(transport, protocol, reader, loop)

    async def _answer(self, reader: StreamReader, writer: StreamWriter) -> bool:
        """Whether everything was said."""
        try:
            _check_name(writer.get_extra_info("peercert"))
            request = parse_head(await read_head(reader, most_bytes=HEAD_BYTES))
            first = request.path.split("/")[1]
            is_stream = first in ("containerLogs", "exec", "attach", "portForward")
            if self._open[is_stream] >= self._most[is_stream]:
                what = "streams" if is_stream else "questions"
                raise ApiError(f"this node has {self._most[is_stream]} {what} open already", code=503)
            self._open[is_stream] += 1
            try:
                return await self._route(request, first, reader, writer)
            finally:
                self._open[is_stream] -= 1
        except ApiError as refusal:
            answer = plain(refusal.message, refusal.code)
        except JettisonError as error:
            answer = plain(f"Internal Error: {error}", 500)
        await self._say(writer, encode_answer(answer))
        return True

    async def _route(self, request: Request, first: str, reader: StreamReader, writer: StreamWriter) -> bool:
        parts = tuple(request.path.split("/")[2:])
        match first, len(parts):
            case "containerLogs", 3:
                return await self._log(request, parts, reader, writer)
            case "exec" | "attach", 3 | 4:
                return await self._stream(request, first, parts, StreamConnection(reader, writer))
            case "portForward", 2 | 3:
                return await self._forward(request, parts, StreamConnection(reader, writer))
        if request.method not in ("GET", "HEAD"):
            raise ApiError("only GET is served", code=405)
        if request.path not in READINGS:
            raise ApiError(f"no such path, there are {' '.join(sorted(READINGS))} and streams", code=404)
        told = await self._questions.read(request.path, request.query)
        answer = Answer(told.body, told.content_type, told.status)
        await self._say(writer, encode_answer(answer, is_head=request.method == "HEAD"))
        return True

    async def _stream(self, request: Request, kind: str, parts: tuple[str, ...], connection: StreamConnection) -> bool:
        asked = read_stream_request(request)
        way = await self._way_in(asked, kind, parts)
        channels = await open_channels(asked, connection)
        try:
            inside = await self._inside(asked, kind, way, parts)
        except RuntimeFailure as failure:
            await refuse(channels, failure)
            return True
        await until_hung_up(lambda: converse(channels, inside), connection.socket)
        return True

    async def _way_in(self, asked: StreamRequest, kind: str, parts: tuple[str, ...]) -> WayIn:
        """`NAMESPACE/POD/CONTAINER`, or with the pod's uid before the container."""
        container = "" if kind == "port-forward" else parts[-1]
        named_uid = parts[2] if len(parts) == (3 if kind == "port-forward" else 4) else ""
        uid = named_uid or asked.parameters.get("uid", ("",))[0]
        return await self._questions.enter(namespace=parts[0], pod=parts[1], uid=uid, container=container, purpose=kind)

    async def _inside(self, asked: StreamRequest, kind: str, way: WayIn, parts: tuple[str, ...]) -> Inside:
        wishes = asked.wishes
        if kind == "exec":
            words = asked.parameters.get("command", ())
            if not words or not words[0]:
                raise StreamError("you must specify at least 1 command")
            if any("\0" in word for word in words):
                raise StreamError("a word of the command holds a NUL, which ends every argument")
            if way.box is not None:
                return await RuntimeInside.run(way.box, words, wishes)
            assert way.entrance is not None
            return await CommandInside.start(way.entrance, words, wishes)
        if way.box is not None:
            return await RuntimeInside.attach(way.box, wishes)
        if way.terminal is not None:
            return TerminalInside.attach(way.terminal, wishes)
        uid = asked.parameters.get("uid", ("",))[0]
        query = LogQuery(way.container, tail_lines=0, is_followed=True)
        pieces = await self._logs.open(parts[0], parts[1], uid, query)
        # Where the log stands is found out before anything is written: the answer to that must not be missed.
        await anext(pieces, b"")
        return LogInside(pieces, Path(way.given) if wishes.has_input else None)

    async def _forward(self, request: Request, parts: tuple[str, ...], connection: StreamConnection) -> bool:
        asked = read_stream_request(request)
        way = await self._way_in(asked, "port-forward", parts)
        forward = await open_forward(asked, connection, dialer(*way.process))
        await until_hung_up(forward.run, connection.socket)
        return True

    async def _log(self, request: Request, parts: tuple[str, ...], reader: StreamReader, writer: StreamWriter) -> bool:
        if request.method != "GET":
            raise ApiError("only GET is served", code=405)
        query = read_query(request.query)
        pieces = await self._logs.open(parts[0], parts[1], query.get("uid", ""), _log_query(parts[2], query))
        async with aclosing(pieces):
            # A refusal comes here, while no answer has begun.
            first = await anext(pieces, b"")
            sending = asyncio.create_task(self._send(writer, first, pieces))
            # Nothing more is asked on this connection: whatever comes is its end.
            leaving = asyncio.create_task(reader.read(1))
            try:
                await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
                return sending.done() and sending.result()
            finally:
                for task in (sending, leaving):
                    task.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, writer: StreamWriter, first: bytes, pieces: AsyncGenerator[bytes, None]) -> bool:
        """False where the log broke off: without its last chunk the answer is known to be incomplete."""
        await self._say(writer, _HEAD + _chunk(first))
        try:
            async for piece in pieces:
                await self._say(writer, _chunk(piece))
        except ApiError:
            return False
        await self._say(writer, b"0\r\n\r\n")
        return True

    async def _say(self, writer: StreamWriter, data: bytes) -> None:
        if data:
            async with asyncio.timeout(self._stall_seconds):
                writer.write(data)
                await writer.drain()


def _chunk(piece: bytes) -> bytes:
    # An empty one would be the last.
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""


def _check_name(certificate: Any) -> None:
    subject = (certificate or {}).get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    if names != [CLIENT_NAME]:
        raise ApiError(f"only `{CLIENT_NAME}` is answered here", code=403)


def _log_query(container: str, asked: Query) -> LogQuery:
    since_ns = _moment(asked, "sinceTime")
    if (seconds := _amount(asked, "sinceSeconds", 1)) is not None:
        since_ns = SYSTEM_CLOCK.now_ns() - seconds * 10**9
    return LogQuery(
        container,
        _amount(asked, "tailLines", 0),
        _amount(asked, "limitBytes", 1),
        _is_set(asked, "previous"),
        _is_set(asked, "follow"),
        since_ns,
        _is_set(asked, "timestamps"),
    )


def _amount(asked: Query, name: str, least: int) -> int | None:
    text = asked.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) >= least):
        raise ApiError(f"`{name}` is not a number of at least {least}", code=400)
    return int(text)


def _moment(asked: Query, name: str) -> int | None:
    try:
        return parse_time(asked[name]) if name in asked else None
    except ManifestError as error:
        raise ApiError(f"`{name}`: {error}", code=400) from error


def _is_set(asked: Query, name: str) -> bool:
    return asked.get(name) in ("true", "1")


def server_context(chain_pem: bytes, authority_pem: bytes) -> ssl.SSLContext:
    """For servers whose clients must show a certificate of the authority, and of no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Tickets would let a client come back without showing it again.
    context.num_tickets = 0
    try:
        with memory_file(chain_pem) as chain:
            context.load_cert_chain(chain)
        context.load_verify_locations(cadata=authority_pem.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise ServeError(f"a certificate cannot be used: {error}") from error
    context.verify_mode = ssl.CERT_REQUIRED
    return context
