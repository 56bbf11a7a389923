"""What all pods of a node share, and where one of them lives."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import resource
import struct
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from jettison import events
from jettison.clock import Clock
from jettison.engine.pods.pod import Pod
from jettison.errors import RuntimeFailure, WriteError
from jettison.runtimes.configuration import NodeConfiguration
from jettison.runtimes.containers import ContainerRuntime
from jettison.runtimes.host.cgroups.places import Place, Places
from jettison.runtimes.host.pods.record_files import RecordFiles
from jettison.runtimes.host.processes.orphans import Orphans
from jettison.runtimes.host.processes.starter import Starter
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.host.specs.spec import ImageOffer
from jettison.runtimes.host.volumes import logs
from jettison.runtimes.host.volumes.content import Contents
from jettison.runtimes.host.volumes.volumes import Volume
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.machine.background_tasks import LoopTurns, promptly, staffed_pool
from jettison.values import frozen

P = ParamSpec("P")
T = TypeVar("T")

# Between two attempts at something that the kernel refuses for the moment.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 1.0

_OWNER_ONLY = 0o700
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EROFS, errno.EBADF})
# Linux' access control lists as an extended attribute: a version, then kind, rights and user of each entry.
_ACL_VERSION, _ACL_NOBODY, _ACL_EMPTY = 2, 0xFFFFFFFF, 4
_ACL_OWNER, _ACL_USER, _ACL_OWNING_GROUP, _ACL_MASK, _ACL_OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20


def make_directories(settings: HostSettings) -> None:
    """The node's. Users that pods run as pass through the pods' to their own, and find the others shut."""
    modes = {settings.pods_dir: 0o711, settings.logs_dir: _OWNER_ONLY, settings.records_dir: _OWNER_ONLY}
    for directory, mode in modes.items():
        try:
            directory.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            directory.mkdir(exist_ok=True)
            directory.chmod(mode)
        except OSError as error:
            if error.errno == errno.EROFS and directory.is_dir():
                continue  # a disk that has failed takes no pods, but those that run are guarded
            raise WriteError(f"cannot create `{directory}`: {kernel_files.reason(error)}") from error


def claim_directories(settings: HostSettings) -> int:
    """A descriptor to be kept as long as the agent has the directories of its pods to itself. Raises WriteError.

    An agent removes directories of which it has no record, so those of another agent's pods would go while they run.
    Where a filesystem has no locks, nothing is claimed.
    """
    descriptor = os.open(settings.pods_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        why = f"`{settings.node_dir}` is in use by another agent: each node takes a --node-dir of its own"
        raise WriteError(why) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            os.close(descriptor)
            raise WriteError(f"cannot claim `{settings.pods_dir}`: {kernel_files.reason(error)}") from error
    return descriptor


class PodChanges:
    """Of all that is said about pods: as long as `latest` is the same object, so is everything that follows from it."""

    __slots__ = ("latest",)

    def __init__(self) -> None:
        self.latest = object()

    def happen(self) -> None:
        """A pod came, went or changed."""
        self.latest = object()


@frozen
class HostServices:
    """Shared by all pods of the node. `pool` has the two threads in which one may wait for a disk."""

    settings: HostSettings
    places: Places
    files: RecordFiles
    pool: Executor
    clock: Clock
    emit: events.Emit
    # How many files a pod's process may have open, unless it asks the kernel for more: as many as we might when this
    # was made. The agent raises its own limit afterwards.
    descriptors: int = field(default_factory=lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    orphans: Orphans = field(default_factory=Orphans)
    # A container runtime, and what pods may want of it; None where pods are processes only.
    boxes: ContainerRuntime | None = None
    offer: ImageOffer | None = None
    configuration: NodeConfiguration = field(default_factory=NodeConfiguration)
    # Whether processes get a mount namespace of their own.
    has_private_mounts: bool = False
    changes: PodChanges = field(default_factory=PodChanges)
    # All pods take turns at what holds up the loop.
    turns: LoopTurns = field(default_factory=LoopTurns)
    # In which one may wait for cgroups: for the kernel's locks, but for no disk. To kill waits for nothing else.
    _cgroup_pool: Executor = field(init=False)
    _kill_pool: Executor = field(init=False)
    starter: Starter = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_cgroup_pool", staffed_pool(1, "jettison-cgroup"))
        object.__setattr__(self, "_kill_pool", staffed_pool(1, "jettison-kill"))
        object.__setattr__(self, "starter", Starter(self._cgroup_pool, self.turns))

    async def close(self) -> None:
        """End what they share besides the pool that they were given."""
        await self.starter.close()
        self._cgroup_pool.shutdown()
        self._kill_pool.shutdown()

    async def wait_for(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do in a thread what may wait for a disk.

        Cancelled, it still waits for a thread that has begun: what that one makes (a mount, a directory) would
        otherwise appear after it was cleared away.
        """
        return await _waited(self.pool.submit(work, *args, **kwargs))

    async def make(self, place: Place) -> None:
        """With its limits. Raises WriteError."""
        await self.apart(place, place.create)

    async def apart(self, place: Place, work: Callable[[], T]) -> T:
        """To change or read a cgroup takes 0.1 to 1 ms, and up to 20 while a process moves into another one. The loop
        may hear of many at once, so each caller goes on in its turn.
        """
        done = await self._aside(self._cgroup_pool, place, work)
        if place.is_the_kernels:
            await self.turns.next()
        return done

    def kill(self, place: Place) -> Awaitable[frozenset[int]]:
        """SIGKILL to everything in it, which takes 1 ms; gives what is left right then. It begins before it returns."""
        return self._aside(self._kill_pool, place, place.kill)

    def _aside(self, pool: Executor, place: Place, work: Callable[[], T]) -> Awaitable[T]:
        if place.is_the_kernels:
            return _waited(pool.submit(promptly, work))
        return self._in_turn(work)

    async def _in_turn(self, work: Callable[[], T]) -> T:
        await self.turns.next()
        return work()

    async def vacate(self, place: Place, failed: Callable[[str], events.Fact]) -> None:
        """Kill until no process is left, however long that takes, then remove the place.

        Each time that this does not succeed, `failed` makes a fact of the reason.
        """
        if not await self.apart(place, lambda: place.exists):
            return
        pause = _FIRST_PAUSE
        while True:
            try:
                survivors = await place.empty(self.settings.pace.kill, partial(self.apart, place, place.kill))
                if not survivors:
                    place.unwatch()
                    if await self.apart(place, place.remove):
                        return
                if survivors:
                    self.emit(failed(undying(survivors)))
            except RuntimeFailure as failure:
                self.emit(failed(str(failure)))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


