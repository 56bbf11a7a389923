"""The channels of a command over both transports, with a client on the other end of a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from jettison.errors import ApiError, StreamError
from jettison.node.kubelet import spdy
from jettison.node.kubelet.channels import Received, SpdyChannels, WebSocketChannels, Wishes, chosen_version
from jettison.node.kubelet.commands import status_of
from jettison.node.kubelet.inside import CommandEnd, read_status
from jettison.node.kubelet.stream_connection import STALL_SECONDS, StreamConnection
from tests.node.kubelet.test_websocket import client_frame

ALL = Wishes(has_input=True, has_output=True, has_errors=True)


@asynccontextmanager
async def connected(
    stall_seconds: float = STALL_SECONDS,
) -> AsyncIterator[tuple[StreamConnection, asyncio.StreamReader, asyncio.StreamWriter]]:
    """Our end, and a client's."""
    accepted: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    accepted = asyncio.get_running_loop().create_future()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set_result((reader, writer))

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    ours = await accepted
    try:
        yield StreamConnection(*ours, stall_seconds=stall_seconds), reader, writer
    finally:
        for each in (writer, ours[1]):
            each.transport.abort()
        server.close()
        await asyncio.sleep(0)


def test_the_best_version_of_both_is_taken() -> None:
    assert chosen_version(("channel.k8s.io", "v4.channel.k8s.io", "v5.channel.k8s.io")) == "v5.channel.k8s.io"
    with pytest.raises(ApiError, match=r"client supports \[v3.channel.k8s.io\], server accepts") as caught:
        chosen_version(("v3.channel.k8s.io",))
    assert caught.value.code == 403


def test_streams_of_spdy() -> None:
    """One for each channel; a second one for the same, of the same number, or another one, is refused."""

    async def scenario() -> None:
        async with connected() as (ours, reader, writer):
            frames, channels = spdy.SpdyWriter(), SpdyChannels(ours, ALL)
            kinds = {1: "error", 3: "stdin", 5: "stdin", 7: "resize", 9: "stdout", 11: "stderr"}
            for number, name in ((1, "error"), (1, "stdout"), *list(kinds.items())[1:]):
                writer.write(frames.open(number, {"streamtype": name}))
            writer.write(spdy.data_frame(3, b"in") + spdy.ping_frame(5) + spdy.data_frame(3, b"", is_last=True))
            await channels.open(30)
            received = channels.received()
            assert await anext(received) == Received("stdin", b"in")
            assert await anext(received) == Received("stdin", b"", True)
            await channels.send("stdout", b"out")
            await channels.finish(b"{}")
            events, answers = list[spdy.Event](), spdy.SpdyReader()
            while spdy.Leaving() not in events:
                events += answers.read(await reader.read(4096))
            assert [each.stream for each in events if isinstance(each, spdy.Accepted)] == [1, 3, 9, 11]
            assert [each.stream for each in events if isinstance(each, spdy.Reset)] == [1, 5, 7]
            assert spdy.SpdyPing(5) in events
            data = [each for each in events if isinstance(each, spdy.Data)]
            assert data[0] == spdy.Data(9, b"out", False)
            assert spdy.Data(1, b"{}", True) in data
            assert {each.stream for each in data if each.is_last} == {1, 3, 9, 11}

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_input_without_end_before_all_streams_are_open_is_not_kept() -> None:
    async def scenario() -> None:
        async with connected() as (ours, _, writer):
            writer.write(spdy.SpdyWriter().open(1, {"streamtype": "stdin"}))
            for _ in range(8):
                writer.write(spdy.data_frame(1, bytes(32 * 1024)))
            with pytest.raises(StreamError, match="before all streams were open"):
                await SpdyChannels(ours, ALL).open(30)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_streams_that_are_not_opened_are_not_waited_for() -> None:
    async def scenario() -> None:
        async with connected() as (ours, _, _):
            with pytest.raises(StreamError, match=r"has not opened its streams within 0\.1 s"):
                await SpdyChannels(ours, ALL).open(0.1)

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize(("version", "ends"), [("v5.channel.k8s.io", True), ("v4.channel.k8s.io", False)])
def test_messages_of_web_socket(version: str, ends: bool) -> None:
    """Of channels that were not asked for nothing is taken; only the fifth version can end its input."""

    async def scenario() -> None:
        async with connected() as (ours, reader, writer):
            channels = WebSocketChannels(ours, ALL, version)
            await channels.open()
            sent = (b"\0in", b"\4size", b"\x63other", b"", b"\xff\0", b"\xff\1", b"\0more")
            writer.write(b"".join(client_frame(2, each) for each in sent) + client_frame(8, b""))
            found = [each async for each in channels.received()]
            end = [Received("stdin", b"", True)] if ends else []
            assert found == [Received("stdin", b"in"), *end, Received("stdin", b"more")]
            await channels.send("stderr", b"oh")
            await channels.finish(b"{}")
            said = b"\x82\1\1" + b"\x82\3\2oh" + b"\x82\3\3{}" + b"\x88\2\x03\xe8"
            assert await reader.readexactly(len(said)) == said

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize("code", [0, 1, 7, 137, 255])
def test_an_exit_code_is_told_and_read(code: int) -> None:
    assert read_status(status_of(CommandEnd(code))) == CommandEnd(code)


def test_why_a_command_did_not_run_is_passed_on_in_its_own_words() -> None:
    """A container runtime begins as a kubelet does, and its error is told by one."""
    assert read_status(status_of(CommandEnd(None, "no such program"))) == CommandEnd(None, "no such program")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"no JSON",
        b"[]",
        b'{"status":"Failure","message":"why"}',
        b'{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"-1"}]}}',
        b'{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"99999"}]}}',
    ],
)
def test_an_end_that_is_none_has_a_reason(text: bytes) -> None:
    found = read_status(text)
    assert found.exit_code is None
    assert found.why
