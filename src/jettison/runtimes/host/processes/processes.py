"""Starting processes in their places and learning how they end, with one descriptor each and no thread.

A new process runs nothing foreign until its number is written down. It says its number, reads its order, enters its
place, says so and waits; the agent records it and lets it go; if the agent dies meanwhile, the process reads the end of
its socket and leaves. So there is no moment at which SIGKILL of the agent leaves a program running that no record
knows, and none at which the death of the process that forks loses one.

asyncio's own subprocesses will not do: they take a thread per child.

A command in a container may also be run from another process than the agent: `jettison exec`. The agent tells what it
takes (`Entrance`: environment, directory, identity, cgroups), and its client forks, enters and executes with the code
that starts containers. So the agent carries no stream and waits for nothing, and the command has the identity, limits
and privileges of the container, and ends with it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import msgspec

from jettison.errors import ObservationError, RuntimeFailure, SignalError, StartError
from jettison.manifests.files.decoding import shortened
from jettison.runtimes.containers import BoxAddress
from jettison.runtimes.host.cgroups.places import Door, Place
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.host.processes.becoming import GO, WHOLE_COMPLAINT
from jettison.runtimes.host.processes.forking import HERE
from jettison.runtimes.host.processes.orders import Launch, StartOrder, order_of
from jettison.runtimes.host.processes.terminals import HeldTerminal
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.processes import read_process
from jettison.values import frozen

# A process that starts others may be killed, and a new process as well.
_ATTEMPTS = 3
# For a process to be born; on a node that is starving it takes seconds.
_BIRTH_SECONDS = 60.0
_CHUNK = 65536
_LONGEST_WORD = 1024

# The numbers of children that are held.
_AWAITED: set[int] = set()

Identity = tuple[int, int]
"""A process for as long as the machine runs: its number and the clock tick of its birth."""

Soon = Callable[[Callable[[], None]], object]
"""Has a step called by the loop, at once or when it is its turn."""


class Process:
    """A process that is held by a descriptor, so that no other process is hit when its number is reused."""

    __slots__ = ("_descriptor", "_is_child", "_soon", "exited", "pid", "start_ticks")

    def __init__(self, pid: int, descriptor: int, start_ticks: int, soon: Soon, *, is_child: bool) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self._descriptor = descriptor
        self._soon = soon
        self._is_child = is_child
        if is_child:
            _AWAITED.add(pid)
        loop = asyncio.get_running_loop()
        # The exit code as a shell would tell it, 128 + signal for a killed one; None when it is not known.
        self.exited: asyncio.Future[int | None] = loop.create_future()
        loop.add_reader(descriptor, self._has_ended)

    def signal(self, number: signal.Signals) -> None:
        """Harmless when it has ended."""
        if self._descriptor < 0:
            return
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            return
        except OSError as error:
            why = kernel_files.reason(error)
            raise SignalError(f"cannot send {number.name} to process `{self.pid}`: {why}") from error

    def close(self) -> None:
        """Let go of it; it lives on, and `exited` never comes."""
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            if self._is_child:
                _AWAITED.discard(self.pid)

    def _has_ended(self) -> None:
        """Sixty may have, and to reap one takes the kernel up to 0.2 ms."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        self._soon(self._end)

    def _end(self) -> None:
        if self._descriptor < 0:
            return
        status = _reap(self._descriptor) if self._is_child else self._ask()
        self.close()
        if not self.exited.done():
            self.exited.set_result(status)

    def _ask(self) -> int | None:
        status = system_calls.wait_status(self._descriptor, self.pid, self.start_ticks)
        return None if status is None else _exit_code(status)


def _at_once(step: Callable[[], None]) -> None:
    step()


def is_awaited(pid: int) -> bool:
    """Whether the end of this child is asked for by what holds it."""
    return pid in _AWAITED


class EndedProcess:
    """One that had ended before it could be held: of its end only a container runtime can tell."""

    __slots__ = ("exited",)

    pid = start_ticks = 0

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int | None] = loop.create_future()
        loop.call_soon(self._end)

    def signal(self, number: signal.Signals) -> None:
        """There is nothing to be signalled."""

    def close(self) -> None:
        """There is nothing to be let go of."""

    def _end(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)


