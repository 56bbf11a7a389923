"""From a container's spec to a process in its place: directory, links, log, environment, command.

Nothing is inherited from the agent: its environment is private, and a container should not behave differently
because of how the agent was started. HOME and TMPDIR point into the writable directory, so that what a program writes
there is counted and removed with its container. The directory in which a container begins is made when it is missing:
in its own directory or a volume of its pod, never elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import TypeVar, cast

from jettison import events
from jettison.errors import ContentError, ManifestError, RuntimeFailure, StartError
from jettison.manifests.files.decoding import shortened
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.processes import closing, processes
from jettison.runtimes.host.processes.confinement import group_of
from jettison.runtimes.host.processes.orders import Launch, Layer, MountPlan, MountPoint
from jettison.runtimes.host.processes.processes import Entrance, Identity, Process, WayIn
from jettison.runtimes.host.processes.terminals import HeldTerminal, empty_terminal, find_terminal, make_terminal
from jettison.runtimes.host.settings import PRIVATE, READ_ONLY
from jettison.runtimes.host.specs.security import NO_SECURITY, SecuritySpec
from jettison.runtimes.host.specs.spec import ContainerSpec
from jettison.runtimes.host.specs.texts import Sizes, expand
from jettison.runtimes.host.volumes import logs, volumes
from jettison.runtimes.host.volumes.pod_directories import PodDirectories
from jettison.runtimes.host.volumes.removal import remove_directory
from jettison.runtimes.host.volumes.volumes import Volume, descended
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import PROC

# The containers of a pod may be different users: each has to itself what it writes, and passes through what is above.
_SHARED_MODE, _OWN_MODE = 0o711, 0o700
_UNCHANGED = -1
# In the writable directory, so that what is in them is measured and removed with it.
_SCRATCH = {"/tmp": ".tmp", "/var/tmp": ".var-tmp"}  # noqa: S108  these are what is replaced
_SCRATCH_MODE, _STAGING, _LAYER = 0o1777, "mounts", ".layer"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  this is what is replaced
# To expand one takes up to 5 µs.
_VARIABLES_AT_ONCE, _WORDS_AT_ONCE = 50, 200
# Ours are smaller: see `texts.LARGEST_ENVIRONMENT`.
_LARGEST_ENVIRON = 512 * 1024

# How programs say EROFS, in small letters.
_READ_ONLY_WORDS = (b"read-only file system", b"erofs")
_READ_ONLY_REMARK = (
    "its log tells of a read-only file system: the host's files are read-only to processes, and a hostPath volume opens"
    " a directory of them (docs/host.md, --host-files)"
)

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


T = TypeVar("T")


class Launcher:
    """Starts the runs of one container, and commands beside them."""

    __slots__ = ("_directories", "_main", "_place", "_spec", "_terminal", "_variables")

    # What a container runtime would know of it.
    box = None
    stop_signal = signal.SIGTERM
    log_suffix = logs.SUFFIX

    def __init__(self, spec: ContainerSpec, directories: PodDirectories) -> None:
        self._spec = spec
        self._directories = directories
        # Those of the present run, where they could not be made again from the spec alone.
        self._variables: dict[str, str] | None = None
        # The main process, whose mounts commands in the container see.
        self._main: Identity | None = None
        # The master of its terminal, while it runs in one.
        self._terminal = -1
        self._place: Place | None = None

    @property
    def place(self) -> Place:
        """Made when it is asked for, at 30 µs: a pod may have 32."""
        if self._place is None:
            self._place = self._directories.services.places.of_container(self._directories.pod, self._spec.name)
        return self._place

    async def start(self, run: int, note: Callable[[Identity | None], Awaitable[None]]) -> Process:
        """The main process of a new run. Raises StartError, and then nothing runs."""
        services = self._directories.services
        # What an earlier run has left.
        await services.vacate(self.place, partial(events.KillFailed, self._directories.pod, self._spec.name))
        directory = self._directories.writable_dir(self._spec.name, run)
        self._variables = await self._ask_for_variables(directory)
        await services.wait_for(self._prepare, directory)
        await services.make(self.place)
        output = await self._open_log(run)
        given = master = -1
        try:
            launch = await self._in_turns(self._launch(self._spec.command, run, output))
            if self._has_terminal:
                master, given = make_terminal(self._spec.security.user)
                launch = replace(launch, streams=(given, given, given), has_terminal=True, master=master)
            elif self._has_input:
                given = _open_pipe(self._given)
                launch = replace(launch, streams=(given, output, output))
            if services.has_private_mounts:
                launch = replace(launch, mounts=self._mounts(directory))

            def born(pid: int, start_ticks: int) -> Awaitable[None]:
                self._main = pid, start_ticks
                return note(self._main)

            process = await processes.spawn(launch, self.place, born, services.starter)
            self._terminal, master = master, -1
            return process
        finally:
            os.close(output)
            for each in (given, master):
                if each >= 0:
                    os.close(each)

    async def _open_log(self, run: int) -> int:
        opened: list[int] = []
        path, user = self._directories.log_dir(self._spec.name), self._spec.security.user
        try:
            await self._directories.services.wait_for(lambda: opened.append(logs.open_log(path, run, user)))
        except asyncio.CancelledError:
            for each in opened:
                os.close(each)
            raise
        return opened[0]

    async def run(self, command: tuple[str, ...], run: int, seconds: int | None) -> int | None:  # noqa: ARG002
        """A command inside the running container, as probes and hooks are; its exit code. It ends with its caller."""
        launch = await self._in_turns(self._launch(command, run, None))
        return await processes.run(self._inside(launch), self.place, self._directories.services.starter)

    def way_in(self, run: int, identity: Identity) -> WayIn:
        """Into this run, for a command that another process starts."""
        entrance = Entrance(self._spec.name, self._inside(at_once(self._launch((), run, None))), self.place.door)
        if self._terminal >= 0:
            log = str(logs.log_file(self._directories.log_dir(self._spec.name), run))
            return WayIn(self._spec.name, identity, entrance, terminal=HeldTerminal(os.getpid(), self._terminal, log))
        return WayIn(self._spec.name, identity, entrance, given=str(self._given) if self._has_input else "")

    @property
    def _has_terminal(self) -> bool:
        return self._spec.is_ephemeral and self._spec.streams.has_terminal

    async def let_go(self, run: int) -> None:
        """Its main process has ended: what waits in its terminal goes into its log. Raises WriteError."""
        if self._terminal < 0:
            return
        master, self._terminal = self._terminal, -1
        try:
            log = await self._open_log(run)
            try:
                await empty_terminal(master, log)
            finally:
                os.close(log)
        finally:
            os.close(master)

    @property
    def _has_input(self) -> bool:
        return self._spec.streams.has_input and not self._has_terminal

    @property
    def _given(self) -> Path:
        """A pipe that is there as long as the pod, for what clients that attach write. Beside its runs, out of its
        reach.
        """
        return self._directories.writable_dir(self._spec.name, 0).with_name("stdin")

    async def _ask_for_variables(self, directory: Path) -> dict[str, str] | None:
        spec, contents = self._spec, self._directories.contents
        if contents is None or not spec.has_references:
            return None
        env = await contents.variables(spec.env, spec.env_from)
        try:
            return await self._in_turns(self._environment(directory, env))
        except ManifestError as error:
            raise ContentError(str(error)) from error

    async def _in_turns(self, work: Generator[None, None, T]) -> T:
        """All of it, with a turn of the loop for each of its parts."""
        while True:
            try:
                next(work)
            except StopIteration as done:
                return cast("T", done.value)
            await self._directories.services.turns.next()

    def _inside(self, launch: Launch) -> Launch:
        """With the mounts of the container, where it can have some of its own."""
        return replace(launch, inside=self._main) if self._directories.services.has_private_mounts else launch

    def _mounts(self, directory: Path) -> MountPlan:
        spec = self._spec
        mounted = {volume.name: volume for volume in self._directories.volumes}
        layer = self._layer(directory)
        points = [*([] if spec.security.is_sealed else self._own(directory)), *self._shared_memory(directory)]
        # Hidden are the layer, because the kernel refuses to look at it through itself, and a `/tmp` that would show
        # itself inside itself.
        hidden = [] if layer is None else [layer.directory]
        hidden += [
            point.base for point in points if directory.is_relative_to(point.target) and point.base != point.target
        ]
        points += [MountPoint(str(directory.with_name(_STAGING)), each, is_read_only=True) for each in hidden]
        for mount in spec.mounts:
            volume = mounted[mount.volume]
            is_read_only = mount.is_read_only or volume.is_content
            source = str(mount.sub_path) if mount.sub_path.parts else ""
            points.append(MountPoint(str(volume.path), f"/{mount.path}", source, is_read_only))
        return MountPlan(tuple(points), str(directory.with_name(_STAGING)), self._closed, layer)

    @property
    def _closed(self) -> str:
        if self._spec.security.is_sealed:
            return closing.ALL
        return closing.DISKS if self._directories.services.settings.host_files == READ_ONLY else closing.NOTHING

    def _own(self, directory: Path) -> list[MountPoint]:
        """Its writable directory, also where one of the others is in its way, and what is in it."""
        taken = [PurePath("/", mount.path) for mount in self._spec.mounts]
        scratch = [
            # A node that is tried out below /tmp shares it with its pods, as do the programs and files beside it.
            MountPoint(place if directory.is_relative_to(place) else str(directory / name), place)
            for place, name in _SCRATCH.items()
            if not any(PurePath(place).is_relative_to(path) for path in taken)
        ]
        return [MountPoint(str(directory), str(directory)), *scratch]

    def _shared_memory(self, directory: Path) -> list[MountPoint]:
        """The pod's, unless a volume is in its place, or its own directory is below."""
        memory, place = self._directories.shared_memory, PurePath(_SHARED_MEMORY)
        is_taken = any(place.is_relative_to(PurePath("/", mount.path)) for mount in self._spec.mounts)
        if memory is None or is_taken or directory.is_relative_to(place) or not Path(place).is_dir():
            return []
        return [MountPoint(str(memory), _SHARED_MEMORY)]

    def _layer(self, directory: Path) -> Layer | None:
        """Where what it writes to the host's files is kept; None where that is the host's, or cannot be written."""
        settings = self._directories.services.settings
        if settings.host_files != PRIVATE or self._spec.security.is_sealed:
            return None
        return Layer(str(directory / _LAYER), str(settings.pods_dir))

    def recall(self, identity: Identity) -> None:
        """Of a run that an earlier agent has started: its main process, and its variables from there.

        It could have written others over them since; that would be its own affair, as commands run with its rights.
        """
        self._main = identity
        if self._has_terminal:
            self._terminal = find_terminal(identity[0])
        if self._spec.has_references:
            data = kernel_files.read(PROC / str(identity[0]) / "environ") or b""
            pairs = (os.fsdecode(each).partition("=") for each in data[:_LARGEST_ENVIRON].split(b"\0") if each)
            self._variables = {name: value for name, _, value in pairs if name}

    def _environment(
        self, directory: Path, env: Iterable[tuple[str, str]] | None = None
    ) -> Generator[None, None, dict[str, str]]:
        spec, directories, contents = self._spec, self._directories, self._directories.contents
        whole = [*(() if contents is None else contents.server_variables()), *(spec.literals if env is None else env)]
        paths = {volume.name: str(volume.path) for volume in directories.volumes}
        if directories.services.has_private_mounts:
            paths = {mount.volume: f"/{mount.path}" for mount in reversed(spec.mounts)}
        extra = self.place.environment
        return (yield from environment(spec, directories.pod.name, directory, paths, extra, whole))

    def remark(self, run: int) -> str:
        """Why a run failed, where its last words are about files that it may not write. May wait for a disk."""
        services = self._directories.services
        if not services.has_private_mounts or self._closed != closing.DISKS:
            return ""
        words = logs.last_words(self._directories.log_dir(self._spec.name) / f"{run}{logs.SUFFIX}").lower()
        return _READ_ONLY_REMARK if any(each in words for each in _READ_ONLY_WORDS) else ""

    def find(self) -> None:
        """A process without an identity on record has run nothing foreign, and has left."""

    def release(self) -> None:
        """The process lives on, and so does its terminal."""
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1

    def discard(self) -> None:
        """Nothing but the kernel keeps a book about it."""

    def writable_dir(self, run: int, pid: int) -> str:  # noqa: ARG002
        """Where it writes."""
        return str(self._directories.writable_dir(self._spec.name, run))

    def _prepare(self, directory: Path) -> None:
        spec, security = self._spec, self._spec.security
        security = replace(security, group=group_of(security.user, security.group))
        try:
            directory.parent.mkdir(mode=_SHARED_MODE, parents=True, exist_ok=True)
            directory.mkdir(mode=_OWN_MODE, exist_ok=True)
        except OSError as error:
            raise StartError(f"cannot make `{directory}`: {kernel_files.reason(error)}") from error
        give_directory(directory, security)
        if self._has_input:
            _make_pipe(self._given)
        mounted = {volume.name: volume for volume in self._directories.volumes}
        are_mounted = self._directories.services.has_private_mounts
        if are_mounted:
            _make_own(directory, security)
            if (layer := self._layer(directory)) is not None:
                _make_layer(self._directories.base, Path(layer.directory))
        volumes.link(directory, spec.mounts, mounted, are_mounted=are_mounted)
        make_working_dir(spec, directory, mounted, security)

    def _launch(self, command: tuple[str, ...], run: int, output: int | None) -> Generator[None, None, Launch]:
        spec, directories = self._spec, self._directories
        directory = directories.writable_dir(spec.name, run)
        try:
            variables = self._variables
            if variables is None:
                variables = yield from self._environment(directory)
            words = yield from arguments(command, variables)
        except ManifestError as error:
            raise StartError(f"cannot start `{shortened(command[0]) if command else spec.name}`: {error}") from error
        place = working_directory(spec, directory)
        if directories.services.has_private_mounts and spec.working_dir.startswith("/"):
            place = Path(spec.working_dir)
        return Launch(words, variables, place, output, spec.security, directories.services.descriptors)


