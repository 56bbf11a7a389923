"""The server as a client meets it: addresses, TLS, heads that are too long or too slow, and a stop that is graceful."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from jettison.apiserver.access.certificates import ensure_identity
from jettison.apiserver.connections.connection import MOST_HEAD_BYTES, GuardedProtocol
from jettison.apiserver.connections.endpoint import Endpoint, is_loopback, parse_endpoint
from jettison.apiserver.connections.limits import ASGIApp, ConnectionPatience, Receive, Scope, Send
from jettison.apiserver.connections.server import listen, serve
from jettison.apiserver.verbs.tunnels import tunnel
from jettison.errors import InputError, JettisonError
from jettison.runtimes.kube.http import HttpResponse

Client = Callable[[bytes], Awaitable[bytes]]


@pytest.mark.parametrize(
    ("text", "expected", "url"),
    [
        ("127.0.0.1:6443", Endpoint("127.0.0.1", 6443), "https://127.0.0.1:6443"),
        ("[::1]:0", Endpoint("::1", 0), "https://[::1]:0"),
        ("localhost:1", Endpoint("localhost", 1), "https://localhost:1"),
        ("0.0.0.0:65535", Endpoint("0.0.0.0", 65535), "https://127.0.0.1:65535"),
    ],
)
def test_places_to_listen_at(text: str, expected: Endpoint, url: str) -> None:
    assert parse_endpoint(text) == expected
    assert expected.url == url


@pytest.mark.parametrize(
    "text", ["", "6443", ":6443", "a:", "a:b", "a:65536", "a:-1", "::1:80", "[a]:80", "a:²", "a:1 "]
)
def test_what_is_not_a_place(text: str) -> None:
    with pytest.raises(InputError, match="is not a place to listen at"):
        parse_endpoint(text)


def test_only_loopback_addresses_are_loopback() -> None:
    places = ("127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "0.0.0.0:1", "192.0.2.1:1", "example.com:1")
    assert [is_loopback(parse_endpoint(each)) for each in places] == [True] * 4 + [False] * 3


def test_a_certificate_names_what_it_is_reached_by() -> None:
    assert Endpoint("127.0.0.1", 1).names == ("localhost", "127.0.0.1", "::1")
    assert Endpoint("192.0.2.1", 1).names[-1] == "192.0.2.1"
    assert Endpoint("0.0.0.0", 1).names[-1] == socket.gethostname()


def test_a_port_in_use_is_named() -> None:
    listener, endpoint = listen(Endpoint("127.0.0.1", 0))
    with (
        listener,
        pytest.raises(JettisonError, match=rf"at `127.0.0.1:{endpoint.port}`: Address already in use; --listen names"),
    ):
        listen(endpoint)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(InputError, match=r"cannot listen at `no-such-host\.invalid:1`"):
        listen(Endpoint("no-such-host.invalid", 1))


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the size of the body; `/watch` streams until it is cut off, `/slow` takes a moment."""
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    if scope["path"] == "/watch":
        await send({"type": "http.response.body", "body": b"event\n", "more_body": True})
        await asyncio.sleep(60)
    if scope["path"] == "/slow":
        await asyncio.sleep(0.3)
    await send({"type": "http.response.body", "body": b"hello"})


def with_server(
    folder: Path,
    work: Callable[[Endpoint, ssl.SSLContext, asyncio.Event], Awaitable[None]],
    patience: ConnectionPatience | None = None,
    served: ASGIApp = app,
) -> None:
    """Run `work` beside a server, by default with the app above."""

    async def main() -> None:
        identity = ensure_identity(folder)
        listener, endpoint = listen(Endpoint("127.0.0.1", 0))
        stop, ready = asyncio.Event(), asyncio.Event()
        server = asyncio.create_task(serve(served, listener, identity, stop, on_ready=ready.set, patience=patience))
        await ready.wait()
        client = ssl.create_default_context(cadata=identity.authority_pem.decode())
        try:
            await work(endpoint, client, stop)
        finally:
            stop.set()
            await asyncio.wait_for(server, 60)

    asyncio.run(main())


