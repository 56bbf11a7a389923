"""One connection as the protocols on it see it: bytes in bounded pieces, and writers that wait for the other side.

Nothing that is sent is kept here: a frame is given to the transport when the one before it has left, so a client that
reads slowly slows down the command that writes, and one that reads nothing for ten minutes is closed.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import StreamReader, StreamWriter
from typing import Final

PIECE_BYTES: Final = 32 * 1024
STALL_SECONDS: Final = 600.0


class StreamConnection:
    """To a client, a pod or a container runtime. Several may write, one after the other."""

    def __init__(self, reader: StreamReader, writer: StreamWriter, *, stall_seconds: float = STALL_SECONDS) -> None:
        self._reader = reader
        self._writer = writer
        self._stall_seconds = stall_seconds
        self._turn = asyncio.Lock()
        writer.transport.set_write_buffer_limits(high=PIECE_BYTES)

    @property
    def socket(self) -> socket.socket:
        """To notice its end."""
        found: socket.socket = self._writer.get_extra_info("socket")
        return found

    async def read(self) -> bytes:
        """What comes next; empty at the end, also where the connection broke."""
        try:
            return await self._reader.read(PIECE_BYTES)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Returns when there is room for more. Raises OSError when the other side is gone or does not read."""
        async with self._turn:
            if self._writer.is_closing():
                raise ConnectionResetError("the other side is gone")
            try:
                async with asyncio.timeout(self._stall_seconds):
                    self._writer.write(data)
                    await self._writer.drain()
                    # Answers to frames that came together would all go out in one turn of the loop. In that turn no
                    # other client is served, and that this one has gone is not known: asyncio logs every such write.
                    await asyncio.sleep(0)
            except TimeoutError:
                # All that wait for their turn end with it: each would wait as long again.
                self._writer.transport.abort()
                raise
