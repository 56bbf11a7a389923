"""Clients that take without giving: silent connections, bodies that never come, watches and lists that are never read.

Each flood is larger than what its user may have. While it is there, health and an administrator are answered within a
second (more on a busy machine), and the server's memory stays where it was.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.served import Served, serving

pytestmark = pytest.mark.timeout(300)

PODS = "/api/v1/namespaces/default/pods"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
# A body that does not come is given up after 20 s: a server that answers only then was flooded.
SOON_SECONDS = 9.0


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("flood") / "state", "--controllers=") as server:
        connection = server.connect()
        headers = {"Authorization": f"Bearer {server.token()}", "Content-Type": "application/json"}
        for number in range(200):
            metadata = {"name": f"pod-{number}", "annotations": {"weight": "x" * 6000}}
            document = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            connection.request("POST", PODS, json.dumps(document), headers)
            response = connection.getresponse()
            response.read()
            assert response.status == 201
        connection.close()
        yield server


def memory_mib(server: Served) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1024


def assert_served(server: Served) -> None:
    """Strangers' health, and requests of an administrator and of another user, with and without a body."""
    for path in ("/healthz", "/livez", "/readyz"):
        began = time.monotonic()
        connection = server.connect()
        connection.request("GET", path)
        response = connection.getresponse()
        assert response.status == 200, path
        connection.close()
        assert time.monotonic() - began < SOON_SECONDS, path
    for user in ("admin", "evictor"):
        review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        began = time.monotonic()
        server.close()  # as clients that come now
        assert server.call("GET", "/api/v1/nodes", user=user)[0] == 200
        server.close()
        assert server.call("POST", REVIEWS, review, user=user)[0] == 201
        assert time.monotonic() - began < 2 * SOON_SECONDS, user


@contextmanager
def flood(server: Served, count: int, say: Callable[[socket.socket], None] | None) -> Iterator[list[socket.socket]]:
    """So many connections, of which none is read; without anything to say they do not even begin with TLS."""
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    held: list[socket.socket] = []
    try:
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            held.append(connection)
            if say is not None:
                held[-1] = trust.wrap_socket(connection)
                say(held[-1])
        yield held
    finally:
        for each in held:
            each.close()


def request(server: Served, method: str, path: str, rest: str = "", user: str = "viewer") -> Callable[..., None]:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token(user)}\r\n{rest}\r\n"
    return lambda connection: connection.sendall(head.encode())


def test_silent_connections_of_strangers(flooded: Served) -> None:
    with flood(flooded, 1500, None):
        assert_served(flooded)
        assert len(list(Path(f"/proc/{flooded.process.pid}/fd").iterdir())) < 1000


def test_heads_that_do_not_end(flooded: Served) -> None:
    with flood(flooded, 800, lambda connection: connection.sendall(b"GET /api HTTP/1.1\r\nhost")):
        assert_served(flooded)


@pytest.mark.parametrize("user", ["viewer", "admin"])
def test_bodies_that_do_not_come(flooded: Served, user: str) -> None:
    rest = "Content-Type: application/json\r\nContent-Length: 1000\r\n"
    with flood(flooded, 160, request(flooded, "POST", REVIEWS, rest, user)) as held:
        assert_served(flooded)
        held[0].settimeout(30)
        refusal = held[0].recv(65536)
        assert refusal.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 1\r\n" in refusal
        assert b'"kind":"Status"' in refusal


def test_watches_that_are_not_read(flooded: Served) -> None:
    """1.3 MB each to begin with: without a limit that would be 400 MB."""
    before = memory_mib(flooded)
    with flood(flooded, 300, request(flooded, "GET", f"{PODS}?watch=true")):
        for number in range(20):
            patch = {"metadata": {"labels": {"turn": str(number)}}}
            assert flooded.call("PUT", f"{PODS}/pod-0/status", {**patch, "metadata": {"name": "pod-0"}})[0] == 200
        assert_served(flooded)
        assert memory_mib(flooded) - before < 300 * 0.25


def test_lists_that_are_not_read(flooded: Served) -> None:
    before = memory_mib(flooded)
    with flood(flooded, 150, request(flooded, "GET", PODS)):
        assert_served(flooded)
        assert memory_mib(flooded) - before < 150 * 0.4


def test_targets_and_methods_that_are_no_path(flooded: Served) -> None:
    """`OPTIONS *` was a traceback for every client."""
    answers = {
        b"OPTIONS *": b"200",
        b"GET *": b"403",
        b"CONNECT example.com:443": b"400",
        b"GET https://x/healthz": b"200",
        b"GET https://x": b"400",
        b"BREW /healthz": b"405",
        b"TRACE /healthz": b"403",
    }
    for line, code in answers.items():

        def say(connection: socket.socket, line: bytes = line) -> None:
            connection.sendall(line + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

        with flood(flooded, 1, say) as (connection,):
            assert connection.recv(12) == b"HTTP/1.1 " + code, line
    assert "Traceback" not in Path(f"{flooded.folder}.log").read_text()
