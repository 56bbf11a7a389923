"""The new process's side of a start: all that happens between its birth and the program that it becomes.

It is a copy of the process that starts containers (`starter_child`), or of one that enters a container, and must not
wake up as that: it takes no lock, imports nothing and calls only the kernel. It says its number and reads its order
from its socket, enters its place, says so and waits. When it may go on it arranges its mounts, gives up privileges and
executes; with that the socket closes. If the other side dies meanwhile it reads the end of the socket instead, and
leaves.

It loads nothing that takes long, for the sake of `starter_child`: neither pathlib nor typing, dataclasses or msgspec.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import marshal
import os
import resource
import signal
import struct
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOL_SOCKET
from _socket import socket as Socket  # noqa: N812  the module `socket` takes longer to load than all of this
from types import SimpleNamespace

from jettison.runtimes.host.processes import mounting, system_calls
from jettison.runtimes.host.processes.confinement import Confinement
from jettison.runtimes.linux.files.kernel_texts import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from jettison.runtimes.host.processes.orders import MountPlan

HEADER = "=Q"
"""How long the order is that follows."""

GO = b"\n"
"""What it says when it is in its place, what it is told when it may go on, and how its number ends."""

COMPLAINT, WHOLE_COMPLAINT = b"?", b"!"
"""How a text begins that says why it cannot be started; the second says also what."""

_STREAMS = 3
# With the other side of a terminal.
_MOST_DESCRIPTORS = 4
# Above what shells and their scripts use.
_HIGH = 100
_CHUNK = 65536
_NULL_DEVICE = "/dev/null"
_MASK = 0o022
# TIOCSCTTY; the module that knows its name would be loaded for this number alone.
_TAKE_TERMINAL = 0x540E
# A name was not found in one directory of the search path: look in the next.
_ELSEWHERE = frozenset({errno.ENOENT, errno.ENOTDIR})
# A silent end would look like that of a program that was started.
_NOT_UNDERSTOOD = "restart the agent: Jettison was replaced while it runs, and its order is one of another version"
# /proc/self/stat counted from the field behind the name.
_START_TICKS = 19


class UnfitError(OSError):
    """What the process was to enter is not there; the text is for the user as it is."""


def become(channel: int) -> NoReturn:
    """From birth to exec. Whatever goes wrong goes through the channel; nothing gets out of here."""
    where = ""
    try:
        gc.disable()
        signal.set_wakeup_fd(-1)
        # A session of its own, so that no terminal and no signal to the agent's group reaches it. First of all: by that
        # an agent knows its children that no caller waits for.
        os.setsid()
        os.write(channel, b"%d" % os.getpid() + GO)
        order, streams = _receive(channel)
        enter(order.entrances, order.oom_score_adj)
        mounts = -1 if order.inside is None else _mounts_of(*order.inside)
        # Of the host: what is looked up among the mounts of a container may be what its processes have put there.
        nothing = os.open(_NULL_DEVICE, os.O_RDWR | os.O_CLOEXEC)
        confinement = Confinement(SimpleNamespace(**order.security))
        os.write(channel, GO)
        if os.read(channel, 1) == GO:
            if order.mounts is not None:
                where = "volumes: "
                mounting.arrange(_plan(order.mounts))
            elif mounts >= 0:
                system_calls.enter_mounts(mounts)
            where = ""
            _dress(order, streams, nothing)
            confinement.apply()
            if order.caller:
                # Not before: the kernel forgets it when the user changes.
                system_calls.die_with(order.caller)
            # Else it would look as if the program were missing.
            where = f"workingDir `{order.directory}`: "
            os.chdir(order.directory)
            where = ""
            _execute(order.command, order.environment)
    except UnfitError as error:
        os.write(channel, WHOLE_COMPLAINT + str(error.strerror).encode("utf-8", "replace"))
    except OSError as error:
        os.write(channel, COMPLAINT + f"{where}{reason(error)}".encode("utf-8", "replace"))
    except (AttributeError, EOFError, TypeError, ValueError) as error:
        os.write(channel, COMPLAINT + f"{_NOT_UNDERSTOOD}: {error}".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _receive(channel: int) -> tuple[Any, list[int]]:
    """The order and the descriptors that came with it. Raises OSError when the other side has let go."""
    connection = Socket(fileno=channel)
    data, carried, _, _ = connection.recvmsg(_CHUNK, CMSG_SPACE(4 * _MOST_DESCRIPTORS), MSG_CMSG_CLOEXEC)
    # Or the descriptor would be closed with the object.
    connection.detach()
    streams = [
        number
        for level, kind, packed in carried
        if (level, kind) == (SOL_SOCKET, SCM_RIGHTS)
        for (number,) in struct.iter_unpack("=i", packed)
    ]
    received, header = bytearray(data), struct.calcsize(HEADER)
    while len(received) < header or len(received) < header + struct.unpack_from(HEADER, received)[0]:
        data = os.read(channel, _CHUNK)
        if not data:
            raise OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        received += data
    # By the agent itself, over a socket that no other process has.
    return SimpleNamespace(**marshal.loads(bytes(received[header:]))), streams  # noqa: S302


def _plan(told: dict[str, Any]) -> MountPlan:
    """With the attributes of the value that it was."""
    plan: Any = SimpleNamespace(**told)
    plan.points = [SimpleNamespace(**point) for point in plan.points]
    plan.layer = None if plan.layer is None else SimpleNamespace(**plan.layer)
    return plan  # type: ignore[no-any-return]


def enter(entrances: Sequence[str], oom_score_adj: int | None) -> None:
    """Move into these cgroups. Raises OSError, upon which nothing may be executed.

    A refused oom_score_adj is no reason not to run.
    """
    for path in entrances:
        try:
            entrance = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            where = os.path.dirname(path)
            raise UnfitError(error.errno, f"no way into cgroup `{where}`: {reason(error)}") from error
        try:
            os.write(entrance, b"0")
        finally:
            os.close(entrance)
    if oom_score_adj is not None:
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(score, b"%d" % oom_score_adj)
        except PermissionError:
            return
        finally:
            os.close(score)


def _mounts_of(pid: int, start_ticks: int) -> int:
    """A descriptor of the mounts that the process sees, to be shared.

    Any process can have mounts of its own making, in a user namespace that it makes. A command that entered them would
    have rights outside of it, and take what it finds there for the host's: `su` another list of users.
    """
    try:
        # Opened once, it stays that of this process, also when its number is another's.
        process = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stat = os.open("stat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)
        data = os.read(stat, _CHUNK)
        fields = data[data.rfind(b")") + 2 :].split()
        if len(fields) <= _START_TICKS or int(fields[_START_TICKS]) != start_ticks:
            raise UnfitError(errno.ESRCH, f"cannot enter process `{pid}`: it has ended")
        descriptor = os.open("ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)
    except UnfitError:
        raise
    except OSError as error:
        raise UnfitError(error.errno, f"cannot enter process `{pid}`: {reason(error)}") from error
    if not system_calls.are_our_mounts(descriptor):
        why = "it has mounts of its own, in a user namespace of its own"
        raise UnfitError(errno.EPERM, f"cannot enter process `{pid}`: {why}")
    return descriptor


def _dress(order: Any, streams: Sequence[int], nothing: int) -> None:
    """Everything a program inherits but its directory: files and how many there may be, signals."""
    if order.has_master:
        *streams, master = streams
        fcntl.fcntl(master, fcntl.F_DUPFD, _HIGH)
    if len(streams) != _STREAMS:
        output = streams[0] if streams else nothing
        streams = (nothing, output, output)
    for target, source in enumerate(streams):
        os.dup2(source, target)
    if order.has_terminal:
        fcntl.ioctl(0, _TAKE_TERMINAL, 0)
    os.umask(_MASK)
    if order.descriptors is not None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (order.descriptors, most))
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _execute(command: Sequence[str], variables: dict[str, str]) -> None:
    """Raises the kernel's last word when the program is nowhere; of several, the first that is not `no such file`."""
    environment = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
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
