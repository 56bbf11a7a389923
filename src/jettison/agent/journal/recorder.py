"""Keeps a node's steps in its journal and its history in a file, for this agent and for the next one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from jettison import events
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.reading import PodQuery, read_journal
from jettison.agent.journal.records import FACT, Encoder, Look, Step
from jettison.clock import Clock, Instant
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Evict, Outcome, Reclaim, decide
from jettison.engine.node.facts import ConditionChanged, ThresholdCrossed, ThresholdMet, ThresholdResolved
from jettison.engine.node.pressure import History
from jettison.engine.node.snapshot import Snapshot
from jettison.errors import ManifestError, ObservationError
from jettison.events import Emit
from jettison.manifests.files.plain_files import read_plain, replace_file, set_aside
from jettison.manifests.history import SavedAt, SavedHistory, encode_history, parse_history
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.linux.proc import boot_id
from jettison.runtimes.protocol import Alarm

REPEAT_NS = 10**9
"""A choice that stays the same and has no effect, because the pod is on its way out already, is recorded once a second:
with ten looks a second it would fill the journal. Whatever is acted upon is recorded."""

LARGEST_HISTORY = 2**20
"""Bytes; one with every signal and threshold has some 10,000."""

_TOLD = "eviction_started"

_NEWS = (ThresholdCrossed, ThresholdMet, ThresholdResolved, ConditionChanged)


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
        self._policy = policy
        self._clock = clock
        self._node = node
        self._emit = emit
        self._is_dry_run = is_dry_run
        self._boot_id = boot_id()
        self._encoder = Encoder()
        # The look that led to a reclaim, with the history before it: the next one is decided from both.
        self._first: tuple[History, Look] | None = None
        self._last_choice: tuple[tuple[object, ...], int] | None = None

    def step(
        self,
        before: History,
        snapshot: Snapshot,
        outcome: Outcome,
        alarm: Alarm | None,
        *,
        has_effect: bool,
        instead: Sequence[str] = (),
    ) -> None:
        """Write the step down. A bad disk is reported and does not keep the agent from acting."""
        looks = [Look(snapshot, outcome)]
        if before.reclaiming is not None and self._first is not None:
            before, first = self._first
            # The agent comes back with the same snapshot when it could not take another.
            looks = [first, Look(None if snapshot is first.snapshot else snapshot, outcome)]
        self._first = (before, looks[0]) if isinstance(outcome.decision, Reclaim) else None
        if self._is_repeated(outcome, has_effect=has_effect):
            return
        latency_ns = None if alarm is None else self._clock.monotonic_ns() - alarm.raised_ns
        source = "" if alarm is None else alarm.source
        acts = not self._is_dry_run
        told = () if acts and not has_effect else instead or None
        # On record all times are the wall clock's, whatever was made of that since the agent began.
        now_ns = self._clock.now_ns()
        by_ns = now_ns - self._clock.steady_ns()
        looks = [replace(each, snapshot=each.snapshot and each.snapshot.shifted(by_ns)) for each in looks]
        history = before.shifted(by_ns)
        step = Step(now_ns, self._node, self._policy, history, looks, source, latency_ns, acts, told)
        if not self._journal.append(self._encoder.step(step)):
            self._emit(events.ActionFailed("write the journal", self._journal.failure))

    def use(self, policy: Policy) -> None:
        """Between two steps: from now on they are decided by this."""
        self._policy, self._first, self._last_choice = policy, None, None

    def settle(self) -> None:
        """A power cut must not lose an eviction either."""
        if not self._journal.sync():
            self._emit(events.ActionFailed("bring the journal to the disk", self._journal.failure))

    def _is_repeated(self, outcome: Outcome, *, has_effect: bool) -> bool:
        """The same choice for the same threshold and no news: a pod on its way out is chosen again at every look."""
        decision, last = outcome.decision, self._last_choice
        if not isinstance(decision, Evict):
            self._last_choice = None
            return False
        orders = [decision.evictions[0]] if decision.at_most_one else decision.evictions
        choice = (decision.starved, *(order.pod.uid for order in orders))
        now_ns = self._clock.monotonic_ns()
        has_news = has_effect or any(isinstance(fact, _NEWS) for fact in outcome.facts)
        if not has_news and last is not None and last[0] == choice and now_ns - last[1] < REPEAT_NS:
            return True
        self._last_choice = (choice, now_ns)
        return False

    def prepare(self, snapshot: Snapshot, *, is_urgent: bool) -> None:
        """To be called after a look that had nothing to say: the next one may be in a hurry.

        If it certainly is, go through the motions with a node that has no memory left: what was last done long ago is
        no longer in the processor's caches and takes four times as long.
        """
        self._encoder.prepare(self._policy, snapshot.pods)
        if is_urgent and snapshot.node.memory is not None:
            starved = replace(snapshot, node=snapshot.node._replace(memory=snapshot.node.memory._replace(available=0)))
            outcome = decide(self._policy, History(), starved)
            step = Step(snapshot.now_ns, self._node, self._policy, History(), [Look(starved, outcome)])
            self._journal.encode(self._encoder.step(step))

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


def read_history(path: Path) -> SavedHistory | None:
    """What an agent remembered, as it saved it; None when there is none. Raises ObservationError for a damaged one."""
    try:
        return parse_history(read_plain(path, LARGEST_HISTORY), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ObservationError(f"cannot read `{path}`: {reason(error)}") from error
    except ManifestError as error:
        raise ObservationError(str(error)) from error


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


def by_our_clock(saved: SavedHistory, clock: Clock, boot: str) -> History:
    """What was saved, with times that can be compared with those of our snapshots: none of them is in the future.

    Within one boot it is certain how much time has passed. After another one the wall clock has to tell, as far as it
    can be believed, and no threshold counts as crossed without a break.
    """
    history, at, now = saved.history, saved.at, Instant.of(clock)
    is_same_boot = at is not None and bool(boot) and at.boot_id == boot
    if at is None:
        # Of an older version of this program.
        passed_ns, saved_ns = 0, now.wall_ns
    elif is_same_boot:
        passed_ns, saved_ns = max(now.monotonic_ns - at.monotonic_ns, 0), at.wall_ns
    else:
        passed_ns, saved_ns = now.age_ns(at.wall_ns, is_same_boot=False), at.wall_ns
        history = replace(history, first_observed={}, met=())
    now_ns = clock.steady_ns()
    shifted = history.shifted(now_ns - passed_ns - saved_ns)
    return replace(
        shifted,
        first_observed={each: min(since, now_ns) for each, since in shifted.first_observed.items()},
        condition_observed={each: min(seen, now_ns) for each, seen in shifted.condition_observed.items()},
        conditions=shifted.conditions & shifted.condition_observed.keys(),
        # Whether the next reading is newer than the last one matters only within one process.
        readings={},
    )
