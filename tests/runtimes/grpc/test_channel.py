"""Calls to a runtime that is healthy, silent, hostile or gone: an answer or a named error, always in time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

from jettison.errors import ContainerRuntimeError, JettisonError, UnreachableError
from jettison.runtimes.cri.client import CriClient
from jettison.runtimes.grpc import channel as channel_module
from jettison.runtimes.grpc.channel import MOST_BYTES, Channel

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = (("grpc-status", "0"),)


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


def grpc(body: bytes, trailers: tuple[tuple[str, str], ...] = OK, status: str = "200") -> Serve:
    """A server that gives this answer to every call; `body` may be larger than a window."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = H2Connection(H2Configuration(client_side=False))
        http.initiate_connection()
        waiting: dict[int, bytes] = {}
        while data := await reader.read(65536):
            for event in http.receive_data(data):
                if isinstance(event, RequestReceived):
                    http.send_headers(event.stream_id, ((":status", status), ("content-type", "application/grpc")))
                elif isinstance(event, DataReceived):
                    http.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
                elif isinstance(event, StreamEnded):
                    waiting[event.stream_id] = body
            for number, rest in list(waiting.items()):
                while rest and (size := min(http.local_flow_control_window(number), 16384)) > 0:
                    http.send_data(number, rest[:size])
                    rest = rest[size:]
                waiting[number] = rest
                if not rest:
                    http.send_headers(number, trailers, end_stream=True)
                    del waiting[number]
            writer.write(http.data_to_send())
            await writer.drain()

    return serve


@asynccontextmanager
async def serving(path: Path, serve: Serve, most_bytes: int = MOST_BYTES) -> AsyncIterator[Channel]:
    tasks: set[asyncio.Task[None]] = set()

    async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
        except (JettisonError, OSError, asyncio.CancelledError):
            return
        finally:
            writer.transport.abort()

    server = await asyncio.start_unix_server(taken, path)
    channel = Channel(path, most_bytes)
    try:
        yield channel
    finally:
        channel.close()
        server.close()
        await _turns()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _turns()


async def _turns() -> None:
    """Connections are taken and transports are closed by the loop, a turn or two later."""
    for _ in range(5):
        await asyncio.sleep(0)


def ask(path: Path, serve: Serve, seconds: float = 30, request: bytes = b"", most_bytes: int = MOST_BYTES) -> bytes:
    async def run() -> bytes:
        async with serving(path, serve, most_bytes) as channel:
            return await channel.call("/runtime.v1.RuntimeService/Version", request, seconds)

    return asyncio.run(run())


def test_an_answer_comes_back(tmp_path: Path) -> None:
    """Larger than any window, after a request that is larger than any window."""
    answer = bytes(range(256)) * 2000
    assert ask(tmp_path / "s", grpc(framed(answer)), request=b"x" * 300_000) == answer


def test_the_runtimes_own_words_come_back(tmp_path: Path) -> None:
    """Percent signs decoded, and nothing in them that a terminal would obey."""
    trailers = (("grpc-status", "5"), ("grpc-message", "no %22box%22%1b[31m%0aat all %ff"))
    with pytest.raises(ContainerRuntimeError, match=r'no "box" \[31m at all \\xff') as caught:
        ask(tmp_path / "s", grpc(b"", trailers))
    assert caught.value.code == 5


@pytest.mark.parametrize(
    ("serve", "error"),
    [
        (grpc(framed(b"x") + b"y"), "no single uncompressed message"),
        (grpc(b"\1" + framed(b"x")[1:]), "no single uncompressed message"),
        (grpc(b""), "no single uncompressed message"),
        (grpc(framed(b"x"), status="404"), "HTTP status 404"),
        (grpc(framed(b"x"), (("grpc-status", "many"),)), "status 2"),
    ],
    ids=["too long", "compressed", "nothing", "no gRPC", "no status"],
)
def test_an_answer_that_is_none_is_named(tmp_path: Path, serve: Serve, error: str) -> None:
    with pytest.raises(ContainerRuntimeError, match=error):
        ask(tmp_path / "s", serve)


def test_an_answer_that_is_too_large_is_broken_off(tmp_path: Path) -> None:
    with pytest.raises(ContainerRuntimeError, match="more than 100000 bytes"):
        ask(tmp_path / "s", grpc(framed(bytes(200_000))), most_bytes=100_000)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example.org ESMTP\r\n" * 9)
    await reader.read()


async def dying(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)


@pytest.mark.parametrize(
    ("serve", "seconds", "error"),
    [(silent, 0.1, r"no answer to Version in 0.1 s"), (rude, 30, "HTTP/2"), (dying, 30, "connection was lost")],
    ids=["silent", "no HTTP/2", "dying"],
)
def test_a_runtime_that_does_not_answer_is_unreachable(
    tmp_path: Path, serve: Serve, seconds: float, error: str
) -> None:
    with pytest.raises(UnreachableError, match=error):
        ask(tmp_path / "s", serve, seconds)


