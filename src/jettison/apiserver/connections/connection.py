"""What a connection may cost: bytes and seconds of its heads, and what is written to it and not read.

uvicorn parses with llhttp, which collects headers without any limit, and waits for them without a deadline. asyncio
would buffer 576 KiB for a client that does not read, and wait for it without a deadline.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any
from urllib.parse import unquote

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from jettison.apiserver.connections.exchange import Exchange
from jettison.apiserver.connections.limits import ConnectionPatience
from jettison.apiserver.connections.quotas import ConnectionQuotas
from jettison.runtimes.machine.silence import keep_alive

MOST_HEAD_BYTES = 64 * 1024
"""Request line and headers together. Tokens have 43 bytes and the longest known Accept header 300."""

CLOSE_SECONDS = 0.5
"""How long a connection may take to close when the server stops."""

_ASGI = {"version": "3.0", "spec_version": "2.3"}
_TUNNEL_BYTES = 32 * 1024
"""What is read of a tunnel before its other end has taken it."""

_MOST_WAITING = 64
"""Requests that came before the answer to the one before them. Each is a kilobyte, and a client may send 880 in one
piece behind a watch, which does not end.
"""

_BAD = "400 Bad Request"
_NO_HOST = f"{_BAD}: missing required Host header"
_BAD_HOST = f"{_BAD}: malformed Host header"
_TOO_LARGE = "431 Request Header Fields Too Large"
_TOO_SLOW = "408 Request Timeout"


_HOST = re.compile(rb"[!$%&()*+,.0-9:;=A-Z\[\]_a-z~'-]*")
_UNKNOWN_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ /\S* HTTP/1\.[01]\r?\n")
_NOT_ALLOWED = msgspec.json.encode({
    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
    "message": "the server does not allow this method on the requested resource",
    "reason": "MethodNotAllowed", "details": {}, "code": 405,
})  # fmt: skip


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
        # The newest request, and the one that is answered: of requests that came together the first.
        self.cycle: Exchange | None = None  # type: ignore[assignment]
        self._answered: Exchange | None = None
        self._head_bytes = 0
        # With all that came in the same pieces: unless this is too much, the headers need not be counted.
        self._most_head_bytes = 0
        self._ignored_bytes = 0
        self._is_in_head = True
        # What its headers say about the form of its body, in small letters.
        self._coding = b""
        self._hosts: list[bytes] = []
        self._is_stopping = False
        self._deadline: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0
        # A request for another protocol: what comes behind it is not HTTP.
        self._is_upgrade = False
        # Too many requests wait: what comes now is not read any more.
        self._is_full = False
        self._early = bytearray()
        self._received = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The deadline runs from the handshake on: a connection that sends nothing is the cheapest attack."""
        super().connection_made(transport)
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for any more."""
        self._stop_clock()
        self._stop_stall()
        self._stop_ignoring()
        self._stop_idling()
        self._quotas.remove(self)
        self.connections.discard(self)
        # Those that wait for it have not begun and never will. An answer that is not told goes on without a connection
        # that is counted: a watch for an hour.
        self.pipeline.clear()
        if self._answered is not None:
            self._answered.lose()
        if self.flow is not None:
            self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        self.parser = None  # type: ignore[assignment]

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered; a handshake is none."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def has_whole_body(self) -> bool:
        """Whether all of the newest request has come. Those before it have come anyway, also where they still wait."""
        return self.cycle is not None and not self.cycle.more_body

    def take_over(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection itself, for a request that was answered with another protocol. HTTP is over on it.

        It stays counted as what it was until it is closed. That is done by `leave`.
        """
        self._stop_stall()
        self._stop_idling()
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
        if self._answered is not None:
            self._answered.disconnected = True
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Called by uvicorn while it handles the parser's word that a request asks for another protocol. What came
        behind its head belongs to that, if the request is granted.
        """
        error = sys.exc_info()[1]
        offset = error.args[0] if error is not None and error.args else len(self._received)
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
        newest = self.cycle
        if self.is_idle and self._names_unknown_method:
            self._say("405 Method Not Allowed", _NOT_ALLOWED, "application/json")
        elif newest is None or newest.response_complete or (newest is self._answered and not newest.response_started):
            super().send_400_response(msg)
        else:
            self.transport.close()

    @property
    def _names_unknown_method(self) -> bool:
        """Whether what cannot be parsed is a request with a method of its own. The parser takes those that it knows;
        to Kubernetes it is a method like any other, which no resource has.
        """
        is_about_method = isinstance(sys.exc_info()[1], httptools.HttpParserInvalidMethodError)
        return is_about_method and _UNKNOWN_METHOD.match(self._received) is not None

    def data_received(self, data: bytes) -> None:
        """A head that is still open after this many bytes is refused, wherever its end may be. So are the trailers of a
        body and what stands between its chunks: the parser keeps both without a limit.
        """
        if self._is_full:
            return
        if self._is_upgrade:
            self._early += data
            if len(self._early) > MOST_HEAD_BYTES:
                self.drop()
            return
        self._head_bytes += len(data)
        self._most_head_bytes += len(data)
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
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._coding = b""
        self._hosts = []
        self._is_in_head = True
        self._head_bytes = self._ignored_bytes = 0
        self._most_head_bytes = len(self._received)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser for each, and for each trailer: a request is judged by its head alone."""
        if not self._is_in_head:
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        elif name == b"transfer-encoding":
            self._coding += value.lower()
        elif name == b"host":
            self._hosts.append(value)
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head may have come in one piece, so its size is known only now."""
        self._is_in_head = False
        self._head_bytes = 0
        self._stop_clock()
        if len(self.pipeline) >= _MOST_WAITING and self.cycle is not None:
            # The answer to the last that waits says that the connection ends, so a client asks for the rest again.
            self._is_full = True
            self.cycle.keep_alive = False
            return
        if self._most_head_bytes > MOST_HEAD_BYTES and self._head_size > MOST_HEAD_BYTES:
            self._refuse(_TOO_LARGE)
        elif self._has_unclear_body or len(self._hosts) > 1:
            self._refuse(_BAD)
        elif not self._hosts and self.parser.get_http_version() == "1.1":
            self._refuse(_NO_HOST)
        elif self._hosts and not _HOST.fullmatch(self._hosts[0]):
            self._refuse(_BAD_HOST)
        elif not self.transport.is_closing():
            self._begin_exchange()

    @property
    def _has_unclear_body(self) -> bool:
        """Whether another reader of the same bytes, a proxy for one, could see another end of this request: the parser
        takes several codings, and no body at all where another protocol is asked for. What a client had sent as a body
        would be a request of its own, and a deletion would go ahead without its preconditions.
        """
        if self._coding not in (b"", b"chunked"):
            return True
        if not self.parser.should_upgrade():
            return False
        return bool(self._coding) or any(name == b"content-length" and value != b"0" for name, value in self.headers)

    @property
    def _head_size(self) -> int:
        """Four more for each header: the colon, the blank and the end of its line."""
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _begin_exchange(self) -> None:
        version = self.parser.get_http_version()
        address = httptools.parse_url(self.url)
        path = address.path.decode("ascii")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": _ASGI,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "connection": self,
            "http_version": version,
            "method": self.parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": address.path,
            "query_string": address.query or b"",
            "headers": self.headers,
        }
        self.scope = scope  # type: ignore[assignment]
        # Behind a request for another protocol nothing is read as HTTP, also where it is refused.
        can_stay = self.parser.should_keep_alive() and not self.parser.should_upgrade()
        before, is_kept = self.cycle, version != "1.0" and can_stay
        self.cycle = exchange = Exchange(self, scope, keep_alive=is_kept, waits_for_continue=self.expect_100_continue)
        if before is None or before.response_complete:
            self._start(exchange)
        else:
            # Requests that come before the answer to the last wait for it.
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))  # type: ignore[arg-type]

    def _start(self, exchange: Exchange) -> None:
        self._answered = exchange
        exchange.task = task = self.loop.create_task(exchange.run(self.app))
        self.tasks.add(task)

    def on_body(self, body: bytes) -> None:
        """What follows a refused head belongs to no request; what follows an answer is ignored, up to a limit."""
        if self.transport.is_closing() or self.cycle is None or self._is_full:
            return
        self._head_bytes = 0
        if not self.cycle.response_complete:
            self.cycle.take_body(body)
            return
        self._ignored_bytes += len(body)
        if self._ignored_bytes > self._patience.ignored_bytes:
            self.transport.close()

    def on_message_complete(self) -> None:
        """The body is complete."""
        self._stop_ignoring()
        if self.transport.is_closing() or self.cycle is None or self._is_full:
            return
        if not self.cycle.response_complete:
            self.cycle.end_body()

    def shutdown(self) -> None:
        """TLS sends a close and waits for the client's; a client that keeps an idle connection may never send one."""
        super().shutdown()
        self._is_stopping = True
        self._abort_soon()

    def on_response_complete(self) -> None:
        """The last answer of a connection that stops closes it, too."""
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            if self._answered is not None and self._answered.more_body:
                # It was answered before its body was read. The rest is read and ignored until the client notices.
                self._stop_ignoring()
                self._ignoring = self.loop.call_later(self._patience.ignoring_seconds, self.drop)
            self.flow.resume_reading()
            if self.pipeline:
                self._start(self.pipeline.pop()[0])  # type: ignore[arg-type]
            else:
                self._idle_since = self.loop.time()
                if self._idle_timer is None:
                    self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._close_idle)
        if self._is_stopping:
            self._abort_soon()

    def _close_idle(self) -> None:
        """One timer for all pauses between requests, which looks whether this one has been long enough."""
        self._idle_timer = None
        if not self.is_idle or self._deadline is not None:
            return  # the end of the next answer starts it again
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._idle_timer = self.loop.call_later(left, self._close_idle)
        elif not self.transport.is_closing():
            self.transport.close()

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

    def _stop_idling(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

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
        if self.is_idle:
            self._say(status, status.encode(), "text/plain; charset=utf-8")
        else:
            self.transport.close()

    def _say(self, status: str, body: bytes, content_type: str) -> None:
        """The last answer on this connection."""
        head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self.transport.close()
