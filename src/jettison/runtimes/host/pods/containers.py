"""One container on this host: where its runs live and how they are started, asked and killed.

It has no rule of its own. When what happens is decided in `engine.lifecycle`; the pod's worker passes that on.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from jettison.engine.lifecycle.events import FoundContainer
from jettison.engine.lifecycle.rules import HookKind, ProbeKind
from jettison.errors import StartError
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.pods import probes
from jettison.runtimes.host.pods.records import BoxRecord, ContainerRecord
from jettison.runtimes.host.pods.reports import ActiveContainer
from jettison.runtimes.host.processes import processes
from jettison.runtimes.host.processes.launching import Launcher
from jettison.runtimes.host.processes.processes import EndedProcess, Identity, Process, WayIn
from jettison.runtimes.host.specs.spec import ContainerSpec, PodSpec
from jettison.runtimes.host.volumes import pod_directories
from jettison.runtimes.host.volumes.pod_directories import PodDirectories

# Exit codes from here on are of signals.
_KILLED = 128


class Container:
    """Belongs to one pod worker."""

    __slots__ = ("_directories", "_kills_since", "_launcher", "_log_dir", "identity", "process", "spec")

    def __init__(
        self,
        spec: ContainerSpec,
        pod: PodSpec,
        directories: PodDirectories,
        known: ContainerRecord | None,
        sibling: Callable[[str], Container | None],
    ) -> None:
        """`sibling` is another container of the pod, by its name."""
        self.spec = spec
        self.process: Process | EndedProcess | None = None
        # Of the main process, as it is on record.
        self.identity: Identity | None = None if known is None else known.identity
        self._directories = directories
        self._launcher: Launcher | BoxLauncher
        if spec.image is None:
            self._launcher = Launcher(spec, directories)
        else:
            # A node without a container runtime never loads it; one that has a runtime has loaded it by now.
            from jettison.runtimes.host.pods.boxes import BoxLauncher  # noqa: PLC0415

            box = None if known is None else known.box
            self._launcher = BoxLauncher(spec, spec.image, directories, pod, box, partial(_box_of, sibling))
        self._log_dir = ""
        # On the event loop's clock, when the last complaint about a process that does not die was due.
        self._kills_since: float | None = None

    @property
    def place(self) -> Place:
        """Where it runs, or has run last: a container runtime gives each run another one."""
        return self._launcher.place

    @property
    def box(self) -> BoxRecord | None:
        """As a container runtime knows it; None for a process."""
        return self._launcher.box

    @property
    def stop_signal(self) -> signal.Signals:
        """What asks it to end."""
        return self._launcher.stop_signal

    def log_path(self, run: int) -> str:
        """A text: it is asked for every second."""
        return f"{self._own_log_dir}/{run}{self._launcher.log_suffix}"

    @property
    def _own_log_dir(self) -> str:
        """One text for all that asks for it."""
        if not self._log_dir:
            self._log_dir = str(self._directories.log_dir(self.spec.name))
        return self._log_dir

    def active(self, run: int, *, is_running: bool) -> ActiveContainer:
        """What there is to be measured."""
        pid = 0 if self.process is None else self.process.pid
        writable = self._launcher.writable_dir(max(run, 0), pid)
        box = "" if self.box is None else self.box.id
        return ActiveContainer(self.spec.name, self.place, pid, writable, self._own_log_dir, is_running, box)

    def way_in(self, run: int) -> WayIn:
        """Into the run that is under way. Raises StartError where there is none."""
        if self.process is None or not self.process.pid:
            raise StartError(f"container `{self.spec.name}` of pod `{self._directories.pod}` does not run")
        return self._launcher.way_in(run, (self.process.pid, self.process.start_ticks))

    async def start(self, run: int, note: Callable[[], Awaitable[None]]) -> Process | EndedProcess:
        """Start a run. `note` is waited for once it can be found again and before anything foreign runs.

        Raises StartError, or what `note` raises; then nothing runs.
        """

        async def on_born(identity: Identity | None) -> None:
            self.identity = identity
            await note()

        self._kills_since = None
        try:
            self.process = await self._launcher.start(run, on_born)
        except BaseException:
            self.identity = None
            raise
        if self.process.pid:
            self.identity = (self.process.pid, self.process.start_ticks)
        return self.process

    def find(self, *, is_same_boot: bool) -> FoundContainer:
        """What is left of it after the death of the agent that started it. Process ids mean nothing in another boot."""
        if is_same_boot and self.identity is not None:
            self.process = processes.adopt(*self.identity, self._directories.services.turns.soon)
        if is_same_boot and self.process is None:
            self.process = self._launcher.find()
        if self.process is not None and self.process.pid:
            self.identity = (self.process.pid, self.process.start_ticks)
            self.place.lead(self.process.pid)
            if isinstance(self._launcher, Launcher):
                self._launcher.recall(self.identity)
        is_running, was_born = self.process is not None, self.identity is not None
        return FoundContainer(self.spec.name, is_running, was_born, has_remains=is_running or self.place.exists)

    async def call_hook(self, kind: HookKind, run: int) -> str:
        """What went wrong with the hook, or nothing."""
        hook = self.spec.post_start if kind is HookKind.POST_START else self.spec.pre_stop
        return "" if hook is None else await probes.call_hook(hook, self._runner(run, None), self._address)

    async def ask(self, kind: ProbeKind, run: int) -> probes.Answer:
        """One question of the probe of this kind."""
        spec = next(each for each in self.spec.probes if each.kind is kind)
        return await probes.ask(spec.action, spec.timeout, self._runner(run, spec.timeout), self._address)

    def _runner(self, run: int, seconds: int | None) -> probes.RunCommand:
        """For commands inside the running container; their caller waits so long."""
        return lambda command: self._launcher.run(command, run, seconds)

    @property
    def _address(self) -> str:
        """What the pod's status has as `podIP`, which is the node's where the pod has the network of the host."""
        known = self._directories.addresses or self._directories.services.configuration.addresses
        return next(iter(known), probes.LOOPBACK)

    def kill(self) -> Coroutine[Any, Any, str]:
        """SIGKILL to everything in it, which begins before this returns; then which processes do not die of it, now and
        then.
        """
        if self._kills_since is None:
            self._kills_since = asyncio.get_running_loop().time()
        return self._complain(self._directories.services.kill(self.place), self._kills_since)

    async def _complain(self, killing: Awaitable[frozenset[int]], since: float) -> str:
        survivors, now = await killing, asyncio.get_running_loop().time()
        if not survivors or now - since < self._directories.services.settings.pace.kill:
            return ""
        self._kills_since = now
        return pod_directories.undying(survivors)

    async def outcome(self, exit_code: int | None, *, is_oom: bool) -> tuple[int | None, bool]:
        """Exit code and whether the kernel killed it for want of memory, as far as that comes out."""
        if isinstance(self._launcher, Launcher):
            return exit_code, is_oom
        return await self._launcher.outcome(exit_code, is_oom=is_oom, is_killed=self._kills_since is not None)

    async def remark(self, run: int, exit_code: int | None) -> str:
        """What this node has to do with a failure that the program itself has told of; empty as a rule."""
        if not isinstance(self._launcher, Launcher) or not 0 < (exit_code or 0) < _KILLED:
            return ""
        return await self._directories.services.wait_for(self._launcher.remark, run)

    def discard(self) -> None:
        """Nothing of its last run is left to be killed: no book has to be kept about it."""
        self._launcher.discard()

    def release(self) -> None:
        """Let go of the main process; it lives on."""
        if self.process is not None:
            self.process.close()
        if isinstance(self._launcher, Launcher):
            self._launcher.release()

    def forget_process(self) -> None:
        """It has ended."""
        self.process = self.identity = None

    async def let_go(self, run: int) -> None:
        """Of the terminal of a run that has ended. Raises WriteError where its last words find no room."""
        if isinstance(self._launcher, Launcher):
            await self._launcher.let_go(run)


def _box_of(sibling: Callable[[str], Container | None], name: str) -> str:
    found = sibling(name)
    return "" if found is None or found.box is None or found.process is None else found.box.id
