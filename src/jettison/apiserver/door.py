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
from typing import Final

import uvicorn

from jettison.agent.self_protection import give_memory_back
from jettison.apiserver.connections import GuardedProtocol
from jettison.apiserver.crowds import Crowds

HANDSHAKE_SECONDS: Final = 10.0

_PARTING_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.1
# Every ten seconds: whether so many connections have gone that looking for their memory is worth half a second.
_TIDY_TICKS: Final = 100
_CROWD: Final = 64


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, with a door of its own, and with a word when it is ready."""

    def __init__(self, config: uvicorn.Config, crowds: Crowds, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._crowds = crowds
        self._on_ready = on_ready
        self._crowd_was = 0

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
        if counter % _TIDY_TICKS == 0 and len(self._crowds) < self._crowd_was - _CROWD:
            self._crowd_was = len(self._crowds)
            # What many connections had lies between what has come since, and partly in circles.
            gc.collect()
            give_memory_back()
        return await super().on_tick(counter)

    def _protocol(self) -> GuardedProtocol:
        protocol: GuardedProtocol = self.config.http_protocol_class(  # type: ignore[assignment, call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


class Door:
    """Accepts connections, one in a turn of the event loop: who is inside already is not forgotten over a flood."""

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
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Nobody else comes in."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        """Nobody is on the threshold."""
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listener)
            except OSError:  # no descriptors are left, or it is gone already
                self._crowds.relieve()
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            protocol = self._make_protocol()
            protocol.handshake = task = loop.create_task(self._shake_hands(connection, protocol))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)
            self._crowds.enter(protocol, address[0])
            await asyncio.sleep(0)

    async def _shake_hands(self, connection: socket.socket, protocol: GuardedProtocol) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
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
