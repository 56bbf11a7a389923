"""Work that is done in a child with an interpreter of its own, which is gone afterwards.

The agent stays for months, with its memory locked. What takes megabytes for a moment takes them from the child, with
limits of its own on memory and processor time, and holds up no event loop.

The child is spawned, because a fork copies the page tables of the agent while no other thread of it can run: 2 ms of
an agent of 40 MB. And the C library is asked for it: `os.posix_spawn` keeps the interpreter until the child has
executed its program, which waits for a processor on a busy machine and for a disk on a starving one. The price is the
start of an interpreter, so one child does all that there is to do.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self, TypeVar

import jettison
from jettison.errors import ObservationError
from jettison.runtimes.linux.aside_child import CHANNEL, MEMORY, MessageChannel
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.linux.processes import set_oom_score_adj

T = TypeVar("T")

PROCESSOR_SECONDS: Final = 10
# On a node that is starving an interpreter takes its time to start, once 30 s; the next look tries again.
SECONDS: Final = 60.0

# The kernel's OOM killer takes it before any other process.
_FIRST_TO_GO: Final = 1000
_DESCRIPTORS: Final = 64

# With the agent's search path instead of what `site` would find, without which an interpreter starts in 10 ms.
_BEGIN: Final = "import sys; sys.path[:] = sys.argv[1:]\n"
# Of the moment in which this is loaded: a relative path would mean another directory later.
_HERE: Final = str(Path(jettison.__path__[0]).parent)
_PATHS: Final = tuple(dict.fromkeys(str(Path(each).absolute()) for each in (_HERE, *sys.path)))

_LIBC = ctypes.CDLL(None)
# Room for what the C library keeps in its attributes, actions and sets of signals: 336 bytes at most.
_OPAQUE: Final = 1024
_DEFAULT_SIGNALS, _SIGNAL_MASK = 0x04, 0x08


class Aside:
    """One child, from the first message to the end of the `with`. Call it from a thread: it waits for the child.

    `program` is a function for the child to call with its end of the channel, as `module:name`. Methods raise
    ObservationError where the child cannot begin or does not answer in time: another try may succeed.
    """

    def __init__(self, program: str, processor_seconds: int = PROCESSOR_SECONDS, seconds: float = SECONDS) -> None:
        self.processor_seconds = processor_seconds
        self._program = program
        self._seconds = seconds
        self._pid = 0
        self._channel: MessageChannel | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def send(self, message: bytes) -> None:
        """To the child, which begins with the first. Raises ConnectionError when it is gone."""
        self._in_time(lambda channel: channel.send(message))

    def send_file(self, descriptor: int, size: int) -> None:
        """A message with the first bytes of a file, which do not come into this process."""
        self._in_time(lambda channel: channel.send_file(descriptor, size))

    def receive(self, most_bytes: int) -> bytes:
        """The next message of the child; empty when it is gone. Raises ObservationError for a longer one."""
        try:
            return self._in_time(lambda channel: channel.receive(most_bytes))
        except ValueError as error:
            raise ObservationError(str(error)) from error

    def end(self) -> int:
        """How the child ended, by its exit code; 0 where there is none."""
        if self._channel is None:
            return 0
        self._channel.close()
        self._channel = None
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def _in_time(self, work: Callable[[MessageChannel], T]) -> T:
        try:
            if self._channel is None:
                self._begin()
            assert self._channel is not None
            return work(self._channel)
        except TimeoutError as error:
            os.kill(self._pid, signal.SIGKILL)
            self.end()
            raise ObservationError(f"not read within {self._seconds:g} s") from error

    def _begin(self) -> None:
        """The child has loaded its program when this returns."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            try:
                begin = f"from jettison.runtimes.linux.aside_child import main; main({self._program!r})"
                self._pid = spawn_interpreter(begin, theirs.fileno())
            except OSError as error:
                raise ObservationError(f"no process to read it: {reason(error)}") from error
            self._channel = MessageChannel(ours.detach(), self._seconds)
        self._limit()
        if not self._channel.receive():
            code = self.end()
            raise ObservationError(f"no process to read it: it ended before it began, exit code {code}")

    def _limit(self) -> None:
        """Past its processor time it dies of SIGXCPU, past its memory it meets a MemoryError.

        Before it has read anything: it waits for the first message.
        """
        set_oom_score_adj(self._pid, _FIRST_TO_GO)
        seconds = self.processor_seconds
        self._lower(resource.RLIMIT_CPU, seconds, seconds + 1)
        self._lower(resource.RLIMIT_AS, MEMORY, MEMORY)
        self._lower(resource.RLIMIT_NOFILE, _DESCRIPTORS, _DESCRIPTORS)
        # What it reads may be secret.
        self._lower(resource.RLIMIT_CORE, 0, 0)

    def _lower(self, limit: int, soft: int, hard: int) -> None:
        """Of the child, never above what holds already (`ulimit -v`): only root could raise that."""
        most = resource.prlimit(self._pid, limit)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.prlimit(self._pid, limit, (soft, hard))


def spawn_interpreter(statement: str, channel: int, *, is_deaf: bool = False) -> int:
    """The number of a process that executes the statement. Call it from a thread.

    It has that descriptor, as number `CHANNEL`, and null devices, the signals of a new process, and no priority of
    ours; with `is_deaf` all signals stay blocked. Raises OSError.
    """
    options = ["-I"] if sys.flags.isolated else ["-E"] if sys.flags.ignore_environment else []
    words = _words([sys.executable, *options, "-S", "-c", _BEGIN + statement, *_PATHS])
    environment = _words([f"{name}={value}" for name, value in os.environ.items()])
    pid, actions, attributes = ctypes.c_int(), _opaque(), _opaque()
    _check(_LIBC.posix_spawn_file_actions_init(actions))
    _check(_LIBC.posix_spawnattr_init(attributes))
    try:
        _check(_LIBC.posix_spawn_file_actions_adddup2(actions, channel, CHANNEL))
        for each in range(CHANNEL):
            _check(_LIBC.posix_spawn_file_actions_addopen(actions, each, os.devnull.encode(), os.O_RDWR, 0))
        all_signals, no_signals = _opaque(), _opaque()
        _LIBC.sigfillset(all_signals)
        _LIBC.sigemptyset(no_signals)
        _check(_LIBC.posix_spawnattr_setflags(attributes, ctypes.c_short(_DEFAULT_SIGNALS | _SIGNAL_MASK)))
        _check(_LIBC.posix_spawnattr_setsigdefault(attributes, all_signals))
        _check(_LIBC.posix_spawnattr_setsigmask(attributes, all_signals if is_deaf else no_signals))
        interpreter = os.fsencode(sys.executable)
        _check(_LIBC.posix_spawn(ctypes.byref(pid), interpreter, actions, attributes, words, environment))
    finally:
        _LIBC.posix_spawn_file_actions_destroy(actions)
        _LIBC.posix_spawnattr_destroy(attributes)
    return pid.value


def _opaque() -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(_OPAQUE)


def _words(texts: list[str]) -> ctypes.Array[ctypes.c_char_p]:
    """As C has them: the last one is a null pointer."""
    return (ctypes.c_char_p * (len(texts) + 1))(*map(os.fsencode, texts))


def _check(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))
