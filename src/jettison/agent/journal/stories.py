"""What the journal knows about one pod, gathered from its newest record backwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from jettison.agent.journal.reading import PodName, PodQuery, Record, read_journal
from jettison.agent.journal.recorded_steps import RecordedStep, step_from
from jettison.agent.journal.records import STEP
from jettison.engine.node.signals import Signal
from jettison.engine.pods.preemption import PREEMPTING

_SIGNALS = frozenset(signal.value for signal in Signal)
_STARTED = "eviction_started"
_KILLED = "out_of_memory_kill"
_RECLAIMED = "reclaim_finished"
MOST_KILLS = 5


@dataclass(slots=True)
class Story:
    """One pod. What is None is not on record, or no longer."""

    pod: PodName
    # The newest step that chose the pod; if none did, the newest that ranked it.
    step: RecordedStep | None = None
    is_chosen: bool = False
    # The newest fact of each name, newest first.
    facts: dict[str, Record] = field(default_factory=dict)
    # Newest first, not all of them.
    kills: list[Record] = field(default_factory=list)
    reclaimed: Record | None = None
    # Decided just now from measurements, and not by an agent: it is told in the present tense.
    is_asked: bool = False

    @property
    def started(self) -> Record | None:
        """The pod was told to end."""
        return self.facts.get(_STARTED)

    @property
    def is_preempted(self) -> bool:
        """It made room for a critical pod; no step decided that."""
        return self.started is not None and self.started.values.get("reason") == PREEMPTING

    @property
    def is_for_pressure(self) -> bool:
        """It went because the node was starved, not because it was over a limit of its own."""
        return self.started is not None and self.started.values.get("signal") in _SIGNALS

    def after(self, event: str, other: Record | None) -> Record | None:
        """The newest fact of this name if it came after the other: in the journal, for a clock may be set back."""
        found = self.facts.get(event)
        if found is None or other is None:
            return found
        names = list(self.facts)
        return found if names.index(event) < names.index(other.event) else None


def story_of(directory: Path, query: PodQuery) -> Story | None:
    """Everything about the pod; of several that match, the one with the newest record. None when there is none."""
    return tell(read_journal(directory, newest_first=True), query)


def tell(newest_first: Iterable[Record], query: PodQuery) -> Story | None:
    """The story in these records. Stops reading as soon as the pod's last eviction is told.

    The step that chose a pod is the last one before the pod was told to end: while it ends it is chosen again.
    """
    story: Story | None = None
    chosen: Record | None = None
    ranked: Record | None = None
    records = iter(newest_first)
    for record in records:
        story = story or _begin(record, query)
        if story is None or story.pod not in record.pods:
            continue
        if record.kind != STEP:
            _add_fact(story, record)
            if story.is_preempted:
                return story
        elif story.started is not None and _may_have_chosen(story, record):
            # What was freed is on record right before the look that came after it.
            story.reclaimed = _reclaim_in(next(records, None))
            return _with_step(story, record, is_chosen=True)
        elif story.pod[2] in record.evicts:
            chosen = chosen or record
        elif record.ranks:
            ranked = ranked or record
    if story is None or not (chosen or ranked):
        return story
    return _with_step(story, chosen or ranked, is_chosen=chosen is not None)


def _with_step(story: Story, record: Record | None, *, is_chosen: bool) -> Story:
    if record is not None:
        story.step, story.is_chosen = step_from(record.data), is_chosen
    return story


def _may_have_chosen(story: Story, record: Record) -> bool:
    """For pressure another pod may have been the first choice, and failed."""
    return story.pod[2] in record.evicts or (story.is_for_pressure and record.ranks)


def _reclaim_in(record: Record | None) -> Record | None:
    return record if record is not None and record.event == _RECLAIMED else None


def _begin(record: Record, query: PodQuery) -> Story | None:
    pod = next((pod for pod in record.pods if query.matches(pod)), None)
    return None if pod is None else Story(pod)


def _add_fact(story: Story, record: Record) -> None:
    story.facts.setdefault(record.event, record)
    if record.event == _KILLED and len(story.kills) < MOST_KILLS:
        story.kills.append(record)
