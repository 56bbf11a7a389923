"""What Python has no words for: mounting, privileges, descriptors of others, which process ends with which, and how one
ended that is not our child.

A process that starts containers loads it (`starter_child`), so it imports nothing that takes long to load.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import struct

from jettison.runtimes.linux.files.kernel_texts import reason

# The name is enough for a type checker; the module would be a megabyte.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from jettison.errors import MountError

_LIBC = ctypes.CDLL(None, use_errno=True)
# Without letting go of the interpreter meanwhile, which a copy of this process would have to take again.
_HELD_LIBC = ctypes.PyDLL(None, use_errno=True)

OURS = b"jettison"
"""The source of filesystems that a node mounts for its pods, as the kernel's table of mounts shows it."""

_NO_SET_UID, _NO_DEVICES = 2, 4
_READ_ONLY, _REMOUNT, _BIND, _MOVE, _RECURSIVE = 1, 1 << 5, 1 << 12, 1 << 13, 1 << 14
_UNBINDABLE, _PRIVATE = 1 << 17, 1 << 18
_NEW_MOUNTS = 0x20000
# By their numbers, because older C libraries have no names for them; these are the same on all machines.
_OPENAT2, _PIDFD_GETFD, _MOUNT_SETATTR = 437, 438, 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CLONE, _CLONE_ELSEWHERE, _SAME_PARENT = {"x86_64": 56}, 220, 0x8000
# struct mount_attr: what to set (read-only is 1), what to clear, propagation, user namespace.
_MOUNT_ATTRIBUTES = struct.Struct("=4Q")
_HERE, _NO_AUTOMOUNT = -100, 0x800
# struct open_how: flags, mode, how to resolve.
_OPEN_HOW = struct.Struct("=3Q")
_NO_MAGIC_LINKS, _IN_ROOT = 0x02, 0x10
_DETACH, _DO_NOT_FOLLOW = 2, 8
# What ends a path in the options of an overlay; the first of them is what the others are escaped with.
_OVERLAY_SPECIAL = "\\:,"
_SET_DEATH_SIGNAL, _SET_SECCOMP, _DROP_BOUNDING, _SET_CHILD_SUBREAPER = 1, 22, 24, 36
_SET_NO_NEW_PRIVILEGES, _AMBIENT, _CLEAR_AMBIENT = 38, 47, 4
_FILTER = 2

# The third version of the kernel's capability calls: two words of 32 bits for each of three sets.
_CAPABILITY_VERSION = 0x20080522
_CAPABILITY_SETS = struct.Struct("=6I")
_INSTRUCTION_SIZE = 8

# struct pidfd_info: mask, cgroup, eleven ids, wait status. The status is there from Linux 6.15 on.
_PIDFD_INFO = struct.Struct("=QQ11Ii")
_GET_PIDFD_INFO = 0xC040FF0B
_EXIT = 1 << 3
# Of a namespace: the user namespace that owns it, since Linux 4.9.
_GET_USER_NAMESPACE = 0xB701

# /proc/<pid>/stat counted from the field behind the name: the state, the instant of birth, the wait status.
_STATE, _START_TICKS, _WAIT_STATUS = 0, 19, 49
_ONE_PAGE = 4096


def mount_tmpfs(directory: Path, size: int | None) -> None:
    """Raises MountError; its cause is a PermissionError where mounting is not permitted."""
    options = "mode=0777" if size is None else f"mode=0777,size={size}"
    flags = ctypes.c_ulong(_NO_SET_UID | _NO_DEVICES)
    if _LIBC.mount(OURS, os.fsencode(directory), b"tmpfs", flags, options.encode()) != 0:
        raise _failed(f"cannot mount tmpfs on `{directory}`")


def unshare_mounts() -> None:
    """See the filesystems as they are now, from here on alone. Raises OSError."""
    _check(_LIBC.unshare(_NEW_MOUNTS))
    _mount_call(None, b"/", None, _RECURSIVE | _PRIVATE, None)


def are_our_mounts(namespace: int) -> bool:
    """Whether the rights to change these mounts are those of our own user namespace. Raises OSError."""
    try:
        owner = fcntl.ioctl(namespace, _GET_USER_NAMESPACE)
    except PermissionError:
        return False  # it is not even below ours
    ours = os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.path.sameopenfile(owner, ours)
    finally:
        os.close(owner)
        os.close(ours)


def enter_mounts(namespace: int) -> None:
    """See the filesystems as the processes in it do. Raises OSError."""
    _check(_LIBC.setns(namespace, _NEW_MOUNTS))


def bind(source: str, target: str) -> None:
    """Show the source at the target too, with all that is mounted below it. Raises OSError."""
    _mount_call(os.fsencode(source), os.fsencode(target), None, _BIND | _RECURSIVE, None)


