"""Between a client and another server: answers passed on as they come, and tunnels for another protocol.

Bytes are carried and not looked at. At most a piece is in memory for each direction: the next one is read when the one
before has been taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from jettison.apiserver.connections.hangups import until_hung_up
from jettison.apiserver.connections.limits import Receive, Scope, Send, read_body
from jettison.apiserver.http.requests import Request
from jettison.apiserver.http.statuses import bad_request
from jettison.apiserver.verbs.node_client import Parameters
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, UnreachableError
from jettison.runtimes.machine.background_tasks import until_one_ends

if TYPE_CHECKING:
    from jettison.runtimes.kube.http import HttpResponse

_log = logging.getLogger(__name__)

STALL_SECONDS: Final = 600.0
"""A side that has not read for so long is disconnected. Output that is read in a pager stands still for minutes."""

_BODY_SECONDS: Final = 20.0
_PIECE_BYTES: Final = 32 * 1024
_ASKED: Final = (
    "upgrade", "x-stream-protocol-version", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol",
)  # fmt: skip
_TOLD: Final = ("upgrade", "x-stream-protocol-version", "sec-websocket-accept", "sec-websocket-protocol")


def split_name(text: str, what: str) -> tuple[str, str, str]:
    """Scheme, name and port of `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`; each but the name may be empty."""
    parts = text.split(":")
    scheme, name, port = {1: ("", text, ""), 2: ("", *parts), 3: tuple(parts)}.get(len(parts), ("", "", ""))
    if not name or scheme not in ("", "http", "https"):
        raise bad_request(f"invalid {what} request {quote(text)}")
    return scheme, name, port


async def read_passed(request: Request, scope: Scope, receive: Receive) -> bytes:
    """The body of a request that is passed on; 408 where it does not come."""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await read_body(scope, receive, request.most_bytes)
    except TimeoutError as error:
        message = f"Timeout: the body of the request was not complete within {_BODY_SECONDS:g} s"
        raise ApiError(message, code=408, reason="Timeout", details={}) from error


def upgrade_headers(scope: Scope) -> Parameters:
    """What makes a request one for another protocol; empty where it is none."""
    found = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    connection = ",".join(value.lower() for name, value in found if name == "connection")
    if "upgrade" not in {each.strip() for each in connection.split(",")}:
        return ()
    # Several headers of one name mean a list.
    joined = [(name, ", ".join(value for each, value in found if each == name)) for name in _ASKED]
    wanted = [(name, value) for name, value in joined if value]
    return [("connection", "Upgrade"), *wanted] if any(name == "upgrade" for name, _ in wanted) else ()


async def pass_on(
    answer: HttpResponse, method: str, receive: Receive, send: Send, headers: Parameters | None = None
) -> None:
    """Status, headers and body, as they come; of the headers only the type, where the caller names none."""
    if headers is None:
        headers = [("content-type", answer.headers.get("content-type", "text/plain"))]
    listed = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]

    async def work() -> None:
        await send({"type": "http.response.start", "status": answer.status, "headers": listed})
        # An answer to HEAD says how long a body would be, and has none.
        if method != "HEAD":
            try:
                async for piece in answer.chunks():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except UnreachableError as error:
                # An answer that has begun can only be broken off, which uvicorn does when nothing follows.
                _log.warning("an answer that is passed on ends early: %s", error)
                return
        await send({"type": "http.response.body", "body": b""})

    await until_one_ends(work(), _left(receive))


async def tunnel(answer: HttpResponse, scope: Scope, receive: Receive) -> None:
    """Both ways, until a side has gone."""
    connection = scope.get("connection")
    if connection is None:
        raise bad_request("this connection cannot be upgraded")
    if connection.transport.is_closing():
        return
    reader, writer = connection.take_over()
    told = [(name, answer.headers[name]) for name in _TOLD if name in answer.headers]
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", *(f"{name}: {value}" for name, value in told)]

    async def to_client() -> None:
        writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))
        async for data in answer.chunks():
            # A write to a connection that is lost is no OSError with TLS.
            if writer.is_closing():
                return
            async with asyncio.timeout(STALL_SECONDS):
                writer.write(data)
                await writer.drain()

    async def to_server() -> None:
        while data := await reader.read(_PIECE_BYTES):
            await answer.write(data, STALL_SECONDS)

    async def carry() -> None:
        await until_one_ends(_ending_quietly(to_client), _ending_quietly(to_server), _left(receive))

    try:
        await until_hung_up(carry, connection.transport.get_extra_info("socket"))
    finally:
        connection.leave()


async def _ending_quietly(work: Callable[[], Awaitable[None]]) -> None:
    """A side that is gone, or does not read, is the end of a tunnel and no error."""
    with suppress(OSError, UnreachableError):
        await work()


async def _left(receive: Receive) -> None:
    """Returns when the client has gone or the server stops."""
    while (await receive())["type"] != "http.disconnect":
        pass
