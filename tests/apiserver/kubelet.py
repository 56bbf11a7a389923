"""A node's port that says the same to every request, with a certificate of the cluster's authority."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from jettison.apiserver.access.identity import ServerIdentity
from tests.apiserver.served import Served

Meet = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(meet: Meet, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on the loopback, and its port; at the end every connection is closed on both sides of the loop."""
    meetings: set[asyncio.Task[None]] = set()

    async def meet_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        meetings.add(task)
        try:
            await meet(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(meet_and_close, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*meetings, return_exceptions=True)


class Kubelet:
    """Says the same to every client, and records the requests."""

    def __init__(self, identity: ServerIdentity) -> None:
        self._identity = identity
        self.heard: list[str] = []
        self.port = 0

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/odd\r\nContent-Length: 4\r\n\r\nfine")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """With a certificate that the authority has signed for its address, and no annotation."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._identity.chain)
        async with listening(self._meet, context) as self.port:
            yield


async def make_node(api: Served, port: int, address: str = "127.0.0.1") -> None:
    endpoint = {"kubeletEndpoint": {"Port": port}}
    status = {"addresses": [{"type": "InternalIP", "address": address}], "daemonEndpoints": endpoint}
    created = await api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})
    assert created.code == 201, created.content
