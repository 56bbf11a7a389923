"""What the process of the kubelet's port asks the agent, by the agent's own socket.

Few questions at once: the operator's commands use the same socket, and must find room there.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode

import msgspec

from jettison.agent.http.server import HEAD_BYTES
from jettison.agent.http.unix_address import unix_address
from jettison.errors import ApiError
from jettison.node.kubelet.finding import NamedContainer
from jettison.runtimes.host.processes.processes import WayIn, decode_way_in

MOST_AT_ONCE: Final = 4
MOST_BYTES: Final = 32 * 1024 * 1024
"""Of an answer: the pods of a node with a thousand of the largest have half of that."""

_SECONDS: Final = 15.0


class Told(NamedTuple):
    """The agent's answer."""

    status: int
    content_type: str
    body: bytes


class AgentQuestions:
    """To one agent. All methods raise ApiError."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def read(self, path: str, query: str = "") -> Told:
        """What the agent serves at this path, whatever its status."""
        return await self._ask("GET", f"{path}?{query}" if query else path)

    async def find(self, **asked: str) -> NamedContainer:
        """A container by `namespace`, `pod`, `uid` and `container`."""
        body = await self._order("find", asked)
        try:
            return msgspec.json.decode(body, type=NamedContainer)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _unusable(error) from error

    async def enter(self, **asked: str) -> WayIn:
        """The way into a running container, and for which `purpose`; the agent's journal keeps that it was asked."""
        return decode_way_in(await self._order("enter", asked))

    async def _order(self, name: str, asked: dict[str, str]) -> bytes:
        told = await self._ask("POST", f"/orders/{name}?{urlencode(asked)}")
        if told.status != 200:
            message = told.body.decode(errors="replace").strip().removeprefix("Internal Error: ")[:2000]
            raise ApiError(message, code=told.status)
        return told.body

    async def _ask(self, method: str, target: str) -> Told:
        try:
            async with self._turns, asyncio.timeout(_SECONDS):
                with unix_address(self._socket) as address:
                    reader, writer = await asyncio.open_unix_connection(address, limit=HEAD_BYTES)
                try:
                    writer.write(f"{method} {target} HTTP/1.0\r\n\r\n".encode())
                    head = await reader.readuntil(b"\r\n\r\n")
                    return await _told(head, reader)
                finally:
                    writer.transport.abort()
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            raise ApiError(f"the agent does not answer: {str(error) or 'not in time'}", code=503) from error


async def _told(head: bytes, reader: asyncio.StreamReader) -> Told:
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    try:
        status, length = int(first.split()[1]), int(headers["content-length"])
    except (IndexError, ValueError, KeyError) as error:
        raise _unusable(error) from error
    if length > MOST_BYTES:
        raise ApiError(f"the agent's answer has {length} bytes, at most {MOST_BYTES} are passed on", code=503)
    return Told(status, headers.get("content-type", "text/plain"), await reader.readexactly(length))


def _unusable(error: Exception) -> ApiError:
    return ApiError(f"the agent's answer cannot be used: {error}", code=500)