def give_directory(directory: Path, security: SecuritySpec) -> None:
    """To the user and the group that a container runs as. Raises StartError."""
    user, group = (_UNCHANGED if each is None else each for each in (security.user, security.group))
    try:
        os.chown(directory, user, group)
    except PermissionError as error:
        named = (("user", security.user), ("group", security.group))
        wanted = " and ".join(f"{what} `{number}`" for what, number in named if number is not None)
        why = f"the agent runs as user `{os.geteuid()}`, and only root may take another user or group"
        raise StartError(f"cannot run as {wanted}: {why}") from error
    except OSError as error:
        raise StartError(f"cannot give `{directory}` to user `{user}`: {kernel_files.reason(error)}") from error


def _make_pipe(path: Path) -> None:
    try:
        with suppress(FileExistsError):
            os.mkfifo(path, 0o600)
    except OSError as error:
        raise StartError(f"cannot make `{path}`: {kernel_files.reason(error)}") from error


def _open_pipe(path: Path) -> int:
    """For both directions: it never ends, whichever clients come and go, and to open it waits for none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise StartError(f"cannot use `{path}`: there is something else in its place")
        os.set_blocking(descriptor, True)
    except OSError as error:
        raise StartError(f"cannot open `{path}`: {kernel_files.reason(error)}") from error
    return descriptor


def _make_own(directory: Path, owner: SecuritySpec) -> None:
    """The container's own scratch directories, and an empty one to arrange its mounts in."""
    try:
        for name in _SCRATCH.values():
            with descended(directory, PurePath(name), owner.user, owner.group, _SCRATCH_MODE):
                pass
        directory.with_name(_STAGING).mkdir(mode=_OWN_MODE, exist_ok=True)
    except OSError as error:
        raise StartError(f"cannot make `{directory}`: {kernel_files.reason(error)}") from error


