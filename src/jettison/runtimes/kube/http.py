"""HTTP/1.1 to one server: requests, answers as they come, and connections that are kept.

A library for all of HTTP takes 100 ms of every command's start and 2 ms of every request, which was most of what a
controller did. This is the part that a client of Kubernetes needs: TLS, keep-alive, chunked and compressed bodies, and
proxies by CONNECT. The parser is httptools', in C. What goes wrong is an error of ours, in kubectl's words.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
import struct
import zlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

import httptools

from jettison.errors import ConnectionBroken, InputError, UnreachableError
from jettison.runtimes.machine.silence import keep_alive

_CONNECTIONS: Final = 64
# Servers close idle connections after five seconds or more; one that is closed while we write is a lost request.
_IDLE_SECONDS: Final = 3.0
_CONNECT_SECONDS: Final = 10.0
_SWITCHING: Final = 101
_AT_ONCE: Final = struct.pack("ii", 1, 0)  # linger for no time
_HIGHEST_STATUS: Final = 599
_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
# Beyond this the connection is not read from until the caller has taken something.
_MOST_HELD_BYTES: Final = 256 * 1024
_MOST_HEAD_BYTES: Final = 64 * 1024


class HttpRequest(NamedTuple):
    """`target` is a path with its query, all of it quoted.

    `seconds` is how long the server may take to begin its answer, `pause` for how long it may be silent then; None has
    no end.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    seconds: float = 65.0
    pause: float | None = 65.0


class Address(NamedTuple):
    """Where a server is; what its address says besides stands before every path."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    userinfo: str = ""

    @property
    def authority(self) -> str:
        """As a Host header says it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def read_address(server: str) -> Address:
    """Raises InputError for what is no address of a server."""
    try:
        split = urlsplit(server)
        if split.scheme not in _PORTS or not split.hostname:
            raise ValueError("expected `http://HOST:PORT` or `https://HOST:PORT`")
        port = split.port if split.port is not None else _PORTS[split.scheme]
        prefix = quote(split.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        return Address(split.scheme, split.hostname, port, prefix, _userinfo(split))
    except ValueError as error:
        raise InputError(f"`{server}` is not the address of a server: {error}") from error


def _userinfo(split: SplitResult) -> str:
    return split.netloc.rpartition("@")[0]


class HttpResponse:
    """An answer whose head has come. Its body is read once, whole or as it comes; then, or unread, it is closed."""

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        body: AsyncIterator[bytes],
        let_go: Callable[[], None] = lambda: None,
        write: Callable[[bytes, float], Awaitable[None]] | None = None,
    ) -> None:
        self.status = status
        # By their names in small letters; of several, the last.
        self.headers = headers
        self._body = body
        self._let_go = let_go
        self._write = write

    @property
    def is_success(self) -> bool:
        """Whether the server did what it was asked for."""
        return 200 <= self.status < 300

    async def write(self, data: bytes, seconds: float) -> None:
        """To a server that has switched to another protocol, whose side of it are the chunks."""
        if self._write is None:
            raise ConnectionBroken("the server has not switched to another protocol")
        await self._write(data, seconds)

    def close(self) -> None:
        """Once. The connection is kept if all of the answer has come."""
        self._let_go()

    async def chunks(self) -> AsyncIterator[bytes]:
        """As they come, decompressed."""
        if self.headers.get("content-encoding", "").lower() != "gzip":
            async for chunk in self._body:
                yield chunk
            return
        inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            async for chunk in self._body:
                # In pieces, because a kilobyte may become a megabyte.
                while chunk:
                    yield inflater.decompress(chunk, _MOST_HELD_BYTES)
                    chunk = inflater.unconsumed_tail
        except zlib.error as error:
            raise ConnectionBroken(f"the server's answer cannot be decompressed: {error}") from error


