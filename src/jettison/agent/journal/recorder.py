"""Keeps a node's steps in its journal and its history in a file, for this agent and for the next one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from jettison import events
from jettison.agent.agent import AgentStep
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.reading import PodQuery, read_journal
from jettison.agent.journal.recent_readings import READINGS, RecentReadings
from jettison.agent.journal.records import FACT, VERSION, Document, Encoder, Look, Step
from jettison.agent.journal.saved_history import by_our_clock, read_history
from jettison.clock import Clock, Instant
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Evict, Outcome, Reclaim, decide
from jettison.engine.node.facts import ConditionChanged, ThresholdCrossed, ThresholdMet, ThresholdResolved
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import readings
from jettison.engine.node.snapshot import Snapshot
from jettison.errors import ObservationError
from jettison.events import Emit
from jettison.manifests.files.plain_files import replace_file, set_aside
from jettison.manifests.history import SavedAt, SavedHistory, encode_history
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.linux.proc import boot_id

REPEAT_NS = 10**9
"""A choice that stays the same and has no effect, because the pod is on its way out already, is recorded once a second:
with ten looks a second it would fill the journal. Whatever is acted upon is recorded."""

_TOLD = "eviction_started"

_NEWS = (ThresholdCrossed, ThresholdMet, ThresholdResolved, ConditionChanged)


class StepRecords:
    """Steps of one agent as records: which of them are kept, and what each says. Writes nothing."""

    def __init__(self, policy: Policy, node: str, *, is_dry_run: bool) -> None:
        self.policy = policy
        self.encoder = Encoder()
        self._node = node
        self._is_dry_run = is_dry_run
        # The look that led to a reclaim, with the history before it: the next one is decided from both.
        self._first: tuple[History, Look] | None = None
        self._last_choice: tuple[tuple[object, ...], int] | None = None

    def use(self, policy: Policy) -> None:
        """Between two steps: from now on they are decided by this."""
        self.policy = policy
        self.forget()

    def forget(self) -> None:
        """What was written before is no reason to leave something out."""
        self._first = self._last_choice = None

    def record(self, step: AgentStep) -> Document | None:
        """The record of a step; None where it only repeats the last one."""
        before, snapshot, outcome, alarm, at, has_effect, instead = step
        looks = [Look(snapshot, outcome)]
        if before.reclaiming is not None and self._first is not None:
            before, first = self._first
            # The agent comes back with the same snapshot when it could not take another.
            looks = [first, Look(None if snapshot is first.snapshot else snapshot, outcome)]
        self._first = (before, looks[0]) if isinstance(outcome.decision, Reclaim) else None
        if self._is_repeated(outcome, at.monotonic_ns, has_effect=has_effect):
            return None
        latency_ns = None if alarm is None else at.monotonic_ns - alarm.raised_ns
        source = "" if alarm is None else alarm.source
        acts = not self._is_dry_run
        told = () if acts and not has_effect else instead or None
        # On record all times are the wall clock's, whatever was made of that since the agent began.
        by_ns = at.wall_ns - at.steady_ns
        looks = [replace(each, snapshot=each.snapshot and each.snapshot.shifted(by_ns)) for each in looks]
        history = before.shifted(by_ns)
        recorded = Step(at.wall_ns, self._node, self.policy, history, looks, source, latency_ns, acts, told)
        return self.encoder.step(recorded)

    def _is_repeated(self, outcome: Outcome, now_ns: int, *, has_effect: bool) -> bool:
        """The same choice for the same threshold and no news: a pod on its way out is chosen again at every look."""
        decision, last = outcome.decision, self._last_choice
        if not isinstance(decision, Evict):
            self._last_choice = None
            return False
        orders = [decision.evictions[0]] if decision.at_most_one else decision.evictions
        choice = (decision.starved, *(order.pod.uid for order in orders))
        has_news = has_effect or any(isinstance(fact, _NEWS) for fact in outcome.facts)
        if not has_news and last is not None and last[0] == choice and now_ns - last[1] < REPEAT_NS:
            return True
        self._last_choice = (choice, now_ns)
        return False


class JournalRecorder:
    """The agent's `Recorder`. A record is written before it is acted on, and on the disk soon after."""

    def __init__(
        self,
        journal: Journal,
        history_path: Path,
        policy: Policy,
        clock: Clock,
        node: str,
        emit: Emit,
        *,
        is_dry_run: bool = False,
    ) -> None:
        self._journal = journal
        self._history_path = history_path
        self._clock = clock
        self._node = node
        self._emit = emit
        self._boot_id = boot_id()
        self.steps = StepRecords(policy, node, is_dry_run=is_dry_run)
        self._recent = RecentReadings()

    def step(self, step: AgentStep) -> None:
        """Write the step down. A bad disk is reported and does not keep the agent from acting."""
        self._recent.add(step.snapshot.now_ns, step.outcome.history.readings)
        record = self.steps.record(step)
        if record is not None and not self._journal.append(record):
            self._emit(events.ActionFailed("write the journal", self._journal.failure))

    def use(self, policy: Policy) -> None:
        """Between two steps: from now on they are decided by this."""
        self.steps.use(policy)

    def settle(self) -> None:
        """A power cut must not lose an eviction either."""
        if not self._journal.sync():
            self._emit(events.ActionFailed("bring the journal to the disk", self._journal.failure))

    def prepare(self, snapshot: Snapshot, *, is_urgent: bool) -> None:
        """To be called after a look that had nothing to say: the next one may be in a hurry.

        If it certainly is, go through the motions with a node that has no memory left: what was last done long ago is
        no longer in the processor's caches and takes four times as long.
        """
        self.steps.encoder.prepare(self.steps.policy, snapshot.pods)
        self._recent.add(snapshot.now_ns, readings(snapshot.node))
        if self._recent.is_due and not is_urgent:
            self._keep_readings()
        if is_urgent and snapshot.node.memory is not None:
            starved = replace(snapshot, node=snapshot.node._replace(memory=snapshot.node.memory._replace(available=0)))
            outcome = decide(self.steps.policy, History(), starved)
            step = Step(snapshot.now_ns, self._node, self.steps.policy, History(), [Look(starved, outcome)])
            self._journal.encode(self.steps.encoder.step(step))

    def _keep_readings(self, *, is_last: bool = False) -> None:
        """60 samples take 0.3 ms, and some 2 kB of the journal."""
        now_ns = self._clock.now_ns()
        taken = self._recent.take(now_ns - self._clock.steady_ns(), is_last=is_last)
        record = {"version": VERSION, "kind": READINGS, "time": now_ns, "node": self._node, "pods": [], **taken}
        if not self._journal.append(record):
            self._emit(events.ActionFailed("write the journal", self._journal.failure))

    def recent_readings(self) -> dict[str, Any]:
        """What the signals read lately, by the wall clock."""
        return self._recent.document(self._clock.now_ns() - self._clock.steady_ns())

    def close(self) -> None:
        """Write down what is only in memory."""
        if self._recent.fresh:
            self._keep_readings(is_last=True)

    def said_of(self, uid: str) -> Collection[str]:
        """Read from the newest record backwards, up to the one that chose or told the pod."""
        said: set[str] = set()
        try:
            for record in read_journal(self._journal.directory, newest_first=True, about=PodQuery(uid=uid)):
                if record.kind == FACT:
                    said.add(record.event)
                if record.event == _TOLD or uid in record.evicts:
                    break
        except ObservationError as failure:
            self._emit(events.ActionFailed("read the journal", str(failure)))
        return said

    def history(self, history: History) -> None:
        """Replace the history file. Not synced: a power cut ends every pod, and then there is nothing to remember."""
        now = Instant.of(self._clock)
        shown = history.shifted(now.wall_ns - self._clock.steady_ns())
        data = encode_history(SavedHistory(shown, self._node, SavedAt(now.wall_ns, self._boot_id, now.monotonic_ns)))
        try:
            replace_file(self._history_path, data)
        except OSError as error:
            self._emit(events.ActionFailed("write the history", f"`{self._history_path}`: {reason(error)}"))


def take_over_history(path: Path, clock: Clock, boot: str, emit: Emit) -> History | None:
    """What the agent before us remembered, by our own clock; None when there is none that can be used.

    A history is worth a few minutes of patience, and no reason to leave a node unguarded: one that is damaged is
    complained about and set aside.
    """
    try:
        saved = read_history(path)
    except ObservationError as failure:
        emit(events.ActionFailed("read the history, so it begins anew", set_aside(path, str(failure))))
        return None
    return None if saved is None else by_our_clock(saved, clock, boot)
