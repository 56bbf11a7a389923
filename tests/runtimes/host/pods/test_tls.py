"""HTTPS probes against a real TLS server."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from jettison.apiserver.access.certificates import ensure_identity
from jettison.runtimes.host.pods import probes
from jettison.runtimes.host.pods.probes import Answer
from jettison.runtimes.host.specs.probes import HttpAction

HOME = "127.0.0.1"


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


def test_nobody_checks_the_certificate(context: ssl.SSLContext) -> None:
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
