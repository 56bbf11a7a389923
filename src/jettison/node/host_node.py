"""One guarded node of this machine, put together: runtime, agent, keeper, journal, sinks and socket.

Here and only here do the parts learn of one another. `up` runs it until it is told to stop, `demo` for a minute.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jettison import events
from jettison.agent.admission import Admitter, NodeIdentity
from jettison.agent.agent import Agent
from jettison.agent.broadcast import Broadcast
from jettison.agent.http.controls import Controls
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.recorder import JournalRecorder, take_over_history
from jettison.agent.pods import holds
from jettison.agent.pods.directories import ManifestDirectory
from jettison.agent.pods.holds import Holds
from jettison.agent.pods.keeper import Keeper
from jettison.agent.pods.readmission import Readmitter
from jettison.agent.pods.sources import Manifests
from jettison.agent.sinks.journal import JournalSink
from jettison.agent.sinks.kubernetes_events import KubernetesEvents
from jettison.agent.sinks.log import LogSink, NodeLog
from jettison.agent.sinks.metrics import Metrics
from jettison.clock import SystemClock
from jettison.engine.config.policy import Policy
from jettison.engine.node.history import History
from jettison.engine.node.signals import Condition, Signal
from jettison.engine.scheduling.taints import Taint
from jettison.errors import WriteError
from jettison.events import Fact, Sink
from jettison.node.host_protection import HostProtection
from jettison.node.host_service import SOCKET_NAME, HostService
from jettison.node.node_card import NodeCard, short_path, write_card
from jettison.runtimes.host.processes.entering import encode_entrance
from jettison.runtimes.host.runtime import HostRuntime
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.host.specs.spec import pod_spec
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.linux.proc import boot_id
from jettison.runtimes.protocol import PodStatus


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What the operator asked for."""

    settings: HostSettings
    policy: Policy
    manifests: Sequence[Path] = ()
    static_manifests: Sequence[Path] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    readmits: bool = False
    is_dry_run: bool = False
    # Host and port on the loopback, besides the socket; port 0 takes a free one.
    listen: tuple[str, int] | None = None
    # The process is the agent's alone, and may be protected as a whole.
    owns_process: bool = False
    # Its pods come from an API.
    is_member: bool = False

    @property
    def node_state(self) -> Path:
        """Journal, history and socket of this node."""
        return self.settings.state_dir / "node" / self.settings.node_name


