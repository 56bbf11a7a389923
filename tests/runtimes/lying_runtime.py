"""A container runtime of nothing but answers: what a test says, in the format of the wire, on a socket of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

from jettison.runtimes.cri.messages import MESSAGES
from jettison.runtimes.grpc.wire import Message, decode, encode

Lie = Message | tuple[int, str]
"""An answer, or a code of gRPC and a text."""

UNIMPLEMENTED = 12
VERSION: Message = {"version": "0.1.0", "runtime_name": "liar", "runtime_version": "1", "runtime_api_version": "v1"}


class LyingRuntime:
    """`asked` is what it was asked: methods and requests."""

    def __init__(self, path: Path, answers: Mapping[str, Lie], pages: Mapping[str, str]) -> None:
        self._path = path
        # By their paths, for questions of plain HTTP.
        self._pages = pages
        self._answers: dict[str, Lie] = {"Version": VERSION, **answers}
        self.asked: list[tuple[str, Message]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, is_ready: Callable[[], None], is_over: asyncio.Event) -> None:
        async with await asyncio.start_unix_server(self._converse, self._path):
            is_ready()
            await is_over.wait()
        for each in self._writers:
            each.transport.abort()
        for _ in range(5):
            await asyncio.sleep(0)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        http.initiate_connection()
        asked: dict[int, tuple[str, bytearray]] = {}
        while data := await reader.read(65536):
            if data.startswith(b"GET "):
                found = self._pages.get(data.split()[1].decode())
                status, body = ("404 Not Found", b"") if found is None else ("200 OK", found.encode())
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                continue
            for event in http.receive_data(data):
                number = getattr(event, "stream_id", None) or 0
                if isinstance(event, RequestReceived):
                    headers = {str(name): str(value) for name, value in event.headers or ()}
                    asked[number] = headers[":path"].rpartition("/")[2], bytearray()
                elif isinstance(event, DataReceived):
                    asked[number][1].extend(event.data or b"")
                elif isinstance(event, StreamEnded):
                    self._answer(http, number, *asked.pop(number))
            writer.write(http.data_to_send())

    def _answer(self, http: H2Connection, number: int, method: str, body: bytearray) -> None:
        self.asked.append((method, decode(MESSAGES, f"{method}Request", bytes(body[5:]))))
        found = self._answers.get(method, (UNIMPLEMENTED, f"unknown method {method}"))
        http.send_headers(number, [(":status", "200"), ("content-type", "application/grpc")])
        if isinstance(found, tuple):
            http.send_headers(number, [("grpc-status", str(found[0])), ("grpc-message", found[1])], end_stream=True)
            return
        kind = f"{method}Response"
        answer = encode(MESSAGES, kind if kind in MESSAGES else "Nothing", found)
        framed = b"\0" + len(answer).to_bytes(4, "big") + answer
        for at in range(0, len(framed), 16384):
            http.send_data(number, framed[at : at + 16384])
        http.send_headers(number, [("grpc-status", "0")], end_stream=True)


@contextmanager
def lying(path: Path, answers: Mapping[str, Lie], pages: Mapping[str, str] | None = None) -> Iterator[LyingRuntime]:
    """In a thread of its own."""
    ready, runtime = threading.Event(), LyingRuntime(path, answers, pages or {})
    ends: list[Callable[[], object]] = []

    async def run() -> None:
        over, loop = asyncio.Event(), asyncio.get_running_loop()
        ends.append(lambda: loop.call_soon_threadsafe(over.set))
        await runtime.serve(ready.set, over)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield runtime
    finally:
        ends[0]()
        thread.join(30)
