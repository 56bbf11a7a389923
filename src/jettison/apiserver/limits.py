"""What a request may cost: bytes of its body, seconds of its answer, and how many are answered at once.

Watches last long and cost little, so they are counted apart and have no time limit; the end of a watch is its own
business. Health is answered always: a busy server is not a dead one.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from jettison.apiserver.statuses import failure_status, too_large
from jettison.errors import ApiError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY_BYTES = 3 * 1024 * 1024
"""As in Kubernetes, where it keeps an object below etcd's limit. No object becomes larger by what clients add to it."""

_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_WATCH = re.compile(rb"(?:^|&)watch=(?:1|t|true)(?:&|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many at once, and how long one may take. Kubernetes has 400 + 200 and 60 s."""

    requests: int = 400
    watches: int = 2000
    seconds: float = 60.0


class Limits:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, stop: asyncio.Event, allowance: Allowance | None = None) -> None:
        self._app = app
        self._stop = stop
        self._allowance = allowance or Allowance()
        self._requests = 0
        self._watches = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse at once: a queue would only make everybody wait."""
        if scope["type"] != "http" or scope["path"] in _HEALTH:
            await self._app(scope, receive, send)
        elif is_long_running(scope):
            await self._watch(scope, receive, send)
        else:
            await self._request(scope, receive, send)

    async def _watch(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._watches >= self._allowance.watches:
            await _refuse(send, _too_many())
            return
        self._watches += 1
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await self._app(scope, _until(stopping, receive), send)
        finally:
            stopping.cancel()
            self._watches -= 1

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._requests >= self._allowance.requests:
            await _refuse(send, _too_many())
            return
        self._requests += 1
        is_started = False

        async def noting_send(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            async with asyncio.timeout(self._allowance.seconds):
                await self._app(scope, receive, noting_send)
        except TimeoutError:
            # An answer that has begun can only be broken off, which uvicorn does when nothing follows.
            if not is_started:
                await _refuse(send, _timed_out())
        finally:
            self._requests -= 1


def is_long_running(scope: Scope) -> bool:
    """A watch, or a log that may be followed."""
    if scope["method"] != "GET":
        return False
    return bool(_WATCH.search(scope["query_string"])) or scope["path"].endswith("/log")


def _until(stopping: asyncio.Task[Any], receive: Receive) -> Receive:
    """A watch would outlive the server: a stop looks to it as if its client had left, and it ends as it should."""

    async def receive_or_stop() -> Message:
        receiving = asyncio.ensure_future(receive())
        try:
            await asyncio.wait((receiving, stopping), return_when=asyncio.FIRST_COMPLETED)
            return receiving.result() if receiving.done() else {"type": "http.disconnect"}
        finally:
            receiving.cancel()

    return receive_or_stop


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """The whole body, or 413; a body that is announced too large is not read at all.

    The rest of one that is refused is not waited for, so whoever answers closes the connection.
    """
    announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if len(announced) > 18 or (announced.isdigit() and int(announced) > MOST_BODY_BYTES):
        raise too_large(MOST_BODY_BYTES)
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError("the client left before its request was complete", code=400, reason="BadRequest")
        part = message.get("body", b"")
        size += len(part)
        if size > MOST_BODY_BYTES:
            raise too_large(MOST_BODY_BYTES)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_many() -> ApiError:
    message = "too many requests, please try again later"
    return ApiError(message, code=429, reason="TooManyRequests", details={"retryAfterSeconds": 1})


def _timed_out() -> ApiError:
    message = "Timeout: request did not complete within the allotted timeout"
    return ApiError(message, code=504, reason="Timeout", details={})


async def _refuse(send: Send, error: ApiError) -> None:
    """The body may not have been read, so the connection cannot be used again."""
    body = msgspec.json.encode(failure_status(error)) + b"\n"
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if error.retry_after_seconds:
        headers.append((b"retry-after", str(error.retry_after_seconds).encode()))
    await send({"type": "http.response.start", "status": error.code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
