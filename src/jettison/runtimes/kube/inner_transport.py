"""Requests to a server in the same process: its ASGI application is called, and nothing goes over a wire.

Who asks is checked as ever, by the token in the header, and so is everything else. Only TLS and HTTP are left out: they
take longer than most answers, and a megabyte for every three watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final

import httpx2

Message = MutableMapping[str, Any]
AsgiApp = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

# What a slow reader of a watch may be behind here; the server keeps the rest, and has a limit for it.
_MOST_PARTS: Final = 4


class InnerTransport(httpx2.AsyncBaseTransport):
    """To be given to a client in the place of connections."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        # Somebody who stops waiting does not stop the server, as over a connection.
        self._running: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One request; its answer has a body that comes bit by bit."""
        exchange = _Exchange(await request.aread())
        scope: Message = {
            "type": "http",
            "method": request.method,
            "path": request.url.path,
            "query_string": request.url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
        }
        task = asyncio.ensure_future(self._run(scope, exchange))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(exchange.end)
        try:
            code, headers = await asyncio.shield(exchange.head)
        except asyncio.CancelledError:
            await exchange.aclose()
            raise
        return httpx2.Response(code, headers=headers, stream=exchange)

    async def _run(self, scope: Message, exchange: _Exchange) -> None:
        await self._app(scope, exchange.receive, exchange.send)


class _Exchange(httpx2.AsyncByteStream):
    """Both halves of one request and its answer."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_PARTS)
        self._left = asyncio.Event()
        self._is_whole = False
        self._is_cut_off = False
        self.head: asyncio.Future[tuple[int, Headers]] = asyncio.get_running_loop().create_future()

    async def receive(self) -> Message:
        """For the application: the body, and then that nobody listens any more."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """For the application."""
        if self._left.is_set():
            return
        if message["type"] == "http.response.start":
            if not self.head.done():
                self.head.set_result((message["status"], list(message["headers"])))
            return
        if message["body"]:
            await self._parts.put(message["body"])
        if not message.get("more_body", False):
            self._is_whole = True
            await self._parts.put(None)

    def end(self, task: asyncio.Task[None]) -> None:
        """The application has returned, one way or the other."""
        error = None if task.cancelled() else task.exception()
        if not self.head.done():
            self.head.set_exception(httpx2.RemoteProtocolError(f"the server gave no answer: {error}"))
            # Nobody may be waiting for it any more.
            self.head.exception()
        elif not self._is_whole:
            # Over a connection this were its end. Whoever waits for more must be woken: he has no timeout here.
            self._is_cut_off = True
            if self._parts.empty():
                self._parts.put_nowait(b"")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not (self._is_cut_off and self._parts.empty()):
            part = await self._parts.get()
            if part is None:
                return
            if part:
                yield part
        raise httpx2.RemoteProtocolError("the server stopped in the middle of its answer")

    async def aclose(self) -> None:
        """Nobody listens any more; the application may be waiting for room to say something."""
        self._left.set()
        while not self._parts.empty():
            self._parts.get_nowait()
