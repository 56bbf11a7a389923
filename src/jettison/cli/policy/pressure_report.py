"""Thresholds and conditions after a step, as tables and as data: what was read, crossed or met and since when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from jettison.agent.amounts import amount_data
from jettison.cli.output import NOTHING, table
from jettison.cli.policy.policy_input import PolicyInput, place_of
from jettison.engine.config.provenance import HARD, SOFT, Provenance, thresholds_with_provenance
from jettison.engine.node.amounts import precise, short
from jettison.engine.node.pressure import History, Pressure, assess
from jettison.engine.node.signals import ROWS, Condition, readings
from jettison.engine.node.snapshot import Reading, Snapshot
from jettison.engine.node.thresholds import Amount, Threshold
from jettison.engine.numbers.durations import SECOND_NS, duration_text
from jettison.manifests.times import exact_time_text, time_text
from jettison.values import frozen


class State(StrEnum):
    """The words of docs/architecture.md, and three for thresholds that are none of them."""

    CLEAR = "clear"
    CROSSED = "crossed"
    MET = "met"
    RESOLVED = "resolved"
    UNREAD = "no reading"
    # Thresholds derived from the disk layout count from the second step on.
    LATER = "from the next step on"


@frozen
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


_HEAD = ("SIGNAL", "TYPE", "BELOW", "AVAILABLE", "CAPACITY", "RESOLVED AT", "STATE", "SINCE")


def instant(time_ns: int | None) -> str | None:
    """For JSON. Null as well where a period ends after the year 9999."""
    try:
        return None if time_ns is None else exact_time_text(time_ns)
    except OverflowError:
        return None


def pressure_text(states: Sequence[ThresholdState], now_ns: int) -> str:
    """One row per threshold."""
    return table(_HEAD, (_row(each, now_ns) for each in states)) if states else "no thresholds are set"


def amount_text(amount: Amount | None) -> str:
    """As the operator wrote it, more or less."""
    return NOTHING if amount is None else str(amount)


def _row(each: ThresholdState, now_ns: int) -> tuple[str, ...]:
    threshold, reading = each.threshold, each.reading
    row = ROWS[threshold.signal]
    kind = "hard" if threshold.is_hard else f"soft {duration_text(threshold.grace_ns)}"
    since = NOTHING if each.since_ns is None else time_text(each.since_ns)
    if reading is None:
        return threshold.signal, kind, amount_text(threshold.amount), NOTHING, NOTHING, NOTHING, each.state, since
    resolved = short(threshold.quantity(reading.capacity), row.resource)
    below = str(threshold.amount)
    if below.endswith("%"):
        below = f"{below} = {resolved}"
    # Exact where it decides: a threshold may be missed by one byte.
    shown = precise if each.state in (State.CROSSED, State.MET) else short
    return (
        threshold.signal,
        kind,
        below,
        shown(row.amount(reading.available), row.resource),
        short(row.amount(reading.capacity), row.resource),
        short(threshold.target(reading.capacity), row.resource),
        _state_text(each, now_ns),
        since,
    )


def _state_text(each: ThresholdState, now_ns: int) -> str:
    if each.state is State.CROSSED and each.met_at_ns is not None:
        # Whole seconds, rounded up: at the end of the wait it is met.
        left = -(-(each.met_at_ns - now_ns) // SECOND_NS) * SECOND_NS
        return f"crossed, met in {duration_text(left)}"
    if each.state is State.MET and not each.is_starved:
        return "met, reading not newer"
    if each.state is State.MET and not each.is_crossed:
        return "met, not yet resolved"
    return each.state


def thresholds_data(states: Sequence[ThresholdState], found: PolicyInput) -> list[dict[str, Any]]:
    """Everything about every threshold."""
    return [_threshold_data(each, found) for each in states]


def _threshold_data(each: ThresholdState, found: PolicyInput) -> dict[str, Any]:
    threshold, reading = each.threshold, each.reading
    row = ROWS[threshold.signal]
    reclaim = threshold.minimum_reclaim
    derived_from = each.provenance.derived_from
    measured: dict[str, Any] = dict.fromkeys(("threshold", "target", "available", "capacity", "time"))
    if reading is not None:
        measured = {
            "threshold": amount_data(threshold.quantity(reading.capacity)),
            "target": amount_data(threshold.target(reading.capacity)),
            "available": amount_data(row.amount(reading.available)),
            "capacity": amount_data(row.amount(reading.capacity)),
            "time": instant(reading.time_ns),
        }
    return {
        "signal": threshold.signal.value,
        "hard": threshold.is_hard,
        "amount": str(threshold.amount),
        "gracePeriod": duration_text(threshold.grace_ns),
        "minimumReclaim": None if reclaim is None else str(reclaim),
        "derivedFrom": None if derived_from is None else derived_from.value,
        "from": place_of(each.provenance, found),
        **measured,
        "state": each.state.value,
        "crossed": each.is_crossed,
        "starved": each.is_starved,
        "since": instant(each.since_ns),
        "metAt": instant(each.met_at_ns),
    }


def conditions_text(before: History, after: History, transition_ns: int, now_ns: int) -> str:
    """All three, true or false, and until when one outlives its cause."""
    rows = []
    for condition in Condition:
        holds = condition in after.conditions
        seen = after.condition_observed.get(condition)
        notes = ["changed"] if holds != (condition in before.conditions) else []
        if holds and seen is not None and seen != now_ns:
            left = duration_text((seen + transition_ns - now_ns) // SECOND_NS * SECOND_NS)
            notes.append(f"no longer observed, reported for another {left}")
        elif seen == now_ns and not holds:
            notes.append("observed, but a transition period of 0 hides it")
        rows.append((condition.value, str(holds), NOTHING if seen is None else time_text(seen), ", ".join(notes)))
    return table(("CONDITION", "STATUS", "LAST OBSERVED", "NOTE"), rows)


def conditions_data(before: History, after: History, transition_ns: int) -> list[dict[str, Any]]:
    """`until` is when the condition ends if it is not observed again."""
    found = []
    for condition in Condition:
        holds = condition in after.conditions
        seen = after.condition_observed.get(condition)
        found.append(
            {
                "type": condition.value,
                "status": str(holds),
                "changed": holds != (condition in before.conditions),
                "lastObserved": instant(seen),
                "until": instant(seen + transition_ns) if holds and seen is not None else None,
            }
        )
    return found
