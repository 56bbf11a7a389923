"""Commands in containers, and their main processes, for a client that streams: exec and attach."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Final

import msgspec

from jettison.errors import RuntimeFailure, StreamError
from jettison.node.kubelet.channels import RESIZE, STDIN, Channels, SpdyChannels, WebSocketChannels, chosen_version
from jettison.node.kubelet.inside import EXEC_FAILED, CommandEnd, Inside
from jettison.node.kubelet.stream_connection import StreamConnection
from jettison.node.kubelet.upgrades import SPDY, StreamRequest

# Pieces of input that wait for a command to read them; beyond that nothing more is read from the client.
_MOST_PENDING: Final = 8
_LONGEST_SIZE: Final = 4096
_MOST_CELLS: Final = 0xFFFF


class _Size(msgspec.Struct):
    Width: int = 0
    Height: int = 0


async def open_channels(request: StreamRequest, connection: StreamConnection) -> SpdyChannels | WebSocketChannels:
    """Answer the request; from then on its channels are open. Raises ApiError before the answer, StreamError after."""
    version, wishes = chosen_version(request.offered), request.wishes
    await connection.write(request.answer(version))
    if request.upgrade == SPDY:
        channels = SpdyChannels(connection, wishes)
        await channels.open()
        return channels
    messages = WebSocketChannels(connection, wishes, version)
    await messages.open()
    return messages


async def converse(channels: Channels, inside: Inside) -> None:
    """Until the command has ended or the client has gone; then neither is left."""
    taking = asyncio.create_task(_take(channels, inside))
    giving = asyncio.create_task(_give(channels, inside))
    try:
        await asyncio.wait((taking, giving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (taking, giving):
            task.cancel()
        await asyncio.gather(taking, giving, return_exceptions=True)
        await inside.close()


async def refuse(channels: Channels, failure: RuntimeFailure) -> None:
    """Tell a client whose channels are open that there is nothing behind them."""
    with suppress(OSError):
        await channels.finish(status_of(CommandEnd(None, str(failure))))


async def _give(channels: Channels, inside: Inside) -> None:
    with suppress(OSError):  # gone, or too slow to read
        try:
            async with aclosing(inside.output()) as pieces:
                async for channel, data in pieces:
                    await channels.send(channel, data)
            outcome = await inside.outcome()
        except RuntimeFailure as failure:
            outcome = CommandEnd(None, str(failure))
        await channels.finish(status_of(outcome))


async def _take(channels: Channels, inside: Inside) -> None:
    pending: asyncio.Queue[bytes] = asyncio.Queue(_MOST_PENDING)
    writing = asyncio.create_task(_write(pending, inside))
    sizes = b""
    try:
        with suppress(StreamError):
            async with aclosing(channels.received()) as received:
                async for channel, data, is_last in received:
                    if channel == STDIN:
                        if data:
                            await pending.put(data)
                        if is_last:
                            await pending.put(b"")
                    elif channel == RESIZE:
                        sizes = await _resized(inside, (sizes + data)[-_LONGEST_SIZE:])
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def _write(pending: asyncio.Queue[bytes], inside: Inside) -> None:
    while data := await pending.get():
        await inside.write(data)
    await inside.end_input()


async def _resized(inside: Inside, text: bytes) -> bytes:
    """What is left: sizes come one after the other, and not always whole."""
    while b"}" in text:
        one, _, text = text.partition(b"}")
        try:
            size = msgspec.json.decode(one.strip() + b"}", type=_Size)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        if 0 < size.Width <= _MOST_CELLS and 0 < size.Height <= _MOST_CELLS:
            await inside.resize(size.Width, size.Height)
    return text


def status_of(outcome: CommandEnd) -> bytes:
    """As clients read it on the channel for errors: kubectl exits with the code that is in it."""
    if outcome.exit_code == 0:
        return b'{"metadata":{},"status":"Success"}'
    if outcome.exit_code is not None:
        code = outcome.exit_code
        return msgspec.json.encode(
            {
                "metadata": {},
                "status": "Failure",
                "message": f"command terminated with non-zero exit code: exit status {code}",
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
            }
        )
    why = f"{EXEC_FAILED}{outcome.why}"
    return msgspec.json.encode(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"Internal error occurred: {why}",
            "reason": "InternalError",
            "details": {"causes": [{"message": why}]},
            "code": 500,
        }
    )
