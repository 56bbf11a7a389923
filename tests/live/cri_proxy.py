"""A socket that passes every call on to a container runtime and changes the answers that a test wants changed.

For what containerd 1.6 does not have and other runtimes do: CRI-O names a filesystem of writable layers of its own, and
newer runtimes pin images.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

from jettison.errors import ContainerRuntimeError
from jettison.runtimes.cri.messages import MESSAGES
from jettison.runtimes.grpc.channel import Channel
from jettison.runtimes.grpc.wire import Message, decode, encode

Change = Callable[[Message], None]


class Proxy:
    """`changes` are by the name of the method."""

    def __init__(self, path: Path, behind: Path, changes: Mapping[str, Change]) -> None:
        self._path = path
        self._behind = behind
        self._changes = changes
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, is_ready: Callable[[], None], is_over: asyncio.Event) -> None:
        self._channel = Channel(self._behind)
        async with await asyncio.start_unix_server(self._converse, self._path):
            is_ready()
            await is_over.wait()
        self._channel.close()
        for each in self._writers:
            each.transport.abort()
        for _ in range(5):
            await asyncio.sleep(0)  # transports are closed by the loop, a turn or two later

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        http.initiate_connection()
        asked: dict[int, tuple[str, bytearray]] = {}
        calls: set[asyncio.Task[None]] = set()
        while data := await reader.read(65536):
            for event in http.receive_data(data):
                if isinstance(event, RequestReceived):
                    headers = {str(name): str(value) for name, value in event.headers or ()}
                    asked[event.stream_id or 0] = headers[":path"], bytearray()
                elif isinstance(event, DataReceived):
                    asked[event.stream_id or 0][1].extend(event.data or b"")
                    http.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
                elif isinstance(event, StreamEnded):
                    number = event.stream_id or 0
                    calls.add(asyncio.create_task(self._answer(http, writer, number, *asked.pop(number))))
            writer.write(http.data_to_send())

    async def _answer(
        self, http: H2Connection, writer: asyncio.StreamWriter, number: int, path: str, body: bytearray
    ) -> None:
        trailers = [("grpc-status", "0")]
        answer = b""
        try:
            answer = await self._channel.call(path, bytes(body[5:]), 60)
        except ContainerRuntimeError as error:
            trailers = [
                ("grpc-status", str(error.code)),
                ("grpc-message", str(error).encode("ascii", "replace").decode()),
            ]
        method = path.rpartition("/")[2]
        if method in self._changes and answer:
            message = decode(MESSAGES, f"{method}Response", answer)
            self._changes[method](message)
            answer = encode(MESSAGES, f"{method}Response", message)
        http.send_headers(number, [(":status", "200"), ("content-type", "application/grpc")])
        framed = b"\0" + len(answer).to_bytes(4, "big") + answer
        for at in range(0, len(framed), 16384):
            http.send_data(number, framed[at : at + 16384])
        http.send_headers(number, trailers, end_stream=True)
        writer.write(http.data_to_send())


@contextmanager
def changed(path: Path, behind: Path, changes: Mapping[str, Change]) -> Iterator[str]:
    """Its endpoint."""
    ready = threading.Event()
    ends: list[Callable[[], object]] = []

    async def run() -> None:
        over, loop = asyncio.Event(), asyncio.get_running_loop()
        ends.append(lambda: loop.call_soon_threadsafe(over.set))
        await Proxy(path, behind, changes).serve(ready.set, over)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield f"unix://{path}"
    finally:
        ends[0]()
        thread.join(30)
