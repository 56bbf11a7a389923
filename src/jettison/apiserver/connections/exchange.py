"""One request of a connection and its answer, as an ASGI application sees them.

uvicorn has such a class, which serves every application: it looks through each header for four things, has an event for
each request, and sends the head of an answer apart from its body, which is two records of TLS, two calls of the kernel
and two wake-ups of the client for answers that mostly have 200 bytes. An eviction took a tenth of its time there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import MutableMapping
from logging import Logger
from typing import Any, Final, Protocol

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from jettison.apiserver.connections.limits import ASGIApp, Message

_SMALL: Final = 16 * 1024
"""What fits into one record of TLS is worth being copied into one piece."""

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_BODY: Final = frozenset({204, 304})
_ERROR: Final = b"Internal Server Error"
_ERROR_HEADERS: Final = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"content-length", b"%d" % len(_ERROR)),
    (b"connection", b"close"),
]
# Within a line of a head: a line break would be another header.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class Carrier(Protocol):
    """The connection."""

    transport: asyncio.Transport
    flow: FlowControl
    server_state: ServerState
    tasks: set[asyncio.Task[None]]
    logger: Logger

    def on_response_complete(self) -> None:
        """The answer is written."""


class Exchange:
    """The newest request of a connection, or an earlier one that is still being answered."""

    __slots__ = (
        *("_connection", "_event", "_head", "_is_chunked", "_is_told", "_left", "_parts", "_size", "_waits"),
        *("disconnected", "keep_alive", "more_body", "response_complete", "response_started", "scope", "task"),
    )

    def __init__(
        self, connection: Carrier, scope: MutableMapping[str, Any], *, keep_alive: bool, waits_for_continue: bool
    ) -> None:
        self.scope = scope
        # In which it is answered.
        self.task: asyncio.Task[None] | None = None
        self.keep_alive = keep_alive
        self.disconnected = self.response_started = self.response_complete = False
        self.more_body = True
        self._connection = connection
        self._waits = waits_for_continue
        self._parts: list[bytes] = []
        self._size = 0
        # Whether something has happened that `receive` has not told yet; the event is made when it has to wait.
        self._is_told = False
        self._event: asyncio.Event | None = None
        # A head that says how long its body is waits for the body.
        self._head = b""
        self._is_chunked = False
        self._left = 0

    # What the connection says.

    def take_body(self, part: bytes) -> None:
        """Some of the body has come."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > HIGH_WATER_LIMIT:
            self._connection.flow.pause_reading()
        self._tell()

    def end_body(self) -> None:
        """All of it has come."""
        self.more_body = False
        self._tell()

    def lose(self) -> None:
        """The connection is gone."""
        if not self.response_complete:
            self.disconnected = True
        self._tell()

    def _tell(self) -> None:
        self._is_told = True
        if self._event is not None:
            self._event.set()

    # What the application does.

    async def run(self, app: ASGIApp) -> None:
        """Have it answered; an application that fails is reported, and its client told if that is still possible."""
        try:
            await app(self.scope, self.receive, self.send)
            if not self.response_complete and not self.disconnected:
                await self._fail("ASGI callable returned without completing response.")
        except BaseException as error:  # noqa: BLE001  also a task that is cancelled when the server stops
            await self._fail("Exception in ASGI application\n", error)
        finally:
            # A callback of the task would be one more turn of the loop for each request.
            if self.task is not None:
                self._connection.tasks.discard(self.task)

    async def _fail(self, complaint: str, error: BaseException | None = None) -> None:
        self._connection.logger.error(complaint, exc_info=error)
        if self.response_started:
            self._connection.transport.close()
        else:
            await self.send({"type": "http.response.start", "status": 500, "headers": _ERROR_HEADERS})
            await self.send({"type": "http.response.body", "body": _ERROR})

    async def receive(self) -> Message:
        """Wait for more of the body, or for the end of the connection."""
        connection = self._connection
        if self._waits and not connection.transport.is_closing():
            connection.transport.write(_CONTINUE)
        self._waits = False
        if not self.disconnected and not self.response_complete:
            if not connection.transport.is_closing():
                connection.flow.resume_reading()
            if not self._is_told:
                await self._news()
            self._is_told = False
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        parts, self._parts, self._size = self._parts, [], 0
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def _news(self) -> None:
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()
        self._event.clear()

    async def send(self, message: Message) -> None:
        """Write the head of the answer, then its body, as fast as the client reads them."""
        flow = self._connection.flow
        if flow.write_paused and not self.disconnected:
            await flow.drain()
        if self.disconnected or self._connection.transport.is_closing():
            # The connection may be closed before it is lost, and a write in between fails with TLS.
            self.disconnected = True
            return
        expected = "http.response.body" if self.response_started else "http.response.start"
        if message["type"] != expected or self.response_complete:
            raise RuntimeError(f"unexpected ASGI message `{message['type']}`")
        if self.response_started:
            self._send_body(message)
        else:
            self._send_head(message)

    def _send_head(self, message: Message) -> None:
        status, length = message["status"], b""
        is_chunked = is_closing = False
        lines = []
        for name, value in (*self._connection.server_state.default_headers, *message.get("headers", ())):
            lines.append(b"%s: %s" % (name, value))
            if name == b"content-length":
                length = value
            elif name == b"transfer-encoding" and value.lower() == b"chunked":
                is_chunked = True
            elif name == b"connection" and b"close" in value.lower():
                is_closing = True
        if _CONTROL.search(b"".join(lines)):
            raise RuntimeError("a header holds a control character")
        self.response_started = True
        self._waits = False
        if is_closing:
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close")
        if length:
            self._left = int(length)
        elif not is_chunked and status not in _NO_BODY and self.scope["method"] != "HEAD":
            is_chunked = True
            lines.append(b"transfer-encoding: chunked")
        self._is_chunked = is_chunked
        head = b"%s%s\r\n\r\n" % (STATUS_LINE[status], b"\r\n".join(lines))
        if length:
            self._head = head
        else:
            self._connection.transport.write(head)

    def _send_body(self, message: Message) -> None:
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        if self.scope["method"] == "HEAD":
            body, self._left = b"", 0
        elif self._is_chunked:
            body = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
            if is_last:
                body += b"0\r\n\r\n"
        else:
            self._left -= len(body)
            if self._left < 0:
                raise RuntimeError("the answer is longer than its head says")
        self._write(body)
        if is_last:
            if self._left:
                raise RuntimeError("the answer is shorter than its head says")
            self.response_complete = True
            self._tell()
            if not self.keep_alive:
                self._connection.transport.close()
            self._connection.on_response_complete()

    def _write(self, data: bytes) -> None:
        head, self._head = self._head, b""
        if head and len(data) > _SMALL:
            self._connection.transport.writelines((head, data))
        elif head or data:
            self._connection.transport.write(head + data)
