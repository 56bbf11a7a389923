"""An agent over any runtime of this machine, with its journal, sinks and socket: what every guarded node has.

What else a node has (pods that it starts, workloads of others) its own class adds.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from jettison import events
from jettison.agent.agent import TICK_SECONDS, Agent, Broadcast
from jettison.agent.http.endpoints import Sources, public_routes, routes
from jettison.agent.http.recordings import Recordings
from jettison.agent.http.server import HttpServer, Route
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.policy_records import policy_record
from jettison.agent.journal.recorder import JournalRecorder, take_over_history
from jettison.agent.sinks.journal import JournalSink
from jettison.agent.sinks.kubernetes_events import KubernetesEvents
from jettison.agent.sinks.log import LogSink, NodeLog
from jettison.agent.sinks.metrics import Metrics
from jettison.clock import Clock, SystemClock
from jettison.engine.config.policy import Policy
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Condition, Signal
from jettison.engine.node.snapshot import Snapshot
from jettison.engine.numbers.quantity import Quantity
from jettison.errors import WriteError
from jettison.events import Fact, Sink
from jettison.node.card import NodeCard, short_path, write_card
from jettison.node.process.frame import ended, started
from jettison.node.process.protection import HostProtection
from jettison.node.settings import NodeSettings
from jettison.runtimes.linux.cgroups.mounts import discover
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.linux.proc import boot_id
from jettison.runtimes.machine.background_tasks import until_one_ends
from jettison.runtimes.machine.node_disks import StorageDirs
from jettison.runtimes.machine.stats_reader import StatsReader, StatsSource
from jettison.runtimes.protocol import PodStatus, ProbeCount, Runtime
from jettison.runtimes.stats import NodeSubject

if TYPE_CHECKING:
    from jettison.node.cluster_settings import Settings


SOCKET_NAME = "agent.sock"

FRESH_NS = 500 * 10**6
"""A request for readings older than this makes the agent measure again: one client sees a node live, and a thousand
clients cannot keep it busy."""

STALE_NS = round(3.5 * TICK_SECONDS * 10**9)
"""An agent that has not looked for so long is not guarding anything."""


class MachineRuntime(Runtime, Protocol):
    """A runtime of this machine, which can be asked and told more than an agent does."""

    lacks: tuple[str, ...]

    def statuses(self) -> Sequence[PodStatus]:
        """All pods, ended ones included."""

    def use(self, policy: Policy) -> None:
        """Watch for these thresholds from now on."""

    def subject(self) -> NodeSubject:
        """What there is to measure in detail."""

    @property
    def memory_alarm(self) -> str:
        """How a shortage of memory is noticed, in words."""

    async def close(self) -> None:
        """Let go of everything; what runs goes on running."""


class Watch(ABC):
    """`async with` guards from when it is ready until the block ends; what runs lives on.

    The parts that it is made of are there from `open` to `close`.
    """

    agent: Agent
    runtime: MachineRuntime
    emit: Broadcast
    metrics: Metrics
    kubernetes_events: KubernetesEvents

    # Its pods come from an API.
    is_member = False

    def __init__(self, settings: NodeSettings, *sinks: Sink, owns_process: bool = False) -> None:
        self.settings = settings
        # The process is the agent's alone, and may be protected as a whole.
        self.owns_process = owns_process
        # What this machine does not permit, one line each.
        self.lacks: tuple[str, ...] = ()
        # Where it listens besides the socket.
        self.port: int | None = None
        self._sinks = sinks
        self._is_told_to_stop = asyncio.Event()
        self._protection: HostProtection | None = None
        self._guarding: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        try:
            self._guarding = await started(lambda tell: self.run(lambda _: tell()))
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._guarding is not None
        try:
            await ended(self._guarding)
        finally:
            await self.close()

    async def open(self) -> Self:
        """Take over what an earlier agent left, or begin anew. A second agent for the same node is refused."""
        settings = self.settings
        try:
            _make_directory(settings.node_state)
        except OSError as error:
            raise WriteError(f"cannot create `{settings.node_state}`: {reason(error)}") from error
        # What is wrong with the files of an earlier agent is said once there is a log and a journal to say it in.
        complaints: list[Fact] = []
        history = take_over_history(settings.node_state / "history.json", SystemClock(), boot_id(), complaints.append)
        self.metrics = Metrics(() if history is None else history.conditions)
        logs = [sink for sink in self._sinks if isinstance(sink, LogSink | NodeLog)]
        self.metrics.watch(
            "jettison_log_lines_dropped_total",
            "Log lines that were dropped because they were not read in time.",
            lambda: sum(log.dropped for log in logs),
        )
        self.emit = Broadcast(SystemClock(), self.metrics, *self._sinks)
        self._journal = Journal.open(settings.node_state / "journal")
        self.emit.add(JournalSink(self._journal, settings.node_name))
        complaints += [events.ActionFailed("continue the journal", why) for why in self._journal.complaints]
        for complaint in complaints:
            self.emit(complaint)
        try:
            self.runtime = await self._open_runtime()
        except BaseException:
            self._journal.close()
            raise
        self._put_together(history)
        try:
            await self._appear()
        except BaseException:
            await self.close()
            raise
        return self

    @abstractmethod
    async def _open_runtime(self) -> MachineRuntime:
        """What it watches; the sinks are there by now."""

    @abstractmethod
    def _orders(self) -> Mapping[str, Route]:
        """What the owner of the socket may order; the agent is there by now."""

    def _probe_counts(self) -> Sequence[ProbeCount]:
        """What probes have answered; nothing where pods have none."""
        return ()

    def _runtimes(self) -> Mapping[str, str]:
        """Container runtimes and engines, and why each does not answer; empty for one that does."""
        return {}

    def _work(self) -> Sequence[Coroutine[Any, Any, Any]]:
        """What goes on beside the agent."""
        return ()

    async def _is_ready(self) -> None:
        """Returns once everything that was to be done at the start was tried."""
        await self.agent.has_looked.wait()

    def _image_dirs(self) -> StorageDirs:
        """Where images and writable layers are; empty where there are none."""
        return StorageDirs("", "")

    def _uses_slices(self) -> bool:
        """Whether its cgroups are systemd's."""
        return False

    def _stores(self) -> tuple[str, tuple[str, ...]]:
        """The container runtime, as it was named, and sockets of engines: what keeps images for it."""
        return self.settings.cri_endpoint, ()

    def _places(self) -> list[str]:
        """Lines of the greeting about what else it has to run pods on."""
        return []

    @abstractmethod
    def _guarded(self) -> str:
        """What is guarded, in a few words."""

    def _put_together(self, history: History | None) -> None:
        clock = SystemClock()
        settings, emit, runtime, journal = self.settings, self.emit, self.runtime, self._journal
        self.lacks = runtime.lacks
        self.kubernetes_events = KubernetesEvents(settings.node_name)
        emit.add(self.kubernetes_events)
        is_dry_run = settings.is_dry_run
        recorder = JournalRecorder(
            journal,
            settings.node_state / "history.json",
            settings.policy,
            clock,
            settings.node_name,
            emit,
            is_dry_run=is_dry_run,
        )
        self.agent = Agent(runtime, settings.policy, clock, recorder, emit, history=history, is_dry_run=is_dry_run)
        orders = self._orders()
        self.metrics.watch(
            "jettison_journal_failures_total", "Records that could not be written.", lambda: journal.failures
        )
        self.metrics.watch_each(
            "jettison_container_runtime_up",
            "1 while the container runtime or engine answers.",
            "runtime",
            lambda: {runtime: int(not lack) for runtime, lack in self._runtimes().items()},
        )
        self._service = HostService(
            self.agent,
            runtime.statuses,
            runtime.subject,
            self.metrics,
            self.kubernetes_events,
            settings.node_state / "journal",
            clock,
            orders,
            lambda executor: Recordings(self.agent, recorder, journal, clock, settings.node_name, executor),
            recorder.recent_readings,
            self._probe_counts,
        )
        self._recorder = recorder

    def conditions(self) -> frozenset[Condition]:
        """As reported, which is longer than as observed."""
        return self.agent.history.conditions

    def use(self, policy: Policy) -> None:
        """From the next look on. What the machine was divided by at the start stays as it was."""
        self.agent.use(policy)
        self.runtime.use(policy)

    def told_of_itself(self) -> Mapping[str, Quantity]:
        """What it has for pods, as it has told an API at its start; nothing where there is none."""
        return {}

    @abstractmethod
    def reread(self, settings: Settings) -> None:
        """Of what is no part of a policy, take over what can change while it runs."""

    def complaint(self) -> str | None:
        """Why the node is not guarded as it should be, or None."""
        return self._service.complaint()

    async def _appear(self) -> None:
        """Be found by commands and scrapers; the last that can go wrong."""
        settings, state = self.settings, self.settings.node_state
        self.port = await self._service.open(state / SOCKET_NAME, settings.listen)
        if self.owns_process:
            protection = HostProtection(settings, settings.policy.config.oom_score_adj, self.emit)
            self.lacks += protection.begin()
            self._protection = protection
        now_ns = SystemClock().now_ns()
        write_card(
            state,
            NodeCard(
                short_path(settings.node_dir, state),
                os.getpid(),
                now_ns,
                settings.is_dry_run,
                self.lacks,
                self.is_member,
                settings.readmits,
                tuple(map(str, (*settings.manifests, *settings.static_manifests))),
                *self._image_dirs(),
                policy_record(settings.policy),
                self._uses_slices(),
                *self._stores(),
            ),
        )

    async def run(self, tell: Callable[[str], None] = lambda _: None) -> None:
        """Guard the node until cancelled, or told to stop through its socket.

        `tell` is called once the node is ready, with what it guards.
        """
        self.emit(events.AgentStarted(self.settings.node_name, self.lacks))
        telling = asyncio.create_task(self._tell_when_ready(tell))
        try:
            await until_one_ends(self.agent.run(), self._is_told_to_stop.wait(), *self._work())
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            self.emit(events.AgentStopped(self.settings.node_name))

    async def _tell_when_ready(self, tell: Callable[[str], None]) -> None:
        await self._is_ready()
        tell(self.greeting())

    def greeting(self) -> str:
        """What is guarded, against what and how: also when that is nothing, which is seldom meant."""
        settings = self.settings
        own = [each for each in settings.policy.thresholds if each.signal is not Signal.ALLOCATABLE_MEMORY_AVAILABLE]
        hard, soft = (", ".join(str(each) for each in own if each.is_hard is kind) for kind in (True, False))
        lines = [f"node {settings.node_name} is ready{' (a dry run: no pod is evicted)' * settings.is_dry_run}"]
        if own:
            lines += [f"  hard     {hard or 'none'}", *([f"  soft     {soft}"] if soft else [])]
            lines.append(f"  memory   noticed by {self.runtime.memory_alarm}")
        else:
            lines.append("  nothing is guarded: no thresholds are set, --eviction-hard sets some")
        lines += [*self._places(), f"  pods     {self._guarded()}"]
        return "\n".join(lines)

    def statuses(self) -> Sequence[PodStatus]:
        """Every pod of the node, as it is now."""
        return self.runtime.statuses()

    async def wait(self) -> None:
        """Until the node is told to stop through its socket; raises what else ends its guard."""
        assert self._guarding is not None
        await asyncio.shield(self._guarding)

    async def close(self) -> None:
        """Let go; pods that run go on running."""
        await self._service.close()
        if self._protection is not None:
            self._protection.end()
        await self.runtime.close()
        self._recorder.close()
        self._journal.close()


