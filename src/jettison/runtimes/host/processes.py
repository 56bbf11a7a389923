"""Starting processes in their places and learning how they end, with one descriptor each and no thread.

A new process runs nothing foreign until its number is written down. It enters its place, says so and waits; the parent
records it and lets it go; if the parent dies meanwhile, the child reads the end of the pipe and leaves. So there is no
moment at which SIGKILL of the agent leaves a program running that no record knows.

`os.fork` rather than `posix_spawn`, because nothing else lets the child enter a cgroup before it becomes something that
forks; it costs 1 to 2 ms with an agent of 28 MB. Not asyncio's subprocesses: those take a thread per child.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from jettison.errors import ActionFailed
from jettison.runtimes.host import system_calls
from jettison.runtimes.host.places import Gate, Place
from jettison.runtimes.linux import kernel_files
from jettison.runtimes.linux.processes import read_process

_WORD = b"\n"
_NULL_DEVICE = "/dev/null"
_MASK = 0o022
# A name was not found in one directory of the search path: look in the next.
_ELSEWHERE = frozenset({errno.ENOENT, errno.ENOTDIR})


@dataclass(frozen=True, slots=True)
class Launch:
    """What to run and as whom. `output` is a descriptor for stdout and stderr; None discards both."""

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    output: int | None = None
    user: int | None = None
    group: int | None = None


class Process:
    """A process that is held by a descriptor, so that its number may be reused without anybody being hit by mistake."""

    __slots__ = ("_descriptor", "_is_child", "exited", "pid", "start_ticks")

    def __init__(self, pid: int, descriptor: int, start_ticks: int, *, is_child: bool) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self._descriptor = descriptor
        self._is_child = is_child
        loop = asyncio.get_running_loop()
        # The exit code as a shell would tell it, 128 + signal for a killed one; None when nobody knows.
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
            raise ActionFailed(f"cannot send {number.name} to process `{self.pid}`: {why}") from error

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


def adopt(pid: int, start_ticks: int) -> Process | None:
    """Hold a process that an earlier agent started; None when it has ended. Not our child: we learn less of its end."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except OSError as error:
        raise ActionFailed(f"cannot hold process `{pid}`: {kernel_files.reason(error)}") from error
    found = read_process(pid)
    if found is None or found.start_ticks != start_ticks:
        os.close(descriptor)
        return None
    return Process(pid, descriptor, start_ticks, is_child=False)


async def spawn(launch: Launch, place: Place, note: Callable[[int, int], None]) -> Process:
    """Run the command in the place; returns once it runs. Raises ActionFailed, and then there is no process.

    `note` is called with the process's number and instant of birth before anything foreign runs; if it raises, nothing
    will.
    """
    gate = place.gate()
    told, tell = os.pipe()
    ask, answer = os.pipe()
    try:
        pid = _fork(launch, gate, (ask, tell), (told, answer))
    except BaseException:
        _close(told, answer)
        raise
    finally:
        gate.close()
        _close(ask, tell)
    try:
        return await _guide(pid, place, note, told, answer, launch.command[0])
    finally:
        _close(told, answer)


async def run(launch: Launch, place: Place) -> int | None:
    """Run the command to its end and return its exit code. Cancelled, it takes its process group with it."""
    process = await spawn(launch, place, lambda _pid, _start_ticks: None)
    try:
        # To await the future itself would cancel it along with us, and then it could not tell that nobody has exited.
        await asyncio.wait([process.exited])
        return process.exited.result()
    finally:
        if not process.exited.done():
            # It leads its group and is not reaped yet, so the number of the group is still its own.
            os.killpg(process.pid, signal.SIGKILL)


async def _guide(
    pid: int, place: Place, note: Callable[[int, int], None], told: int, answer: int, command: str
) -> Process:
    # A child that nobody has asked after keeps its number and its place in /proc, dead or alive.
    born = read_process(pid)
    process = Process(pid, os.pidfd_open(pid), born.start_ticks if born else 0, is_child=True)
    try:
        place.lead(pid)
        word = await _read(told)
        if word == _WORD:
            note(pid, process.start_ticks)
            os.write(answer, _WORD)
            word = await _read(told)
        if word:
            raise ActionFailed(f"cannot start `{command}`: {word.decode('utf-8', 'replace')}")
    except BaseException:
        # Also when we are cancelled: nobody will ask for this one any more, and it is reaped by its own reader.
        process.signal(signal.SIGKILL)
        raise
    # The pipe has ended: closed by a successful exec, or by a death on the way, of which `exited` will tell.
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


def _fork(launch: Launch, gate: Gate, childs: tuple[int, int], parents: tuple[int, int]) -> int:
    environment = {os.fsencode(name): os.fsencode(value) for name, value in launch.environment.items()}
    # No signal may reach the child while it still has our handlers: Python's would write into the pipe by which this
    # event loop learns of its own signals, and the agent would believe that it was told to stop.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            # From 3.12 on Python warns of a fork beside threads. The child takes no lock and calls only the kernel.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _become(launch, environment, gate, childs, parents)
    except OSError as error:
        raise ActionFailed(f"cannot start `{launch.command[0]}`: {kernel_files.reason(error)}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _become(
    launch: Launch, environment: dict[bytes, bytes], gate: Gate, childs: tuple[int, int], parents: tuple[int, int]
) -> NoReturn:
    """The child, from fork to exec. Whatever goes wrong goes through the pipe; nothing gets out of here."""
    ask, tell = childs
    try:
        gc.disable()
        signal.set_wakeup_fd(-1)
        # With the parent's end open in the child itself the pipe would not end with the parent.
        _close(*parents)
        gate.enter()
        os.write(tell, _WORD)
        if os.read(ask, 1) == _WORD:
            _dress(launch)
            _execute(launch.command, environment)
    except OSError as error:
        os.write(tell, kernel_files.reason(error).encode())
    finally:
        os._exit(127)


def _dress(launch: Launch) -> None:
    """Everything a program inherits: files, directory, identity, signals."""
    nothing = os.open(_NULL_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    output = nothing if launch.output is None else launch.output
    for target, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, target)
    os.umask(_MASK)
    if launch.group is not None:
        os.setgroups([launch.group])
        os.setgid(launch.group)
    if launch.user is not None:
        os.setuid(launch.user)
    os.chdir(launch.directory)
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _execute(command: Sequence[str], environment: dict[bytes, bytes]) -> None:
    """Raises the kernel's last word when the program is nowhere; of several, the first that is not `no such file`."""
    program = os.fsencode(command[0])
    search = environment.get(b"PATH", b"").split(b":")
    candidates = [program] if b"/" in program else [directory + b"/" + program for directory in search if directory]
    failure = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    for candidate in candidates:
        try:
            os.execve(candidate, [os.fsencode(word) for word in command], environment)  # noqa: S606  that is the point
        except OSError as error:
            if error.errno not in _ELSEWHERE:
                failure = error
                break
    raise failure


def _reap(descriptor: int) -> int | None:
    try:
        found = os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None  # somebody else in this process has asked before us
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
