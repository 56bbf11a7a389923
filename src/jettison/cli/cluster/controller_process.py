"""The controllers of `jettison serve` in a process beside it: they take a third of the time that an eviction takes, and
another processor has it.

The process is a copy of the server's, made before that has a thread, a lock or an event loop: it knows all options, and
shares what is loaded. A pair of sockets ties the two together. One byte says that the server is ready; whoever ends
closes his socket, however that came about, and the other one ends, too.
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
from jettison.node.until_told import log_of_this_process
from jettison.runtimes.host.processes.system_calls import die_with
from jettison.runtimes.linux.files.kernel_files import reason

_READY = b"!"
_LEAVE_SECONDS = 5.0
_NAME = "controllers"


class ControllerProcess:
    """As the server sees it."""

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
    """Become two processes. The one that gets None has done the work until the other one left, and should end."""
    ours, theirs = socket.socketpair()
    # Or what is waiting to be written would be written by both.
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
    # A Ctrl-C reaches both; it is for the server to say when it can do without.
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
    """Return when the other one is gone; one that did not read what it was told resets the connection."""
    with suppress(ConnectionError):
        await reader.read()