class HostNode:
    """Made by `open`, ended by `close`; pods live on between the two."""

    def __init__(
        self,
        options: NodeOptions,
        emit: Broadcast,
        runtime: HostRuntime,
        journal: Journal,
        metrics: Metrics,
        history: History | None,
    ) -> None:
        clock = SystemClock()
        settings, policy = options.settings, options.policy
        self.options = options
        self.runtime = runtime
        self.metrics = metrics
        self.kubernetes_events = KubernetesEvents(settings.node_name)
        self.emit = emit
        self._journal = journal
        emit.add(self.kubernetes_events)
        recorder = JournalRecorder(
            journal,
            options.node_state / "history.json",
            policy,
            clock,
            settings.node_name,
            emit,
            is_dry_run=options.is_dry_run,
        )
        self.agent = Agent(runtime, policy, clock, recorder, emit, history=history, is_dry_run=options.is_dry_run)
        self.keeper = self._keeper(clock)
        controls = Controls(
            settings.node_name,
            runtime,
            self.keeper,
            self.agent,
            lambda uid, container: encode_entrance(runtime.entrance(uid, container)),
            lambda: os.kill(os.getpid(), signal.SIGTERM),
            is_member=options.is_member,
        )
        metrics.watch("jettison_journal_failures_total", "Records that could not be written.", lambda: journal.failures)
        self._service = HostService(
            self.agent,
            runtime,
            metrics,
            self.kubernetes_events,
            options.node_state / "journal",
            clock,
            controls.routes(),
        )
        self._protection: HostProtection | None = None
        # What this machine does not permit, one line each.
        self.lacks: tuple[str, ...] = runtime.lacks
        # Where it listens besides the socket.
        self.port: int | None = None

    def conditions(self) -> frozenset[Condition]:
        """As reported, which is longer than as observed."""
        return self.agent.history.conditions

    def use(self, policy: Policy) -> None:
        """From the next look on. What the machine was divided by at the start stays as it was."""
        self.agent.use(policy)
        self.keeper.admitter.use(policy)
        self.runtime.use(policy)

    def reread_manifests(self) -> None:
        """All of them at the next look, whatever their files' times say."""
        for directory in self._directories:
            directory.reread()
        self.keeper.wake()

    def complaint(self) -> str | None:
        """Why the node is not guarded as it should be, or None."""
        return self._service.complaint()

    def _keeper(self, clock: SystemClock) -> Keeper:
        options, emit = self.options, self.emit
        identity = NodeIdentity(options.settings.node_name, options.labels, options.taints)
        admitter = Admitter(
            self.runtime,
            options.policy,
            identity,
            self.conditions,
            emit,
            self.agent.evict,
            lambda manifest: pod_spec(manifest.document, str(manifest.pod)),
            is_dry_run=options.is_dry_run,
        )
        directories = self._directories = [ManifestDirectory(path, emit) for path in options.manifests]
        directories += [ManifestDirectory(path, emit, is_static=True) for path in options.static_manifests]
        readmitter = Readmitter(self.runtime, clock, self.conditions, readmits=options.readmits)
        manifests = Manifests(directories, emit, readmitter, self.runtime.statuses())
        return Keeper(self.runtime, admitter, [manifests], emit, Holds(options.node_state / holds.NAME, emit))

    @classmethod
    async def open(cls, options: NodeOptions, *sinks: Sink) -> HostNode:
        """Take over what an earlier agent left, or begin anew. A second agent for the same node is refused."""
        try:
            _make_directory(options.node_state)
        except OSError as error:
            raise WriteError(f"cannot create `{options.node_state}`: {reason(error)}") from error
        # What is wrong with the files of an earlier agent is said once there is a log and a journal to say it in.
        complaints: list[Fact] = []
        history = take_over_history(options.node_state / "history.json", SystemClock(), boot_id(), complaints.append)
        metrics = Metrics(() if history is None else history.conditions)
        logs = [sink for sink in sinks if isinstance(sink, LogSink | NodeLog)]
        metrics.watch(
            "jettison_log_lines_dropped_total",
            "Log lines that nobody read in time.",
            lambda: sum(log.dropped for log in logs),
        )
        emit = Broadcast(SystemClock(), metrics, *sinks)
        journal = Journal.open(options.node_state / "journal")
        emit.add(JournalSink(journal, options.settings.node_name))
        complaints += [events.ActionFailed("continue the journal", why) for why in journal.complaints]
        for complaint in complaints:
            emit(complaint)
        try:
            runtime = await HostRuntime.open(options.settings, options.policy, SystemClock(), emit)
        except BaseException:
            journal.close()
            raise
        node = cls(options, emit, runtime, journal, metrics, history)
        try:
            await node._appear()
        except BaseException:
            await node.close()
            raise
        return node

    async def _appear(self) -> None:
        """Be found by commands and scrapers; the last that can go wrong."""
        options, state = self.options, self.options.node_state
        self.port = await self._service.open(state / SOCKET_NAME, options.listen)
        if options.owns_process:
            protection = HostProtection(options.settings, options.policy.config.oom_score_adj, self.emit)
            self.lacks += protection.begin()
            self._protection = protection
        now_ns = SystemClock().now_ns()
        write_card(
            state,
            NodeCard(
                short_path(options.settings.node_dir, state),
                os.getpid(),
                now_ns,
                options.is_dry_run,
                self.lacks,
                options.is_member,
                options.readmits,
                tuple(map(str, (*options.manifests, *options.static_manifests))),
            ),
        )

    async def run(self, tell: Callable[[str], None] = lambda _: None) -> None:
        """Guard the node until cancelled. `tell` is called once the node is ready, with what it guards."""
        self.emit(events.AgentStarted(self.options.settings.node_name, self.lacks))
        tasks = [asyncio.create_task(self.agent.run()), asyncio.create_task(self.keeper.run())]
        telling = asyncio.create_task(self._tell_when_ready(tell))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*tasks, telling):
                task.cancel()
            await asyncio.gather(*tasks, telling, return_exceptions=True)
            self.emit(events.AgentStopped(self.options.settings.node_name))

    async def _tell_when_ready(self, tell: Callable[[str], None]) -> None:
        await self.keeper.has_looked.wait()
        await self.agent.has_looked.wait()
        tell(self.greeting())

    def greeting(self) -> str:
        """What is guarded, against what and how: also when that is nothing, which is seldom meant."""
        options = self.options
        own = [each for each in options.policy.thresholds if each.signal is not Signal.ALLOCATABLE_MEMORY_AVAILABLE]
        hard, soft = (", ".join(str(each) for each in own if each.is_hard is kind) for kind in (True, False))
        lines = [f"node {options.settings.node_name} is ready{' (a dry run: no pod is evicted)' * options.is_dry_run}"]
        if own:
            lines += [f"  hard     {hard or 'none'}", *([f"  soft     {soft}"] if soft else [])]
            lines.append(f"  memory   noticed by {self.runtime.memory_alarm}")
        else:
            lines.append("  nothing is guarded: no thresholds are set, --eviction-hard sets some")
        lines.append(f"  pods     {self._pods()}")
        return "\n".join(lines)

    def _pods(self) -> str:
        options, statuses = self.options, self.runtime.statuses()
        directories = [str(path) for path in (*options.manifests, *options.static_manifests)]
        origin = f" from {', '.join(directories)}" if directories else ""
        if options.is_member:
            origin += " and the API" if directories else " from the API"
        elif not directories:
            return f"{_count(statuses)}, and no more will come: --manifests names a directory of some"
        held = f"; deleted by hand, and held: {', '.join(self.keeper.held)}" if self.keeper.held else ""
        others = Counter(each.reason or each.phase for each in statuses if each.phase != "Running")
        told = ", ".join(f"{number} {what}" for what, number in sorted(others.items()))
        return f"{_count(statuses)}{f' ({told})' if told else ''}{origin}{held}"

    async def stop_pods(self) -> None:
        """End every pod, all at once, and forget it."""
        await asyncio.gather(*(self.runtime.stop(status.pod.uid) for status in self.runtime.statuses()))

    async def close(self) -> None:
        """Let go; pods that run go on running."""
        await self._service.close()
        if self._protection is not None:
            self._protection.end()
        await self.runtime.close()
        self._journal.close()


def _count(statuses: Sequence[PodStatus]) -> str:
    return "1 pod" if len(statuses) == 1 else f"{len(statuses) or 'no'} pods"


def _make_directory(directory: Path) -> None:
    """Users that pods run as pass through it to their own files, so it cannot be shut; but nobody else lists what is in
    it, and nobody else writes there or above, whatever the umask.
    """
    for each in reversed(directory.parents):
        if not each.exists():
            each.mkdir(mode=0o755, exist_ok=True)
    directory.mkdir(mode=0o711, exist_ok=True)
    if directory.stat().st_mode & 0o066:
        directory.chmod(0o711)
