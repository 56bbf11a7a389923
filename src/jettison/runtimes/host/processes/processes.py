"""Starting processes in their places and learning how they end, with one descriptor each and no thread.

A new process runs nothing foreign until its number is written down. It enters its place, says so and waits; the parent
records it and lets it go; if the parent dies meanwhile, the child reads the end of the pipe and leaves. So there is no
moment at which SIGKILL of the agent leaves a program running that no record knows.

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
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import msgspec

from jettison.errors import ObservationError, RuntimeFailure, SignalError, StartError
from jettison.manifests.files.decoding import shortened
from jettison.runtimes.containers import BoxAddress
from jettison.runtimes.host.cgroups.places import Door, Place
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.host.processes.forking import WORD, Launch, fork
from jettison.runtimes.host.processes.terminals import HeldTerminal
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.processes import read_process
from jettison.values import frozen

Identity = tuple[int, int]
"""A process for as long as the machine runs: its number and the clock tick of its birth."""


class Process:
    """A process that is held by a descriptor, so that no other process is hit when its number is reused."""

    __slots__ = ("_descriptor", "_is_child", "exited", "pid", "start_ticks")

    def __init__(self, pid: int, descriptor: int, start_ticks: int, *, is_child: bool) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self._descriptor = descriptor
        self._is_child = is_child
        loop = asyncio.get_running_loop()
        # The exit code as a shell would tell it, 128 + signal for a killed one; None when it is not known.
        self.exited: asyncio.Future[int | None] = loop.create_future()
        loop.add_reader(descriptor, self._end)

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

    def _end(self) -> None:
        status = _reap(self._descriptor) if self._is_child else self._ask()
        self.close()
        if not self.exited.done():
            self.exited.set_result(status)

    def _ask(self) -> int | None:
        status = system_calls.wait_status(self._descriptor, self.pid, self.start_ticks)
        return None if status is None else _exit_code(status)


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


def adopt(pid: int, start_ticks: int) -> Process | None:
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
    return Process(pid, descriptor, start_ticks, is_child=False)


class Destination(Protocol):
    """Where a process is started: a place, or the way into one that another process keeps."""

    @property
    def door(self) -> Door:
        """The way in."""

    def lead(self, pid: int, *, is_copy: bool = False) -> None:
        """Hear of it: first as a copy of ourselves, then as what it has become."""


async def spawn(launch: Launch, place: Destination, note: Callable[[int, int], None]) -> Process:
    """Run the command in the place; returns once it runs. Raises StartError, and then there is no process.

    `note` is called with the process's number and instant of birth before anything foreign runs; if it raises, nothing
    will.
    """
    command = shortened(launch.command[0])  # for messages: a word may have 128 KiB
    gate = place.door.gate()
    try:
        told, tell, ask, answer = _pipes(command)
    except StartError:
        gate.close()
        raise
    try:
        try:
            pid = fork(launch, gate, (ask, tell), (told, answer))
        finally:
            gate.close()
            _close(ask, tell)
        return await _guide(_hold(pid, command), place, note, told, answer, command)
    finally:
        _close(told, answer)


async def run(launch: Launch, place: Place) -> int | None:
    """Run the command to its end and return its exit code. Cancelled, it takes its process group with it."""
    process = await spawn(launch, place, lambda _pid, _start_ticks: None)
    try:
        # To await the future itself would cancel it along with us, and the exit would be lost.
        await asyncio.wait([process.exited])
        return process.exited.result()
    finally:
        if not process.exited.done():
            # It leads its group and is not reaped yet, so the number of the group is still its own.
            os.killpg(process.pid, signal.SIGKILL)


def _pipes(command: str) -> tuple[int, int, int, int]:
    """From the child to us, then from us to the child; of each the end to be read comes first."""
    opened: list[int] = []
    try:
        opened += os.pipe()
        opened += os.pipe()
    except OSError as error:
        _close(*opened)
        raise StartError(f"cannot start `{command}`: {kernel_files.reason(error)}") from error
    return opened[0], opened[1], opened[2], opened[3]


def _hold(pid: int, command: str) -> Process:
    """A child that was not reaped keeps its number and its entry in /proc, dead or alive."""
    try:
        born = read_process(pid)
        return Process(pid, os.pidfd_open(pid), born.start_ticks if born else 0, is_child=True)
    except (OSError, RuntimeFailure) as error:
        # It has run nothing foreign and cannot be held: then there must be none. Waiting takes microseconds.
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise StartError(f"cannot start `{command}`: {error}") from error


async def _guide(
    process: Process, place: Destination, note: Callable[[int, int], None], told: int, answer: int, command: str
) -> Process:
    try:
        place.lead(process.pid, is_copy=True)
        word = await _read(told)
        if word == WORD:
            note(process.pid, process.start_ticks)
            os.write(answer, WORD)
            word = await _read(told)
        if word:
            raise StartError(f"cannot start `{command}`: {word.decode('utf-8', 'replace')}")
    except BaseException:
        # Also when we are cancelled: no caller will ask for this one any more, and it is reaped by its own reader.
        process.signal(signal.SIGKILL)
        raise
    # The pipe has ended: closed by a successful exec, or by a death on the way, of which `exited` will tell. Once it
    # has told, the number may belong to any process.
    if not process.exited.done():
        place.lead(process.pid)
    return process


async def _read(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, 1024)


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


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


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