def mount_mirror(directory: str, source: bytes) -> None:
    """A small tmpfs for directories and empty files; it is left out where others are shown again. Raises OSError."""
    options = b"mode=0755,size=1m"
    _mount_call(source, os.fsencode(directory), b"tmpfs", _NO_SET_UID | _NO_DEVICES, options)
    _mount_call(None, os.fsencode(directory), None, _UNBINDABLE, None)


def mount_overlay(lower: str, upper: str, work: str, target: str) -> None:
    """Show `lower` at the target, with all changes in `upper`. Takes Linux 5.10. Raises OSError.

    `volatile`: else the end of the last process that sees it would wait until the whole disk is written.
    """
    places = {"lowerdir": lower, "upperdir": upper, "workdir": work}
    for special in _OVERLAY_SPECIAL:
        places = {name: path.replace(special, f"\\{special}") for name, path in places.items()}
    options = ",".join((*(f"{name}={path}" for name, path in places.items()), "volatile"))
    _mount_call(OURS, os.fsencode(target), b"overlay", 0, os.fsencode(options))


def move_mount(source: str, target: str) -> None:
    """Raises OSError."""
    _mount_call(None, os.fsencode(source), None, _PRIVATE, None)
    _mount_call(os.fsencode(source), os.fsencode(target), None, _MOVE, None)


def become_root(directory: str) -> None:
    """Make what is mounted there the root, and let go of the former one. Raises OSError."""
    if enter_root(directory):
        leave_former_root()
    os.chdir("/")


def enter_root(directory: str) -> bool:
    """Make what is mounted there the root; what was opened of the former one can still be mounted. Raises OSError.

    False where the former one cannot be left: a machine that still runs on its initramfs. That is covered by the new
    root, as switch_root does it.
    """
    _mount_call(None, os.fsencode(directory), None, _PRIVATE, None)
    os.chdir(directory)
    try:
        _check(_LIBC.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _mount_call(b".", b"/", None, _MOVE, None)
        os.chroot(".")
        return False
    return True


def leave_former_root() -> None:
    """In the directory in which `enter_root` has left us. Raises OSError."""
    _check(_LIBC.umount2(b".", _DETACH))


def close_mount(path: str, flags: int) -> None:
    """Make what is mounted there read-only, without what is mounted below. Raises OSError.

    A kernel before 5.12 takes all flags of the mount together: those that it has already are given.
    """
    attributes, where = _MOUNT_ATTRIBUTES.pack(_READ_ONLY, 0, 0, 0), os.fsencode(path)
    size = ctypes.c_size_t(len(attributes))
    try:
        _check(
            _LIBC.syscall(_MOUNT_SETATTR, ctypes.c_int(_HERE), where, ctypes.c_uint(_NO_AUTOMOUNT), attributes, size)
        )
    except OSError as error:
        # The latter from filters of system calls that are older than this one.
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
        _mount_call(None, where, None, _REMOUNT | _BIND | _READ_ONLY | flags, None)


def open_inside(directory: int, path: str) -> int:
    """A descriptor of what the path leads to, where no link in it leads out of the directory. Raises OSError."""
    how = _OPEN_HOW.pack(os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGIC_LINKS)
    found = _LIBC.syscall(_OPENAT2, ctypes.c_int(directory), os.fsencode(path), how, ctypes.c_size_t(len(how)))
    _check(0 if found >= 0 else -1)
    return int(found)


def take_descriptor(pidfd: int, number: int) -> int:
    """A descriptor of what the process has open under this number; not inherited. Raises OSError."""
    found = _LIBC.syscall(_PIDFD_GETFD, ctypes.c_int(pidfd), ctypes.c_int(number), ctypes.c_uint(0))
    _check(0 if found >= 0 else -1)
    return int(found)


def _mount_call(source: bytes | None, target: bytes, kind: bytes | None, flags: int, options: bytes | None) -> None:
    _check(_LIBC.mount(source, target, kind, ctypes.c_ulong(flags), options))


def detach(mount_point: Path) -> None:
    """Unmount now for all new accesses, later for processes that still hold files open. Harmless when it is gone."""
    if _LIBC.umount2(os.fsencode(mount_point), _DETACH | _DO_NOT_FOLLOW) != 0:
        failure = _failed(f"cannot unmount `{mount_point}`")
        cause = failure.__cause__
        if not isinstance(cause, OSError) or cause.errno not in (errno.ENOENT, errno.EINVAL):
            raise failure


def inherit_orphans(*, wanted: bool) -> None:
    """Whether what descends from us and loses its parent becomes our child, instead of process 1's. Never refused."""
    _LIBC.prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(wanted), 0, 0, 0)


