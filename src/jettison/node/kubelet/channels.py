"""The channels of one command or attachment: input, output, errors, the size of a terminal, and how it ended.

Clients have them as streams of SPDY (kubectl before 1.31, and every API server of Kubernetes towards a node) or as
messages of WebSocket that begin with the number of a channel (kubectl since). Both versions of the protocol that are
taken tell the end as a Status; the fifth also lets a WebSocket client end its input. The older ones, which no client
has asked for since 2016, tell it as text, and are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from jettison.errors import ApiError, StreamError
from jettison.node.kubelet import spdy, websocket
from jettison.node.kubelet.stream_connection import StreamConnection
from jettison.values import frozen

STDIN, STDOUT, STDERR, ERROR, RESIZE = "stdin", "stdout", "stderr", "error", "resize"

VERSIONS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""Best first."""

OPENING_SECONDS: Final = 30.0
"""For a client to open all streams that it has asked for."""

_NUMBERS: Final = (STDIN, STDOUT, STDERR, ERROR, RESIZE)
# What a client may send before it has opened all of its streams; one of Kubernetes sends nothing.
_MOST_EARLY_BYTES: Final = 64 * 1024
# Of the fifth version: the next byte is the number of a channel that its sender closes.
_CLOSE_CHANNEL: Final = 255


@frozen
class Wishes:
    """Which channels a client has asked for. With a terminal, errors are part of the output."""

    has_input: bool = False
    has_output: bool = False
    has_errors: bool = False
    has_terminal: bool = False

    @property
    def channels(self) -> frozenset[str]:
        """Those that a client opens; the one for errors of the command itself is always there."""
        wanted = (
            (STDIN, self.has_input),
            (STDOUT, self.has_output),
            (STDERR, self.has_errors and not self.has_terminal),
            (RESIZE, self.has_terminal),
            (ERROR, True),
        )
        return frozenset(name for name, is_wanted in wanted if is_wanted)


class Received(NamedTuple):
    """From the client, on one channel."""

    channel: str
    data: bytes
    is_last: bool = False


class Channels(Protocol):
    """What both protocols have in common."""

    def received(self) -> AsyncGenerator[Received, None]:
        """Until the client is gone. Raises StreamError for what the protocol does not allow."""

    async def send(self, channel: str, data: bytes) -> None:
        """Raises OSError when the client is gone."""

    async def finish(self, status: bytes) -> None:
        """Tell how it ended, and say goodbye."""


def chosen_version(offered: Sequence[str]) -> str:
    """The best that both sides know. Raises ApiError with the kubelet's words."""
    for version in VERSIONS:
        if version in offered:
            return version
    shown = " ".join(offered)
    message = f"unable to upgrade: unable to negotiate protocol: client supports [{shown[:200]}]"
    raise ApiError(f"{message}, server accepts [{' '.join(VERSIONS)}]", code=403)


class SpdyChannels:
    """One stream for each channel. `open` comes first."""

    def __init__(self, connection: StreamConnection, wishes: Wishes) -> None:
        self._connection = connection
        self._wanted = wishes.channels
        self._reader, self._writer = spdy.SpdyReader(), spdy.SpdyWriter()
        self._streams: dict[int, str] = {}
        self._early: list[Received] = []

    async def open(self, seconds: float = OPENING_SECONDS) -> None:
        """Returns when the client has opened its streams; raises StreamError when it has not in time."""
        try:
            async with asyncio.timeout(seconds):
                size = 0
                while frozenset(self._streams.values()) != self._wanted:
                    data = await self._connection.read()
                    if not data:
                        raise StreamError("the client has left before its streams were open")
                    early = [each async for each in self._taken(data)]
                    self._early += early
                    size += sum(len(each.data) + 1 for each in early)
                    if size > _MOST_EARLY_BYTES:
                        raise StreamError(f"more than {_MOST_EARLY_BYTES} bytes came before all streams were open")
        except TimeoutError:
            raise StreamError(f"the client has not opened its streams within {seconds:g} s") from None

    async def received(self) -> AsyncGenerator[Received, None]:
        """What the client sends on its streams."""
        for each in self._early:
            yield each
        self._early = []
        while data := await self._connection.read():
            async for each in self._taken(data):
                yield each

    async def _taken(self, data: bytes) -> AsyncGenerator[Received, None]:
        for event in self._reader.read(data):
            match event:
                case spdy.Opened(stream, headers, is_last):
                    channel = headers.get("streamtype", "")
                    is_taken = stream in self._streams or channel in self._streams.values()
                    if channel not in self._wanted or is_taken:
                        await self._connection.write(spdy.reset_frame(stream, spdy.REFUSED_STREAM))
                        continue
                    self._streams[stream] = channel
                    await self._connection.write(self._writer.accept(stream))
                    if is_last:
                        yield Received(channel, b"", True)
                case spdy.Data(stream, data, is_last) if stream in self._streams:
                    yield Received(self._streams[stream], data, is_last)
                case spdy.Reset(stream) if stream in self._streams:
                    yield Received(self._streams[stream], b"", True)
                case spdy.SpdyPing(number):
                    await self._connection.write(spdy.ping_frame(number))
                case _:
                    continue

    async def send(self, channel: str, data: bytes) -> None:
        """On its stream."""
        stream = next((number for number, each in self._streams.items() if each == channel), None)
        if stream is not None:
            await self._connection.write(spdy.data_frame(stream, data))

    async def finish(self, status: bytes) -> None:
        """The status goes on the stream for errors, and all streams end."""
        frames = []
        for stream, channel in self._streams.items():
            frames.append(spdy.data_frame(stream, status if channel == ERROR else b"", is_last=True))
        await self._connection.write(b"".join(frames) + spdy.leaving_frame())


class WebSocketChannels:
    """One message for each piece. `version` is the one that was agreed on."""

    def __init__(self, connection: StreamConnection, wishes: Wishes, version: str) -> None:
        self._connection = connection
        self._wishes = wishes
        self._can_close = version == VERSIONS[0]
        self._reader = websocket.WebSocketReader()

    async def open(self) -> None:
        """An empty message tells clients that the command is about to run."""
        first = STDOUT if self._wishes.has_output else STDERR if self._wishes.has_errors else ERROR
        await self.send(first, b"")

    async def received(self) -> AsyncGenerator[Received, None]:
        """What the client sends on its channels."""
        number = -1
        wanted = self._wishes.channels
        while data := await self._connection.read():
            try:
                for event in self._reader.read(data):
                    match event:
                        case websocket.WebSocketPing(payload):
                            await self._connection.write(websocket.pong_frame(payload))
                        case websocket.Closed():
                            return
                        case websocket.MessagePiece(piece, is_first):
                            if is_first:
                                number = -1
                            if number < 0 and piece:
                                number, piece = piece[0], piece[1:]
                            if number == _CLOSE_CHANNEL and self._can_close:
                                if STDIN in wanted and piece[:1] == b"\0":
                                    yield Received(STDIN, b"", True)
                            elif piece and number < len(_NUMBERS) and _NUMBERS[number] in wanted:
                                yield Received(_NUMBERS[number], piece)
            except StreamError as error:
                with suppress(OSError):
                    await self._connection.write(websocket.close_frame(error.code))
                raise

    async def send(self, channel: str, data: bytes) -> None:
        """With the number of its channel before it."""
        number = bytes((_NUMBERS.index(channel),))
        await self._connection.write(websocket.message_frame(number + data))

    async def finish(self, status: bytes) -> None:
        """The status is the last message."""
        await self.send(ERROR, status)
        await self._connection.write(websocket.close_frame())