class _Connection(asyncio.Protocol):
    """One connection with at most one request under way. Kept ones that the server closes are thrown away."""

    def __init__(self) -> None:
        self.is_lost = False
        # Other certificates count by now.
        self.is_outdated = False
        self.idle_since = 0.0
        self.transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._begin()

    def _begin(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._parser = httptools.HttpResponseParser(self)
        self._chunks: deque[bytes] = deque()
        # Those that came since the last piece of a body: heads, trailers, what is written between chunks.
        self._held = self._idle_bytes = 0
        self._has_head = self.is_complete = self._is_paused = self._keeps = self.is_switched = False

    # What asyncio says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._idle_bytes += len(data)
        try:
            if self.is_complete:
                raise ConnectionBroken("the server sent what it was not asked for")
            if self.is_switched:
                self.on_body(data)
            else:
                self._feed(data)
            if self._idle_bytes > _MOST_HEAD_BYTES:
                raise ConnectionBroken(f"the server's headers are larger than {_MOST_HEAD_BYTES} bytes")
        except (httptools.HttpParserError, ConnectionBroken) as error:
            self._fail(ConnectionBroken(str(error)))
        if self._held > _MOST_HELD_BYTES and not self._is_paused and self.transport is not None:
            self._is_paused = True
            self.transport.pause_reading()
        self._wake()

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as switch:
            self.is_switched = self._has_head
            if rest := data[switch.args[0] :]:
                self.on_body(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._can_write.set()
        if self._has_head and not self.is_complete and exc is None and (self.is_switched or self._ends_with_connection):
            self.is_complete = True
        elif self._error is None:
            self._error = ConnectionBroken(str(exc) if exc else "the server hung up")
        self._wake()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    # What the parser says.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head:
            return  # a trailer, which nothing here asks for
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._has_head = self.status >= 200 or self.status == _SWITCHING

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)
        self._held += len(body)
        self._idle_bytes = 0

    def on_message_complete(self) -> None:
        if self.status == _SWITCHING:
            return
        if self._has_head:
            self.is_complete = True
            self._keeps = self._parser.should_keep_alive()
            return
        # An interim answer such as `100 Continue`: the real one follows.
        self.headers = {}

    # What a request does.

    async def send(self, data: bytes, seconds: float) -> None:
        self._begin()
        await self.write(data, seconds)

    async def write(self, data: bytes, seconds: float) -> None:
        if self._error is not None:
            raise self._error
        assert self.transport is not None
        self.transport.write(data)
        if not self._can_write.is_set():
            async with asyncio.timeout(seconds):
                await self._can_write.wait()

    async def head(self, seconds: float) -> None:
        while not self._has_head:
            await self._wait(seconds)

    async def body(self, seconds: float | None) -> AsyncIterator[bytes]:
        while True:
            if self._chunks:
                held = b"".join(self._chunks) if len(self._chunks) > 1 else self._chunks[0]
                self._chunks.clear()
                self._held = 0
                if self._is_paused and self.transport is not None:
                    self._is_paused = False
                    self.transport.resume_reading()
                yield held
            elif self.is_complete:
                return
            else:
                await self._wait(seconds)

    @property
    def can_be_kept(self) -> bool:
        return self.is_complete and self._keeps and not (self.is_lost or self.is_outdated) and self._error is None

    def close(self) -> None:
        if self.transport is None:
            return
        if self.is_switched and not self.is_lost and not self._can_write.is_set():
            # The server takes nothing, and would hear of the end behind all that the kernel holds for it: never.
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        # Not close(): that would wait for a server that no longer reads.
        self.transport.abort()

    @property
    def _ends_with_connection(self) -> bool:
        return "content-length" not in self.headers and "transfer-encoding" not in self.headers

    async def _wait(self, seconds: float | None) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self.close()


def _check_status(status: int, request: HttpRequest) -> None:
    """What follows a 101 is not HTTP: passed on to a client that asked for no other protocol it would be an answer that
    the server has made up.
    """
    if status == _SWITCHING and "upgrade" not in map(str.lower, request.headers):
        raise ConnectionBroken("the server switches to another protocol unasked")
    if status > _HIGHEST_STATUS:
        raise ConnectionBroken(f"the server answers with the status {status}, which is none")


class HttpClient:
    """One server. `tls` is None for plain http; `name` is what its certificate must say, if not its host.

    `renewed_tls` is asked before each connection, and says what takes the place of `tls`, if anything does.
    """

    def __init__(
        self,
        server: str,
        tls: ssl.SSLContext | None,
        *,
        name: str = "",
        proxy: str = "",
        asks_environment: bool = True,
        connect_seconds: float = _CONNECT_SECONDS,
        renewed_tls: Callable[[], ssl.SSLContext | None] = lambda: None,
    ) -> None:
        self._server = server
        self.address = read_address(server)
        self._tls = tls if self.address.scheme == "https" else None
        self._renewed_tls = renewed_tls
        self._name = name or self.address.host
        self._proxy = _read_proxy(proxy) if proxy else _environment_proxy(self.address) if asks_environment else None
        self._connect_seconds = connect_seconds
        self._kept: list[_Connection] = []
        # Those that are not lost yet, kept or in use.
        self._open: set[_Connection] = set()
        self._room = asyncio.Semaphore(_CONNECTIONS)

    @property
    def is_connected(self) -> bool:
        """Whether a connection is open, in use or kept."""
        return any(not each.is_lost for each in self._open)

    def renew(self) -> bool:
        """Whether there are other certificates than before. Connections that have shown the old ones are not kept."""
        renewed = None if self._tls is None else self._renewed_tls()
        if renewed is None:
            return False
        self._tls = renewed
        for connection in self._open:
            connection.is_outdated = True
        for connection in self._kept:
            connection.close()
        self._kept = []
        return True

    async def send(self, request: HttpRequest) -> HttpResponse:
        """The answer, once its head has come. Read its body or `close` it: until then it holds a connection."""
        await self._room.acquire()
        try:
            with self._translated():
                connection = self._take_kept() or await self._connect()
                try:
                    await connection.send(self._encode(request), request.seconds)
                    await connection.head(request.seconds)
                    _check_status(connection.status, request)
                except BaseException:
                    connection.close()
                    raise
        except BaseException:
            self._room.release()
            raise
        body = self._body(connection, request.pause)
        write = partial(self._write, connection) if connection.is_switched else None
        return HttpResponse(connection.status, connection.headers, body, partial(self._let_go, connection), write)

    async def _write(self, connection: _Connection, data: bytes, seconds: float) -> None:
        with self._translated():
            await connection.write(data, seconds)

    async def _body(self, connection: _Connection, seconds: float | None) -> AsyncIterator[bytes]:
        with self._translated():
            async for chunk in connection.body(seconds):
                yield chunk

    def _let_go(self, connection: _Connection) -> None:
        self._room.release()
        if connection.can_be_kept:
            connection.idle_since = asyncio.get_running_loop().time()
            self._kept.append(connection)
        else:
            connection.close()

    async def close(self) -> None:
        """Hang up, also on requests under way. A transport of TLS needs several turns of the loop for that."""
        self._kept = []
        for connection in self._open:
            connection.close()
        while self.is_connected:
            await asyncio.sleep(0)
        self._open.clear()

    def _take_kept(self) -> _Connection | None:
        """The one that was used last; those that were not for long are closed."""
        now = asyncio.get_running_loop().time()
        for old in [each for each in self._kept if each.is_lost or now - each.idle_since > _IDLE_SECONDS]:
            self._kept.remove(old)
            old.close()
        return self._kept.pop() if self._kept else None

    def _encode(self, request: HttpRequest) -> bytes:
        is_proxied = self._proxy is not None and self._tls is None
        target = f"{self.address.prefix}{request.target}"
        if is_proxied:
            target = f"http://{self.address.authority}{target}"
        lines = [f"{request.method} {target} HTTP/1.1", f"Host: {self.address.authority}"]
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        if is_proxied and self._proxy is not None and self._proxy.userinfo:
            lines.append(f"Proxy-Authorization: {basic(unquote(self._proxy.userinfo))}")
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(request.body)}")
        if any("\r" in line or "\n" in line or "\0" in line for line in lines):
            raise InputError("a line break cannot be part of a header: look at the token or the user name")
        try:
            return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + request.body
        except UnicodeEncodeError as error:
            raise InputError("a header can hold no such characters: look at the token or the user name") from error

    async def _connect(self) -> _Connection:
        self.renew()
        loop = asyncio.get_running_loop()
        connection = _Connection()
        async with asyncio.timeout(self._connect_seconds):
            if self._proxy is not None:
                await self._connect_by(self._proxy, connection)
            else:
                name = self._name if self._tls is not None else None
                await loop.create_connection(
                    lambda: connection, self.address.host, self.address.port, ssl=self._tls, server_hostname=name
                )
        self._open = {each for each in self._open if not each.is_lost} | {connection}
        if connection.transport is not None:
            # One that is lost already says so when it is used.
            with suppress(OSError):
                keep_alive(connection.transport.get_extra_info("socket"))
        return connection

    async def _connect_by(self, proxy: Address, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        secret = ssl.create_default_context() if proxy.scheme == "https" else None
        if self._tls is None:
            await loop.create_connection(lambda: connection, proxy.host, proxy.port, ssl=secret)
            return
        hello = _Connection()
        await loop.create_connection(lambda: hello, proxy.host, proxy.port, ssl=secret)
        try:
            authority = f"{self.address.authority.removesuffix(f':{self.address.port}')}:{self.address.port}"
            lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
            if proxy.userinfo:
                lines.append(f"Proxy-Authorization: {basic(unquote(proxy.userinfo))}")
            await hello.send("\r\n".join(lines).encode() + b"\r\n\r\n", _CONNECT_SECONDS)
            await hello.head(_CONNECT_SECONDS)
            if not 200 <= hello.status < 300:
                raise ConnectionBroken(f"the proxy {proxy.authority} answers {hello.status}")
            assert hello.transport is not None
            hello.transport.set_protocol(connection)
            secured = await loop.start_tls(hello.transport, connection, self._tls, server_hostname=self._name)
        except BaseException:
            hello.close()
            raise
        assert secured is not None
        connection.connection_made(secured)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        host = self._server.partition("://")[2] or self._server
        try:
            yield
        except ConnectionBroken as error:
            raise ConnectionBroken(f"the connection to the server {host} broke: {error}") from error
        except ConnectionRefusedError as error:
            message = f"The connection to the server {host} was refused - did you specify the right host or port?"
            raise UnreachableError(message) from error
        except TimeoutError as error:
            raise UnreachableError(f"the server {host} did not answer in time") from error
        except (OSError, UnicodeError) as error:
            raise UnreachableError(f"Unable to connect to the server {host}: {_why(error)}") from error


def _why(error: OSError | UnicodeError) -> str:
    """The reason alone: errors of Python also say their number, and those of OpenSSL the line of C that found them."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message.rstrip('.')}"
        case ssl.SSLError() if error.reason:
            return f"TLS failed: {error.reason.replace('_', ' ').lower()}"
        case UnicodeError():
            return "this is no name of a host"
    return (error.strerror or str(error) or type(error).__name__).lower()


def basic(userinfo: str) -> str:
    """`user:password` as a header says it."""
    return f"Basic {base64.b64encode(userinfo.encode()).decode('ascii')}"


def _read_proxy(proxy: str) -> Address:
    try:
        return read_address(proxy if "://" in proxy else f"http://{proxy}")
    except InputError as error:
        raise InputError(f"kubeconfig: proxy-url `{proxy}` cannot be used: allowed are http:// and https://") from error


def _environment_proxy(address: Address) -> Address | None:
    """As Go does it: no proxy between a machine and itself, whatever the environment says."""
    if address.host in _LOOPBACK or not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    # It takes 40 ms to load.
    from urllib.request import getproxies_environment, proxy_bypass  # noqa: PLC0415

    proxies = getproxies_environment()
    found = proxies.get(address.scheme) or proxies.get("all")
    if not found or proxy_bypass(address.host, proxies):
        return None
    return _read_proxy(found)
