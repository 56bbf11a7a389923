"""TLS on a socket, as a transport of asyncio.

asyncio's own transport passes each record through two buffers in memory and some twenty functions, keeps 50 objects for
a connection, copies what is written once for each, and ends a connection twice that is reset while it closes. OpenSSL
can read and write the socket itself. What is not sent yet stays the object that was given, so that an event which two
thousand watches wait for is in memory once.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

_RECORD: Final = 16 * 1024
"""Bytes of the largest record: one call never gives more."""

_CLOSE_SECONDS: Final = 5.0
"""For what is left to be sent, and for the client to close as well."""


async def accept(
    connection: socket.socket,
    context: ssl.SSLContext,
    protocol: asyncio.Protocol,
    *,
    within_seconds: float,
    close_seconds: float = _CLOSE_SECONDS,
) -> None:
    """Shake hands, and hand the connection over to the protocol. It is closed where that fails, with an OSError."""
    # A client that asks for another handshake could have a write wait for what it never sends.
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        if connection.family != socket.AF_UNIX:
            # Else the kernel keeps a small record back until the client has acknowledged the last one. A client that
            # only reads, as a watch does, does so after 40 ms.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
    except BaseException:
        connection.close()
        raise
    try:
        async with asyncio.timeout(within_seconds):
            await _shake_hands(tls)
    except BaseException:
        tls.close()
        raise
    Transport(tls, protocol, close_seconds)


async def _shake_hands(tls: ssl.SSLSocket) -> None:
    loop, descriptor = asyncio.get_running_loop(), tls.fileno()
    while True:
        is_ready = loop.create_future()
        try:
            return tls.do_handshake()
        except ssl.SSLWantReadError:
            add, remove = loop.add_reader, loop.remove_reader
        except ssl.SSLWantWriteError:
            add, remove = loop.add_writer, loop.remove_writer
        add(descriptor, _set, is_ready)
        try:
            await is_ready
        finally:
            remove(descriptor)


def _set(is_ready: asyncio.Future[None]) -> None:
    if not is_ready.done():
        is_ready.set_result(None)


class Transport(asyncio.Transport):
    """A connection whose handshake is over. Its protocol is told to pause as soon as a byte has to wait."""

    __slots__ = (
        *("_close_seconds", "_closing", "_descriptor", "_is_lost", "_is_paused", "_is_reading", "_loop"),
        *("_protocol", "_timer", "_tls", "_unsent"),
    )

    def __init__(self, tls: ssl.SSLSocket, protocol: asyncio.Protocol, close_seconds: float) -> None:
        super().__init__({"socket": tls, "sslcontext": tls.context})
        self._loop = asyncio.get_running_loop()
        self._tls = tls
        self._descriptor = tls.fileno()
        self._close_seconds = close_seconds
        self._protocol: asyncio.BaseProtocol = protocol
        # The head must be given to OpenSSL again as it is: it may have been encrypted already.
        self._unsent: deque[bytes | memoryview] = deque()
        self._is_reading = True
        self._is_paused = self._closing = self._is_lost = False
        self._timer: asyncio.TimerHandle | None = None
        protocol.connection_made(self)
        self._listen(self._read)

    # What the loop says.

    def _read(self) -> None:
        while self._is_reading and not self._closing:
            try:
                data = self._tls.recv(_RECORD)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLWantWriteError:
                # An answer that TLS itself gives, as to a change of keys.
                self._loop.add_writer(self._descriptor, self._write_on)
                return
            except OSError as error:
                self._lose(error)
                return
            self._take(data)
            # The rest of a record is with OpenSSL, where the loop cannot see it; further records are with the kernel.
            if self._is_lost or not self._tls.pending():
                return

    def _take(self, data: bytes) -> None:
        try:
            if data:
                self._protocol.data_received(data)  # type: ignore[attr-defined]
            else:
                self._protocol.eof_received()  # type: ignore[attr-defined]
                self.close()
        except BaseException:
            self.abort()
            raise

    def _write_on(self) -> None:
        if not self._is_paused:
            self._loop.remove_writer(self._descriptor)  # it was TLS itself that waited
        self._flush()
        self._read()

    def _flush(self) -> None:
        """Send what can be sent."""
        unsent, send = self._unsent, self._tls.send
        while unsent:
            data = unsent[0]
            try:
                sent = send(data)
            except ssl.SSLWantWriteError:
                break
            except OSError as error:
                self._lose(error)
                return
            if sent == len(data):
                unsent.popleft()
            else:
                unsent[0] = memoryview(data)[sent:]
        if bool(unsent) is not self._is_paused:
            self._turn()
        if self._closing and not unsent:
            self._say_goodbye()

    def _turn(self) -> None:
        """Something has to wait, or nothing has any more."""
        self._is_paused = not self._is_paused
        if self._is_paused:
            self._loop.add_writer(self._descriptor, self._write_on)
            self._protocol.pause_writing()
        else:
            self._loop.remove_writer(self._descriptor)
            self._protocol.resume_writing()

    # What the protocol says.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """At once, as far as the kernel takes it."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """The same, of several."""
        if self._closing:
            return
        self._unsent.extend(each if isinstance(each, bytes) else bytes(each) for each in list_of_data if each)
        if not self._is_paused:
            self._flush()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait."""
        return sum(map(len, self._unsent))

    def can_write_eof(self) -> bool:
        """TLS ends both ways at once."""
        return False

    def pause_reading(self) -> None:
        """What comes stays with the kernel."""
        if self._is_reading and not self._closing:
            self._loop.remove_reader(self._descriptor)
        self._is_reading = False

    def resume_reading(self) -> None:
        """Also what OpenSSL has kept."""
        if not self._is_reading and not self._closing:
            self._listen(self._read)
            if self._tls.pending():
                self._loop.call_soon(self._read)
        self._is_reading = True

    def is_reading(self) -> bool:
        """Whether the protocol is given what comes."""
        return self._is_reading and not self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """From now on."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Now."""
        return self._protocol

    def is_closing(self) -> bool:
        """Whether nothing can be written any more."""
        return self._closing

    def close(self) -> None:
        """Send what waits, then say that it was all."""
        if self._closing:
            return
        self._closing = True
        self._loop.remove_reader(self._descriptor)
        self._timer = self._loop.call_later(self._close_seconds, self.abort)
        if not self._unsent:
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        """And read what the client still sends until it closes: the kernel would answer it with a reset, which takes
        the last answer from a client that has not read it yet.
        """
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # it is said; the client has not answered yet, or still sends something else
        except (OSError, ValueError) as error:
            self._lose(error if isinstance(error, OSError) else None)
            return
        try:
            self._tls.shutdown(socket.SHUT_WR)
        except OSError:
            self._lose(None)
            return
        self._listen(self._ignore)

    def _ignore(self) -> None:
        try:
            is_over = not self._tls.recv(_RECORD)
        except BlockingIOError:
            return
        except OSError:
            is_over = True
        if is_over:
            self._lose(None)

    def abort(self) -> None:
        """At once, whatever waits."""
        self._lose(None)

    # The end.

    def _lose(self, error: OSError | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._closing = True
        self._unsent.clear()
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._loop.call_soon(self._end, error)

    def _end(self, error: OSError | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._tls.close()

    def _listen(self, call: Callable[[], Any]) -> None:
        self._loop.add_reader(self._descriptor, call)
