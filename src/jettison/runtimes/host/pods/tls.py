"""HTTPS for probes, over plain streams.

OpenSSL is 5 MB of memory, a sixth of an agent, and hardly any node has an HTTPS probe: so it is loaded with the first
of them. And asyncio's own TLS is not used, because an agent may have loaded asyncio without OpenSSL.
"""

from __future__ import annotations

from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

MODULES = frozenset({"ssl", "_ssl", "base64", "binascii"})
"""What is loaded with the first probe, and may therefore come late."""

_PIECE = 4096


async def first_line(reader: StreamReader, writer: StreamWriter, host: str, request: bytes, longest: int) -> bytes:
    """Send the request and return the first line of the answer of any server: probes check no certificate.

    Raises ValueError when there is no end of line within `longest` bytes, and OSError for what TLS is unhappy with.
    """
    import ssl  # noqa: PLC0415  see above

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname=host)

    async def insist(attempt: Callable[[], T]) -> T:
        while True:
            try:
                done = attempt()
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                data = await reader.read(_PIECE)
                if data:
                    incoming.write(data)
                else:
                    incoming.write_eof()
            else:
                writer.write(outgoing.read())
                return done

    await insist(session.do_handshake)
    await insist(lambda: session.write(request))
    line = b""
    while b"\n" not in line:
        if len(line) > longest:
            raise ValueError("no end of line")
        piece = await insist(lambda: session.read(_PIECE))
        if not piece:
            break
        line += piece
    return line.partition(b"\n")[0]
