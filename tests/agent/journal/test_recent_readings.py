"""Readings in memory and on record: bounded, dips kept, read again as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jettison.agent.journal.journal import Journal
from jettison.agent.journal.recent_readings import MOST_SAMPLES, SAMPLES_PER_RECORD, RecentReadings
from jettison.agent.journal.recorded_readings import Past, recorded_past, told_past
from jettison.agent.journal.recorder import JournalRecorder
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Reading
from jettison.errors import ManifestError
from tests.agent.scripted_runtime import HandClock
from tests.builders import GI, MI, SECOND_NS, node, policy, snapshot

MEMORY = Signal.MEMORY_AVAILABLE


def reading(available: int, capacity: int = GI) -> dict[Signal, Reading]:
    return {MEMORY: Reading(available, capacity, None)}


def series(past: Past) -> list[tuple[int, int]]:
    return list(past.series[MEMORY].samples) if MEMORY in past.series else []


def test_looks_within_a_second_are_one_sample_at_its_lowest() -> None:
    recent = RecentReadings()
    for at_ns, available in ((0, 90), (5 * 10**8, 30), (9 * 10**8, 80), (SECOND_NS, 70)):
        recent.add(at_ns, reading(available))

    assert series(told_past(recent.document(7), "test")) == [(7, 30), (SECOND_NS + 7, 70)]


def test_a_look_that_measured_nothing_hides_no_dip() -> None:
    recent = RecentReadings()
    recent.add(0, {})
    recent.add(1, reading(30))
    recent.add(2, {})
    assert series(told_past(recent.document(0), "test")) == [(0, 30)]


def test_it_is_bounded() -> None:
    recent = RecentReadings()
    for place in range(3 * MOST_SAMPLES):
        recent.add(place * SECOND_NS, reading(place))

    assert len(recent) == MOST_SAMPLES
    found = series(told_past(recent.document(0), "test"))
    assert found[-1] == ((3 * MOST_SAMPLES - 1) * SECOND_NS, 3 * MOST_SAMPLES - 1)


def test_another_capacity_begins_anew() -> None:
    recent = RecentReadings()
    recent.add(0, reading(50))
    recent.add(2 * SECOND_NS, reading(70, 2 * GI))
    past = told_past(recent.document(0), "test")
    assert (series(past), past.series[MEMORY].capacity) == ([(2 * SECOND_NS, 70)], 2 * GI)


def test_numbers_beyond_64_bits_do_not_end_the_agent() -> None:
    recent = RecentReadings()
    recent.add(0, reading(10**30))
    recent.add(2 * SECOND_NS, reading(-(10**30)))
    assert json.dumps(recent.document(0))


def test_what_an_agent_kept_is_read_from_its_journal(tmp_path: Path) -> None:
    """Over several records, the rest at its end, and nothing twice."""
    journal, clock = Journal.open(tmp_path / "journal"), HandClock()
    recorder = JournalRecorder(journal, tmp_path / "history", policy(), clock, "n1", lambda _: None)
    began_ns, count = clock.steady_ns(), 2 * SAMPLES_PER_RECORD + 7
    for place in range(count):
        seen = snapshot(0, node(memory=GI - place * MI))
        at_ns = began_ns + place * 10 * SECOND_NS
        recorder.prepare(seen.shifted(at_ns), is_urgent=False)
    told = told_past(recorder.recent_readings(), "test")
    recorder.close()
    journal.close()

    found = series(recorded_past(tmp_path / "journal"))

    assert [number for _, number in found] == [GI - place * MI for place in range(count)]
    assert found == series(told)
    # What the agent tells is newer, and is not counted again.
    assert series(recorded_past(tmp_path / "journal", begin=told)) == found


@pytest.mark.parametrize("document", [None, [], {"times": "x"}, {"signals": {"a": 1}}])
def test_what_is_no_such_record_is_an_error(document: object) -> None:
    with pytest.raises(ManifestError):
        told_past(document, "test")