def _make_directory(directory: Path) -> None:
    """Users that pods run as pass through it to their own files, so it cannot be closed. No other user lists what is in
    it, and none writes there or above, whatever the umask.
    """
    for each in reversed(directory.parents):
        if not each.exists():
            each.mkdir(mode=0o755, exist_ok=True)
    directory.mkdir(mode=0o711, exist_ok=True)
    if directory.stat().st_mode & 0o066:
        directory.chmod(0o711)


class HostService:
    """Listens from `open` to `close`."""

    def __init__(
        self,
        agent: Agent,
        statuses: Callable[[], Sequence[PodStatus]],
        subject: Callable[[], NodeSubject],
        metrics: Metrics,
        events: KubernetesEvents,
        journal: Path,
        clock: Clock,
        orders: Mapping[str, Route],
        recordings: Callable[[Executor], Recordings],
        readings: Callable[[], Mapping[str, Any]],
        probes: Callable[[], Sequence[ProbeCount]],
    ) -> None:
        self._agent = agent
        self._clock = clock
        self._executor = ThreadPoolExecutor(1, "jettison-journal")
        sources = Sources(
            lambda: agent.policy,
            self._snapshot,
            StatsSource(subject, StatsReader(discover(), clock), self._executor).details,
            statuses,
            metrics.text,
            self.complaint,
            journal,
            events,
            self._executor,
            readings,
            probes,
        )
        recorded = recordings(self._executor)
        every = {**routes(sources), **recorded.routes()}
        self._server = HttpServer(every, public_routes(sources), {**orders, **recorded.orders()})

    async def open(self, socket: Path, listen: tuple[str, int] | None) -> int | None:
        """The TCP port, if one was asked for."""
        await self._server.listen_unix(socket)
        return None if listen is None else await self._server.listen_tcp(*listen)

    async def close(self) -> None:
        """Hang up."""
        await self._server.close()
        self._executor.shutdown()

    def _snapshot(self) -> Snapshot | None:
        """The newest, by the wall clock. What is asked for next will be newer."""
        newest = self._agent.snapshot
        if newest is None:
            return None
        if self._age_ns(newest) > FRESH_NS:
            self._agent.look_soon()
        return newest.shifted(self._clock.now_ns() - self._clock.steady_ns())

    def complaint(self) -> str | None:
        """Why the node is not guarded as it should be, or None."""
        newest = self._agent.snapshot
        if newest is None:
            return "the node has not been looked at yet"
        age_ns = self._age_ns(newest)
        return f"the node was last looked at {age_ns // 10**9} s ago" if age_ns > STALE_NS else None

    def _age_ns(self, snapshot: Snapshot) -> int:
        return self._clock.steady_ns() - snapshot.now_ns
