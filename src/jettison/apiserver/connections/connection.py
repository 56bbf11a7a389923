"""What a connection may cost: bytes and seconds of its heads, and what is written to it and not read.

uvicorn parses with llhttp, which collects headers without any limit, and waits for them without a deadline. It also
sends the head of an answer apart from its body: two records of TLS, two calls of the kernel and two wake-ups of the
client, for answers that mostly have 200 bytes. asyncio would buffer 576 KiB for a client that does not read, and wait
for it without a deadline.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from jettison.apiserver.connections.endpoint import keep_alive
from jettison.apiserver.connections.limits import ConnectionPatience, is_tunnel
from jettison.apiserver.connections.quotas import ConnectionQuotas

MOST_HEAD_BYTES = 64 * 1024
"""Request line and headers together. Tokens have 43 bytes and the longest known Accept header 300."""

CLOSE_SECONDS = 0.5
"""How long a connection may take to close when the server stops."""

_SMALL = 16 * 1024
"""What fits into one record of TLS is worth being copied into one piece."""

_TUNNEL_BYTES = 32 * 1024
"""What is read of a tunnel before its other end has taken it."""

_TOO_LARGE = "431 Request Header Fields Too Large"
_TOO_SLOW = "408 Request Timeout"


class _OnePiece:
    """The transport as an answer sees it: a head that says how long its body is waits for the body."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        head, self._head = self._head, b""
        if head and len(data) > _SMALL:
            self._transport.writelines((head, data))
        elif head or not data.startswith(b"HTTP/1.1 ") or b"\r\ncontent-length: " not in data:
            self._transport.write(head + data)
        else:
            self._head = data

    def flush(self) -> None:
        """The answer to a HEAD has a length and no body."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        self.flush()
        self._transport.close()


class _TunnelProtocol(asyncio.StreamReaderProtocol):
    """What a connection becomes that is taken over; its end is told to what it was."""

    def __init__(self, before: GuardedProtocol, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(reader, loop=loop)
        self._before = before

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing reads or writes on it any more."""
        super().connection_lost(exc)
        self._before.connection_lost(exc)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's connection with limits on its heads, on the time they take and on what is not read.

    It is counted from before its handshake, when there is only a task that can be cancelled.
    """

    def __init__(
        self, quotas: ConnectionQuotas, patience: ConnectionPatience, *arguments: Any, **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self.handshake: asyncio.Task[None] | None = None
        self._quotas = quotas
        self._patience = patience
        self._stall: asyncio.TimerHandle | None = None
        self._ignoring: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._ignored_bytes = 0
        self._is_in_head = True
        self._is_stopping = False
        self._deadline: asyncio.TimerHandle | None = None
        self._answers: _OnePiece
        # A request for another protocol: what comes behind it is not HTTP.
        self._is_upgrade = False
        self._early = bytearray()
        self._received = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The deadline runs from the handshake on: a connection that sends nothing is the cheapest attack."""
        super().connection_made(transport)
        self._answers = _OnePiece(transport)
        self._start_clock()
        # An answer waits while its last two pieces are not with the kernel: one is in the buffer of TLS, one in that of
        # the socket below it, which asyncio does not expose.
        transport.set_write_buffer_limits(high=1)
        below = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
        if below is not None:
            below.set_write_buffer_limits(high=1)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for any more."""
        self._stop_clock()
        self._stop_stall()
        self._stop_ignoring()
        self._quotas.remove(self)
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered; a handshake is none."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    @property
    def has_whole_body(self) -> bool:
        """Whether all of the newest request has come. Those before it have come anyway, also where they still wait."""
        return not self.cycle.more_body

    def take_over(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection itself, for a request that was answered with another protocol. HTTP is over on it.

        It stays counted as what it was until it is closed. That is done by `leave`.
        """
        self._stop_stall()
        self._unset_keepalive_if_required()
        keep_alive(self.transport.get_extra_info("socket"))
        reader = asyncio.StreamReader(_TUNNEL_BYTES, self.loop)
        protocol = _TunnelProtocol(self, reader, self.loop)
        transport = self.transport
        protocol.connection_made(transport)
        transport.set_protocol(protocol)
        self.flow.resume_reading()
        if self._early:
            reader.feed_data(bytes(self._early))
        return reader, asyncio.StreamWriter(transport, protocol, reader, self.loop)

    def leave(self) -> None:
        """The end of what was taken over. Nothing that uvicorn could still want to say belongs there."""
        self.cycle.disconnected = True
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Called by uvicorn while it handles the parser's word that a request asks for another protocol. What came
        behind its head belongs to that, if the request is granted.
        """
        error = sys.exc_info()[1]
        offset = error.args[0] if error is not None and error.args else len(self._received)
        if is_tunnel(self.scope["path"]):
            self._is_upgrade = True
            self._early += self._received[offset:]

    def drop(self) -> None:
        """Close it at once, whatever is under way."""
        transport: asyncio.Transport | None = self.transport
        if transport is not None:
            transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    def assign(self, user: str, *, is_administrator: bool) -> bool:
        """Count it as this user's, now that a request has shown a token; False when that user has too many."""
        return self._quotas.assign(self, user, is_administrator=is_administrator)

    def pause_writing(self) -> None:
        """The client does not read as fast as it asked for; from now on it has to read something in time."""
        super().pause_writing()
        if self._stall is None:
            self._stall = self.loop.call_later(self._patience.stall_seconds, self.drop)

    def resume_writing(self) -> None:
        """The client has read."""
        self._stop_stall()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Garbage after a request whose answer has begun ends the connection: a 400 must not be written into it."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or not cycle.response_started or cycle.response_complete:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """A head that is still open after this many bytes is refused, wherever its end may be."""
        if self._is_upgrade:
            self._early += data
            if len(self._early) > MOST_HEAD_BYTES:
                self.drop()
            return
        if self._is_in_head:
            self._head_bytes += len(data)
        self._received = data
        super().data_received(data)
        self._received = b""
        if self._is_in_head:
            # Most heads come in one piece, and need no clock.
            self._start_clock()
            if self._head_bytes > MOST_HEAD_BYTES:
                self._refuse(_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Called by the parser at the first byte of a request."""
        super().on_message_begin()
        self._is_in_head = True
        self._head_bytes = self._ignored_bytes = 0

    def on_headers_complete(self) -> None:
        """The head may have come in one piece, so its size is known only now."""
        self._is_in_head = False
        self._stop_clock()
        # Four more for each header: the colon, the blank and the end of its line.
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_HEAD_BYTES:
            self._refuse(_TOO_LARGE)
        elif not self.transport.is_closing():
            self.scope["connection"] = self  # type: ignore[typeddict-unknown-key]
            super().on_headers_complete()
            self.cycle.transport = cast("asyncio.Transport", self._answers)

    def on_body(self, body: bytes) -> None:
        """What follows a refused head belongs to no request; what follows an answer is ignored, up to a limit."""
        if self.transport.is_closing():
            return
        if self.cycle.response_complete:
            self._ignored_bytes += len(body)
            if self._ignored_bytes > self._patience.ignored_bytes:
                self.transport.close()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The body is complete."""
        self._stop_ignoring()
        if not self.transport.is_closing():
            super().on_message_complete()

    def shutdown(self) -> None:
        """TLS sends a close and waits for the client's; a client that keeps an idle connection may never send one."""
        super().shutdown()
        self._is_stopping = True
        self._abort_soon()

    def on_response_complete(self) -> None:
        """The last answer of a connection that stops closes it, too."""
        self._answers.flush()
        if self.cycle.more_body and not self.transport.is_closing():
            # It was answered before its body was read. The rest is read and ignored until the client notices.
            self._stop_ignoring()
            self._ignoring = self.loop.call_later(self._patience.ignoring_seconds, self.drop)
        super().on_response_complete()
        if self._is_stopping:
            self._abort_soon()

    def _abort_soon(self) -> None:
        if self.transport.is_closing():
            self.loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def _start_clock(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._patience.head_seconds, self._refuse, _TOO_SLOW)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_ignoring(self) -> None:
        if self._ignoring is not None:
            self._ignoring.cancel()
            self._ignoring = None

    def _stop_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _refuse(self, status: str) -> None:
        self._stop_clock()
        if self.transport.is_closing():
            return
        # In the middle of a pipelined answer nothing may be written; the client sees the end of the connection.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            self.transport.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        self.transport.close()
