"""A very small HTTP/1.1 server, one request per connection: GET and HEAD over a unix socket or the loopback, and POST
of orders over the unix socket alone, which only its owner can open.

It knows no agent: a route is a path and a callable. It must not become the way to hurt one, either. So everything a
client can make large is bounded (the request, its headers, the time it takes, the number of clients), and what is not
a request is answered with the fitting 4xx and forgotten. The head of a request is taken apart strictly: what two
readers could read differently is refused. A server framework would cost more memory than the agent.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, unquote

from jettison.agent.http.unix_address import unix_address
from jettison.clock import to_next_beat
from jettison.errors import ApiError, InputError, JettisonError, ServeError
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.values import frozen

HEAD_BYTES = 8192
HEAD_SECONDS = 5.0
ANSWER_SECONDS = 10.0
# How often it is looked whether the socket is still there.
LOOK_SECONDS = 10.0
MOST_CONNECTIONS = 16
MOST_PARAMETERS = 20

LOOPBACK = ("127.0.0.1", "::1", "localhost")

_PHRASES = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    414: "URI Too Long",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}

MOST_HEADERS = 64

# What an agent of `jettison up` is told to do with the pods that it has started.
_ORDERS = ("delete", "restart", "evict", "exec", "down")

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105  a name, not a secret
_REQUEST_LINE = re.compile(rf"({_TOKEN}) ([!-~]+) HTTP/([0-9])\.([0-9])")
_HEADER = re.compile(rf"({_TOKEN}):[ \t]*([\t -~\x80-\xff]*?)[ \t]*")
_ABSOLUTE = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


@frozen
class Answer:
    """What a route says."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200


Query = Mapping[str, str]
Route = Callable[[Query], Answer | Awaitable[Answer]]


def plain(text: str, status: int = 200) -> Answer:
    """A line of text."""
    return Answer(f"{text}\n".encode(errors="backslashreplace"), "text/plain; charset=utf-8", status)