def adopt(pid: int, start_ticks: int, soon: Soon = _at_once) -> Process | None:
    """Hold a process that an earlier agent started; None when it has ended. Not our child: we learn less of its end."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except OSError as error:
        raise SignalError(f"cannot hold process `{pid}`: {kernel_files.reason(error)}") from error
    found = read_process(pid)
    if found is None or found.start_ticks != start_ticks:
        os.close(descriptor)
        return None
    return Process(pid, descriptor, start_ticks, soon, is_child=False)


class Destination(Protocol):
    """Where a process is started: a place, or the way into one that another process keeps."""

    @property
    def door(self) -> Door:
        """The way in."""

    def lead(self, pid: int, *, is_copy: bool = False) -> None:
        """Hear of it: first as a copy of ourselves, then as what it has become."""


class Forking(Protocol):
    """How a process comes to be: as a copy of this one (`forking.HERE`), or of a small one (`starter`)."""

    async def fork(self, ours: socket.socket, theirs: socket.socket) -> None:
        """Have a process born that is told at `theirs` what to become. Raises StartError."""

    def give_up(self) -> None:
        """None was born in time: what should have forked it hangs, or is stopped."""

    async def turn(self) -> None:
        """Returns when the next step may hold up the loop, if only for a fraction of a millisecond."""

    def soon(self, step: Callable[[], None]) -> None:
        """Have it called then."""


async def spawn(
    launch: Launch,
    place: Destination,
    note: Callable[[int, int], Awaitable[None] | None],
    forking: Forking = HERE,
    *,
    birth_seconds: float = _BIRTH_SECONDS,
) -> Process:
    """Run the command in the place; returns once it runs. Raises StartError, and then there is no process.

    `note` is called with the process's number and instant of birth, and what it returns is waited for, before anything
    foreign runs; if it raises, nothing will.
    """
    command = shortened(launch.command[0])  # for messages: a word may have 128 KiB
    await forking.turn()
    order = order_of(launch, place.door)
    process, channel = await _born(forking, command, birth_seconds)
    with channel:
        return await _guide(process, place, note, channel, order, forking, command)


async def run(launch: Launch, place: Place, forking: Forking = HERE) -> int | None:
    """Run the command to its end and return its exit code. Cancelled, it takes its process group with it."""
    process = await spawn(launch, place, lambda _pid, _start_ticks: None, forking)
    try:
        # To await the future itself would cancel it along with us, and the exit would be lost.
        await asyncio.wait([process.exited])
        return process.exited.result()
    finally:
        if not process.exited.done():
            # It leads its group and is not reaped yet, so the number of the group is still its own.
            os.killpg(process.pid, signal.SIGKILL)


async def _born(forking: Forking, command: str, birth_seconds: float) -> tuple[Process, socket.socket]:
    """A new process that has said its number, and our end of its socket.

    Cancelled, it waits no longer, but what is born all the same is ended: no caller will ask for it.
    """
    for _ in range(_ATTEMPTS):
        bearing = asyncio.ensure_future(_bear(forking, command, birth_seconds))
        try:
            born = await asyncio.shield(bearing)
        except asyncio.CancelledError:
            bearing.add_done_callback(_abandon)
            raise
        if born is not None:
            return born
    raise StartError(f"cannot start `{command}`: each process for it ended at once")


async def _bear(forking: Forking, command: str, birth_seconds: float) -> tuple[Process, socket.socket] | None:
    """None where it ended before it has said its number; then nothing was started."""
    try:
        ours, theirs = socket.socketpair()
    except OSError as error:
        raise StartError(f"cannot start `{command}`: {kernel_files.reason(error)}") from error
    try:
        ours.setblocking(False)
        with theirs:
            await forking.fork(ours, theirs)
        try:
            async with asyncio.timeout(birth_seconds):
                word = await _receive(ours)
        except TimeoutError:
            forking.give_up()
            word = b""
        # Ten may be born at once, and to hold one takes 0.15 ms.
        await forking.turn()
        process = hold(int(word), forking.soon) if word.endswith(GO) else None
    except (OSError, RuntimeFailure) as error:
        ours.close()
        why = kernel_files.reason(error) if isinstance(error, OSError) else str(error)
        raise StartError(f"cannot start `{command}`: {why}") from error
    except BaseException:
        ours.close()
        raise
    if process is not None:
        return process, ours
    ours.close()
    if word:
        raise _complaint(word, command)
    return None


def _abandon(bearing: asyncio.Future[tuple[Process, socket.socket] | None]) -> None:
    if bearing.cancelled() or bearing.exception() is not None:
        return
    born = bearing.result()
    if born is not None:
        process, channel = born
        channel.close()
        process.signal(signal.SIGKILL)


def hold(pid: int, soon: Soon) -> Process:
    """A child of ours, which keeps its number and its entry in /proc until it is reaped, dead or alive."""
    try:
        born = read_process(pid)
        return Process(pid, os.pidfd_open(pid), born.start_ticks if born else 0, soon, is_child=True)
    except (OSError, RuntimeFailure):
        # It has run nothing foreign and cannot be held: then there must be none. Waiting takes microseconds.
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


async def _guide(
    process: Process,
    place: Destination,
    note: Callable[[int, int], Awaitable[None] | None],
    channel: socket.socket,
    order: StartOrder,
    forking: Forking,
    command: str,
) -> Process:
    try:
        place.lead(process.pid, is_copy=True)
        await _send(channel, order)
        word = await _receive(channel)
        if word == GO:
            await forking.turn()
            noted = note(process.pid, process.start_ticks)
            if noted is not None:
                await noted
            word = await _let_go(channel)
        if word:
            raise _complaint(word, command)
        await forking.turn()
    except BaseException:
        # Also when we are cancelled: no caller will ask for this one any more, and it is reaped by its own reader.
        process.signal(signal.SIGKILL)
        raise
    # The socket has ended: closed by a successful exec, or by a death on the way, of which `exited` will tell. Once it
    # has told, the number may belong to any process.
    if not process.exited.done():
        place.lead(process.pid)
    return process


async def _let_go(channel: socket.socket) -> bytes:
    try:
        channel.send(GO)
    except ConnectionError:
        return b""
    return await _receive(channel)


def _complaint(word: bytes, command: str) -> StartError:
    text = word[1:].decode("utf-8", "replace")
    return StartError(text if word.startswith(WHOLE_COMPLAINT) else f"cannot start `{command}`: {text}")


async def _send(channel: socket.socket, order: StartOrder) -> None:
    """What a process that has died does not read does no harm: its end tells of it."""
    rest = memoryview(order.data)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"={len(order.descriptors)}i", *order.descriptors))]
    try:
        sent = channel.sendmsg([rest[:_CHUNK]], rights if order.descriptors else [])
        await asyncio.get_running_loop().sock_sendall(channel, rest[sent:])
    except ConnectionError:
        return


async def _receive(channel: socket.socket) -> bytes:
    """Empty at the end, also at a sudden one."""
    try:
        return await asyncio.get_running_loop().sock_recv(channel, _LONGEST_WORD)
    except ConnectionError:
        return b""


def _reap(descriptor: int) -> int | None:
    try:
        found = os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None  # another caller in this process has asked before us
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else 128 + found.si_status


def _exit_code(wait_status: int) -> int:
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else 128 - code


def seal_descriptors() -> None:
    """Keep to ourselves what we were started with; what Python opens is ours alone anyway. Once, before any start."""
    for number in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if number > 2:
            try:
                os.set_inheritable(number, False)
            except OSError as error:
                if error.errno != errno.EBADF:  # the one that listed them
                    raise


@frozen
class Entrance:
    """Into one running container. The launch has no command yet."""

    container: str
    launch: Launch
    door: Door

    def lead(self, pid: int, *, is_copy: bool = False) -> None:
        """The agent finds what was started here by its cgroup, or by the mark in its environment."""


@frozen
class WayIn:
    """Into one running container, by its main process: of processes through `entrance`, else at `box`."""

    container: str
    process: Identity
    entrance: Entrance | None = None
    box: BoxAddress | None = None
    # A pipe to its standard input, where it has asked for one.
    given: str = ""
    has_terminal: bool = False
    # Of a process that has one, for a client that attaches.
    terminal: HeldTerminal | None = None


def encode_way_in(way: WayIn) -> bytes:
    """To be sent."""
    return msgspec.json.encode(way, enc_hook=str)


def decode_way_in(data: bytes) -> WayIn:
    """As it was sent. Raises ObservationError: the agent may be of another version."""
    try:
        return msgspec.json.decode(data, type=WayIn, dec_hook=lambda kind, value: kind(value))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ObservationError(f"cannot understand how to enter the container: {error}") from error


async def enter(
    entrance: Entrance, command: Sequence[str], streams: tuple[int, int, int], *, has_terminal: bool
) -> Process:
    """Start the command; returns once it runs. Raises StartError, and then there is no process.

    It ends with this process, also with one that is killed; what it has started itself then ends with its pod.
    """
    launch = replace(
        entrance.launch, command=tuple(command), streams=streams, has_terminal=has_terminal, ends_with_caller=True
    )
    return await spawn(launch, entrance, lambda _pid, _start_ticks: None)
