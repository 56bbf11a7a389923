"""Where connections come in: uvicorn with a door of its own.

asyncio accepts whatever comes, as fast as it comes, and gives each stranger a minute for a handshake. Here a connection
is counted before its handshake, and the strangers that are too many go (`crowds`).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import uvicorn

from jettison.agent.self_protection import give_memory_back
from jettison.apiserver.connections.connection import GuardedProtocol
from jettison.apiserver.connections.crowds import Crowds

HANDSHAKE_SECONDS: Final = 10.0

_PARTING_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.1
_ACCEPTED_AT_ONCE: Final = 64
# Every ten seconds: whether so many connections have gone that looking for their memory is worth half a second.
_TIDY_TICKS: Final = 100
_CROWD: Final = 64
_TIMERS: Final = 200
_ROUNDS: Final = 5


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, with a door of its own, and with a word when it is ready."""

    def __init__(
        self, config: uvicorn.Config, crowds: Crowds, on_ready: Callable[[], None], tidy: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._tidy = tidy
        self._crowds = crowds
        self._on_ready = on_ready
        self._crowd_was = self._rounds = 0

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None of its business."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """From here on clients are answered."""
        await self.lifespan.startup()
        self.servers = [Door(each, self._protocol, self.config.ssl, self._crowds) for each in sockets or ()]  # type: ignore[misc]
        self.started = True
        self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        self._crowd_was = max(self._crowd_was, len(self._crowds))
        if counter % _TIDY_TICKS:
            return await super().on_tick(counter)
        if len(self._crowds) < self._crowd_was - _CROWD:
            self._crowd_was = len(self._crowds)
            # Objects are moved from the second round on, when the last ones have left and there is room side by side.
            self._rounds = _ROUNDS
        if self._rounds:
            self._rounds -= 1
            await self._give_memory_back()
        return await super().on_tick(counter)

    async def _give_memory_back(self) -> None:
        """What many connections had lies in circles, and between what is still there; a little of that is enough."""
        loop = asyncio.get_running_loop()
        # Timers that were cancelled stay for their hour as long as they are less than a hundred, or than the others.
        for _ in range(_TIMERS + 4 * len(self._crowds)):
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


class Door:
    """Accepts connections, a few in each turn of the event loop, so that clients inside are served during a flood.

    TLS costs a millisecond and 60 kB, so it begins when a client has said its first byte.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], GuardedProtocol],
        context: ssl.SSLContext | None,
        crowds: Crowds,
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._context = context
        self._crowds = crowds
        self._handshakes: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        listener.setblocking(False)
        self._open()

    def close(self) -> None:
        """No connection comes in any more."""
        self._is_closed = True
        self._loop.remove_reader(self._listener)
        for task in self._handshakes:
            task.cancel()
        self._crowds.drop_silent()

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
                self._crowds.relieve()
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_RETRY_SECONDS, self._open)
                return
            knock = _Knock(connection, self._loop, self._crowds, partial(self._let_in, connection, address[0]))
            self._crowds.enter(knock, address[0])

    def _let_in(self, connection: socket.socket, address: str) -> None:
        protocol = self._make_protocol()
        self._crowds.enter(protocol, address)
        protocol.handshake = task = self._loop.create_task(self._shake_hands(connection, protocol))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, connection: socket.socket, protocol: GuardedProtocol) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_PARTING_SECONDS,
            )
        except OSError:  # no TLS, too slow, or gone
            self._crowds.leave(protocol)
        except asyncio.CancelledError:
            self._crowds.leave(protocol)
            raise


class _Knock:
    """A connection on which nothing has been said yet."""

    is_idle = True

    def __init__(
        self, connection: socket.socket, loop: asyncio.AbstractEventLoop, crowds: Crowds, let_in: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._crowds = crowds
        self._let_in = let_in
        self._timer = loop.call_later(HANDSHAKE_SECONDS, self.drop)
        loop.add_reader(connection, self._spoken)

    def drop(self) -> None:
        """Too many, or too late."""
        self._forget()
        self._connection.close()

    def _spoken(self) -> None:
        self._forget()
        self._let_in()

    def _forget(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._connection)
        self._crowds.leave(self)
