"""Answers an API server that asks for logs, as a kubelet does: GET /containerLogs/NAMESPACE/POD/CONTAINER over HTTPS.

It is prepared before the agent is ready, and opened when there is a node; whatever is in the way is one line, and the
node goes on without.

It listens where other machines may reach it, on a node that has better things to do. So only a client with a
certificate of the cluster's authority and the one right name is answered. Until that is known a connection is a
stranger's. Strangers are few, of one address fewer still, and where there are too many the oldest is dropped: an API
server needs milliseconds to show its certificate, so connections that say nothing cannot keep it out. After that,
streams are counted, and a client that does not read is dropped.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final

from jettison.agent.http.server import (
    HEAD_BYTES,
    Query,
    Request,
    encode_answer,
    parse_head,
    plain,
    read_head,
    read_query,
)
from jettison.apiserver.access.identity import CLIENT_NAME
from jettison.apiserver.verbs.log_query import LogQuery
from jettison.errors import ApiError, ManifestError, RuntimeFailure, ServeError
from jettison.manifests.times import parse_time
from jettison.node.logs.host_logs import HostLogs
from jettison.node.logs.node_certificate import CertificateInTheMaking, certificate_part
from jettison.node.node import Node
from jettison.runtimes.kube.credentials import memory_file
from jettison.runtimes.linux.files.kernel_files import reason

MOST_STREAMS: Final = 32
MOST_STRANGERS: Final = 32
MOST_OF_ONE_ADDRESS: Final = 16
HANDSHAKE_SECONDS: Final = 5.0
STALL_SECONDS: Final = 60.0

# Connections that wait to be accepted; where there are more, a client tries again after a second.
_BACKLOG: Final = 128
_TLS_BUFFER: Final = 32 * 1024
_RETRY_SECONDS: Final = 1.0
# A handshake takes 2 ms of a processor, and the agent goes before other processes: no more than 50 of them a second.
_PAUSE_SECONDS: Final = 0.02
_PATH: Final = "containerLogs"
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
    b"X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
)


class LogServer:
    """`context` demands certificates of the cluster's authority; whose they are is looked at here."""

    def __init__(
        self,
        logs: HostLogs,
        context: ssl.SSLContext,
        *,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        stall_seconds: float = STALL_SECONDS,
        most_streams: int = MOST_STREAMS,
    ) -> None:
        self._logs = logs
        self._context = context
        self._handshake_seconds = handshake_seconds
        self._stall_seconds = stall_seconds
        self._most_streams = most_streams
        # Oldest first, each with its address.
        self._strangers: dict[asyncio.Task[None], str] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._streams = 0
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    def listen(self, host: str, port: int) -> int:
        """From now on; the port that was taken is returned."""
        # asyncio keeps 256 KiB for every TLS connection, and has no other place to say how much.
        SSLProtocol.max_size = _TLS_BUFFER
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            raise ServeError(f"cannot listen on `{host}:{port}`: {reason(error)}") from error
        listener.setblocking(False)
        self._listener = listener
        self._accepting = asyncio.create_task(self._accept(listener))
        taken: int = listener.getsockname()[1]
        return taken

    async def close(self) -> None:
        """Close all connections."""
        tasks = [*self._connections, *([] if self._accepting is None else [self._accepting])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError:  # no descriptors, or already gone
                await asyncio.sleep(_RETRY_SECONDS)
                continue
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
        self._streams += 1
        is_done = False
        try:
            # Gone, or too slow to read what it asked for.
            with suppress(OSError):
                is_done = await self._converse(reader, writer)
        finally:
            (writer.close if is_done else writer.transport.abort)()
            with suppress(OSError):
                await writer.wait_closed()
            self._streams -= 1

    async def _shake_hands(self, connection: socket.socket) -> tuple[StreamReader, StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = StreamReader(HEAD_BYTES, loop)
        protocol = StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            connection,
            ssl=self._context,
            ssl_handshake_timeout=self._handshake_seconds,
            # The last piece is on its way, and may take as long as every other.
            ssl_shutdown_timeout=self._stall_seconds,
        )
        return reader, StreamWriter(transport, protocol, reader, loop)

    async def _converse(self, reader: StreamReader, writer: StreamWriter) -> bool:
        """Whether everything was said."""
        pieces: AsyncGenerator[bytes, None] | None = None
        try:
            _check_name(writer.get_extra_info("peercert"))
            if self._streams > self._most_streams:
                raise ApiError(f"this node has {self._most_streams} logs open already", code=503)
            pieces = self._find(parse_head(await read_head(reader)))
            first = await anext(pieces, b"")
        except ApiError as refusal:
            await self._say(writer, encode_answer(plain(refusal.message, refusal.code)))
            return True
        async with aclosing(pieces):
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

    def _find(self, request: Request) -> AsyncGenerator[bytes, None]:
        if request.method != "GET":
            raise ApiError("only GET is served", code=405)
        parts = request.path.split("/")
        if len(parts) != 5 or parts[:2] != ["", _PATH]:
            raise ApiError(f"no such path, there is /{_PATH}/NAMESPACE/POD/CONTAINER", code=404)
        _, _, namespace, name, container = parts
        asked = read_query(request.query)
        query = LogQuery(
            container,
            _amount(asked, "tailLines", 0),
            _amount(asked, "limitBytes", 1),
            _is_set(asked, "previous"),
            _is_set(asked, "follow"),
            _moment(asked, "sinceTime"),
            _is_set(asked, "timestamps"),
        )
        return self._logs.find(namespace, name, asked.get("uid", ""), query)

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


@dataclass(frozen=True, slots=True)
class LogOffer:
    """Where the API can ask this node for logs, and the certificate by which it knows that it is us."""

    port: int
    certificate_pem: str


class LogService:
    """Of one node. `authority_pem` signs the certificates of clients; without it no client could be authenticated."""

    def __init__(self, authority_pem: bytes | None) -> None:
        self._authority_pem = authority_pem
        self._context: ssl.SSLContext | None = None
        self._certificate = ""
        self._lack: str | None = None
        self._server: LogServer | None = None

    def prepare(self) -> None:
        """To be done before the agent is ready."""
        try:
            if not self._authority_pem:
                raise ServeError("the kubeconfig has no certificate authority")
            made = CertificateInTheMaking().wait()
            self._certificate = certificate_part(made)
            self._context = server_context(made, self._authority_pem)
        except RuntimeFailure as error:
            self._lack = _lack(error)

    def open(self, node: Node, host: str, port: int) -> LogOffer | None:
        """What the cluster is to be told; None where there is nothing to tell."""
        offer = None
        if self._context is not None:
            settings = node.settings
            logs = HostLogs(settings.node_name, settings.logs_dir, node.runtime.statuses)
            server = LogServer(logs, self._context)
            try:
                offer = LogOffer(server.listen(host, port), self._certificate)
                self._server = server
            except ServeError as error:
                self._lack = _lack(error)
        if self._lack is not None:
            node.lacks += (self._lack,)
        return offer

    async def close(self) -> None:
        """Hang up."""
        if self._server is not None:
            await self._server.close()


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


def _lack(error: RuntimeFailure) -> str:
    return f"the API cannot ask for logs: {error}"
