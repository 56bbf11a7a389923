"""How each threshold stands after a step: what was read, crossed or not, met or not, since when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from jettison.cli.policy.policy_input import PolicyInput
from jettison.cli.policy.provenance import HARD, SOFT, Provenance, thresholds_with_provenance
from jettison.engine.node.history import History
from jettison.engine.node.pressure import Pressure, assess
from jettison.engine.node.signals import readings
from jettison.engine.node.snapshot import Reading, Snapshot
from jettison.engine.node.thresholds import Threshold


class State(StrEnum):
    """The words of docs/architecture.md, and three for thresholds that are none of them."""

    CLEAR = "clear"
    CROSSED = "crossed"
    MET = "met"
    RESOLVED = "resolved"
    UNREAD = "no reading"
    # Thresholds derived from the disk layout count from the second step on.
    LATER = "from the next step on"


@dataclass(frozen=True, slots=True)
class ThresholdState:
    """One threshold against its reading."""

    provenance: Provenance
    reading: Reading | None
    state: State
    # Met, and by a reading newer than the last: what the step acts on.
    is_starved: bool = False
    since_ns: int | None = None

    @property
    def threshold(self) -> Threshold:
        """The threshold itself."""
        return self.provenance.threshold

    @property
    def is_crossed(self) -> bool:
        """Below its amount now; one that is met stays so a while longer, until minimum reclaim is reached."""
        return self.reading is not None and self.threshold.is_crossed(self.reading)

    @property
    def met_at_ns(self) -> int | None:
        """When its grace period ends, if it stays crossed."""
        return None if self.since_ns is None else self.since_ns + self.threshold.grace_ns


def threshold_states(found: PolicyInput, before: History, snapshot: Snapshot) -> list[ThresholdState]:
    """All thresholds of the policy, then those from the history that the policy no longer has but that still hold."""
    policy, layout = found.policy, snapshot.layout
    derived = policy.layouts[layout]
    active = derived.all if before.knows_layout else derived.first
    measured = readings(snapshot.node)
    pressure = assess(active, before, measured, snapshot.now_ns, policy.transition_ns)
    listed = thresholds_with_provenance(policy, layout)
    states = []
    for each in (*listed, *_left_over(listed, before, pressure)):
        threshold = each.threshold
        state = _state(threshold, before, pressure)
        if state is State.CLEAR and threshold.signal not in measured:
            state = State.UNREAD
        elif state is State.CLEAR and threshold not in active:
            state = State.LATER
        since = pressure.first_observed.get(threshold)
        is_starved = threshold in pressure.starved
        states.append(ThresholdState(each, measured.get(threshold.signal), state, is_starved, since))
    return states


def _left_over(listed: list[Provenance], before: History, pressure: Pressure) -> Iterator[Provenance]:
    known = {each.threshold for each in listed}
    for threshold in {**pressure.first_observed, **before.first_observed}:
        if threshold not in known:
            yield Provenance(threshold, HARD if threshold.is_hard else SOFT)


def _state(threshold: Threshold, before: History, pressure: Pressure) -> State:
    if threshold in pressure.met:
        return State.MET
    if threshold in pressure.first_observed:
        return State.CROSSED
    return State.RESOLVED if threshold in before.first_observed else State.CLEAR
