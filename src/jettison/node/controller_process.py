"""The controllers of `jettison serve` in a process beside it: they take a third of the time that an eviction takes, and
another processor can do that work.

The process is a fork of the server's, made before the server has a thread, a lock or an event loop: it has all options
and shares the loaded modules. A pair of sockets connects the two. One byte says that the server is ready. When one
process ends, for whatever reason, its socket closes, and the other one ends too.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from jettison.errors import JettisonError
from jettison.node.process import log_of_this_process
from jettison.runtimes.host.processes.system_calls import die_with
from jettison.runtimes.linux.files.kernel_files import reason

_READY = b"!"
_LEAVE_SECONDS = 5.0
_NAME = "controllers"


class ControllerProcess:
    """The process of the controllers, from the side of the server."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self._pid = pid
        self._channel = channel

    async def run(self, ready: asyncio.Event) -> None:
        """Until this is cancelled, which ends the process; raises when it ends by itself."""
        reader, writer = await asyncio.open_connection(sock=self._channel)
        try:
            await ready.wait()
            writer.write(_READY)
            await _closed(reader)
        finally:
            writer.write_eof()
            code = await self._end(reader)
            writer.close()
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        raise JettisonError(f"the controllers have ended: {how}")

    async def _end(self, reader: asyncio.StreamReader) -> int:
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await _closed(reader)
        except TimeoutError:
            os.kill(self._pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def split(work: Callable[[], Awaitable[None]]) -> ControllerProcess | None:
    """Fork. The child does the work until the server ends, and then gets None: it should end."""
    ours, theirs = socket.socketpair()
    # Otherwise both processes would write what is still in the buffers.
    sys.stdout.flush()
    sys.stderr.flush()
    server = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        raise JettisonError(f"cannot start a process for the controllers: {reason(error)}") from error
    if pid:
        theirs.close()
        return ControllerProcess(pid, ours)
    die_with(server)
    ours.close()
    # Ctrl-C reaches both processes; the server ends this one when it no longer needs it.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    with suppress(OSError):  # a name in `ps` is worth no trouble
        Path("/proc/self/comm").write_text(_NAME)
    with log_of_this_process():
        asyncio.run(_accompany(theirs, work))
    return None


async def _accompany(channel: socket.socket, work: Callable[[], Awaitable[None]]) -> None:
    reader, writer = await asyncio.open_connection(sock=channel)
    if await reader.read(len(_READY)):
        working, leaving = asyncio.ensure_future(work()), asyncio.ensure_future(_closed(reader))
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        working.cancel()
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await working
    writer.close()


async def _closed(reader: asyncio.StreamReader) -> None:
    """Return when the other process is gone; one that left bytes unread resets the connection."""
    with suppress(ConnectionError):
        await reader.read()
