"""A terminal for the process of an ephemeral container, which no process of ours has to hold open.

A terminal ends when the last descriptor of its other side, the master, is closed, and what runs in it is hung up. So
the process inherits a descriptor of the master itself: its terminal lives as long as it does, whatever becomes of the
agent. An agent that takes over finds the master among the descriptors of the process; a client that attaches takes it
from the agent. Nothing reads what is written while no client is attached: after about 19 KB the process waits, as at a
terminal whose output was stopped. What it leaves at its end is put into its log.

A client that is attached keeps the log locked: it has the terminal to itself, and reads to its end.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TypeVar

from jettison.errors import StartError, WriteError
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.runtimes.machine.background_tasks import in_own_thread
from jettison.values import frozen

T = TypeVar("T")

# TIOCGPTN: the number of the terminal that a master belongs to.
_GET_NUMBER = 0x80045430
_INT = struct.Struct("i")
# /proc/<pid>/stat counted from the field behind the name: the device of the terminal.
_TERMINAL = 4
_MASTERS = ("/dev/ptmx", "/dev/pts/ptmx")
_PIECE = 65_536
# The kernel keeps 19 KB at most; a process that goes on writing is not followed.
_MOST_LEFT = 65_536
_PATIENCE = 1.0
# Ours has one of the first numbers behind 99.
_MOST_DESCRIPTORS = 4096


@frozen
class HeldTerminal:
    """A master that a process holds under this number, and the log of what comes from it."""

    pid: int
    descriptor: int
    log: str


def make_terminal(user: int | None) -> tuple[int, int]:
    """Its master, which does not block, and the side of the process; the caller closes both. Raises StartError."""
    try:
        master, own = os.openpty()
    except OSError as error:
        raise StartError(f"cannot make a terminal: {kernel_files.reason(error)}") from error
    os.set_blocking(master, False)
    if user is not None:
        # Or it could not open its own /dev/pts/N.
        os.fchown(own, user, -1)
    return master, own


def find_terminal(pid: int) -> int:
    """The master of the terminal that the process runs in, held by the process itself; -1 where there is none."""
    try:
        stat = (PROC / str(pid) / "stat").read_text("utf-8", "replace")
        device = int(stat.rpartition(")")[2].split()[_TERMINAL])
        listed = islice((PROC / str(pid) / "fd").iterdir(), _MOST_DESCRIPTORS)
        links = {int(path.name): str(path.readlink()) for path in listed}
    except (OSError, ValueError, IndexError):
        return -1
    # A device number has twenty bits for the number of the terminal, eight of them in front.
    number = device & 0xFF | device >> 12 & 0xFFF00
    for descriptor in sorted(each for each, link in links.items() if device and link in _MASTERS):
        found = _taken(pid, descriptor)
        if found >= 0:
            if _number(found) == number:
                return found
            os.close(found)
    return -1


def take_terminal(held: HeldTerminal) -> tuple[int, int]:
    """The master and its log, for a client that has both to itself; the caller closes them. Raises StartError."""
    try:
        log = os.open(held.log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise StartError(f"cannot open the log of the container: {kernel_files.reason(error)}") from error
    if not _is_locked(log):
        os.close(log)
        raise StartError("another client is attached to the terminal of the container, which has room for one")
    master = _taken(held.pid, held.descriptor)
    if master < 0:
        os.close(log)
        raise StartError("the terminal of the container cannot be had: the kernel refuses it, or it is gone")
    return master, log


async def read_terminal(master: int, log: int) -> bytes:
    """What comes next, which is in the log then as well; empty at its end. A descriptor that is there to be read.

    In a thread of its own, as everything that reads or writes a terminal: its process has the master, too, and can make
    it block, whatever we say.
    """
    return await in_own_thread(partial(_with_copies, _read_on, master, log))


async def write_terminal(master: int, data: bytes) -> None:
    """As if it were typed; returns when all of it was taken. Raises OSError."""
    await in_own_thread(partial(_with_copies, partial(_type, data), master))


async def empty_terminal(master: int, log: int) -> None:
    """Put what nothing has read into the log: some kilobytes at most, and nothing where a client reads it.

    Raises WriteError.
    """
    if not _is_locked(log):
        return
    try:
        async with asyncio.timeout(_PATIENCE):
            await in_own_thread(partial(_with_copies, _drain, master, log))
    except TimeoutError:
        raise WriteError("cannot log what was left in a terminal: a process keeps it from being read") from None
    except OSError as error:
        raise WriteError(f"cannot log what was left in a terminal: {kernel_files.reason(error)}") from error


def _with_copies(work: Callable[..., T], *descriptors: int) -> T:
    """Of descriptors: the caller may close its own meanwhile, and their numbers become other files'."""
    copies: list[int] = []
    try:
        copies += map(os.dup, descriptors)
        return work(*copies)
    finally:
        for each in copies:
            os.close(each)


def _read_on(master: int, log: int) -> bytes:
    try:
        piece = os.read(master, _PIECE)
    except BlockingIOError:
        raise
    except OSError:
        return b""
    # A disk that is full must not keep the client from what it asked for.
    with suppress(OSError):
        os.write(log, piece)
    return piece


def _type(data: bytes, master: int) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(master, rest) :]
        except BlockingIOError:
            select.select((), (master,), ())


def _drain(master: int, log: int) -> None:
    left = _MOST_LEFT
    while left > 0 and (piece := _waiting(master)):
        os.write(log, piece)
        left -= len(piece)


def _waiting(master: int) -> bytes:
    """Nothing where it is empty, or hung up."""
    with suppress(OSError):
        return os.read(master, _PIECE)
    return b""


def _is_locked(log: int) -> bool:
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _taken(pid: int, descriptor: int) -> int:
    try:
        held = os.pidfd_open(pid)
    except OSError:
        return -1
    try:
        return system_calls.take_descriptor(held, descriptor)
    except OSError:
        return -1
    finally:
        os.close(held)


def _number(master: int) -> int:
    try:
        found: int = _INT.unpack(fcntl.ioctl(master, _GET_NUMBER, _INT.pack(-1)))[0]
    except OSError:
        return -1
    return found
