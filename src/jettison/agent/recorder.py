"""Keeps a node's steps in its journal and its history in a file, for the agent and for whoever comes after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jettison import events
from jettison.agent.journal import Journal
from jettison.agent.records import Encoder, Look, Step
from jettison.clock import Clock
from jettison.engine.decide import Evict, Outcome, Reclaim, decide
from jettison.engine.facts import ConditionChanged, ThresholdCrossed, ThresholdMet, ThresholdResolved
from jettison.engine.history import History
from jettison.engine.policy import Policy
from jettison.engine.snapshot import Snapshot
from jettison.errors import ActionFailed, ManifestError
from jettison.events import Emit
from jettison.manifests.history import SavedHistory, encode_history, parse_history
from jettison.runtimes.linux.kernel_files import reason
from jettison.runtimes.protocol import Alarm

REPEAT_NS = 10**9
"""A choice that stays the same and has no effect, because the pod is on its way out already, is recorded once a second:
with ten looks a second it would fill the journal. Whatever is acted upon is recorded."""

_NEWS = (ThresholdCrossed, ThresholdMet, ThresholdResolved, ConditionChanged)


class JournalRecorder:
    """The agent's `Recorder`. A record is with the kernel before anybody acts on it, and on the disk soon after."""

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
        step = Step(self._clock.now_ns(), self._node, self._policy, before, looks, source, latency_ns, acts, told)
        if not self._journal.append(self._encoder.step(step)):
            self._emit(events.ActionFailed("write the journal", self._journal.failure))

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

    def history(self, history: History) -> None:
        """Replace the history file. Not synced: a power cut ends every pod, and then there is nothing to remember."""
        data = encode_history(SavedHistory(history, self._node))
        fresh = self._history_path.with_suffix(".new")
        try:
            fresh.write_bytes(data)
            fresh.replace(self._history_path)
        except OSError as error:
            self._emit(events.ActionFailed("write the history", reason(error)))


def read_history(path: Path) -> History | None:
    """What the agent before us remembered; None when there was none. Raises ActionFailed when it cannot be used."""
    try:
        return parse_history(path.read_bytes(), str(path)).history
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ActionFailed(f"cannot read `{path}`: {reason(error)}") from error
    except ManifestError as error:
        raise ActionFailed(str(error)) from error