def fork_sibling() -> int:
    """As `os.fork` in a process without threads, but the child is our parent's: that one is told of its end.

    Raises OSError. None of what Python or the C library have been asked to call at a fork is called.
    """
    number = _CLONE.get(os.uname().machine, _CLONE_ELSEWHERE)
    pid = _HELD_LIBC.syscall(ctypes.c_long(number), ctypes.c_ulong(_SAME_PARENT | signal.SIGCHLD), *[None] * 4)
    _check(0 if pid >= 0 else -1)
    return int(pid)


def die_with(parent: int) -> None:
    """Be killed when our parent ends, whatever ended it; it may already have."""
    _LIBC.prctl(_SET_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def permitted_capabilities() -> int:
    """What this process may use or give away, one bit each."""
    header, data = _capability_header(), ctypes.create_string_buffer(_CAPABILITY_SETS.size)
    if _LIBC.capget(header, data) != 0:
        raise _failed("cannot read the agent's capabilities")
    _, low, _, _, high, _ = _CAPABILITY_SETS.unpack(data.raw)
    return int(high << 32 | low)


class Privileges:
    """What a child gives up before it becomes a foreign program; made before the fork, which must not allocate much.

    The methods raise the kernel's OSError.
    """

    __slots__ = ("_data", "_filter", "_gone", "_header", "_instructions")

    def __init__(self, kept: int, at_hand: int, last: int, instructions: bytes) -> None:
        self._gone = [ctypes.c_ulong(number) for number in range(last + 1) if not kept >> number & 1]
        low, high = at_hand & 0xFFFFFFFF, at_hand >> 32
        self._header = _capability_header()
        # Nothing inheritable: a program with capabilities on its file would get them from there.
        self._data = _CAPABILITY_SETS.pack(low, low, 0, high, high, 0)
        self._instructions = ctypes.create_string_buffer(instructions, len(instructions)) if instructions else None
        # struct sock_fprog: a count, six bytes of nothing, and where the instructions are.
        address = 0 if self._instructions is None else ctypes.addressof(self._instructions)
        self._filter = struct.pack("@HP", len(instructions) // _INSTRUCTION_SIZE, address)

    def bound(self) -> None:
        """No program that is executed from here on gets any other capability, whatever stands on its file."""
        for number in self._gone:
            _check(_LIBC.prctl(_DROP_BOUNDING, number, 0, 0, 0))
        _check(_LIBC.prctl(_AMBIENT, ctypes.c_ulong(_CLEAR_AMBIENT), 0, 0, 0))

    def keep(self) -> None:
        """What is at hand and nothing else, now."""
        _check(_LIBC.capset(self._header, self._data))

    def filter(self) -> None:
        """Install the seccomp program, if there is one; without CAP_SYS_ADMIN only after `no_new_privileges`."""
        if self._instructions is not None:
            _check(_LIBC.prctl(_SET_SECCOMP, ctypes.c_ulong(_FILTER), self._filter, 0, 0))


def no_new_privileges() -> None:
    """From here on set-uid bits and file capabilities do nothing. Raises OSError."""
    _check(_LIBC.prctl(_SET_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), 0, 0, 0))


def _capability_header() -> bytes:
    return struct.pack("=Ii", _CAPABILITY_VERSION, 0)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def wait_status(pidfd: int, pid: int, start_ticks: int) -> int | None:
    """How a process ended that is not our child; None where it is no longer known.

    Between its death and the moment its parent asks, /proc tells; afterwards the descriptor does, on a new kernel.
    """
    try:
        stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(stat, _ONE_PAGE)
        finally:
            os.close(stat)
    except OSError:
        data = b""
    fields = data[data.rfind(b")") + 2 :].split()
    if len(fields) > _WAIT_STATUS and int(fields[_START_TICKS]) == start_ticks:
        # Without the right to look into it the kernel shows 0, which would read as success.
        return int(fields[_WAIT_STATUS]) if fields[_STATE] == b"Z" and os.geteuid() == 0 else None
    buffer = bytearray(_PIDFD_INFO.pack(_EXIT, *(0 for _ in range(13))))
    try:
        fcntl.ioctl(pidfd, _GET_PIDFD_INFO, buffer)
    except OSError:
        return None  # a kernel before 6.13 knows no such request, and one before 6.15 forgets with the process
    mask, *_, status = _PIDFD_INFO.unpack(buffer)
    return int(status) if mask & _EXIT else None


def _failed(what: str) -> MountError:
    # Every process that calls this has it loaded; one that starts containers does neither.
    from jettison.errors import MountError  # noqa: PLC0415

    number = ctypes.get_errno()
    cause = OSError(number, os.strerror(number))
    failure = MountError(f"{what}: {reason(cause)}")
    failure.__cause__ = cause
    return failure