async def answer(endpoint: Endpoint, client: ssl.SSLContext, request: bytes) -> bytes:
    """All that comes back till the server hangs up."""
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=client)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def test_a_request_over_tls(tmp_path: Path) -> None:
    async def work(endpoint: Endpoint, client: ssl.SSLContext, _stop: asyncio.Event) -> None:
        told = await answer(endpoint, client, b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert told.startswith(b"HTTP/1.1 200 OK")
        assert b"hello" in told
        assert b"server:" not in told.lower()
        assert b"\r\ncache-control: no-cache, private\r\n" in told

    with_server(tmp_path, work)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nbig: " + b"x" * (MOST_HEAD_BYTES + 1) + b"\r\n\r\n",
        b"GET /" + b"x" * (MOST_HEAD_BYTES + 1) + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n" + b"a: b\r\n" * 30_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nnever-ending: " + b"x" * 1_000_000,
    ],
    ids=["header", "path", "many", "endless"],
)
def test_a_head_that_is_too_large_is_refused(tmp_path: Path, request_bytes: bytes) -> None:
    async def work(endpoint: Endpoint, client: ssl.SSLContext, _stop: asyncio.Event) -> None:
        told = await answer(endpoint, client, request_bytes)
        # A client that is still sending may only see the end of the connection.
        assert told.startswith(b"HTTP/1.1 431") or told == b""
        fine = await answer(endpoint, client, b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert fine.startswith(b"HTTP/1.1 200")

    with_server(tmp_path, work)


@pytest.mark.parametrize("beginning", [b"", b"GET / HTTP/1.1\r\nhost: a\r\n", b"\r\n\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(tmp_path: Path, beginning: bytes) -> None:
    async def work(endpoint: Endpoint, client: ssl.SSLContext, _stop: asyncio.Event) -> None:
        assert (await answer(endpoint, client, beginning)).startswith(b"HTTP/1.1 408")

    with_server(tmp_path, work, ConnectionPatience(head_seconds=0.2))


def test_the_clock_of_the_head_does_not_run_during_the_answer(tmp_path: Path) -> None:
    async def work(endpoint: Endpoint, client: ssl.SSLContext, _stop: asyncio.Event) -> None:
        told = await answer(endpoint, client, b"GET /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert told.endswith(b"hello\r\n0\r\n\r\n")

    with_server(tmp_path, work, ConnectionPatience(head_seconds=0.1))


@pytest.mark.parametrize(
    "noise",
    [b"\x00\x01\x02", b"NONSENSE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET http:// HTTP/1.1\r\nhost: a\r\n\r\n"],
)
def test_noise_is_a_bad_request(tmp_path: Path, noise: bytes) -> None:
    async def work(endpoint: Endpoint, client: ssl.SSLContext, _stop: asyncio.Event) -> None:
        assert (await answer(endpoint, client, noise)).startswith(b"HTTP/1.1 400")

    with_server(tmp_path, work)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"400 Bad Request: missing required Host header"),
        (b"GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nhost: a b\r\n\r\n", b"400 Bad Request: malformed Host header"),
        (b"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n", b"400 Bad Request: malformed Host header"),
    ],
)
def test_a_request_names_one_host(tmp_path: Path, request_bytes: bytes, status: bytes) -> None:
    told = ask(tmp_path, request_bytes)
    assert (told.partition(b"\r\n")[0], told.rpartition(b"\r\n")[2]) == (b"HTTP/1.1 " + status, status)


@pytest.mark.parametrize(
    "request_bytes",
    [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nhost: [::1%25eth0]:80\r\nconnection: close\r\n\r\n"],
)
def test_a_host_that_is_fine(tmp_path: Path, request_bytes: bytes) -> None:
    assert ask(tmp_path, request_bytes).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("method", [b"FOO", b"get", b"GETS", b"A-B!"])
def test_a_method_that_no_resource_has(tmp_path: Path, method: bytes) -> None:
    told = ask(tmp_path, method + b" /api HTTP/1.1\r\nhost: a\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert json.loads(told.rpartition(b"\r\n")[2])["reason"] == "MethodNotAllowed"


async def pour(writer: asyncio.StreamWriter) -> None:
    """A hundred megabytes of body, piece by piece."""
    for _ in range(10_000):
        writer.write(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0)


def test_an_endless_body_behind_an_answer_ends_the_connection(tmp_path: Path) -> None:
    async def work(endpoint: Endpoint, client: ssl.SSLContext, _stop: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=client)
        writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionError):
            await pour(writer)

    with_server(tmp_path, work, ConnectionPatience(ignored_bytes=100_000))


def test_a_client_without_tls_is_sent_away(tmp_path: Path) -> None:
    async def work(endpoint: Endpoint, client: ssl.SSLContext, _stop: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        try:
            told = await asyncio.wait_for(reader.read(), 60)
        except ConnectionResetError:
            told = b""
        writer.close()
        assert b"HTTP" not in told
        assert (await answer(endpoint, client, b"GET / HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200")

    with_server(tmp_path, work)


def test_a_stop_lets_an_answer_end(tmp_path: Path) -> None:
    async def work(endpoint: Endpoint, client: ssl.SSLContext, stop: asyncio.Event) -> None:
        slow = asyncio.create_task(answer(endpoint, client, b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n"))
        await asyncio.sleep(0.15)
        stop.set()
        assert (await slow).endswith(b"hello\r\n0\r\n\r\n")

    with_server(tmp_path, work)


@pytest.mark.parametrize("path", [b"/", b"/slow"])
def test_a_client_that_does_not_let_go_does_not_hold_up_a_stop(tmp_path: Path, path: bytes) -> None:
    """It neither reads on nor closes, and so never answers the goodbye of TLS. uvicorn would wait for 5 s."""
    held: list[socket.socket] = []
    begun: list[float] = []

    def ask(endpoint: Endpoint, client: ssl.SSLContext) -> None:
        plain = socket.create_connection((endpoint.host, endpoint.port))
        held.append(client.wrap_socket(plain, server_hostname=endpoint.host))
        held[-1].sendall(b"GET %s HTTP/1.1\r\nhost: a\r\n\r\n" % path)
        assert held[-1].recv(8) == b"HTTP/1.1"

    async def work(endpoint: Endpoint, client: ssl.SSLContext, _stop: asyncio.Event) -> None:
        await asyncio.to_thread(ask, endpoint, client)
        begun.append(time.monotonic())

    # The best of three: a busy machine only ever adds.
    for attempt in range(3):
        with_server(tmp_path / str(attempt), work)
        held[-1].close()
        if time.monotonic() - begun[-1] < 3:
            return
    pytest.fail("it was waited for three times")


async def telling(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the path and the body, in a length that the head tells; what the path asks for goes wrong."""
    path, body, has_more = scope["path"], b"", True
    while has_more:
        message = await receive()
        body, has_more = body + message["body"], message["more_body"]
    text = path.encode() + b":" + body
    headers = [(b"content-length", b"%d" % (len(text) + (path == "/short") - (path == "/long")))]
    if path == "/slow":
        await asyncio.sleep(0.2)
    if path == "/broken":
        headers.append((b"warning", b"one line\r\nset-cookie: another"))
    if path == "/fails":
        raise ValueError("of the application")
    if path != "/silent":
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})


def ask(folder: Path, request: bytes, served: ASGIApp = telling) -> bytes:
    """All that comes back."""
    told = b""

    async def work(endpoint: Endpoint, client: ssl.SSLContext, _stop: asyncio.Event) -> None:
        nonlocal told
        told = await answer(endpoint, client, request)

    with_server(folder, work, served=served)
    return told


def test_requests_that_come_together_are_answered_in_their_order(tmp_path: Path) -> None:
    first = b"POST /slow HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\none"
    last = b"POST /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3\r\n\r\ntwo"
    told = ask(tmp_path, first + first + last)
    assert [told.count(each) for each in (b"HTTP/1.1 200 OK\r\n", b"/slow:one", b"/last:two")] == [3, 2, 1]
    assert told.endswith(b"\r\n\r\n/last:two")
    assert told.count(b"connection: close") == 1


@pytest.mark.parametrize(
    "more",
    [b"2\r\n{}\r\n0\r\n" + b"a: b\r\n" * 30_000, b"2\r\n{}\r\n0\r\na: " + b"x" * 200_000, b"2;" + b"x" * 200_000],
    ids=["trailers", "trailer", "chunk extension"],
)
def test_what_a_body_is_wrapped_in_is_bounded(tmp_path: Path, more: bytes) -> None:
    """The parser keeps all of it: 95 MB of trailers were a gigabyte of the server."""

    async def waiting(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    assert ask(tmp_path, b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" + more, waiting) == b""


def test_a_body_in_small_chunks_is_whole(tmp_path: Path) -> None:
    """What stands between them is counted from one to the next, and not for all."""
    request = (
        b"POST /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        + b"1\r\nx\r\n" * 30_000
    )
    assert ask(tmp_path, request + b"0\r\n\r\n").endswith(b"\r\n\r\n/a:" + b"x" * 30_000)


def test_a_trailer_is_no_header(tmp_path: Path) -> None:
    """A proxy that takes `Impersonate-User` out of every head does not look behind the body."""
    seen: list[bytes] = []

    async def looking(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        seen.extend(name for name, _ in scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b""})

    head = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    told = ask(tmp_path, head + b"2\r\n{}\r\n0\r\nauthorization: Bearer x\r\n\r\n", looking)
    assert told.startswith(b"HTTP/1.1 200")
    assert seen == [b"host", b"transfer-encoding"]


@pytest.mark.parametrize(
    "headers",
    [
        b"transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n",
        b"transfer-encoding: gzip, chunked\r\n",
        b"connection: upgrade\r\nupgrade: websocket\r\ncontent-length: 30\r\n",
        b"connection: upgrade\r\nupgrade: websocket\r\ntransfer-encoding: chunked\r\n",
    ],
)
def test_a_body_whose_end_is_unclear_is_refused(tmp_path: Path, headers: bytes) -> None:
    """The parser knows no body of a request for another protocol: it was a request of its own."""
    told = ask(tmp_path, b"POST /a HTTP/1.1\r\nhost: a\r\n" + headers + b"\r\nGET /hidden HTTP/1.1\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert told.count(b"HTTP/1.1") == 1


def test_behind_a_request_for_another_protocol_nothing_is_a_request(tmp_path: Path) -> None:
    """It was answered as any other, and is the last of its connection: a client must not wait for a second answer."""
    head = b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    told = ask(tmp_path, head + b"GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 200")
    assert b"connection: close\r\n" in told
    assert b"/hidden" not in told


def test_only_so_many_requests_wait_for_an_answer(tmp_path: Path) -> None:
    """The last answer ends the connection, and nothing of the rest gets into a request that waits."""
    one = b"POST /slow HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\none"
    rest = b"POST /rest HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nrest"
    quick = one.replace(b"/slow", b"/fast")
    told = ask(tmp_path, one + quick * 64 + rest * 100)
    assert [told.count(each) for each in (b"/slow:one", b"/fast:one", b"rest")] == [1, 64, 0]
    assert told.count(b"connection: close") == 1
    assert told.endswith(b"\r\n\r\n/fast:one")


class Watching:
    """An application that tells one event and then waits until its client has left."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.paths.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"event\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        await send({"type": "http.response.body", "body": b"nothing reads this"})
        self.ended.set()


@pytest.mark.parametrize("last", [b"", b"\0garbage\r\n\r\n"])
def test_an_answer_that_others_wait_for_learns_that_its_client_has_left(
    tmp_path: Path, last: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Garbage, which ends the connection, is not answered in the middle of it."""
    served = Watching()

    async def work(endpoint: Endpoint, client: ssl.SSLContext, _stop: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=client)
        writer.write(b"GET /watch HTTP/1.1\r\nhost: x\r\n\r\nGET /next HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readuntil(b"event\n")
        if last:
            writer.write(last)
            assert b"HTTP" not in await asyncio.wait_for(reader.read(), 30)
        writer.transport.abort()
        await asyncio.wait_for(served.ended.wait(), 30)

    with_server(tmp_path, work, served=served)
    assert served.paths == ["/watch"]
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


class _Far:
    """The far side of a tunnel, which has something to say when the near side has just gone."""

    def __init__(self, connection: GuardedProtocol) -> None:
        self.headers: dict[str, str] = {}
        self._connection = connection

    async def chunks(self) -> AsyncIterator[bytes]:
        _close_twice(self._connection)
        yield b"nothing reads this"

    async def write(self, data: bytes, seconds: float) -> None:
        raise AssertionError(f"{data!r} within {seconds}")


def _close_twice(connection: GuardedProtocol) -> None:
    """As the loss of a connection does; asyncio's TLS has no transport to write to from then on."""
    connection.transport.close()
    connection.transport.close()


@pytest.mark.parametrize("is_tunnel", [False, True])
def test_what_is_told_to_a_connection_that_has_just_closed_is_no_error(
    tmp_path: Path, is_tunnel: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def closing(scope: Scope, receive: Receive, send: Send) -> None:
        if is_tunnel:
            await tunnel(cast("HttpResponse", _Far(scope["connection"])), scope, receive)
        else:
            _close_twice(scope["connection"])
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"nothing reads this"})

    assert b"nothing" not in ask(tmp_path, b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n", closing)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_a_client_that_waits_to_be_asked_for_its_body(tmp_path: Path) -> None:
    request = b"POST /a HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi"
    told = ask(tmp_path, request)
    assert told.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert told.endswith(b"/a:hi")


def test_a_body_in_pieces(tmp_path: Path) -> None:
    body = b"x" * 200_000
    head = b"POST /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
    assert ask(tmp_path, head + body).endswith(b"\r\n\r\n/a:" + body)


def test_a_head_is_answered_with_a_length_and_nothing_else(tmp_path: Path) -> None:
    told = ask(tmp_path, b"HEAD /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert told.endswith(b"\r\n\r\n")
    assert b"content-length: 3\r\n" in told
    chunked = ask(tmp_path, b"HEAD / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", app)
    assert chunked.endswith(b"\r\n\r\n")
    assert b"transfer-encoding" not in chunked


@pytest.mark.parametrize("path", [b"/broken", b"/fails", b"/silent"])
def test_what_an_application_does_wrong_before_its_answer_is_an_error_of_the_server(
    tmp_path: Path, path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    told = ask(tmp_path, b"GET %s HTTP/1.1\r\nhost: x\r\n\r\n" % path)
    assert told.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"set-cookie" not in told
    assert "ASGI" in caplog.text


@pytest.mark.parametrize("path", [b"/short", b"/long"])
def test_an_answer_of_another_length_than_it_says_ends_the_connection(tmp_path: Path, path: bytes) -> None:
    told = ask(tmp_path, b"GET %s HTTP/1.1\r\nhost: x\r\n\r\n" % path * 2)
    assert told.count(b"HTTP/1.1") <= 1


def test_a_connection_that_is_not_used_is_closed(tmp_path: Path) -> None:
    async def work(endpoint: Endpoint, client: ssl.SSLContext, _stop: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=client)
        begun = time.monotonic()
        # The second request comes within the pause, which begins again with its answer.
        for pause in (0.6, 0.0):
            writer.write(b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n")
            assert await reader.readuntil(b"/a:")
            await asyncio.sleep(pause)
        answered = time.monotonic()
        assert await asyncio.wait_for(reader.read(), 60) == b""
        assert time.monotonic() - answered > 0.9
        assert time.monotonic() - begun > 1.5
        writer.close()

    with_server(tmp_path, work, ConnectionPatience(idle_seconds=1), telling)
