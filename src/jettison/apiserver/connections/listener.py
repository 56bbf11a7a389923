"""Accepting connections: uvicorn's server with an acceptor of our own.

asyncio accepts whatever comes, as fast as it comes, and gives each connection a minute for its handshake. Here a
connection is counted before its handshake, and what is too much is closed (`quotas`).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn

from jettison.agent.self_protection import give_memory_back, trim_heap
from jettison.apiserver.connections.connection import GuardedProtocol
from jettison.apiserver.connections.quotas import ConnectionQuotas
from jettison.apiserver.connections.tls import accept

HANDSHAKE_SECONDS: Final = 10.0

_RETRY_SECONDS: Final = 0.1
_ACCEPTED_AT_ONCE: Final = 64
# Every ten seconds: whether so many connections were closed that collecting their memory is worth half a second.
_TIDY_TICKS: Final = 100
_MANY: Final = 64
_TIMERS: Final = 200
_ROUNDS: Final = 5


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, with our acceptor, and with a callback when it is ready."""

    def __init__(
        self, config: uvicorn.Config, quotas: ConnectionQuotas, on_ready: Callable[[], None], tidy: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._tidy = tidy
        self._quotas = quotas
        self._on_ready = on_ready
        self._most_connections = self._rounds = 0

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the process that runs the server beside other things."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """From here on clients are answered."""
        await self.lifespan.startup()
        assert self.config.ssl is not None
        context = self.config.ssl
        self.servers = [Acceptor(each, self._protocol, context, self._quotas) for each in sockets or ()]  # type: ignore[misc]
        self.started = True
        self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        self._most_connections = max(self._most_connections, len(self._quotas))
        if counter % _TIDY_TICKS:
            return await super().on_tick(counter)
        if len(self._quotas) < self._most_connections - _MANY:
            self._most_connections = len(self._quotas)
            # Objects are moved from the second round on, when the last connections are closed and their memory is free.
            self._rounds = _ROUNDS
        if self._rounds:
            self._rounds -= 1
            await self._give_memory_back()
        else:
            # A table of 10,000 pods leaves 45 MB free in between.
            trim_heap()
        return await super().on_tick(counter)

    async def _give_memory_back(self) -> None:
        """Closed connections leave reference cycles, and pages that one surviving object keeps in use."""
        loop = asyncio.get_running_loop()
        # asyncio removes cancelled timers once they are more than a hundred and more than half of all. Until then those
        # of watches would stay for their hour.
        for _ in range(_TIMERS + 4 * len(self._quotas)):
            loop.call_later(_TIMERS, gc.isenabled).cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gc.collect()
        if self._rounds < _ROUNDS - 1:
            self._tidy()
        give_memory_back()

    def _protocol(self) -> GuardedProtocol:
        protocol: GuardedProtocol = self.config.http_protocol_class(  # type: ignore[assignment, call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


class Acceptor:
    """Accepts connections, a few in each turn of the event loop, so that connected clients are served during a flood.

    TLS costs a millisecond and 60 kB, so it begins when a client has sent its first byte.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], GuardedProtocol],
        context: ssl.SSLContext,
        quotas: ConnectionQuotas,
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._context = context
        self._quotas = quotas
        self._handshakes: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._silent = _SilentConnections(self._loop, quotas, self._start)
        self._is_closed = False
        listener.setblocking(False)
        self._open()

    def close(self) -> None:
        """Accept no more connections."""
        self._is_closed = True
        self._loop.remove_reader(self._listener)
        for task in self._handshakes:
            task.cancel()
        self._quotas.drop_unused()
        self._silent.close()

    async def wait_closed(self) -> None:
        """Until no handshake is under way."""
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _open(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, address = self._listener.accept()
                connection.setblocking(False)
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no descriptors are left
                self._quotas.free_descriptor()
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_RETRY_SECONDS, self._open)
                return
            self._silent.add(connection, address[0])

    def _start(self, connection: socket.socket, address: str) -> None:
        protocol = self._make_protocol()
        self._quotas.add(protocol, address)
        protocol.handshake = task = self._loop.create_task(self._handshake(connection, protocol))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _handshake(self, connection: socket.socket, protocol: GuardedProtocol) -> None:
        try:
            await accept(connection, self._context, protocol, within_seconds=HANDSHAKE_SECONDS)
        except OSError:  # no TLS, too slow, or gone
            self._quotas.remove(protocol)
        except asyncio.CancelledError:
            self._quotas.remove(protocol)
            raise
        finally:
            # A task that is over keeps its frames: half a kilobyte for each connection.
            protocol.handshake = None


class _SilentConnections:
    """Connections on which no byte has arrived yet: all in one epoll, which is one reader of the event loop, and with
    one timer. A reader and a timer for each would take half of the time in which a flood is accepted.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, quotas: ConnectionQuotas, start: Callable[[socket.socket, str], None]
    ) -> None:
        self._loop = loop
        self._quotas = quotas
        self._start = start
        self._epoll = select.epoll()
        # By descriptor, oldest first.
        self._all: dict[int, _SilentConnection] = {}
        self._timer: asyncio.TimerHandle | None = None
        loop.add_reader(self._epoll.fileno(), self._on_first_bytes)

    def add(self, connection: socket.socket, address: str) -> None:
        """Until its first byte, for at most `HANDSHAKE_SECONDS`."""
        silent = _SilentConnection(self, connection, address, self._loop.time() + HANDSHAKE_SECONDS)
        self._all[connection.fileno()] = silent
        self._epoll.register(connection.fileno(), select.EPOLLIN)
        if self._timer is None:
            self._timer = self._loop.call_at(silent.deadline, self._drop_late)
        self._quotas.add(silent, address)

    def forget(self, silent: _SilentConnection) -> None:
        """Its socket is closed, or used by another from now on."""
        del self._all[silent.connection.fileno()]
        self._epoll.unregister(silent.connection.fileno())

    def close(self) -> None:
        """When none is left."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _on_first_bytes(self) -> None:
        # To start one may drop others that are in this list.
        for silent in [self._all[descriptor] for descriptor, _ in self._epoll.poll(0, _ACCEPTED_AT_ONCE)]:
            if silent.connection.fileno() >= 0:
                self.forget(silent)
                self._quotas.remove(silent)
                self._start(silent.connection, silent.address)

    def _drop_late(self) -> None:
        self._timer = None
        now = self._loop.time()
        for silent in list(self._all.values()):
            if silent.deadline > now:
                self._timer = self._loop.call_at(silent.deadline, self._drop_late)
                break
            self._quotas.remove(silent)
            silent.drop()


class _SilentConnection:
    """As it is counted."""

    __slots__ = ("_all", "address", "connection", "deadline")

    is_idle = True

    def __init__(self, every: _SilentConnections, connection: socket.socket, address: str, deadline: float) -> None:
        self._all = every
        self.connection = connection
        self.address = address
        self.deadline = deadline

    def drop(self) -> None:
        """Too many, or too late."""
        self._all.forget(self)
        self.connection.close()