class HttpServer:
    """Serves routes until it is closed."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        public: Mapping[str, Route] | None = None,
        orders: Mapping[str, Route] | None = None,
        *,
        head_seconds: float = HEAD_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """`public` are what TCP answers, where every user of the machine may ask; without them it is the same.

        `orders` are taken by POST, and by the unix socket only.
        """
        self._routes = dict(routes)
        self._public = self._routes if public is None else dict(public)
        self._orders = dict(orders or {})
        self._head_seconds = head_seconds
        self._answer_seconds = answer_seconds
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        # Those of the loopback (True), which any user of the machine can reach, apart from those of the socket.
        self._open = {False: 0, True: 0}
        self._reading: dict[bool, dict[asyncio.Task[None], None]] = {False: {}, True: {}}
        self._look_seconds = look_seconds
        # Its path, and what is there as long as it is ours.
        self._socket: tuple[Path, _Identity] | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def listen_unix(self, path: Path) -> None:
        """Only its owner can connect: the socket gets its mode before it listens."""
        server = await self._listen_unix(path)
        self._keeping = asyncio.create_task(self._keep_unix(path, server))

    async def _listen_unix(self, path: Path) -> asyncio.Server:
        listener, identity = _bound(path)
        server = await asyncio.start_unix_server(self._local, sock=listener, limit=HEAD_BYTES)
        self._socket = path, identity
        self._servers.append(server)
        return server

    async def _keep_unix(self, path: Path, server: asyncio.Server) -> None:
        """Listen again where the socket was removed: no command reaches an agent without one, and no other agent
        starts as long as this one runs. What was put in its place is left alone.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(to_next_beat(loop.time(), self._look_seconds))
            if not os.path.lexists(path):
                # The directory may be gone, too.
                with suppress(ServeError):
                    fresh = await self._listen_unix(path)
                    server.close()
                    self._servers.remove(server)
                    server = fresh

    async def listen_tcp(self, host: str, port: int) -> int:
        """On the loopback only, because requests are not authenticated. Returns the port."""
        if host not in LOOPBACK:
            raise InputError(f"cannot serve on `{host}`: expected one of {', '.join(LOOPBACK)}")
        try:
            server = await asyncio.start_server(self._remote, host, port, limit=HEAD_BYTES)
        except OSError as error:
            raise ServeError(f"cannot listen on `{host}:{port}`: {reason(error)}") from error
        self._servers.append(server)
        taken: int = server.sockets[0].getsockname()[1]
        return taken

    async def close(self) -> None:
        """Close all connections and remove the socket."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        # Another agent may have made one of its own, after this one's was removed.
        if self._socket is not None and _identity(self._socket[0]) == self._socket[1]:
            self._socket[0].unlink(missing_ok=True)

    async def _local(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve(reader, writer, is_public=False)

    async def _remote(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve(reader, writer, is_public=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_public: bool) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        is_sent = False
        self._open[is_public] += 1
        # Only this server cancels it, and Python 3.11 reports the task of a connection that ends cancelled as an error:
        # a flood of silent clients would fill the log.
        with suppress(asyncio.CancelledError):
            try:
                is_head, answer = await self._answer(reader, is_public=is_public)
                # Nothing may be left to send when this returns: a client that does not read would keep it in memory.
                writer.transport.set_write_buffer_limits(high=0)
                with suppress(OSError, TimeoutError):  # gone, or too slow to read what it asked for
                    async with asyncio.timeout(self._answer_seconds):
                        writer.write(encode_answer(answer, is_head=is_head))
                        await writer.drain()
                        is_sent = True
            finally:
                self._open[is_public] -= 1
                (writer.close if is_sent else writer.transport.abort)()
                with suppress(OSError):
                    await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, *, is_public: bool) -> tuple[bool, Answer]:
        try:
            request = parse_head(await self._read_head(reader, is_public=is_public))
            if self._open[is_public] - len(self._reading[is_public]) > MOST_CONNECTIONS:
                raise ApiError("too many connections", code=503)
            if is_public:
                _check_host(request)
            return request.method == "HEAD", await self._route(request, is_public=is_public)
        except ApiError as refusal:
            return False, plain(refusal.message, refusal.code)
        except JettisonError as error:
            return False, plain(f"Internal Error: {error}", 500)

    async def _read_head(self, reader: asyncio.StreamReader, *, is_public: bool) -> bytes:
        """The oldest gives way to the newest: an honest head takes a millisecond, and silence drives out silence."""
        reading, task = self._reading[is_public], asyncio.current_task()
        assert task is not None
        if len(reading) >= MOST_CONNECTIONS:
            oldest = next(iter(reading))
            del reading[oldest]
            oldest.cancel()
        reading[task] = None
        try:
            return await read_head(reader, self._head_seconds)
        finally:
            reading.pop(task, None)

    async def _route(self, request: Request, *, is_public: bool) -> Answer:
        order = self._orders.get(request.path)
        if is_public and (order is not None or (request.path in self._routes and request.path not in self._public)):
            raise ApiError("only the agent's own socket answers this", code=403)
        if order is not None and request.method != "POST":
            raise ApiError("orders are given by POST", code=405)
        routes = self._public if is_public else self._routes
        route = order or routes.get(request.path)
        if route is None:
            kind, _, name = request.path.rpartition("/")
            if kind == "/orders" and name in _ORDERS:
                whose = "its agent started none of the pods, and takes no orders about them"
                raise ApiError(f"`jettison {name}` is not for this node: {whose}", code=404)
            raise ApiError(f"no such path, there are {' '.join(sorted(routes))}", code=404)
        if order is None and request.method not in ("GET", "HEAD"):
            raise ApiError("only GET and HEAD are served", code=405)
        answer = route(read_query(request.query))
        return answer if isinstance(answer, Answer) else await answer


async def read_head(
    reader: asyncio.StreamReader, seconds: float = HEAD_SECONDS, *, most_bytes: int = HEAD_BYTES
) -> bytes:
    """With the empty line at its end; a client that takes too long or sends too much is refused.

    `most_bytes` is the limit that the reader was made with.
    """
    try:
        async with asyncio.timeout(seconds):
            return await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        raise ApiError(f"no complete request within {seconds:g} seconds", code=408) from None
    except asyncio.IncompleteReadError:
        raise ApiError("the request ends before its headers do", code=400) from None
    except asyncio.LimitOverrunError:
        # What does not fit is still in the buffer: without the end of a line it is the line that is too long.
        has_line = b"\r\n" in await reader.read(most_bytes)
        raise ApiError(f"a request has at most {most_bytes} bytes", code=431 if has_line else 414) from None


def _check_host(request: Request) -> None:
    """A web page in a browser of this machine can reach the loopback under another name, and must not read this."""
    host = request.headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if name.strip("[]") not in LOOPBACK:
        raise ApiError(f"this is the loopback, not `{host[:60]}`", code=403)


def read_query(text: str) -> Query:
    """Each parameter once."""
    try:
        found = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise ApiError("the query is not UTF-8 or has too many parameters", code=400) from None
    twice = [name for name, values in found.items() if len(values) > 1]
    if twice:
        raise ApiError(f"parameter `{twice[0][:60]}` is given twice", code=400)
    return {name: values[0] for name, values in found.items()}


def encode_answer(answer: Answer, *, is_head: bool = False) -> bytes:
    """The last words on a connection."""
    allow = "Allow: GET, HEAD\r\n" if answer.status == 405 else ""
    head = (
        f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}\r\n"
        f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n{allow}"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else answer.body)


_Identity = tuple[int, int]


def _identity(path: Path) -> _Identity | None:
    """What is there now; None where that is nothing."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _bound(path: Path) -> tuple[socket.socket, _Identity]:
    """A socket there, for its owner, that does not listen yet. Raises ServeError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with unix_address(path) as address:
            _remove_stale(path, address)
            listener.bind(address)
        path.chmod(0o600)
        found = path.lstat()
    except OSError as error:
        listener.close()
        raise ServeError(f"cannot listen on `{path}`: {reason(error)}") from error
    except ServeError:
        listener.close()
        raise
    return listener, (found.st_dev, found.st_ino)


def _remove_stale(path: Path, address: str) -> None:
    """A socket that a killed agent left behind is in the way; one that answers belongs to a living one."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ServeError(f"cannot listen on `{path}`: there is something else in its place")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
    raise ServeError(f"cannot listen on `{path}`: another agent does")


