"""The kubelet's port: which clients are answered, what they get, and that no client can hold it up."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from jettison.agent.http.server import HttpServer, plain
from jettison.apiserver.access import certificates
from jettison.apiserver.access.certificates import ensure_identity, self_signed
from jettison.apiserver.access.identity import CLIENT_NAME, ServerIdentity
from jettison.engine.pods.pod import Pod
from jettison.errors import ServeError
from jettison.node.kubelet import server as kubelet_server
from jettison.node.kubelet.agent_questions import AgentQuestions
from jettison.node.kubelet.certificate import CertificateInTheMaking, certificate_part
from jettison.node.kubelet.finding import PodFinder
from jettison.node.kubelet.port import KubeletPort, listening
from jettison.node.kubelet.server import KubeletServer, server_context
from jettison.node.logs.host_logs import HostLogs
from jettison.runtimes.host.volumes.logs import log_file, pod_log_dir
from jettison.runtimes.protocol import ContainerStatus, PodStatus

POD = Pod("web", "default", "u1")
PATH = "/containerLogs/default/web/main"


class Node:
    """A server with one pod, whose container runs for the second time."""

    def __init__(self, directory: Path, authority: ServerIdentity, **limits: Any) -> None:
        self.authority = authority
        self.statuses = [PodStatus(POD, "Running", containers=(ContainerStatus("main", "running", restarts=1),))]
        self.directory = pod_log_dir(directory / "logs", POD) / "main"
        self.directory.mkdir(parents=True)
        log_file(self.directory, 0).write_text("first\nlast\n")
        log_file(self.directory, 1).write_text("again\n")
        # What a trick might reach.
        (directory / "logs" / "0.log").write_text("secret\n")
        self.chain = self_signed("node")
        self.socket = directory / "agent.sock"
        questions = AgentQuestions(self.socket)
        logs = HostLogs(directory / "logs", questions)
        self.server = KubeletServer(questions, logs, server_context(self.chain, authority.authority_pem), **limits)
        finder = PodFinder("n1", lambda: self.statuses, lambda *_: b"", lambda _: None)
        self.agent = HttpServer({"/healthz": lambda _: plain("ok")}, orders=finder.routes())
        self.port = 0

    def trust(self, chain: Path | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=certificate_part(self.chain))
        context.check_hostname = False
        if chain is not None:
            context.load_cert_chain(chain)
        return context

    async def connect(self, chain: Path | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust(chain))

    async def say(self, request: bytes, chain: Path | None = None) -> bytes:
        """All that comes back, until the server hangs up."""
        reader, writer = await self.connect(chain or self.authority.client)
        try:
            writer.write(request)
            return await reader.read()
        finally:
            writer.close()

    async def ask(self, target: str, chain: Path | None = None) -> tuple[int, bytes]:
        answer = await self.say(get(target), chain)
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), whole(body) if b"chunked" in head else body

    async def until_idle(self) -> None:
        async with asyncio.timeout(30):
            while self.server._open[True]:
                await asyncio.sleep(0.02)


def get(target: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: node\r\n\r\n".encode()


def whole(body: bytes) -> bytes:
    """What the chunks carry; the last one must be there."""
    found = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return found
        found, body = found + body[:length], body[length + 2 :]


@asynccontextmanager
async def serving(directory: Path, **limits: Any) -> AsyncIterator[Node]:
    node = Node(directory, ensure_identity(directory / "pki"), **limits)
    await node.agent.listen_unix(node.socket)
    with listening("127.0.0.1", 0) as listener:
        node.port = listener.getsockname()[1]
        node.server.accept_from(listener)
        try:
            yield node
        finally:
            await node.server.close()
            await node.agent.close()


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 30))


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("", b"again\n"),
        ("?uid=u1", b"again\n"),
        ("?previous=true", b"first\nlast\n"),
        ("?previous=true&tailLines=1", b"last\n"),
        ("?previous=true&limitBytes=3", b"fir"),
        ("?tailLines=0", b""),
    ],
)
def test_what_was_asked_for(tmp_path: Path, query: str, answer: bytes) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as node:
            assert await node.ask(PATH + query) == (200, answer)

    play(scenario())


def test_a_log_is_followed_until_the_container_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as node:
            reader, writer = await node.connect(node.authority.client)
            writer.write(get(PATH + "?follow=true"))
            await reader.readuntil(b"again\n")
            with log_file(node.directory, 1).open("a") as log:
                log.write("more\n")
            await reader.readuntil(b"more\n")
            node.statuses.clear()
            assert (await reader.read()).endswith(b"0\r\n\r\n")
            writer.close()

    play(scenario())


def _signed(authority: ServerIdentity, name: str, usage: Any = ExtendedKeyUsageOID.CLIENT_AUTH) -> Path:
    """A certificate of that authority for another name."""
    folder = authority.chain.parent
    signer = certificates._load(folder / "ca.pem")
    certificates._save(certificates._sign(signer, name, usage, datetime.now(UTC)), folder / "other.pem")
    return folder / "other.pem"


def test_a_wrong_name_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as node:
            for name in ("admin", f"{CLIENT_NAME}.example", f"x{CLIENT_NAME}"):
                code, body = await node.ask(PATH, _signed(node.authority, name))
                assert (code, b"again" in body) == (403, False)

    play(scenario())


async def _heard(node: Node, chain: Path | None) -> bytes:
    """With TLS 1.3 a client learns only from the answer that it was not let in."""
    try:
        reader, writer = await node.connect(chain)
    except OSError:
        return b""
    try:
        writer.write(get(PATH))
        return await reader.read()
    except OSError:
        return b""
    finally:
        writer.transport.abort()


def test_a_client_without_a_certificate_of_the_authority_is_not_talked_to(tmp_path: Path) -> None:
    """None, another authority's, one that signed itself, and the API server's own, which is for servers."""

    async def scenario() -> None:
        async with serving(tmp_path) as node:
            alone = tmp_path / "alone.pem"
            alone.write_bytes(self_signed(CLIENT_NAME))
            other = ensure_identity(tmp_path / "other").client
            server = _signed(node.authority, CLIENT_NAME, ExtendedKeyUsageOID.SERVER_AUTH)
            for chain in (None, other, alone, server):
                assert await _heard(node, chain) == b""
            assert await node.ask(PATH) == (200, b"again\n")

    play(scenario())


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("/", 404),
        ("/metrics/", 404),
        ("/journal", 404),
        ("/orders/down", 404),
        ("/exec/default/web/main", 400),
        ("/attach/default/web", 404),
        ("/portForward/default", 404),
        ("/containerLogs/default/web", 404),
        (PATH + "/", 404),
        ("//containerLogs/default/web/main", 404),
        ("/containerLogs/default/web/..", 400),
        ("/containerLogs/default/web/.", 400),
        ("/containerLogs/default/web/", 400),
        ("/containerLogs/default/web/%2e%2e", 400),
        ("/containerLogs/default/web/..%2f..", 404),
        ("/containerLogs/default/web/main%00", 400),
        ("/containerLogs/default/../main", 404),
        ("/containerLogs/default/other/main", 404),
        ("/containerLogs/other/web/main", 404),
        (PATH + "?uid=u2", 404),
        (PATH + "?tailLines=-1", 400),
        (PATH + "?tailLines=" + "9" * 19, 400),
        (PATH + "?limitBytes=0", 400),
        (PATH + "?limitBytes=3&limitBytes=4", 400),
        (PATH + "?" + "x" * 70000, 414),
    ],
)
def test_whatever_else_is_asked_is_refused(tmp_path: Path, target: str, code: int) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as node:
            found, body = await node.ask(target)
            assert (found, b"secret" in body) == (code, False)

    play(scenario())


def test_only_requests_to_read_are_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as node:
            assert b" 405 " in await node.say(get(PATH).replace(b"GET", b"POST"))
            assert b" 400 " in await node.say(b"\r\n\r\n\r\n")

    play(scenario())


@pytest.mark.parametrize("greeting", [b"", b"\x16\x03\x01"], ids=["silent", "begins a handshake"])
def test_connections_that_say_nothing_do_not_keep_the_api_server_out(tmp_path: Path, greeting: bytes) -> None:
    """Fifty of them, which would be waited for longer than this test may take."""

    async def scenario() -> None:
        async with serving(tmp_path, handshake_seconds=600.0) as node:
            silent = [await asyncio.open_connection("127.0.0.1", node.port) for _ in range(50)]
            for _, writer in silent:
                writer.write(greeting)
            assert await node.ask(PATH) == (200, b"again\n")
            assert len(node.server._strangers) <= kubelet_server.MOST_OF_ONE_ADDRESS
            for _, writer in silent:
                writer.close()

    play(scenario())


def test_a_crowd_of_one_address_drops_none_of_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, handshake_seconds=600.0) as node:
            other = await asyncio.open_connection("127.0.0.1", node.port, local_addr=("127.0.0.2", 0))
            crowd = [
                await asyncio.open_connection("127.0.0.1", node.port)
                for _ in range(2 * kubelet_server.MOST_OF_ONE_ADDRESS)
            ]
            # The first of the crowd is dropped; what came before all of them is not.
            assert await crowd[0][0].read() == b""
            assert "127.0.0.2" in node.server._strangers.values()
            for _, writer in (other, *crowd):
                writer.close()

    play(scenario())


def test_of_many_addresses_the_oldest_is_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, handshake_seconds=600.0) as node:
            crowd = [
                await asyncio.open_connection("127.0.0.1", node.port, local_addr=(f"127.0.1.{number}", 0))
                for number in range(1, kubelet_server.MOST_STRANGERS + 2)
            ]
            assert await crowd[0][0].read() == b""
            assert len(node.server._strangers) == kubelet_server.MOST_STRANGERS
            assert await node.ask(PATH) == (200, b"again\n")
            for _, writer in crowd:
                writer.close()

    play(scenario())


def test_a_stranger_that_takes_too_long_is_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, handshake_seconds=0.5) as node:
            reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
            assert await reader.read() == b""
            writer.close()

    play(scenario())


def test_so_many_logs_at_once_and_no_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, most_streams=2) as node:
            followers = [await node.connect(node.authority.client) for _ in range(2)]
            for reader, writer in followers:
                writer.write(get(PATH + "?follow=true"))
                await reader.readuntil(b"again\n")
            code, body = await node.ask(PATH)
            assert (code, body) == (503, b"this node has 2 streams open already\n")
            for _, writer in followers:
                writer.close()
            # Though the container is silent, it is noticed that no client listens.
            await node.until_idle()
            assert await node.ask(PATH) == (200, b"again\n")

    play(scenario())


def test_a_client_that_does_not_read_is_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, stall_seconds=0.5) as node:
            log_file(node.directory, 1).write_bytes(b"x" * (32 << 20))
            _, writer = await node.connect(node.authority.client)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(get(PATH))
            await asyncio.sleep(0.2)
            assert node.server._open[True] == 1
            await node.until_idle()
            writer.transport.abort()

    play(scenario())


def test_a_program_of_its_own_makes_the_certificate() -> None:
    made = CertificateInTheMaking().wait()
    assert b"PRIVATE KEY" in made
    shown = certificate_part(made)
    assert shown.startswith("-----BEGIN CERTIFICATE-----")
    assert "PRIVATE" not in shown


def test_without_an_authority_nothing_is_served() -> None:
    """The authorities of the machine would let in half the world."""
    port = KubeletPort(None)
    port.prepare()
    assert not port._chain_pem
    assert port._lack is not None
    assert port._lack.endswith("readings: the kubeconfig has no certificate authority")


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as node:
            with pytest.raises(ServeError, match=f"cannot listen on `127.0.0.1:{node.port}`"):
                listening("127.0.0.1", node.port)

    play(scenario())


def test_a_static_pod_is_asked_for_by_the_name_of_its_mirror(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as node:
            static = Pod("dns", "default", "u2", is_static=True)
            node.statuses.append(PodStatus(static, "Running", containers=(ContainerStatus("main", "running"),)))
            directory = pod_log_dir(tmp_path / "logs", static) / "main"
            directory.mkdir(parents=True)
            log_file(directory, 0).write_text("resolved\n")
            assert await node.ask("/containerLogs/default/dns-n1/main?uid=of-the-mirror") == (200, b"resolved\n")
            assert (await node.ask("/containerLogs/default/dns/main?uid=u2"))[0] == 404
            # Another pod had that name before: then there is no mirror.
            node.statuses.append(PodStatus(Pod("web", "default", "u3", is_static=True), "Running"))
            node.statuses.append(replace(node.statuses[0], pod=replace(POD, name="web-n1")))
            (tmp_path / "logs" / "default_web-n1_u1" / "main").mkdir(parents=True)
            (tmp_path / "logs" / "default_web-n1_u1" / "main" / "1.log").write_text("mine\n")
            assert await node.ask("/containerLogs/default/web-n1/main?uid=u1") == (200, b"mine\n")

    play(scenario())
