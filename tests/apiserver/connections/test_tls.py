"""The transport of TLS: every byte arrives once and in order, however a client reads, writes, stalls or goes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import select
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import pytest

from jettison.apiserver.access.certificates import ensure_identity
from jettison.apiserver.connections.tls import Transport, accept

T = TypeVar("T")
Work = Callable[["Peer", "Kept"], Awaitable[None]]


class Kept(asyncio.Protocol):
    """Keeps what it is told."""

    transport: Transport

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_paused = self.has_ended = False
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.received.endswith(b"boom"):
            raise ZeroDivisionError

    def eof_received(self) -> None:
        self.has_ended = True

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Peer:
    """A client that does only what it is told, in other threads."""

    def __init__(self, tls: ssl.SSLSocket) -> None:
        tls.setblocking(False)
        self.tls = tls
        self._turn = threading.Lock()

    def _wait_for(self, do: Callable[[], T]) -> T:
        """OpenSSL lets one thread at a time at a connection, so none may wait within it."""
        while True:
            waiting: tuple[list[ssl.SSLSocket], list[ssl.SSLSocket]]
            with self._turn:
                try:
                    return do()
                except ssl.SSLWantReadError:
                    waiting = [self.tls], []
                except ssl.SSLWantWriteError:
                    waiting = [], [self.tls]
            if not any(select.select(*waiting, [], 20)):
                raise TimeoutError

    async def send(self, data: bytes) -> None:
        def give() -> None:
            rest = memoryview(data)
            while rest:
                rest = rest[self._wait_for(partial(self.tls.send, rest)) :]

        await asyncio.to_thread(give)

    async def read(self, count: int) -> bytes:
        def take() -> bytes:
            found = bytearray()
            while len(found) < count and (part := self._wait_for(partial(self.tls.recv, count - len(found)))):
                found += part
            return bytes(found)

        return await asyncio.to_thread(take)

    async def unwrap(self) -> None:
        await asyncio.to_thread(self._wait_for, self.tls.unwrap)

    def reset(self) -> None:
        self.tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.tls.close()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def connected(
    folder: Path, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, close_seconds: float = 5
) -> AsyncIterator[tuple[Peer, Kept]]:
    identity = ensure_identity(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.chain)
    client = ssl.create_default_context(cadata=identity.authority_pem.decode())
    client.maximum_version = newest
    with socket.create_server(("127.0.0.1", 0)) as listener:
        plain = socket.create_connection(listener.getsockname(), timeout=20)
        accepted = listener.accept()[0]
    accepted.setblocking(False)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
    kept = Kept()
    shaking = asyncio.create_task(accept(accepted, context, kept, within_seconds=20, close_seconds=close_seconds))
    tls = await asyncio.to_thread(client.wrap_socket, plain, server_hostname="127.0.0.1")
    await shaking
    try:
        yield Peer(tls), kept
    finally:
        tls.close()
        kept.transport.abort()
        await until(lambda: kept.lost)


def play(folder: Path, work: Work, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, close_seconds: float = 5) -> None:
    async def main() -> None:
        async with connected(folder, newest, close_seconds) as (peer, kept):
            await work(peer, kept)

    asyncio.run(main())


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_all_bytes_arrive_in_order_both_ways_at_once(tmp_path: Path, newest: ssl.TLSVersion) -> None:
    rng = random.Random(7)
    up, down = rng.randbytes(3_000_000), rng.randbytes(3_000_000)

    async def work(peer: Peer, kept: Kept) -> None:
        async def answer() -> None:
            place = 0
            while place < len(down):
                size = rng.choice((1, 100, 16_384, 16_385, 70_000, 400_000))
                if rng.random() < 0.5:
                    kept.transport.write(down[place : place + size])
                else:
                    parts = down[place : place + size // 2], down[place + size // 2 : place + size]
                    kept.transport.writelines(map(bytearray, parts))
                place += size
                while kept.is_paused:
                    await asyncio.sleep(0)

        found, _, _ = await asyncio.gather(peer.read(len(down)), peer.send(up), answer())
        assert found == down
        await until(lambda: len(kept.received) == len(up))
        assert kept.received == up

    play(tmp_path, work, newest)


def test_no_record_waits_for_what_the_client_says(tmp_path: Path) -> None:
    """Events of a watch would come up to 40 ms late."""

    async def work(_: Peer, kept: Kept) -> None:
        connection: ssl.SSLSocket = kept.transport.get_extra_info("socket")
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    play(tmp_path, work)


def test_a_client_that_does_not_read_pauses_its_writer_and_gets_all_of_it_later(tmp_path: Path) -> None:
    async def work(peer: Peer, kept: Kept) -> None:
        pieces = 0
        # The kernel makes room for some megabytes.
        while not kept.is_paused:
            kept.transport.write(b"%07d\n" % pieces * 1000)
            pieces += 1
            if kept.transport.get_write_buffer_size():
                await asyncio.sleep(0.05)
        kept.transport.write(b"behind it")
        assert kept.transport.get_write_buffer_size() > len(b"behind it")
        found = await peer.read(8000 * pieces + len(b"behind it"))
        assert found == b"".join(b"%07d\n" % each * 1000 for each in range(pieces)) + b"behind it"
        await until(lambda: not kept.is_paused)
        assert kept.transport.get_write_buffer_size() == 0

    play(tmp_path, work)


def test_what_is_written_is_not_copied(tmp_path: Path) -> None:
    """An event that many watches wait for is in memory once."""

    async def work(_peer: Peer, kept: Kept) -> None:
        while not kept.is_paused:
            kept.transport.write(bytes(100_000))
        event = b"an event"
        kept.transport.write(event)
        assert kept.transport._unsent[-1] is event

    play(tmp_path, work)


def test_a_close_sends_what_waits_and_then_the_end(tmp_path: Path) -> None:
    async def work(peer: Peer, kept: Kept) -> None:
        whole = random.Random(1).randbytes(2_000_000)
        kept.transport.write(whole)
        assert kept.is_paused
        kept.transport.close()
        kept.transport.write(b"too late")
        assert kept.transport.is_closing()
        assert await peer.read(len(whole) + 1) == whole
        assert not kept.lost
        peer.tls.close()
        await until(lambda: kept.lost)
        assert kept.lost == [None]

    play(tmp_path, work)


def test_what_a_client_sends_meanwhile_does_not_take_the_last_answer_from_it(tmp_path: Path) -> None:
    """The kernel answers what is not read with a reset, and then the client loses what it has not read."""

    async def work(peer: Peer, kept: Kept) -> None:
        kept.transport.pause_reading()
        await peer.send(b"x" * 30_000)
        kept.transport.write(b"the last answer")
        kept.transport.close()
        with contextlib.suppress(OSError):
            await peer.send(b"x" * 1_000_000)
        await asyncio.sleep(0.05)
        assert await peer.read(100) == b"the last answer"
        assert kept.received == b""

    play(tmp_path, work)


def test_a_client_that_does_not_close_is_closed(tmp_path: Path) -> None:
    async def work(_peer: Peer, kept: Kept) -> None:
        kept.transport.close()
        await asyncio.sleep(0.05)
        assert not kept.lost
        await until(lambda: kept.lost)

    play(tmp_path, work, close_seconds=0.2)


@pytest.mark.parametrize("is_closing", [False, True])
def test_a_reset_ends_it_once(tmp_path: Path, caplog: pytest.LogCaptureFixture, is_closing: bool) -> None:
    async def work(peer: Peer, kept: Kept) -> None:
        while not kept.is_paused:
            kept.transport.write(bytes(100_000))
        if is_closing:
            kept.transport.close()
        peer.reset()
        await until(lambda: kept.lost)
        kept.transport.write(b"not read")
        kept.transport.close()
        kept.transport.abort()
        await asyncio.sleep(0.05)
        assert len(kept.lost) == 1

    with caplog.at_level(logging.WARNING):
        play(tmp_path, work)
    assert not caplog.records


@pytest.mark.parametrize("says_so", [True, False])
def test_the_end_of_a_client_is_told(tmp_path: Path, says_so: bool) -> None:
    """With TLS' own word for it, or without."""

    async def work(peer: Peer, kept: Kept) -> None:
        await peer.send(b"last words")
        if says_so:
            await peer.unwrap()
        peer.tls.close()
        await until(lambda: kept.lost)
        assert kept.has_ended
        assert kept.received == b"last words"

    play(tmp_path, work)