async def _waited(working: Future[T]) -> T:
    done = asyncio.wrap_future(working)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        if not working.cancel():
            await asyncio.wait([done])
            done.exception()  # no caller will ask for it
        raise


def undying(survivors: Iterable[int]) -> str:
    """The complaint about processes that SIGKILL does not end."""
    return f"these processes do not die: {', '.join(map(str, sorted(survivors)[:5]))}"


@dataclass(slots=True)
class PodDirectories:
    """One pod's own part. `volumes` are filled in once they have been set up."""

    services: HostServices
    pod: Pod
    volumes: tuple[Volume, ...] = ()
    # What its processes have as `/dev/shm`; None for the host's.
    shared_memory: Path | None = None
    # In a network of its own, which only a container runtime gives it.
    addresses: tuple[str, ...] = ()
    # What is asked for elsewhere: files of volumes, and variables.
    contents: Contents | None = None

    def build(self, users: Iterable[int]) -> None:
        """Make the pod's directory, for root and these users only. May wait for a disk. Raises WriteError."""
        try:
            self.pod_dir.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
            _let_pass(self.pod_dir, frozenset(users) - {os.geteuid()})
        except OSError as error:
            raise WriteError(f"cannot make `{self.pod_dir}`: {kernel_files.reason(error)}") from error

    @property
    def base(self) -> Path:
        """Of all pods, so no pod's: removals begin there."""
        return self.services.settings.pods_dir

    @property
    def pod_dir(self) -> Path:
        """Volumes and writable directories are below."""
        return self.services.settings.pod_dir(self.pod.uid)

    @property
    def volumes_dir(self) -> Path:
        """One directory for each emptyDir."""
        return self.pod_dir / "volumes"

    @property
    def sub_paths_dir(self) -> Path:
        """Where parts of volumes are mounted, by container, so that a container runtime can be told of them."""
        return self.pod_dir / "sub-paths"

    def writable_dir(self, container: str, run: int) -> Path:
        """Each run of a container begins with an empty one, as it would with a fresh layer."""
        return self.pod_dir / "containers" / container / str(run)

    def log_dir(self, container: str) -> Path:
        """One file for each run."""
        return logs.pod_log_dir(self.services.settings.logs_dir, self.pod) / container


def _let_pass(directory: Path, users: Iterable[int]) -> None:
    """Let these users through, and no other user: what is below is readable for every user that gets there.

    Only an access control list says that of several users. A filesystem without lets every user through; the uid, which
    is then the only way in, is not to be had from the directory above.
    """
    directory.chmod(_OWNER_ONLY)
    entries = [(_ACL_OWNER, 7, _ACL_NOBODY), *((_ACL_USER, 1, user) for user in sorted(users))]
    entries += [(_ACL_OWNING_GROUP, 0, _ACL_NOBODY), (_ACL_MASK, 1, _ACL_NOBODY), (_ACL_OTHERS, 0, _ACL_NOBODY)]
    if len(entries) == _ACL_EMPTY:
        return
    packed = struct.pack("<I", _ACL_VERSION) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(directory, "system.posix_acl_access", packed)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        directory.chmod(_OWNER_ONLY | 0o011)
