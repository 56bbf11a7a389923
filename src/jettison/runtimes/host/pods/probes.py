"""Asking a container how it is: by a command in its place, by a page, by a connection.

When to ask and what the answers come to is decided in `engine.lifecycle`.

OpenSSL is 5 MB of memory, a sixth of an agent, and hardly any node has an HTTPS probe: so it is loaded with the first
of them. And asyncio's own TLS is not used, because an agent may have loaded asyncio without OpenSSL.
"""

from __future__ import annotations

import asyncio
import os
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import TypeVar

from jettison.errors import ActionError, RuntimeFailure
from jettison.manifests.files.decoding import shortened
from jettison.runtimes.host.specs.probes import Action, ExecAction, Hook, HttpAction, SleepAction, TcpAction
from jettison.values import frozen

# A server that sends no end of line must not fill our memory.
_LONGEST_LINE = 4096

RunCommand = Callable[[tuple[str, ...]], Awaitable[int | None]]

T = TypeVar("T")

LOOPBACK = "127.0.0.1"
"""Where a pod of a node without an address listens."""

TLS_MODULES = frozenset({"ssl", "_ssl", "base64", "binascii"})
"""What is loaded with the first probe, and may therefore come late."""

_TLS_PIECE = 4096


@frozen
class Answer:
    """`is_well` is None when the question could not be asked."""

    is_well: bool | None
    why: str = ""
    # A server has answered, whatever it said.
    is_answer: bool = field(default=False, compare=False)


async def ask(action: Action, timeout: float, run_command: RunCommand, address: str = LOOPBACK) -> Answer:
    """Ask once. `address` is the pod's."""
    try:
        async with asyncio.timeout(timeout):
            if isinstance(action, ExecAction):
                return await _ask_command(action, run_command)
            if isinstance(action, HttpAction):
                return await _ask_page(action, address)
            return await _ask_port(action, address)
    except TimeoutError:
        return Answer(False, f"no answer within {timeout:g} s")
    except OSError as error:
        return Answer(False, (error.strerror or str(error)).lower())


async def call_hook(hook: Hook, run_command: RunCommand, address: str = LOOPBACK) -> str:
    """Do what a lifecycle hook is to do; what went wrong, or nothing. Any answer to a request will do, as upstream."""
    try:
        if isinstance(hook, SleepAction):
            await asyncio.sleep(hook.seconds)
            return ""
        if isinstance(hook, HttpAction):
            answer = await _ask_page(hook, address)
            return "" if answer.is_answer else answer.why
        code = await run_command(hook.command)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    except RuntimeFailure as failure:
        return str(failure)
    return f"it exited with {code}" if code else ""


async def _ask_command(action: ExecAction, run_command: RunCommand) -> Answer:
    try:
        code = await run_command(action.command)
    except ActionError as failure:
        return Answer(None, str(failure))
    return Answer(code == 0, f"`{shortened(action.command[0])}` exited with {code}")


async def _ask_page(action: HttpAction, address: str) -> Answer:
    host = action.host or address
    reader, writer = await _connect(host, action.port)
    try:
        if action.is_https:
            line = await _first_line_by_tls(reader, writer, host, _request(action, host), _LONGEST_LINE)
        else:
            writer.write(_request(action, host))
            line = await reader.readline()
    except ValueError:
        return Answer(False, f"more than {_LONGEST_LINE} bytes without an end of line")
    finally:
        writer.transport.abort()
    # `HTTP/1.1 204 No Content`; the words behind the number are optional.
    protocol, _, rest = line.strip().partition(b" ")
    number = rest.partition(b" ")[0]
    if not protocol.startswith(b"HTTP/") or not number.isdigit():
        return Answer(False, f"not an HTTP answer: {line[:40]!r}")
    why = f"HTTP probe failed with statuscode: {int(number)}"
    return Answer(200 <= int(number) < 400, why, is_answer=True)


async def _ask_port(action: TcpAction, address: str) -> Answer:
    _, writer = await _connect(action.host or address, action.port)
    writer.transport.abort()
    return Answer(True)


async def _connect(host: str, port: int) -> tuple[StreamReader, StreamWriter]:
    """Raises OSError in Kubernetes' words: they are read in the events of the pod."""
    try:
        return await asyncio.open_connection(host, port, limit=_LONGEST_LINE)
    except OSError as error:
        if error.errno is None or isinstance(error, socket.gaierror):
            raise
        where = f"[{host}]" if ":" in host else host
        why = f"dial tcp {where}:{port}: connect: {os.strerror(error.errno).lower()}"
        raise OSError(error.errno, why) from error


def _request(action: HttpAction, host: str) -> bytes:
    address = f"[{host}]" if ":" in host else host
    headers = {"Host": f"{address}:{action.port}", "User-Agent": "jettison-probe", "Accept": "*/*"}
    for name, value in action.headers:
        headers[name.title()] = value
    headers["Connection"] = "close"
    lines = [f"GET {action.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("ascii")


async def _first_line_by_tls(
    reader: StreamReader, writer: StreamWriter, host: str, request: bytes, longest: int
) -> bytes:
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
                data = await reader.read(_TLS_PIECE)
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
        piece = await insist(lambda: session.read(_TLS_PIECE))
        if not piece:
            break
        line += piece
    return line.partition(b"\n")[0]
