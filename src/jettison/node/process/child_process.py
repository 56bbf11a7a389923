"""A second process of one command: the controllers of `jettison serve`, the API server of `jettison up --nodes`.

The process is a fork, made before its parent has a thread, a lock or an event loop: it has all settings, and shares the
modules that are loaded by then. A pair of sockets connects the two. One byte says that its sender is ready. When one
process ends, for whatever reason, its socket closes, and the other one ends too.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from jettison.errors import JettisonError
from jettison.node.process.frame import log_of_this_process
from jettison.runtimes.host.processes.system_calls import die_with
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.machine.background_tasks import until_one_ends

_READY = b"!"


class OtherProcess(asyncio.Protocol):
    """Of the two, as each of them knows it."""

    def __init__(self) -> None:
        # What it has said; `is_gone` also when it only wants this process to end.
        self.is_ready = asyncio.Event()
        self.is_gone = asyncio.Event()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        del data
        self.is_ready.set()

    def eof_received(self) -> bool:
        self.is_gone.set()
        # Still open for our end, which is what the other process waits for.
        return True

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.is_gone.set()

    def say_ready(self) -> None:
        """Nothing, where the other process has ended."""
        self._transport.write(_READY)

    def hang_up(self) -> None:
        """Tell the other process to end."""
        if not self._transport.is_closing():
            self._transport.write_eof()

    def close(self) -> None:
        """What was said is sent before."""
        self._transport.close()


Work = Callable[[OtherProcess], Coroutine[Any, Any, None]]


class ChildProcess:
    """The child, from the side of its parent."""

    def __init__(self, name: str, pid: int, connection: socket.socket, leave_seconds: float) -> None:
        self._name = name
        self._pid = pid
        self._connection = connection
        self._leave_seconds = leave_seconds

    async def run_beside(self, work: Work) -> None:
        """Do the work of the parent until it ends or is cancelled, which ends the child; raises when the child ends
        by itself.
        """
        other = await _connected(self._connection)
        try:
            await until_one_ends(work(other), other.is_gone.wait())
            ended_by_itself = other.is_gone.is_set()
        finally:
            code = await self._end(other)
        if ended_by_itself:
            how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
            error = JettisonError(f"the process `{self._name}` has ended: {how}")
            # It has said why by itself.
            error.exit_code = max(code, 1)
            raise error

    async def _end(self, other: OtherProcess) -> int:
        other.hang_up()
        try:
            async with asyncio.timeout(self._leave_seconds):
                await other.is_gone.wait()
        except TimeoutError:
            os.kill(self._pid, signal.SIGKILL)
        other.close()
        # In a thread: a process of many pages takes milliseconds to end.
        _, status = await asyncio.to_thread(os.waitpid, self._pid, 0)
        return os.waitstatus_to_exitcode(status)


def split(name: str, work: Work, *, leave_seconds: float = 5.0) -> ChildProcess | None:
    """Fork. The child does the work until its parent ends, and then gets None: it should end.

    A child that was told to end and has not done so in time is killed.
    """
    ours, theirs = socket.socketpair()
    # Otherwise both processes would write what is still in the buffers.
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        raise JettisonError(f"cannot start the process `{name}`: {reason(error)}") from error
    if pid:
        theirs.close()
        return ChildProcess(name, pid, ours, leave_seconds)
    die_with(parent)
    ours.close()
    # Ctrl-C reaches both processes; the parent ends this one when it no longer needs it.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    with suppress(OSError):  # a name in `ps` is worth no trouble
        Path("/proc/self/comm").write_text(name)
    with log_of_this_process():
        asyncio.run(_accompany(theirs, work))
    return None


async def _accompany(connection: socket.socket, work: Work) -> None:
    other = await _connected(connection)
    try:
        await until_one_ends(work(other), other.is_gone.wait())
    finally:
        other.close()


async def _connected(connection: socket.socket) -> OtherProcess:
    # Of a pair of sockets: there is nothing to connect, only a transport to make.
    _, other = await asyncio.get_running_loop().connect_accepted_socket(OtherProcess, connection)
    return other
