"""Many clients in one process: a kept TLS connection each, and not a line more than JSON over HTTP needs."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

JSON = "application/json"
MERGE = "application/merge-patch+json"
_PIECE = 1024 * 1024


class QuickClient:
    """One request at a time. A connection that breaks is an OSError, and the next request makes another one."""

    def __init__(self, port: int, trust: ssl.SSLContext, token: str) -> None:
        self._port = port
        self._trust = trust
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: object = None, content_type: str = JSON) -> tuple[int, Any]:
        """Code and document of the answer."""
        try:
            reader = await self._send(method, path, body, content_type)
            code, headers = await _head(reader)
            answer = await reader.readexactly(int(headers["content-length"]))
        except (OSError, EOFError) as error:
            self.close()
            raise ConnectionError(f"`{method} {path}` was not answered") from error
        except BaseException:
            self.close()  # the answer may still come, and would be taken for that of the next request
            raise
        return code, json.loads(answer)

    async def watch(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Events until the connection ends, whichever side ends it."""
        try:
            reader = await self._send("GET", path, None, JSON)
            code, _ = await _head(reader)
            assert code == 200, code
            rest = b""
            while size := int(await reader.readline(), 16):
                *lines, rest = (rest + await reader.readexactly(size)).split(b"\n")
                await reader.readline()
                for line in lines:
                    yield json.loads(line)
        except (OSError, EOFError, ValueError):
            return
        finally:
            self.close()

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _send(self, method: str, path: str, body: object, content_type: str) -> asyncio.StreamReader:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._trust, limit=_PIECE)
        reader, writer = self._streams
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._token}\r\n"
        writer.write(f"{head}Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        return reader


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(status.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}
