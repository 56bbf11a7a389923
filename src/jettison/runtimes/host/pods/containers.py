"""One container on this host: where its runs live and how they are started, asked and killed.

It has no rule of its own. When what happens is decided in `engine.lifecycle`; the pod's worker passes that on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from jettison.engine.lifecycle.events import FoundContainer
from jettison.engine.lifecycle.rules import ProbeKind
from jettison.errors import StartError
from jettison.runtimes.host.pods import probes
from jettison.runtimes.host.pods.records import Identity
from jettison.runtimes.host.pods.reports import ActiveContainer
from jettison.runtimes.host.processes import processes
from jettison.runtimes.host.processes.launching import Launcher
from jettison.runtimes.host.processes.processes import Entrance, Process
from jettison.runtimes.host.specs.spec import ContainerSpec
from jettison.runtimes.host.volumes import pod_directories
from jettison.runtimes.host.volumes.pod_directories import PodDirectories


class Container:
    """Belongs to one pod worker."""

    __slots__ = ("_directories", "_kills_since", "_launcher", "_log_dir", "identity", "place", "process", "spec")

    def __init__(self, spec: ContainerSpec, directories: PodDirectories, identity: Identity | None) -> None:
        self.spec = spec
        self.place = directories.services.places.of_container(directories.pod, spec.name)
        self.process: Process | None = None
        # Of the main process, as it is on record.
        self.identity = identity
        self._directories = directories
        self._launcher = Launcher(spec, directories, self.place)
        self._log_dir = ""
        # On the event loop's clock, when the last complaint about a process that does not die was due.
        self._kills_since: float | None = None

    def log_path(self, run: int) -> str:
        """A text, and its directory is kept: it is asked for every second."""
        if not self._log_dir:
            self._log_dir = str(self._directories.log_dir(self.spec.name))
        return f"{self._log_dir}/{run}.log"

    def active(self, run: int, *, is_running: bool) -> ActiveContainer:
        """What there is to be measured."""
        writable: Path = self._directories.writable_dir(self.spec.name, max(run, 0))
        log_dir = self._directories.log_dir(self.spec.name)
        pid = 0 if self.process is None else self.process.pid
        return ActiveContainer(self.spec.name, self.place, pid, str(writable), str(log_dir), is_running=is_running)

    def entrance(self, run: int) -> Entrance:
        """Into the run that is under way. Raises StartError where there is none."""
        if self.process is None:
            raise StartError(f"container `{self.spec.name}` of pod `{self._directories.pod}` does not run")
        return self._launcher.entrance(run)

    async def start(self, run: int, note: Callable[[], None]) -> Process:
        """Start a run. `note` is called once the process has a number and before anything foreign runs.

        Raises StartError, or what `note` raises; then nothing runs.
        """

        def on_born(pid: int, start_ticks: int) -> None:
            self.identity = (pid, start_ticks)
            note()

        self._kills_since = None
        try:
            self.process = await self._launcher.start(run, on_born)
        except BaseException:
            self.identity = None
            raise
        return self.process

    def find(self, *, is_same_boot: bool) -> FoundContainer:
        """What is left of it after the death of the agent that started it. Process ids mean nothing in another boot."""
        if is_same_boot and self.identity is not None:
            self.process = processes.adopt(*self.identity)
        if self.process is not None:
            self.place.lead(self.process.pid)
        is_running, was_born = self.process is not None, self.identity is not None
        return FoundContainer(self.spec.name, is_running, was_born, has_remains=is_running or self.place.exists)

    async def run_command(self, command: tuple[str, ...], run: int) -> int | None:
        """A command inside the running container, as hooks are; its exit code."""
        return await self._launcher.run(command, run)

    async def ask(self, kind: ProbeKind, run: int) -> probes.Answer:
        """One question of the probe of this kind."""
        spec = next(each for each in self.spec.probes if each.kind is kind)
        return await probes.ask(spec.action, spec.timeout, lambda command: self.run_command(command, run))

    def kill(self) -> str:
        """SIGKILL to everything in it. Does not wait; says now and then which processes do not die of it."""
        survivors, now = self.place.kill(), asyncio.get_running_loop().time()
        if self._kills_since is None:
            self._kills_since = now
        if not survivors or now - self._kills_since < pod_directories.PATIENCE:
            return ""
        self._kills_since = now
        return pod_directories.undying(survivors)

    def release(self) -> None:
        """Let go of the main process; it lives on."""
        if self.process is not None:
            self.process.close()