def _make_layer(base: Path, directory: Path) -> None:
    """An empty one: what an attempt to start has left cannot be used again."""
    try:
        remove_directory(base, directory)
        directory.mkdir(mode=_OWN_MODE)
    except (OSError, RuntimeFailure) as error:
        raise StartError(f"cannot make `{directory}`: {error}") from error


def environment(
    spec: ContainerSpec,
    pod_name: str,
    writable_dir: Path,
    paths: Mapping[str, str],
    extra: Mapping[str, str],
    env: Iterable[tuple[str, str]] | None = None,
) -> Generator[None, None, dict[str, str]]:
    """All variables; those of the manifest come after ours and may refer to them. `extra` cannot be overridden.

    As is everything that follows from a manifest, it is done in parts of a fraction of a millisecond: it yields after
    each of them.

    `paths` says where the container reaches each volume; `env` has those of the manifest once what they refer to was
    asked for. Raises ManifestError where they become too long.
    """
    found = {
        "PATH": SEARCH_PATH,
        "HOME": str(writable_dir),
        "TMPDIR": str(writable_dir),
        "HOSTNAME": pod_name,
    }
    wanted = {mount.volume for mount in spec.mounts}
    found |= {volumes.variable(name): path for name, path in paths.items() if name in wanted}
    yield from _adding(found, spec.literals if env is None else env)
    return {**found, **extra}