def test_a_pause_keeps_what_openssl_has_read_already(tmp_path: Path) -> None:
    """One record is more than one piece to its reader; what is left of it shows in no descriptor."""

    async def work(peer: Peer, kept: Kept) -> None:
        kept.transport.pause_reading()
        kept.transport.pause_reading()
        assert not kept.transport.is_reading()
        await peer.send(b"x" * 16_000)
        await asyncio.sleep(0.05)
        assert not kept.received
        kept.transport._tls.recv(1)
        assert kept.transport._tls.pending()
        kept.transport.resume_reading()
        kept.transport.resume_reading()
        assert kept.transport.is_reading()
        await until(lambda: len(kept.received) == 15_999)

    play(tmp_path, work)


def test_an_answer_of_tls_itself_waits_for_room(tmp_path: Path) -> None:
    """To a change of keys, for one. The loop is not kept busy by it afterwards."""

    class Full:
        """What has no room for its first answer."""

        def __init__(self, tls: ssl.SSLSocket) -> None:
            self._tls, self._is_full = tls, True

        def __getattr__(self, name: str) -> object:
            return getattr(self._tls, name)

        def recv(self, count: int) -> bytes:
            if self._is_full:
                self._is_full = False
                raise ssl.SSLWantWriteError
            return self._tls.recv(count)

    async def work(peer: Peer, kept: Kept) -> None:
        kept.transport._tls = cast(ssl.SSLSocket, Full(kept.transport._tls))
        await peer.send(b"x")
        await until(lambda: kept.received == b"x")
        assert not asyncio.get_running_loop().remove_writer(peer.tls.fileno())
        assert not asyncio.get_running_loop().remove_writer(kept.transport._descriptor)

    play(tmp_path, work)


