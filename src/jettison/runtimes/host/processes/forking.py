"""The child's side of a start: what happens between fork and exec, in a copy of this program that must not wake up.

`os.fork` rather than `posix_spawn`, because nothing else lets the child enter a cgroup before it becomes something that
forks; it holds the loop of an agent of 40 MB for 2 ms (decision 16). The child takes no lock, imports nothing and calls
only the kernel.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from jettison.errors import StartError
from jettison.manifests.files.decoding import shortened
from jettison.runtimes.host.cgroups.places import Gate
from jettison.runtimes.host.processes import mounting, system_calls
from jettison.runtimes.host.processes.confinement import Confinement
from jettison.runtimes.host.processes.mounting import MountPlan
from jettison.runtimes.host.specs.security import NO_SECURITY, SecuritySpec
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.processes import fork_quietly, read_process
from jettison.values import frozen

WORD = b"\n"
"""What the child says when it is in its place, and what it is told when it may go on."""

_NULL_DEVICE = "/dev/null"
_MASK = 0o022
# TIOCSCTTY; the module that knows its name would be in the agent for this number alone.
_TAKE_TERMINAL = 0x540E
# Above what shells and their scripts use.
_HIGH = 100
# A name was not found in one directory of the search path: look in the next.
_ELSEWHERE = frozenset({errno.ENOENT, errno.ENOTDIR})


@frozen
class Launch:
    """What to run and as which user. `output` is a descriptor for stdout and stderr; None discards both.

    `descriptors` is the soft limit on open files; None leaves the agent's own, with which some programs cannot cope:
    they close every descriptor that there may be, or use select().

    `streams` are descriptors for stdin, stdout and stderr instead of `output`, for a command with a caller of its own;
    with `has_terminal` the first of them is a terminal, and becomes that of the new session; `master` is its other
    side, which the program gets, too, under a high number.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    output: int | None = None
    security: SecuritySpec = NO_SECURITY
    descriptors: int | None = None
    streams: tuple[int, int, int] | None = None
    has_terminal: bool = False
    master: int | None = None
    # What it sees of the filesystems: an arrangement of its own, or that of a process that runs; else the agent's.
    mounts: MountPlan | None = None
    inside: tuple[int, int] | None = None
    # Whether it is killed when the process that starts it ends, however that ends.
    ends_with_caller: bool = False


def fork(launch: Launch, gate: Gate, childs: tuple[int, int], parents: tuple[int, int]) -> int:
    """Returns the child's number. The pairs are ends of two pipes: the child reads and writes its own, closes ours."""
    environment = {os.fsencode(name): os.fsencode(value) for name, value in launch.environment.items()}
    confinement = Confinement(launch.security)
    host, caller = _held(launch.inside), os.getpid()
    try:
        pid = fork_quietly()
        if pid == 0:
            _become(launch, environment, confinement, gate, childs, parents, host, caller)
    except OSError as error:
        raise StartError(f"cannot start `{shortened(launch.command[0])}`: {kernel_files.reason(error)}") from error
    finally:
        if host >= 0:
            os.close(host)
    return pid


def _held(process: tuple[int, int] | None) -> int:
    """A descriptor of the process whose mounts are to be shared; -1 where there is none to be held."""
    if process is None:
        return -1
    pid, start_ticks = process
    try:
        descriptor = os.pidfd_open(pid)
        found = read_process(pid)
    except OSError as error:
        raise StartError(f"cannot enter process `{pid}`: {kernel_files.reason(error)}") from error
    if found is None or found.start_ticks != start_ticks:
        os.close(descriptor)
        raise StartError(f"cannot enter process `{pid}`: it has ended")
    return descriptor


def _become(
    launch: Launch,
    environment: dict[bytes, bytes],
    confinement: Confinement,
    gate: Gate,
    childs: tuple[int, int],
    parents: tuple[int, int],
    host: int,
    caller: int,
) -> NoReturn:
    """The child, from fork to exec. Whatever goes wrong goes through the pipe; nothing gets out of here."""
    ask, tell = childs
    where = ""
    try:
        gc.disable()
        signal.set_wakeup_fd(-1)
        # With the parent's end open in the child itself the pipe would not end with the parent.
        for descriptor in parents:
            os.close(descriptor)
        gate.enter()
        os.write(tell, WORD)
        if os.read(ask, 1) == WORD:
            if launch.mounts is not None:
                where = "volumes: "
                mounting.arrange(launch.mounts)
            elif host >= 0:
                system_calls.enter_mounts(host)
            where = ""
            _dress(launch)
            confinement.apply()
            if launch.ends_with_caller:
                # Not before: the kernel forgets it when the user changes.
                system_calls.die_with(caller)
            # Else it would look as if the program were missing.
            where = f"workingDir `{launch.directory}`: "
            os.chdir(launch.directory)
            where = ""
            _execute(launch.command, environment)
    except OSError as error:
        os.write(tell, f"{where}{kernel_files.reason(error)}".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _dress(launch: Launch) -> None:
    """Everything a program inherits but its directory: files and how many there may be, signals."""
    nothing = os.open(_NULL_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    output = nothing if launch.output is None else launch.output
    for target, source in enumerate(launch.streams or (nothing, output, output)):
        os.dup2(source, target)
    if launch.has_terminal:
        fcntl.ioctl(0, _TAKE_TERMINAL, 0)
    if launch.master is not None:
        fcntl.fcntl(launch.master, fcntl.F_DUPFD, _HIGH)
    os.umask(_MASK)
    if launch.descriptors is not None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (launch.descriptors, most))
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