def add_variables(found: dict[str, str], env: Iterable[tuple[str, str]]) -> None:
    """Each may refer to those before it. Raises ManifestError where they become too long."""
    at_once(_adding(found, env))


def _adding(found: dict[str, str], env: Iterable[tuple[str, str]]) -> Generator[None, None, None]:
    sizes = Sizes(found)
    for number, (name, value) in enumerate(env, 1):
        sizes.variable(name, value)
        found[name] = expand(value, found)
        if number % _VARIABLES_AT_ONCE == 0:
            yield


def arguments(command: Iterable[str], variables: Mapping[str, str]) -> Generator[None, None, tuple[str, ...]]:
    """The words of a command with the variables of its container in them, in parts as well. Raises ManifestError where
    they become too long.
    """
    words, found = tuple(command), list[str]()
    Sizes(variables).words(words, "command")
    for start in range(0, len(words), _WORDS_AT_ONCE):
        found += [expand(word, variables) for word in words[start : start + _WORDS_AT_ONCE]]
        if len(found) < len(words):
            yield
    return tuple(found)


def at_once(work: Generator[None, None, T]) -> T:
    """All parts of it, for a caller that holds up no loop."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            return cast("T", done.value)


def working_directory(spec: ContainerSpec, writable_dir: Path) -> Path:
    """Inside a mounted volume when it lies below a mountPath, else a path of the host; relative to the writable one."""
    wanted = Path(spec.working_dir)
    if not wanted.is_absolute():
        return writable_dir / wanted
    inside = wanted.relative_to("/")
    if any(inside.is_relative_to(mount.path) for mount in spec.mounts):
        return writable_dir / inside
    return wanted


def make_working_dir(
    spec: ContainerSpec, writable_dir: Path, volumes: Mapping[str, Volume], owner: SecuritySpec = NO_SECURITY
) -> None:
    """Raises StartError. A path of the host is left to itself; that it is missing, the start will tell."""
    wanted = working_directory(spec, writable_dir)
    if not wanted.is_relative_to(writable_dir) or wanted.is_dir():
        return
    base, rest = _way(spec, writable_dir, wanted, volumes)
    if (base / rest).is_dir():
        return
    try:
        if ".." in rest.parts:
            raise StartError(f"cannot make workingDir `{spec.working_dir}`: allowed is one without `..`")
        with descended(base, rest, owner.user, owner.group):
            return
    except OSError as error:
        raise StartError(f"cannot make workingDir `{spec.working_dir}`: {kernel_files.reason(error)}") from error


def _way(spec: ContainerSpec, writable_dir: Path, wanted: Path, volumes: Mapping[str, Volume]) -> tuple[Path, PurePath]:
    inside = wanted.relative_to(writable_dir)
    for mount in spec.mounts:
        if inside.is_relative_to(mount.path):
            return volumes[mount.volume].path, mount.sub_path / inside.relative_to(mount.path)
    return writable_dir, inside