def test_a_protocol_that_fails_ends_its_connection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(peer: Peer, kept: Kept) -> None:
        await peer.send(b"boom")
        await until(lambda: kept.lost)

    play(tmp_path, work)
    assert ["ZeroDivisionError" in str(each.exc_info) for each in caplog.records] == [True]


def test_another_protocol_takes_the_connection_over(tmp_path: Path) -> None:
    async def work(peer: Peer, kept: Kept) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(100, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        protocol.connection_made(kept.transport)
        kept.transport.set_protocol(protocol)
        assert kept.transport.get_protocol() is protocol
        writer = asyncio.StreamWriter(kept.transport, protocol, reader, loop)
        sending = asyncio.create_task(peer.send(b"a" * 50_000))
        assert await reader.readexactly(50_000) == b"a" * 50_000
        await sending
        writer.write(b"b" * 1_000_000)
        found, _ = await asyncio.gather(peer.read(1_000_000), writer.drain())
        assert found == b"b" * 1_000_000
        assert not writer.can_write_eof()
        writer.close()
        peer.tls.close()
        await asyncio.wait_for(writer.wait_closed(), 10)
        kept.lost.append(None)

    play(tmp_path, work)


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(200), b"", b"\x16"])
def test_a_handshake_that_fails_closes_the_connection(tmp_path: Path, said: bytes) -> None:
    """One that is none, one that ends in the middle, and one that never comes."""

    async def main() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(ensure_identity(tmp_path).chain)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.settimeout(20)
        theirs.sendall(said)
        if len(said) == 1:
            theirs.shutdown(socket.SHUT_WR)
        kept = Kept()
        with pytest.raises((ssl.SSLError, TimeoutError, ConnectionError)):
            await accept(ours, context, kept, within_seconds=0.2)
        with theirs, contextlib.suppress(OSError):
            while await asyncio.to_thread(theirs.recv, 1000):
                pass
        assert not kept.lost

    asyncio.run(main())