@frozen
class Request:
    """What was asked for. Header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


def parse_head(head: bytes) -> Request:
    """The request that begins with these bytes, which end in an empty line."""
    first, *rest = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise ApiError("the request line is malformed", code=400)
    method, target, major, minor = match.groups()
    if major != "1":
        raise ApiError("only HTTP/1.0 and HTTP/1.1 are spoken here", code=505)
    headers = _headers(rest)
    if minor != "0" and "host" not in headers:
        raise ApiError("the header Host is missing", code=400)
    _check_body(headers)
    absolute = _ABSOLUTE.match(target)
    if absolute is not None:
        target = "/" + target[absolute.end() :].removeprefix("/")
    if not target.startswith("/"):
        raise ApiError("the request's target is not a path", code=400)
    path, _, query = target.partition("?")
    try:
        return Request(method, unquote(path, errors="strict"), query, headers)
    except UnicodeDecodeError:
        raise ApiError("the path is not UTF-8", code=400) from None


def _headers(lines: list[str]) -> dict[str, str]:
    if len(lines) > MOST_HEADERS:
        raise ApiError(f"at most {MOST_HEADERS} headers are read", code=431)
    headers: dict[str, str] = {}
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise ApiError("a header is malformed", code=400)
        name = match[1].lower()
        if name in headers and name in ("host", "content-length", "transfer-encoding"):
            raise ApiError(f"the header {name} is given twice", code=400)
        # Lines of one name are one list (RFC 9110, 5.3). kube-apiserver offers each protocol of a stream in one line.
        headers[name] = f"{headers[name]}, {match[2]}" if name in headers else match[2]
    return headers


def _check_body(headers: Mapping[str, str]) -> None:
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise ApiError("the header Content-Length is not a number", code=400)
    if "transfer-encoding" in headers or length.strip("0"):
        raise ApiError("requests have no body here", code=413)