def frame(kind: int, payload: bytes = b"", stream: int = 0) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, 0)) + stream.to_bytes(4, "big") + payload


ANSWERED = frame(4) + b"\0\0\1\1\4\0\0\0\1\x88"
FLOODS = {
    "pings": (frame(4), frame(6, bytes(8))),
    "settings": (frame(4), frame(4)),
    "windows": (frame(4), frame(8, b"\0\0\0\1")),
    "unknown frames": (frame(4), frame(0x77)),
    "data without data": (ANSWERED, frame(0, b"", 1)),
    "single bytes": (ANSWERED, frame(0, b"x", 1)),
    "large unknown frames": (frame(4), frame(0x77, bytes(16384))),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
def test_a_flood_of_frames_ends_the_connection(tmp_path: Path, flood: tuple[bytes, bytes]) -> None:
    """h2 would look at each of them, in the event loop that guards the node, for as long as they come."""

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(flood[0])
        await reader.read(100)
        while True:
            writer.write(flood[1] * 100)
            await writer.drain()

    with pytest.raises(UnreachableError, match="it sends more than it was asked for"):
        ask(tmp_path / "s", pour, most_bytes=1_000_000)


def test_many_calls_at_once_are_no_flood(tmp_path: Path) -> None:
    async def run() -> list[bytes]:
        async with serving(tmp_path / "s", grpc(framed(b"well"))) as channel:
            for _ in range(3):
                found = await asyncio.gather(*(channel.call("/a/b", b"x", 30) for _ in range(100)))
            return found

    assert asyncio.run(run()) == [b"well"] * 100


def test_calls_of_long_ago_are_forgotten(tmp_path: Path) -> None:
    async def run() -> int:
        async with serving(tmp_path / "s", grpc(framed(b"well"))) as channel:
            for _ in range(7):
                await asyncio.gather(*(channel.call("/a/b", b"x", 30) for _ in range(100)))
            assert channel._connection is not None
            return len(channel._connection._http._closed_streams)

    assert asyncio.run(run()) <= 512


def test_a_socket_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="no such file"):
        asyncio.run(Channel(tmp_path / "s").call("/a/b", b"", 30))


def test_a_socket_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "_peer", lambda _: (1, 4711))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        with pytest.raises(UnreachableError, match="served by user 4711"):
            asyncio.run(Channel(tmp_path / "s").call("/a/b", b"", 30))


def test_the_next_call_connects_again(tmp_path: Path) -> None:
    """A runtime that was restarted answers as before, and calls at once share one connection."""

    async def run() -> list[bytes]:
        connections = []

        async def mortal(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append(writer)
            await (dying if len(connections) == 1 else grpc(framed(b"well")))(reader, writer)

        async with serving(tmp_path / "s", mortal) as channel:
            with pytest.raises(UnreachableError):
                await channel.call("/a/b", b"", 30)
            answers = await asyncio.gather(*(channel.call("/a/b", b"", 30) for _ in range(20)))
        assert len(connections) == 2
        return answers

    assert asyncio.run(run()) == [b"well"] * 20


def test_a_call_that_was_given_up_does_not_disturb_the_others(tmp_path: Path) -> None:
    async def run() -> bytes:
        async with serving(tmp_path / "s", grpc(framed(bytes(100_000)))) as channel:
            for _ in range(5):
                calling = asyncio.create_task(channel.call("/a/b", b"", 30))
                await asyncio.sleep(0)
                calling.cancel()
            return await channel.call("/a/b", b"", 30)

    assert len(asyncio.run(run())) == 100_000


def test_a_runtime_without_version_1_is_named(tmp_path: Path) -> None:
    trailers = (("grpc-status", "12"), ("grpc-message", "unknown service runtime.v1.RuntimeService"))

    async def run() -> None:
        async with serving(tmp_path / "s", grpc(b"", trailers)):
            client = CriClient(tmp_path / "s")
            try:
                await client.version()
            finally:
                client.close()

    with pytest.raises(ContainerRuntimeError, match="does not serve CRI v1"):
        asyncio.run(run())


def test_a_status_that_says_little_is_read(tmp_path: Path) -> None:
    """What is verbose is JSON only by custom."""

    async def run() -> None:
        answer = b"\x0a\x02\x18\x01\x12\x0d\x0a\x04info\x12\x05{bad}"
        async with serving(tmp_path / "s", grpc(framed(answer))):
            client = CriClient(tmp_path / "s")
            found = await client.status("a")
            client.close()
            assert found is not None
            assert (found.state, found.pid) == (1, 0)

    asyncio.run(run())
