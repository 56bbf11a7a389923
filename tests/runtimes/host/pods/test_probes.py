"""One question to real servers, with and without TLS, and to real commands. When to ask is tested with the life."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from jettison.apiserver.access.certificates import ensure_identity
from jettison.errors import StartError
from jettison.runtimes.host.pods import probes
from jettison.runtimes.host.pods.probes import Answer
from jettison.runtimes.host.specs.probes import ExecAction, HttpAction, TcpAction

HOME = "127.0.0.1"


async def no_command(_command: tuple[str, ...]) -> int | None:
    raise AssertionError("no command should be run")


@asynccontextmanager
async def server(answer: bytes, asked: list[bytes], *, hangs: bool = False) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            if hangs:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            asked.append(b"")
        finally:
            writer.transport.abort()
            served.set()

    served = asyncio.Event()
    listening = await asyncio.start_server(serve, HOME, 0)
    try:
        yield listening.sockets[0].getsockname()[1]
        await served.wait()
    finally:
        listening.close()


def page(answer: bytes, *, hangs: bool = False, timeout: float = 5) -> tuple[Answer, bytes]:
    async def run() -> tuple[Answer, bytes]:
        asked: list[bytes] = []
        async with server(answer, asked, hangs=hangs) as port:
            action = HttpAction(HOME, port, "/ok", (("X-A", "b"), ("host", "other")))
            found = await probes.ask(action, timeout, no_command)
        return found, asked[0]

    return asyncio.run(run())


@pytest.mark.parametrize("code", [200, 204, 301, 399])
def test_a_page_that_is_there(code: int) -> None:
    answer, asked = page(b"HTTP/1.1 %d Whatever\r\n\r\n" % code)
    assert answer.is_well
    assert asked.startswith(b"GET /ok HTTP/1.1\r\n")
    assert b"\r\nX-A: b\r\n" in asked
    assert asked.count(b"\r\nHost: ") == 1
    assert b"\r\nHost: other\r\n" in asked


@pytest.mark.parametrize("code", [100, 199, 400, 404, 500])
def test_a_page_that_is_not(code: int) -> None:
    assert page(b"HTTP/1.0 %d\r\n" % code)[0] == Answer(False, f"HTTP probe failed with statuscode: {code}")


@pytest.mark.parametrize("junk", [b"", b"220 mail ready\r\n", b"HTTP/1.1 two hundred\r\n", b"\0" * 20 + b"\n"])
def test_what_is_no_web_server(junk: bytes) -> None:
    answer = page(junk)[0]
    assert answer.is_well is False
    assert "not an HTTP answer" in answer.why


def test_a_server_that_never_ends_its_line() -> None:
    assert page(b"x" * 100_000, hangs=True)[0] == Answer(False, "more than 4096 bytes without an end of line")


def test_a_server_that_says_nothing() -> None:
    assert page(b"", hangs=True, timeout=0.1)[0] == Answer(False, "no answer within 0.1 s")


def test_a_port() -> None:
    async def run() -> None:
        async with server(b"", []) as port:
            assert await probes.ask(TcpAction(HOME, port), 5, no_command) == Answer(True)
        answer = await probes.ask(TcpAction(HOME, port), 5, no_command)
        assert answer == Answer(False, f"dial tcp 127.0.0.1:{port}: connect: connection refused")

    asyncio.run(run())


def test_a_command() -> None:
    async def run() -> None:
        async def ends_with(command: tuple[str, ...]) -> int | None:
            return int(command[1])

        async def cannot_be_run(_command: tuple[str, ...]) -> int | None:
            raise StartError("cannot start `x`: no such file")

        async def hangs(_command: tuple[str, ...]) -> int | None:
            await asyncio.sleep(60)
            return 0

        assert (await probes.ask(ExecAction(("x", "0")), 1, ends_with)).is_well is True
        assert await probes.ask(ExecAction(("x", "3")), 1, ends_with) == Answer(False, "`x` exited with 3")
        assert await probes.ask(ExecAction(("x",)), 1, cannot_be_run) == Answer(None, "cannot start `x`: no such file")
        assert await probes.ask(ExecAction(("x",)), 0.05, hangs) == Answer(False, "no answer within 0.05 s")

    asyncio.run(run())


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    identity = ensure_identity(tmp_path_factory.mktemp("identity"))
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(identity.chain)
    return made


def ask(answer: bytes, context: ssl.SSLContext | None) -> tuple[Answer, list[bytes]]:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(65_536))
        writer.write(answer)
        writer.close()

    async def no_command(_command: tuple[str, ...]) -> int | None:
        raise AssertionError("no command should be run")

    async def run() -> Answer:
        listening = await asyncio.start_server(serve, HOME, 0, ssl=context)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            return await probes.ask(HttpAction(HOME, port, "/ok", is_https=True), 5, no_command)

    return asyncio.run(run()), asked


def test_the_certificate_is_not_checked(context: ssl.SSLContext) -> None:
    """It is signed by no authority that the agent knows, and the page is there."""
    answer, asked = ask(b"HTTP/1.1 204 No Content\r\n\r\n", context)
    assert answer.is_well
    assert asked[0].startswith(b"GET /ok HTTP/1.1\r\n")


def test_a_page_that_is_not_there(context: ssl.SSLContext) -> None:
    assert ask(b"HTTP/1.1 500\r\n\r\n", context)[0] == Answer(False, "HTTP probe failed with statuscode: 500")


def test_an_answer_without_end(context: ssl.SSLContext) -> None:
    answer = ask(b"x" * 200_000, context)[0]
    assert answer == Answer(False, "more than 4096 bytes without an end of line")


def test_a_server_that_hangs_up(context: ssl.SSLContext) -> None:
    assert ask(b"", context)[0].is_well is False


def test_a_server_that_speaks_no_tls() -> None:
    """A plain answer to a TLS greeting is no reason to wait."""
    answer = ask(b"HTTP/1.1 400 Bad Request\r\n\r\n", None)[0]
    assert answer.is_well is False
    assert answer.why
