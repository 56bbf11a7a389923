"""Clients that cost little: requests made beforehand, TLS connections that are kept, one thread and one epoll for all.

Every client waits for an answer before it asks again. What is measured is therefore a server with so many patient
clients, and a time is what one of them waited.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

Spent = Callable[[], float]
"""How many seconds of processor time a server has taken so far."""

_PIECE = 256 * 1024
_PATIENCE_SECONDS = 60.0


class LoadFailed(Exception):  # noqa: N818  an outcome, and not an error of ours
    """The server answered something else, hung up, or did not answer at all."""


@dataclass(frozen=True, slots=True)
class Server:
    """Its port, its certificate and a token for it."""

    port: int
    trust: ssl.SSLContext
    token: str = ""

    def request(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> bytes:
        """The bytes of one request."""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
        if body:
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        return head.encode() + b"\r\n" + body

    def connect(self) -> ssl.SSLSocket:
        """A connection whose handshake is over."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.trust.wrap_socket(plain, server_hostname="127.0.0.1")


@dataclass(frozen=True, slots=True)
class Load:
    """What came of it."""

    count: int
    seconds: float
    received: int
    waits_ms: Sequence[float]
    # Of the server's processor time, where it was asked for; connecting is not in it.
    cpu_seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.count / self.seconds

    def wait_ms(self, share: float) -> float:
        """So many of all answers came within this time."""
        return self.waits_ms[min(int(len(self.waits_ms) * share), len(self.waits_ms) - 1)]


def together(loads: Sequence[Load]) -> Load:
    """What came of all of them."""
    return Load(
        sum(each.count for each in loads),
        sum(each.seconds for each in loads),
        sum(each.received for each in loads),
        sorted(wait for each in loads for wait in each.waits_ms),
        sum(each.cpu_seconds for each in loads),
    )


class _Client:
    """One connection with at most one request under way."""

    def __init__(self, server: Server) -> None:
        self.socket = server.connect()
        self.socket.setblocking(False)
        self._parts: list[bytes] = []
        self._missing: int | None = None
        self._asked_ns = 0

    def ask(self, request: bytes) -> None:
        self._asked_ns = time.perf_counter_ns()
        # A prepared request is smaller than any socket's buffer, which is empty: the last answer has come.
        if self.socket.send(request) != len(request):
            raise LoadFailed("a request did not fit into the socket's buffer")

    def read(self, code: bytes) -> tuple[int, float] | None:
        """Size and time of the answer, once it is complete."""
        for piece in _pieces(self.socket):
            self._parts.append(piece)
            if self._missing is None:
                self._begin(b"".join(self._parts), code)
            else:
                self._missing -= len(piece)
        if self._missing is None or self._missing > 0:
            return None
        size = sum(map(len, self._parts))
        self._parts.clear()
        self._missing = None
        return size, (time.perf_counter_ns() - self._asked_ns) / 1e6

    def _begin(self, answer: bytes, code: bytes) -> None:
        head, end, body = answer.partition(b"\r\n\r\n")
        if not end:
            return
        if head[9:12] != code:
            raise LoadFailed(answer[:600].decode("latin-1"))
        length = head.lower().partition(b"content-length:")[2].split(b"\r", 1)[0]
        self._missing = int(length) - len(body)


class Watchers:
    """Connections on which events come, counted by their line ends."""

    def __init__(self, server: Server, path: str, count: int) -> None:
        self.sockets = [server.connect() for _ in range(count)]
        self.events = 0
        self.received = 0
        self._last = dict.fromkeys(range(count), b"")
        for each in self.sockets:
            each.sendall(server.request("GET", path))
            if not each.recv(_PIECE).startswith(b"HTTP/1.1 200"):
                raise LoadFailed("the watch was refused")
            each.setblocking(False)

    def read(self, index: int) -> None:
        """Count what has come. No line within a document has an end, and a frame's follows no bracket."""
        for piece in _pieces(self.sockets[index]):
            self.received += len(piece)
            self.events += (self._last[index] + piece).count(b"}\n")
            self._last[index] = piece[-1:]

    def close(self) -> None:
        """Hang up."""
        for each in self.sockets:
            each.close()


def drive(server: Server, requests: Iterable[bytes], clients: int, code: int = 201, spent: Spent = lambda: 0.0) -> Load:
    """Have these answered by so many clients at once."""
    return _drive(server, requests, clients, code, None, 0, spent)


def drive_watched(
    server: Server,
    requests: Iterable[bytes],
    clients: int,
    watchers: Watchers,
    events: int,
    spent: Spent = lambda: 0.0,
) -> Load:
    """The same, until the watchers together have seen so many events."""
    return _drive(server, requests, clients, 200, watchers, events, spent)


def _drive(
    server: Server,
    requests: Iterable[bytes],
    clients: int,
    code: int,
    watchers: Watchers | None,
    events: int,
    spent: Spent,
) -> Load:
    left, wanted = deque(requests), str(code).encode()
    idle = [_Client(server) for _ in range(clients)]
    by_number = {client.socket.fileno(): client for client in idle}
    watching = {each.fileno(): index for index, each in enumerate(watchers.sockets if watchers else ())}
    waits: list[float] = []
    received = asked = 0
    with closing(select.epoll()) as poll:
        for number in (*by_number, *watching):
            poll.register(number, select.EPOLLIN)
        before, began = spent(), time.perf_counter()
        while left or len(waits) < asked or (watchers is not None and watchers.events < events):
            while idle and left:
                idle.pop().ask(left.popleft())
                asked += 1
            for number, _ in poll.poll(_PATIENCE_SECONDS) or _raise_silence():
                if watchers is not None and number in watching:
                    watchers.read(watching[number])
                elif (answer := by_number[number].read(wanted)) is not None:
                    received += answer[0]
                    waits.append(answer[1])
                    idle.append(by_number[number])
        seconds, cpu_seconds = time.perf_counter() - began, spent() - before
    for client in by_number.values():
        client.socket.close()
    return Load(len(waits), seconds, received, sorted(waits), cpu_seconds)


def _pieces(connection: ssl.SSLSocket) -> Iterable[bytes]:
    """What can be read at once."""
    while True:
        try:
            piece = connection.recv(_PIECE)
        except ssl.SSLWantReadError:
            return
        if not piece:
            raise LoadFailed("the server hung up")
        yield piece


def _raise_silence() -> list[tuple[int, int]]:
    raise LoadFailed(f"the server has said nothing for {_PATIENCE_SECONDS:.0f} s")
