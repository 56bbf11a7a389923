"""The local server over real sockets: what is asked properly is answered, everything else is turned away."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from jettison.agent.http import server as http
from jettison.agent.http.client import fetch
from jettison.agent.http.server import Answer, HttpServer, Query, Route, plain
from jettison.agent.http.unix_address import unix_address
from jettison.errors import InputError, JettisonError, ObservationError, ServeError

LARGE = os.urandom(2**20)


def echo(query: Query) -> Answer:
    return plain(" ".join(f"{name}={value}" for name, value in query.items()))


async def later(_: Query) -> Answer:
    await asyncio.sleep(0)
    return plain("later")


def broken(_: Query) -> Answer:
    raise JettisonError("no numbers today")


ROUTES: dict[str, Route] = {
    "/echo": echo,
    "/later": later,
    "/broken": broken,
    "/large": lambda _: Answer(LARGE, "application/octet-stream"),
    "/ü": lambda _: plain("umlaut"),
}


class Running:
    """A server in a thread of its own, as an agent would have it in its loop."""

    def __init__(self, path: Path, **seconds: Any) -> None:
        self.path = path
        self.port = 0
        self.loop = asyncio.new_event_loop()
        self.server = HttpServer(ROUTES, **seconds)
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.run(self._listen)

    async def _listen(self) -> None:
        await self.server.listen_unix(self.path)
        self.port = await self.server.listen_tcp("127.0.0.1", 0)

    def run(self, work: Callable[[], object]) -> None:
        asyncio.run_coroutine_threadsafe(work(), self.loop).result(30)  # type: ignore[arg-type]

    def stop(self) -> None:
        self.run(self.server.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        with unix_address(self.path) as address:
            connection.connect(address)
        return connection

    def say(self, request: bytes) -> bytes:
        """Everything the server answers to these bytes."""
        with self.connect() as connection:
            # A client that is turned away is answered and hung up on before a word was said.
            with suppress(BrokenPipeError):
                connection.sendall(request)
            return received(connection)


def answers(path: Path) -> bool:
    try:
        return fetch(path, "/later").status == 200
    except ObservationError:
        return False


def received(connection: socket.socket) -> bytes:
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


@pytest.fixture
def running(tmp_path: Path, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[Running]:
    """With the seconds that a test is parametrized with. Whatever its clients do, the log of asyncio stays empty."""
    # Deeper than a socket address is long.
    directory = tmp_path / ("d" * 100)
    directory.mkdir()
    server = Running(directory / "agent.sock", **getattr(request, "param", {}))
    yield server
    server.stop()
    assert not [each for each in caplog.get_records("call") if each.name == "asyncio"]
    assert not [each for each in caplog.get_records("teardown") if each.name == "asyncio"]


def test_a_path_is_answered(running: Running) -> None:
    answer = fetch(running.path, "/echo?a=1&b=%C3%BC&c=")

    assert (answer.status, answer.content_type) == (200, "text/plain; charset=utf-8")
    assert answer.body.decode() == "a=1 b=ü c=\n"
    assert fetch(running.path, "/later").body == b"later\n"
    assert fetch(running.path, "/%C3%BC").body == b"umlaut\n"
    assert fetch(running.path, "/large").body == LARGE


def test_the_answer_says_how_long_it_is_and_that_it_is_the_last(running: Running) -> None:
    assert running.say(b"GET /later HTTP/1.1\r\nHost: x\r\n\r\n") == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 6\r\n"
        b"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nlater\n"
    )


def test_head_is_get_without_the_body(running: Running) -> None:
    head, _, body = running.say(b"HEAD /large HTTP/1.1\r\nHost: x\r\n\r\n").partition(b"\r\n\r\n")

    assert f"Content-Length: {len(LARGE)}".encode() in head
    assert body == b""


def test_a_failure_is_told_as_the_kubelet_tells_it(running: Running) -> None:
    answer = fetch(running.path, "/broken")

    assert (answer.status, answer.body) == (500, b"Internal Error: no numbers today\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /later HTTP/1.0\r\n\r\n", 200),
        (b"GET http://localhost/later HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"GET http://localhost HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET http://localhost?a=b HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /later HTTP/1.1\r\nhOsT:x\r\nX: \t a b \t\r\n\r\n", 200),
        (b"GET /later HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 200),
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /later/ HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"POST /later HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"DELETE /later HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"GET /later HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413),
        (b"GET /later HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /later HTTP/1.1\r\nHost: x\r\nContent-Length: \xb2\r\n\r\n", 400),
        (b"GET /later HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n", 400),
        (b"GET /later HTTP/1.1\r\n\r\n", 400),
        (b"GET /later HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET /later HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400),
        (b"GET /later HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        (b"GET /later HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET /later HTTP/1.1\r\nHost: x\r\nX: a\nb\r\n\r\n", 400),
        (b"GET /later HTTP/1.1\r\nHost: x\r\nX: \x00\r\n\r\n", 400),
        (b"GET  /later HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /later\r\n\r\n", 400),
        (b"GET later HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET ?a HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /%ff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /echo?a=%ff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /echo?a=1&a=2 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /echo?" + b"&".join(b"p%d=" % n for n in range(30)) + b" HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /later HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"GET /later HTTP/1.x\r\nHost: x\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET /later HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", 431),
        (b"GET /later HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431),
    ],
)
def test_what_is_not_a_proper_request_gets_the_fitting_answer(running: Running, request_: bytes, status: int) -> None:
    answer = running.say(request_)

    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:100]
    assert (b"\r\nAllow: GET, HEAD\r\n" in answer) == (status == 405)
    assert fetch(running.path, "/later").status == 200


@pytest.mark.parametrize("order", ["restart", "down"])
def test_an_order_to_an_agent_that_takes_none_is_answered_in_its_words(running: Running, order: str) -> None:
    answer = fetch(running.path, f"/orders/{order}?pod=web", method="POST")

    assert answer.status == 404
    assert answer.body.decode().startswith(f"`jettison {order}` is not for this node: its agent started none")
    assert b"no such path, there are /broken" in fetch(running.path, "/orders/dance", method="POST").body


def test_lines_of_one_header_are_one_list() -> None:
    """As kube-apiserver offers the protocols of a stream to a node; of a single one there must be no second."""
    lines = b"X-Stream-Protocol-Version: v5.channel.k8s.io\r\nx-stream-protocol-version: channel.k8s.io\r\n"
    headers = http.parse_head(b"POST /exec HTTP/1.1\r\nHost: n\r\n" + lines + b"\r\n").headers

    assert headers["x-stream-protocol-version"] == "v5.channel.k8s.io, channel.k8s.io"


def test_half_a_request_is_answered_when_its_sender_stops(running: Running) -> None:
    with running.connect() as connection:
        connection.sendall(b"GET /later HTTP/1.1\r\n")
        connection.shutdown(socket.SHUT_WR)

        assert received(connection).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("running", [{"head_seconds": 0.2}], indirect=True, ids=["0.2 s"])
def test_a_client_that_takes_too_long_to_ask_is_sent_away(running: Running) -> None:
    with running.connect() as connection:
        connection.sendall(b"GET /later HT")

        assert received(connection).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("running", [{"answer_seconds": 0.2}], indirect=True, ids=["0.2 s"])
def test_a_client_that_does_not_read_its_answer_is_hung_up_on(running: Running) -> None:
    with running.connect() as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(4) == b"HTTP"
        deadline = time.monotonic() + 30
        while running.server._connections:
            assert time.monotonic() < deadline
            time.sleep(0.02)

        assert len(received(connection)) < len(LARGE)


def test_a_crowd_that_says_nothing_shuts_no_client_out(running: Running) -> None:
    """The oldest silent ones go; a request that is said at once is answered."""
    with ExitStack() as crowd:
        silent = [crowd.enter_context(running.connect()) for _ in range(3 * http.MOST_CONNECTIONS)]
        assert fetch(running.path, "/later").status == 200
        silent[0].settimeout(30)
        with suppress(ConnectionResetError):
            assert silent[0].recv(1) == b""


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_clients_that_hang_up_leave_nothing_behind(running: Running) -> None:
    before = open_descriptors()
    for size in range(40):
        # When many come at once the later ones are turned away before they have said anything.
        with running.connect() as connection, suppress(BrokenPipeError):
            connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"[:size])

    deadline = time.monotonic() + 30
    while fetch(running.path, "/later").status != 200:  # earlier connections have been let in by then
        assert time.monotonic() < deadline
    while running.server._connections or open_descriptors() > before:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:1234", 200),
        ("localhost:80", 200),
        ("[::1]", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("evil.example:80", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
def test_a_page_that_calls_the_loopback_by_another_name_reads_nothing(running: Running, host: str, status: int) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as connection:
        connection.sendall(f"GET /later HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())

        assert received(connection).startswith(f"HTTP/1.1 {status} ".encode())


def test_it_serves_on_the_loopback_only() -> None:
    with pytest.raises(InputError, match=r"`0\.0\.0\.0`"):
        asyncio.run(HttpServer(ROUTES).listen_tcp("0.0.0.0", 0))


def test_a_port_in_use_is_an_error_with_its_number(running: Running) -> None:
    with pytest.raises(ServeError, match=str(running.port)):
        asyncio.run(HttpServer(ROUTES).listen_tcp("127.0.0.1", running.port))


def test_only_its_owner_may_connect(running: Running) -> None:
    assert running.path.stat().st_mode & 0o777 == 0o600


def test_a_living_agents_socket_is_not_taken(running: Running) -> None:
    with pytest.raises(ServeError, match="another agent does"):
        asyncio.run(HttpServer(ROUTES).listen_unix(running.path))

    assert fetch(running.path, "/later").status == 200


def test_a_dead_agents_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()

    server = Running(path)

    assert fetch(path, "/later").status == 200
    server.stop()
    assert not path.exists()


@pytest.mark.parametrize("running", [{"look_seconds": 0.05}], indirect=True)
def test_a_socket_that_was_removed_comes_back(running: Running) -> None:
    """Without one no command reaches the agent, and the next agent finds its journal in use."""
    for _ in range(2):
        running.path.unlink()
        deadline = time.monotonic() + 30
        while not answers(running.path) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert answers(running.path)
        assert running.path.stat().st_mode & 0o777 == 0o600
    assert len(running.server._servers) == 2


def test_the_socket_of_the_next_agent_stays(tmp_path: Path) -> None:
    """Of an agent whose state was moved away, and that ends later."""
    path = tmp_path / "state" / "agent.sock"
    path.parent.mkdir()
    former = Running(path)
    path.parent.rename(tmp_path / "moved")
    path.parent.mkdir()
    server = Running(path)
    former.stop()
    assert fetch(path, "/later").status == 200
    server.stop()
    assert not path.exists()


def test_anything_else_in_its_place_stays_there(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    path.write_text("precious")

    with pytest.raises(ServeError, match="something else in its place"):
        asyncio.run(HttpServer(ROUTES).listen_unix(path))
    with pytest.raises(ServeError, match="cannot listen on"):
        asyncio.run(HttpServer(ROUTES).listen_unix(tmp_path / "nowhere" / "agent.sock"))

    assert path.read_text() == "precious"


def test_the_client_says_when_no_server_answers(tmp_path: Path) -> None:
    with pytest.raises(ObservationError, match="is it running"):
        fetch(tmp_path / "agent.sock", "/healthz")


def test_the_client_says_when_the_answer_is_none(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def hang_up() -> None:
            connection, _ = listener.accept()
            connection.recv(10)
            connection.close()

        rude = threading.Thread(target=hang_up)
        rude.start()
        with pytest.raises(ObservationError, match="did not answer"):
            fetch(path, "/healthz")
        rude.join()
