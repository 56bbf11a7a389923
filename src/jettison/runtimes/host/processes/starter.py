"""The process from which containers are forked (`starter_child`), as the agent knows it.

A fork of the agent copies the page tables of 30 MB while its loop stands still, 2 ms, and waits as long as the kernel
lets no process fork, which is up to 70 ms while another one moves into a cgroup. So a small process forks in its place.
Its children are the agent's by the kernel's own books, so that the agent is told of their ends as before.

It is there while something is started and for half a minute after that: 4 MB beside an agent of 30 that runs idle pods.
Whatever ends it, the next start begins another one. An order that was under way then has started nothing, because no
process runs anything foreign before the agent has answered it; so the order is given again.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from jettison.errors import RuntimeFailure, StartError
from jettison.runtimes.host.processes.processes import Process, hold
from jettison.runtimes.linux.aside import spawn_interpreter
from jettison.runtimes.linux.aside_child import CHANNEL
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.machine.background_tasks import LoopTurns

IDLE_SECONDS: Final = 30.0
"""For which it stays without an order: longer than the period of most probes."""

_BEGIN: Final = f"from jettison.runtimes.host.processes.starter_child import main; main({CHANNEL})"
# To find out that it has died, and to tell the next one.
_ATTEMPTS: Final = 3


class Starter:
    """Belongs to one event loop. `pool` has the thread that waits until it is there."""

    def __init__(self, pool: Executor, turns: LoopTurns, idle_seconds: float = IDLE_SECONDS) -> None:
        self._pool = pool
        self._idle_seconds = idle_seconds
        self._process: Process | None = None
        self._channel: socket.socket | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._last_order = 0.0
        self._turns = turns
        # One order is sent at a time.
        self._ordering = asyncio.Lock()

    @property
    def pid(self) -> int:
        """0 where there is none."""
        return 0 if self._process is None else self._process.pid

    async def fork(self, ours: socket.socket, theirs: socket.socket) -> None:  # noqa: ARG002
        """Have a process forked that is told at this socket what to become. Raises StartError."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("=i", theirs.fileno()))]
        async with self._ordering:
            for _ in range(_ATTEMPTS):
                channel = await self._there()
                try:
                    await _send(channel, rights)
                except ConnectionError:
                    self.rest()
                except OSError as error:
                    raise StartError(f"cannot reach the process that starts containers: {reason(error)}") from error
                else:
                    self._last_order = asyncio.get_running_loop().time()
                    return
        raise StartError("the process that starts containers dies again and again")

    async def turn(self) -> None:
        """One caller after the other, each in a round of the loop of its own."""
        await self._turns.next()

    def soon(self, step: Callable[[], None]) -> None:
        """The same for a step."""
        self._turns.soon(step)

    def rest(self) -> None:
        """Let it end, once it has done what it was told; the next order begins another one."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._channel is not None:
            self._channel.close()
        self._channel = self._process = None

    def give_up(self) -> None:
        """Kill it: it hangs, or was stopped. What it was told and has not done is told to the next one."""
        if self._process is not None:
            self._process.signal(signal.SIGKILL)
        self.rest()

    async def close(self) -> None:
        """Returns when it has ended."""
        process = self._process
        self.rest()
        if process is not None:
            await asyncio.wait([process.exited])

    async def _there(self) -> socket.socket:
        if self._process is not None and self._process.exited.done():
            self.rest()
        while self._channel is None:
            if self._beginning is None:
                self._beginning = asyncio.ensure_future(self._begin())
            # A caller that changes its mind does not change that of the others.
            await asyncio.shield(self._beginning)
        return self._channel

    async def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                ours.setblocking(False)
                try:
                    pid = await loop.run_in_executor(self._pool, _spawn, theirs.fileno())
                    process = hold(pid, self.soon)
                except BaseException:
                    ours.close()
                    raise
        except (OSError, RuntimeFailure) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            raise StartError(f"no process to start containers from: {why}") from error
        finally:
            self._beginning = None
        self._process, self._channel = process, ours
        self._last_order = loop.time()
        self._idle = loop.call_later(self._idle_seconds, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._last_order + self._idle_seconds - loop.time()
        if left > 0 or self._ordering.locked():
            self._idle = loop.call_later(max(left, 1), self._look)
        else:
            self.rest()


def _spawn(channel: int) -> int:
    return spawn_interpreter(_BEGIN, channel, is_deaf=True)


async def _send(channel: socket.socket, rights: list[tuple[int, int, bytes]]) -> None:
    """One byte, with the descriptor. Waits while some hundred orders are before it."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            channel.sendmsg([b"\n"], rights)
        except BlockingIOError:
            writable = asyncio.Event()
            loop.add_writer(channel, writable.set)
            try:
                await writable.wait()
            finally:
                loop.remove_writer(channel)
        else:
            return
