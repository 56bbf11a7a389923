"""From a container's spec to a container on a container runtime: image, sandbox, mounts, environment, command.

The runtime makes it in a cgroup of its own below the pod's. From then on it is a process like any other: held by a
descriptor, measured and killed through its cgroup.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from jettison import events
from jettison.errors import ContentError, ManifestError, ObservationError, RuntimeFailure, StartError
from jettison.runtimes.containers import (
    BoxAddress,
    BoxLimits,
    BoxMount,
    BoxOrder,
    BoxSecurity,
    ContainerRuntime,
    FoundImage,
    SandboxOrder,
)
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.pods.records import BoxRecord
from jettison.runtimes.host.processes import processes
from jettison.runtimes.host.processes.launching import add_variables
from jettison.runtimes.host.processes.processes import EndedProcess, Identity, Process, WayIn
from jettison.runtimes.host.specs.spec import ContainerSpec, ImageSpec, PodSpec
from jettison.runtimes.host.specs.texts import Sizes, expand
from jettison.runtimes.host.specs.volumes import MountSpec
from jettison.runtimes.host.volumes import logs
from jettison.runtimes.host.volumes.pod_directories import PodDirectories
from jettison.runtimes.host.volumes.removal import remove_directory
from jettison.runtimes.host.volumes.volumes import Volume, show_sub_path
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.filesystems import upper_dir
from jettison.runtimes.linux.processes import read_process

# How long the runtime's books may take to say how a container ended of which the kernel did not tell.
_END_SECONDS = 5.0
_KILLED = 128 + signal.SIGKILL


def is_end_known(exit_code: int | None, *, is_oom: bool, is_killed: bool) -> bool:
    """Whether the kernel told all about the end of a main process, so that the runtime need not be asked.

    A count of OOM kills does not stand in for the exit code, which only the parent of a process learns.
    """
    return exit_code is not None and (exit_code != _KILLED or is_oom or is_killed)


def sandbox_order(directories: PodDirectories, spec: PodSpec) -> SandboxOrder:
    """What the containers of a pod share."""
    pod, services = directories.pod, directories.services
    return SandboxOrder(
        pod.namespace,
        pod.name,
        pod.uid,
        services.places.of_pod(pod).name,
        str(logs.pod_log_dir(services.settings.logs_dir, pod)),
        spec.has_host_processes,
        spec.shares_processes,
        not spec.has_host_network,
        spec.hostname,
        spec.ports,
    )


class BoxLauncher:
    """Starts the runs of one container, and commands in them."""

    log_suffix = logs.BOX_SUFFIX

    def __init__(
        self,
        spec: ContainerSpec,
        image: ImageSpec,
        directories: PodDirectories,
        pod: PodSpec,
        box: BoxRecord | None,
        box_of: Callable[[str], str] = lambda _: "",
    ) -> None:
        """`box_of` is the id of another container of the pod, empty while that does not run."""
        self._box_of = box_of
        self._spec = spec
        self._image = image
        self._directories = directories
        self._order = sandbox_order(directories, pod)
        # The present run, or the last one until it is off the runtime's books.
        self.box = box
        self.place = self._place_of("" if box is None else box.cgroup or box.id)
        self._upper: tuple[int, str] = (0, "")

    @property
    def stop_signal(self) -> signal.Signals:
        """The image's own."""
        return signal.SIGTERM if self.box is None else signal.Signals(self.box.stop_signal)

    async def start(self, run: int, note: Callable[[Identity | None], Awaitable[None]]) -> Process | EndedProcess:
        """The main process of a new run. Raises RuntimeFailure, and then nothing runs.

        `note` is called once the container has an id and before anything of it runs.
        """
        runtime, services = self._runtime(), self._directories.services
        await services.vacate(self.place, partial(events.KillFailed, self._directories.pod, self._spec.name))
        self.discard()
        image = await runtime.find_image(self._image.name, self._policy)
        order = self._box_order(run, image, await self._ask_for_variables())
        await services.wait_for(self._prepare, run)
        starting = asyncio.ensure_future(self._start(runtime, order, image, note))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The runtime may be about to start it: whatever comes of that is ended.
            starting.add_done_callback(self._undo)
            raise
        except BaseException:
            self.discard()
            raise

    @property
    def _policy(self) -> str:
        """Images are pulled when the pod is set up, which an ephemeral container was not there for; what was removed
        since is fetched again.
        """
        if self._spec.is_ephemeral or self._image.pull_policy == "Never":
            return self._image.pull_policy
        return "IfNotPresent"

    async def _start(
        self,
        runtime: ContainerRuntime,
        order: BoxOrder,
        image: FoundImage,
        note: Callable[[Identity | None], Awaitable[None]],
    ) -> Process | EndedProcess:
        sandbox = await runtime.sandbox(self._order)
        self._directories.addresses = sandbox.addresses
        made = await runtime.create(sandbox, self._order, order)
        self.box = BoxRecord(made.id, _stop_signal(image.stop_signal), made.cgroup)
        self.place = self._place_of(made.cgroup)
        await self._directories.services.make(self.place)
        self.place.watch()
        await note(None)
        pid = await runtime.start(made.id)
        process = self.find() if pid is None else self._held(pid)
        return process if process is not None else EndedProcess()

    def _undo(self, started: asyncio.Future[Process | EndedProcess]) -> None:
        if not started.cancelled() and started.exception() is None:
            started.result().close()
        try:
            self.place.kill()
        except RuntimeFailure as failure:
            self._directories.services.emit(events.KillFailed(self._directories.pod, self._spec.name, str(failure)))
        self.discard()

    def find(self) -> Process | EndedProcess | None:
        """The main process, which is the oldest, where its number is not known; None where there is no container.

        An earlier agent may have been about to start it, and a runtime may not tell the number.
        """
        if self.box is None:
            return None
        found = []
        for pid in self.place.processes():
            try:
                process = read_process(pid)
            except ObservationError:
                continue
            if process is not None and not process.is_zombie:
                found.append((process.start_ticks, pid))
        return (self._held(min(found)[1]) if found else None) or EndedProcess()

    def _held(self, pid: int) -> Process | None:
        """Only a process that is where it should be: the number is the runtime's word."""
        if not pid or pid not in self.place.processes():
            return None
        found = read_process(pid)
        return None if found is None else processes.adopt(pid, found.start_ticks, self._directories.services.turns.soon)

    async def run(self, command: tuple[str, ...], run: int, seconds: int | None) -> int | None:  # noqa: ARG002
        """A command inside the running container, as probes and hooks are; its exit code."""
        if self.box is None:
            raise StartError(f"container `{self._spec.name}` does not run")
        return await self._runtime().run_command(self.box.id, command, seconds)

    def way_in(self, run: int, identity: Identity) -> WayIn:  # noqa: ARG002
        """The runtime knows the namespaces, privileges and filters of the container: it starts commands there."""
        if self.box is None:
            raise StartError(f"container `{self._spec.name}` does not run")
        address = BoxAddress(self._runtime().endpoint, self.box.id)
        return WayIn(self._spec.name, identity, box=address, has_terminal=self._spec.streams.has_terminal)

    async def outcome(self, exit_code: int | None, *, is_oom: bool, is_killed: bool) -> tuple[int | None, bool]:
        """Exit code, and whether the kernel killed it for want of memory; what the kernel forgot the runtime knows.

        The runtime removes the cgroup of a dead container, and the count of kills with it, within milliseconds.
        """
        runtime = self._directories.services.boxes
        if self.box is None or is_end_known(exit_code, is_oom=is_oom, is_killed=is_killed) or runtime is None:
            end = None
        else:
            end = await runtime.end_of(self.box.id, _END_SECONDS)
        if end is not None:
            exit_code, is_oom = end.exit_code if exit_code is None else exit_code, is_oom or end.is_oom
        if is_oom:
            self.place.tell_kill()
        return exit_code, is_oom

    def discard(self) -> None:
        """The run is over, and nothing of it is wanted but its log."""
        if self.box is not None and self._directories.services.boxes is not None:
            self._directories.services.boxes.discard(self.box.id)
        self.box = None

    def writable_dir(self, run: int, pid: int) -> str:
        """What the container writes over its image, as the mount table of its process names it; read once a run."""
        if pid and self._upper[0] != pid:
            self._upper = pid, upper_dir(pid)
        own = str(self._directories.writable_dir(self._spec.name, run))
        return self._upper[1] or own if pid else own

    def _runtime(self) -> ContainerRuntime:
        runtime = self._directories.services.boxes
        if runtime is None:
            raise StartError("this node has no container runtime")
        return runtime

    def _place_of(self, cgroup: str) -> Place:
        places = self._directories.services.places
        return places.of_box(self._directories.pod, self._spec.name, cgroup)

    def _prepare(self, run: int) -> None:
        """Its log's directory, and one in which dead runs are counted. May wait for a disk."""
        for directory in (
            self._directories.writable_dir(self._spec.name, run),
            self._directories.log_dir(self._spec.name),
        ):
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise StartError(f"cannot make `{directory}`: {kernel_files.reason(error)}") from error
        self._show_parts()

    def _show_parts(self) -> None:
        """Anew for each run: what an earlier run has put in the place of a part counts now."""
        mounted = {volume.name: volume for volume in self._directories.volumes}
        remove_directory(self._directories.base, self._part(0).parent)
        for number, mount in enumerate(self._spec.mounts):
            if mount.sub_path.parts:
                try:
                    show_sub_path(mounted[mount.volume], mount.sub_path, self._part(number))
                except OSError as error:
                    why = f'failed to prepare subPath for volumeMount "{mount.volume}" of container "{self._spec.name}"'
                    raise StartError(f"{why}: {kernel_files.reason(error)}") from error

    def _part(self, number: int) -> Path:
        return self._directories.sub_paths_dir / self._spec.name / str(number)

    def _box_order(self, run: int, image: FoundImage, variables: dict[str, str]) -> BoxOrder:
        spec, security = self._spec, self._image.security
        if security.must_not_be_root and security.user is None:
            if image.user_name:
                why = f"image has non-numeric user ({image.user_name}), cannot verify user is non-root"
                raise StartError(f"container has runAsNonRoot and {why}")
            if not image.user:
                raise StartError("container has runAsNonRoot and image will run as root")
        try:
            command, args = (_words(words, variables) for words in (spec.command, self._image.args))
        except ManifestError as error:
            raise StartError(f"cannot start `{spec.name}`: {error}") from error
        target = self._box_of(spec.target) if spec.target else ""
        if spec.target and not target:
            # It may run soon.
            raise ContentError(f"targetContainerName: container `{spec.target}` does not run")
        mounted = {volume.name: volume for volume in self._directories.volumes}
        mounts = (_mount(each, mounted[each.volume], self._part(number)) for number, each in enumerate(spec.mounts))
        return BoxOrder(
            spec.name,
            run,
            image,
            f"{spec.name}/{run}{self.log_suffix}",
            command,
            args,
            variables,
            spec.working_dir,
            tuple(mounts),
            with_image_user(security, image),
            self._limits(),
            *spec.streams,
            target,
        )

    async def _ask_for_variables(self) -> dict[str, str]:
        """Those of the manifest, which may refer to those before them; the image's own are the runtime's part."""
        spec, contents, found = self._spec, self._directories.contents, dict[str, str]()
        env: Iterable[tuple[str, str]] = spec.literals
        if contents is not None and spec.has_references:
            env = await contents.variables(spec.env, spec.env_from)
        try:
            add_variables(found, [*(() if contents is None else contents.server_variables()), *env])
        except ManifestError as error:
            raise ContentError(str(error)) from error
        return found

    def _limits(self) -> BoxLimits:
        limits, score = self._directories.services.places.container_limits(self._directories.pod, self._spec.name)
        quota = max(limits.effective_quota_us, 0)
        return BoxLimits(
            max(limits.memory or 0, 0),
            max(limits.cpu_shares or 0, 0),
            quota,
            limits.cpu_period_us if quota else 0,
            score or 0,
            bool(limits.is_killed_as_one),
        )


def with_image_user(security: BoxSecurity, image: FoundImage) -> BoxSecurity:
    """A group without a user is that of the image's user, as for a kubelet; where the image names none, of root."""
    if security.group is None or security.user is not None:
        return security
    if image.user is None and image.user_name:
        return replace(security, user_name=image.user_name)
    return replace(security, user=image.user or 0)


def _mount(mount: MountSpec, volume: Volume, part: Path) -> BoxMount:
    source = part if mount.sub_path.parts else volume.path
    return BoxMount(str(source), f"/{mount.path}", mount.is_read_only or volume.is_content)


def _words(words: tuple[str, ...], variables: dict[str, str]) -> tuple[str, ...]:
    Sizes(variables).words(words, "command")
    return tuple(expand(word, variables) for word in words)


def _stop_signal(name: str) -> int:
    """`SIGQUIT`, `QUIT` or `3`, as images have it; SIGTERM for what is none."""
    if name.isascii() and name.isdigit() and len(name) < 3:
        return int(name) if int(name) in signal.valid_signals() else signal.SIGTERM
    found = signal.Signals.__members__.get(f"SIG{name.upper().removeprefix('SIG')}")
    return int(found or signal.SIGTERM)
