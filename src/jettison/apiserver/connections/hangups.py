"""Whether the other side of a connection has gone while nothing is read from it.

asyncio learns of an end by reading. Where what was read before cannot be passed on, because a command does not take its
input, nothing is read, and a client that had gone kept its command, its place and its descriptors for ten minutes.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from jettison.runtimes.machine.background_tasks import until_one_ends

_LAST_SECONDS: Final = 5.0
"""For what was sent before the end to arrive, where it is taken at all."""


async def until_hung_up(
    work: Callable[[], Awaitable[object]], connection: socket.socket, *, last_seconds: float = _LAST_SECONDS
) -> None:
    """Do the work; it is cancelled some seconds after the other side has closed the connection."""
    await until_one_ends(_do(work), _hangup(connection, last_seconds))


async def _do(work: Callable[[], Awaitable[object]]) -> None:
    await work()


async def _hangup(connection: socket.socket, last_seconds: float) -> None:
    if connection.fileno() < 0:
        return
    loop = asyncio.get_running_loop()
    has_ended = asyncio.Event()
    # One of its own: that of the loop has the connection already, and only while it is read.
    with select.epoll() as ends:
        ends.register(connection.fileno(), select.EPOLLRDHUP | select.EPOLLONESHOT)
        loop.add_reader(ends.fileno(), has_ended.set)
        try:
            await has_ended.wait()
        finally:
            loop.remove_reader(ends.fileno())
    await asyncio.sleep(last_seconds)
