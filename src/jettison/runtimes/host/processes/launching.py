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
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path, PurePath

from jettison import events
from jettison.errors import ManifestError, StartError
from jettison.manifests.files.decoding import shortened
from jettison.runtimes.host.processes import processes
from jettison.runtimes.host.processes.confinement import with_group
from jettison.runtimes.host.processes.forking import Launch
from jettison.runtimes.host.processes.processes import Entrance, Identity, Process
from jettison.runtimes.host.specs.security import NO_SECURITY, SecuritySpec
from jettison.runtimes.host.specs.spec import ContainerSpec
from jettison.runtimes.host.specs.texts import Sizes, expand
from jettison.runtimes.host.volumes import logs, volumes
from jettison.runtimes.host.volumes.pod_directories import PodDirectories
from jettison.runtimes.host.volumes.volumes import Volume, descended
from jettison.runtimes.linux.files import kernel_files

# The containers of a pod may be different users: each has to itself what it writes, and passes through what is above.
_SHARED_MODE, _OWN_MODE = 0o711, 0o700
_UNCHANGED = -1

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Launcher:
    """Starts the runs of one container, and commands beside them."""

    __slots__ = ("_directories", "_spec", "place")

    # What a container runtime would know of it.
    box = None
    stop_signal = signal.SIGTERM
    log_suffix = logs.SUFFIX

    def __init__(self, spec: ContainerSpec, directories: PodDirectories) -> None:
        self._spec = spec
        self._directories = directories
        self.place = directories.services.places.of_container(directories.pod, spec.name)

    async def start(self, run: int, note: Callable[[Identity | None], None]) -> Process:
        """The main process of a new run. Raises StartError, and then nothing runs."""
        services = self._directories.services
        # What an earlier run has left.
        await services.vacate(self.place, partial(events.KillFailed, self._directories.pod, self._spec.name))
        await services.wait_for(self._prepare, self._directories.writable_dir(self._spec.name, run))
        self.place.create()
        # Making cgroups and forking take a millisecond or two each: others may have their turn in between.
        await asyncio.sleep(0)
        output = logs.open_log(self._directories.log_dir(self._spec.name), run, self._spec.security.user)
        try:
            launch = self._launch(self._spec.command, run, output)
            return await processes.spawn(launch, self.place, lambda pid, start_ticks: note((pid, start_ticks)))
        finally:
            os.close(output)

    async def run(self, command: tuple[str, ...], run: int) -> int | None:
        """A command inside the running container, as probes and hooks are; its exit code."""
        return await processes.run(self._launch(command, run, None), self.place)

    def entrance(self, run: int) -> Entrance:
        """Into this run, for a command that another process starts."""
        return Entrance(self._spec.name, self._launch((), run, None), self.place.door)

    def find(self) -> None:
        """A process without an identity on record has run nothing foreign, and has left."""

    def discard(self) -> None:
        """Nothing but the kernel keeps a book about it."""

    def writable_dir(self, run: int, pid: int) -> str:  # noqa: ARG002
        """Where it writes."""
        return str(self._directories.writable_dir(self._spec.name, run))

    def _prepare(self, directory: Path) -> None:
        spec, security = self._spec, with_group(self._spec.security)
        try:
            directory.parent.mkdir(mode=_SHARED_MODE, parents=True, exist_ok=True)
            directory.mkdir(mode=_OWN_MODE, exist_ok=True)
            user, group = (_UNCHANGED if each is None else each for each in (security.user, security.group))
            os.chown(directory, user, group)
        except OSError as error:
            raise StartError(f"cannot make `{directory}`: {kernel_files.reason(error)}") from error
        mounted = {volume.name: volume for volume in self._directories.volumes}
        volumes.link(directory, spec.mounts, mounted)
        make_working_dir(spec, directory, mounted, security)

    def _launch(self, command: tuple[str, ...], run: int, output: int | None) -> Launch:
        spec, directories = self._spec, self._directories
        directory = directories.writable_dir(spec.name, run)
        try:
            variables = environment(spec, directories.pod.name, directory, directories.volumes, self.place.environment)
            words = arguments(command, variables)
        except ManifestError as error:
            raise StartError(f"cannot start `{shortened(command[0]) if command else spec.name}`: {error}") from error
        place = working_directory(spec, directory)
        return Launch(words, variables, place, output, with_group(spec.security), directories.services.descriptors)


def environment(
    spec: ContainerSpec, pod_name: str, writable_dir: Path, mounted: Iterable[Volume], extra: Mapping[str, str]
) -> dict[str, str]:
    """All variables; those of the manifest come after ours and may refer to them. `extra` cannot be overridden.

    Raises ManifestError where they become too long.
    """
    found = {
        "PATH": SEARCH_PATH,
        "HOME": str(writable_dir),
        "TMPDIR": str(writable_dir),
        "HOSTNAME": pod_name,
    }
    wanted = {mount.volume for mount in spec.mounts}
    found |= {volumes.variable(volume.name): str(volume.path) for volume in mounted if volume.name in wanted}
    sizes = Sizes(found)
    for name, value in spec.env:
        sizes.variable(name, value)
        found[name] = expand(value, found)
    return {**found, **extra}


def arguments(command: Iterable[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """The words of a command with the variables of its container in them. Raises ManifestError where they become too
    long.
    """
    words = tuple(command)
    Sizes(variables).words(words, "command")
    return tuple(expand(word, variables) for word in words)


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
