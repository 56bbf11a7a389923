"""One container of a pod: its runs one after another, each in a fresh place with a fresh writable directory.

When the main process ends the run has ended, and whatever it left behind is killed before anybody is told: without a
pid namespace the kernel does not do that for us. The exit is recorded first, because that is the part which nobody
could find out again.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from jettison import events
from jettison.clock import Instant
from jettison.engine.node.evictions import RUNTIME_MINIMUM
from jettison.errors import RuntimeFailure, StartError
from jettison.runtimes.host.pods import runs
from jettison.runtimes.host.pods.background_tasks import Errands
from jettison.runtimes.host.pods.deadlines import Deadline
from jettison.runtimes.host.pods.health import Health
from jettison.runtimes.host.pods.records import ContainerRecord
from jettison.runtimes.host.processes import processes
from jettison.runtimes.host.processes.entering import Entrance
from jettison.runtimes.host.processes.launching import Launcher
from jettison.runtimes.host.processes.processes import Process
from jettison.runtimes.host.specs.probes import ProbeKind, ProbeSpec
from jettison.runtimes.host.specs.spec import ContainerSpec
from jettison.runtimes.host.volumes import pod_directories as homes
from jettison.runtimes.host.volumes.pod_directories import PodHome

# Between two SIGKILLs to a place in which somebody still lives.
_KILL_AGAIN = 1.0

Keep = Callable[[ContainerRecord], None]


class Container:
    """Belongs to one pod worker. `keep` writes the pod's record with this container's new part, or raises."""

    def __init__(self, spec: ContainerSpec, home: PodHome, record: ContainerRecord, keep: Keep) -> None:
        self.spec = spec
        self.record = record
        self.place = home.household.places.of_container(home.pod, spec.name)
        self._home = home
        self._keep = keep
        self._launcher = Launcher(spec, home, self.place)
        self._health = Health(spec.probes, self._run_command, self)
        self._process: Process | None = None
        # There while processes of this container may be; resolved when the last is gone.
        self._ended: asyncio.Future[None] | None = None
        # When SIGTERM was sent; None before, and while the preStop hook runs.
        self._told_at: float | None = None
        self._log_dir = ""
        self._is_stopping = False
        self._errands = Errands(home.household.emit, self._label)

    @property
    def is_active(self) -> bool:
        """There may be processes: also after the main one has ended, until the rest is gone."""
        return self._ended is not None

    @property
    def is_ready(self) -> bool:
        """As its probes have it, also while it is being ended."""
        return self._health.is_ready

    @property
    def pid(self) -> int:
        """Of the main process; 0 without one."""
        return 0 if self._process is None else self._process.pid

    @property
    def writable_dir(self) -> Path:
        """Of the latest run."""
        return self._home.writable_dir(self.spec.name, max(self.record.run, 0))

    @property
    def log_dir(self) -> Path:
        """Of all runs."""
        return self._home.log_dir(self.spec.name)

    @property
    def log_path(self) -> str:
        """Of the latest run. A text, and its directory is kept: it is asked for every second."""
        if not self._log_dir:
            self._log_dir = str(self.log_dir)
        return f"{self._log_dir}/{self.record.run}.log"

    def entrance(self) -> Entrance:
        """Into the run that is under way. Raises StartError where there is none."""
        if self._process is None:
            raise StartError(f"container `{self.spec.name}` of pod `{self._home.pod}` does not run")
        return self._launcher.entrance(self.record.run)

    async def start(self) -> None:
        """Begin the next run. Failure is in the record; cancelled, it is as if nothing had been tried."""
        before, attempt = self.record, runs.begun(self.record, self._now())
        self._ended = asyncio.get_running_loop().create_future()
        self._is_stopping, self._told_at = False, None
        try:
            self._write(attempt)
            process = await self._launcher.start(attempt.run, self._on_born)
        except RuntimeFailure as failure:
            self._note(runs.not_started(attempt, self._now(), str(failure)))
            self._say_finished()
            self._errands.begin(self._leave())
        except asyncio.CancelledError:
            self._note(before)
            self._errands.begin(self._leave())
            raise
        else:
            self._attend(process)
            self._note(runs.running(self.record, self._now(), is_started=self._health.starts_by_itself))
            self._home.household.emit(events.ContainerStarted(self._home.pod, self.spec.name, self.record.run))
            self._health.begin(is_started=self.record.is_started)

    def adopt(self, *, is_same_boot: bool) -> None:
        """Take over from an agent that died: a running process goes on, of a dead one nobody knows how it ended."""
        record, now = self.record, self._now()
        found = None
        if is_same_boot and record.pid is not None and record.start_ticks is not None:
            found = processes.adopt(record.pid, record.start_ticks)
        if found is not None or self.place.exists:
            self._ended = asyncio.get_running_loop().create_future()
        after = runs.found_again(record, now, lives=found is not None, is_started=self._health.starts_by_itself)
        if found is not None:
            self.place.lead(found.pid)
            self._attend(found)
            if record.told_monotonic_ns is not None:
                # It has heard, and is not told twice.
                told_ago = (now.monotonic_ns - record.told_monotonic_ns) / runs.SECOND_NS
                self._is_stopping, self._told_at = True, asyncio.get_running_loop().time() - max(told_ago, 0.0)
        if after is not record:
            self._note(after)
        if found is not None:
            begun_ns = after.begun_monotonic_ns
            age = 0.0 if begun_ns is None else (now.monotonic_ns - begun_ns) / runs.SECOND_NS
            self._health.begin(is_started=after.is_started, age=max(age, 0.0))
            return
        if after is not record and after.state == "terminated":
            self._say_finished()
        if self.is_active:
            self._errands.begin(self._leave())

    def expect_end(self) -> None:
        """Its pod ends: whatever its probes say, it is not restarted and lives as long as it may."""
        self._health.expect_end()

    def terminate(self, deadline: Deadline, *, since: float | None = None) -> None:
        """SIGTERM to the main process, after its preStop hook if it has one. Returns at once and may be repeated.

        `since` is when it should have been told. An agent that died right then may have done it or not, so it is told
        now, and has no more time than it had.
        """
        self.expect_end()
        if self._process is None or self._is_stopping:
            return
        self._is_stopping = True
        if self.spec.pre_stop:
            self._errands.begin(self._terminate_after_hook(deadline))
        else:
            self._tell(since)
        self._home.household.emit(events.ContainerStopping(self._home.pod, self.spec.name))

    async def see_out(self, deadline: Deadline) -> None:
        """Wait until nothing is left of it, and kill what is still there when the time is up."""
        if self._ended is not None and not await deadline.outlast(self._ended, self._earliest_kill):
            loop = asyncio.get_running_loop()
            since = loop.time()
            while self._ended is not None:
                survivors = self.kill()
                await asyncio.wait([self._ended], timeout=_KILL_AGAIN)
                if self.is_active and survivors and loop.time() - since >= homes.PATIENCE:
                    since = loop.time()
                    self._home.household.emit(self._kill_failed(homes.undying(survivors)))

    def kill(self) -> frozenset[int]:
        """SIGKILL to everybody in the place; returns who was still there right afterwards. Does not wait."""
        if not self.is_active:
            return frozenset()
        self._signal(signal.SIGKILL)
        try:
            return self.place.kill()
        except RuntimeFailure as failure:
            self._home.household.emit(self._kill_failed(str(failure)))
            return frozenset()

    async def detach(self) -> None:
        """Let go of the container; its processes live on."""
        self._health.end()
        await self._errands.cancel()
        if self._process is not None:
            self._process.close()

    def on_started(self) -> None:
        """From its health."""
        self._note(replace(self.record, is_started=True))
        self._home.wake()

    def on_readiness(self, *, is_ready: bool, why: str) -> None:
        """From its health."""
        if not is_ready:
            self._say_probe_failed(ProbeKind.READINESS, why)

    def on_failure(self, spec: ProbeSpec, why: str) -> None:
        """From its health."""
        self._say_probe_failed(spec.kind, why)
        self._note(replace(self.record, is_doomed=True))
        deadline = Deadline(self._home.grace_seconds if spec.grace is None else spec.grace)
        self.terminate(deadline)
        self._errands.begin(self.see_out(deadline))

    async def _terminate_after_hook(self, deadline: Deadline) -> None:
        hook = asyncio.ensure_future(self._run_hook())
        try:
            if not await deadline.outlast(hook):
                why = "it was still running when the grace period was over"
                self._home.household.emit(events.ActionFailed(f"preStop hook of {self._label}", why))
        finally:
            hook.cancel()
            self._tell()

    async def _run_hook(self) -> None:
        """Whatever comes of it, the container is ended."""
        why = ""
        try:
            code = await self._run_command(self.spec.pre_stop)
            why = f"it exited with {code}" if code else ""
        except RuntimeFailure as failure:
            why = str(failure)
        if why:
            self._home.household.emit(events.ActionFailed(f"preStop hook of {self._label}", why))

    async def _run_command(self, command: tuple[str, ...]) -> int | None:
        return await self._launcher.run(command, self.record.run)

    def _tell(self, since: float | None = None) -> None:
        now = asyncio.get_running_loop().time()
        self._told_at = now if since is None else min(since, now)
        self._signal(signal.SIGTERM)
        # On record, so that an agent that takes over does not begin to count anew.
        ago_ns = round((now - self._told_at) * runs.SECOND_NS)
        self._note(replace(self.record, told_monotonic_ns=self._now().monotonic_ns - ago_ns))

    def _earliest_kill(self) -> float:
        """The kubelet has its runtime wait 2 s after SIGTERM, however short the grace period is."""
        if not self._is_stopping:
            return 0.0
        # While the hook runs SIGTERM has not been sent: it would come now at the earliest.
        told_at = asyncio.get_running_loop().time() if self._told_at is None else self._told_at
        return told_at + RUNTIME_MINIMUM

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            try:
                self._process.signal(number)
            except RuntimeFailure as failure:
                self._home.household.emit(self._kill_failed(str(failure)))

    def _on_born(self, pid: int, start_ticks: int) -> None:
        self._write(replace(self.record, pid=pid, start_ticks=start_ticks))

    def _attend(self, process: Process) -> None:
        self._process = process
        process.exited.add_done_callback(self._on_exit)

    def _on_exit(self, exited: asyncio.Future[int | None]) -> None:
        self._process = None
        self._health.end()
        kills = self.place.oom_kills() or 0
        self._note(runs.ended(self.record, self._now(), exited.result(), oom_kills=kills))
        self._say_finished()
        self._errands.begin(self._leave())

    async def _leave(self) -> None:
        await self._home.household.vacate(self.place, self._kill_failed)
        ended, self._ended = self._ended, None
        if ended is not None:
            ended.set_result(None)
        self._home.wake()

    def _write(self, record: ContainerRecord) -> None:
        """For what is about to be done: without a record it is not."""
        self._keep(record)
        self.record = record

    def _note(self, record: ContainerRecord) -> None:
        """For what has happened already: a disk that refuses the record does not undo it."""
        self.record = record
        try:
            self._keep(record)
        except RuntimeFailure as failure:
            self._home.household.emit(events.ActionFailed(f"record {self._label}", str(failure)))

    def _say_finished(self) -> None:
        record = self.record
        self._home.household.emit(
            events.ContainerFinished(
                self._home.pod, self.spec.name, record.exit_code or 0, record.reason, record.message
            )
        )

    def _kill_failed(self, why: str) -> events.KillFailed:
        return events.KillFailed(self._home.pod, self.spec.name, why)

    def _say_probe_failed(self, kind: ProbeKind, why: str) -> None:
        self._home.household.emit(events.ProbeFailed(self._home.pod, self.spec.name, kind.value, why))

    def _now(self) -> Instant:
        return Instant.of(self._home.household.clock)

    @property
    def _label(self) -> str:
        return f"container {self.spec.name} of {self._home.pod}"
