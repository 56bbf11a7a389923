"""The agent's steps in the journal, its history in a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from jettison import events
from jettison.agent.agent import AgentStep
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.reading import Record, read_journal
from jettison.agent.journal.recorded_steps import step_from
from jettison.agent.journal.recorder import (
    JournalRecorder,
    take_over_history,
)
from jettison.agent.journal.saved_history import LARGEST_HISTORY, by_our_clock, read_history
from jettison.agent.sinks.journal import JournalSink
from jettison.clock import Stamp
from jettison.engine.node.decide import Outcome, Reclaim, decide, give_up_reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Condition
from jettison.engine.node.snapshot import Snapshot
from jettison.errors import ObservationError
from jettison.manifests.history import SavedHistory
from jettison.runtimes.linux.proc import boot_id
from jettison.runtimes.protocol import Alarm
from tests.agent.journal.deciding_again import decide_again
from tests.agent.scripted_runtime import Facts, HandClock
from tests.builders import GI, MI, filesystem, memory_used, node, pod, policy, snapshot

POLICY = policy({"memory.available": "1Gi", "nodefs.available": "10Gi"})
SOFT = policy({}, {"memory.available": "1Gi"}, grace="10m").thresholds[0]
CALM = snapshot(100, node(), [pod("a"), pod("b")], {"a": memory_used(MI), "b": memory_used(2 * MI)})
STARVED = replace(CALM, node=node(memory=GI // 2, time_s=99))
FULL = replace(CALM, node=node(fs=filesystem(GI)))


class Desk:
    """A recorder with everything it needs."""

    journals: ClassVar[list[Journal]] = []

    def __init__(self, directory: Path, *, is_dry_run: bool = False, largest_record: int = 1 << 20) -> None:
        self.directory = directory
        self.clock = HandClock()
        self.facts = Facts()
        self.journal = Journal.open(directory / "journal", largest_record=largest_record)
        self.journals.append(self.journal)
        self.recorder = JournalRecorder(
            self.journal,
            directory / "history.json",
            POLICY,
            self.clock,
            "node1",
            lambda fact: self.facts.take(fact, 0),
            is_dry_run=is_dry_run,
        )

    @property
    def now(self) -> Stamp:
        return Stamp.of(self.clock)

    def look(
        self, seen: Snapshot, history: History | None = None, alarm: Alarm | None = None, *, has_effect: bool = False
    ) -> Outcome:
        before = history or History()
        outcome = decide(POLICY, before, seen)
        self.recorder.step(AgentStep(before, seen, outcome, alarm, self.now, has_effect))
        return outcome

    def records(self) -> list[Record]:
        return list(read_journal(self.directory / "journal"))


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while Desk.journals:
        Desk.journals.pop().close()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_step_says_what_made_the_agent_look_and_how_long_it_took(desk: Desk) -> None:
    alarm = Alarm("memcg", desk.clock.monotonic_ns())
    desk.clock.pass_seconds(0.002)

    outcome = desk.look(STARVED, alarm=alarm, has_effect=True)

    (record,) = desk.records()
    step = step_from(record.data)
    assert (step.alarm, step.latency_ns, step.acts, step.node) == ("memcg", 2 * 10**6, True, "node1")
    assert record.evicts == ["b"]
    assert [each.history for each in decide_again(step)] == [outcome.history]


def test_after_a_reclaim_both_looks_stand_in_one_record(desk: Desk) -> None:
    first = desk.look(FULL)
    assert isinstance(first.decision, Reclaim)
    desk.look(replace(FULL, now_ns=101 * 10**9), first.history)

    one, two = (step_from(record.data) for record in desk.records())
    assert [look.decision.kind for look in one.looks] == ["reclaim"]
    assert [look.decision.kind for look in two.looks] == ["reclaim", "evict"]
    assert two.history == History()
    assert isinstance(decide_again(two)[0].decision, Reclaim)
    assert decide_again(two)[1].history.reclaiming is None


def test_a_node_that_could_not_be_measured_after_a_reclaim_has_no_second_snapshot(desk: Desk) -> None:
    first = desk.look(FULL)
    # The agent hands in the snapshot from before, because there is no other.
    desk.recorder.step(AgentStep(first.history, FULL, give_up_reclaim(first.history), None, desk.now, has_effect=False))

    step = step_from(desk.records()[-1].data)

    assert [look.snapshot is None for look in step.looks] == [False, True]
    assert decide_again(step)[1] == replace(give_up_reclaim(first.history), decision=decide_again(step)[1].decision)


def test_a_choice_that_stays_the_same_is_recorded_once_a_second(desk: Desk) -> None:
    history = desk.look(STARVED).history
    for number in range(25):
        desk.clock.pass_seconds(0.1)
        fresh = replace(
            STARVED, now_ns=STARVED.now_ns + number, node=node(memory=GI // 2 - number, time_s=100 + number)
        )
        history = desk.look(fresh, history).history

    assert len(desk.records()) == 3


def test_whatever_is_acted_upon_is_recorded_though_the_choice_stays_the_same(desk: Desk) -> None:
    """The kill failed and is tried again a moment later, for other readings: that is another deed."""
    history = desk.look(STARVED, has_effect=True).history
    desk.clock.pass_seconds(0.1)
    worse = replace(STARVED, node=node(memory=GI // 4, time_s=100))

    history = desk.look(worse, history, has_effect=True).history
    desk.look(replace(worse, now_ns=worse.now_ns + 1), history)

    looks = [step_from(record.data).looks[-1].decision.starved for record in desk.records()]
    assert [look.available for look in looks if look is not None] == [GI // 2, GI // 4]


def test_news_is_recorded_at_once_though_the_choice_stays_the_same(desk: Desk) -> None:
    history = desk.look(STARVED).history
    both = replace(STARVED, node=node(memory=GI // 2, time_s=100, fs=filesystem(GI)))

    desk.look(both, history)

    assert len(desk.records()) == 2


def test_another_victim_is_recorded_at_once(desk: Desk) -> None:
    history = desk.look(STARVED, has_effect=True).history
    without_b = replace(STARVED, pods=STARVED.pods[:1], node=node(memory=GI // 2, time_s=100))

    desk.look(without_b, history, has_effect=True)

    assert [record.evicts for record in desk.records()] == [["b"], ["a"]]


def test_a_record_names_only_pods_that_are_told_to_end(desk: Desk) -> None:
    """The next in the order is not, while the one before clears away; nor the first, while another must hurry."""
    outcome = desk.look(STARVED)
    desk.clock.pass_seconds(2)
    desk.recorder.step(AgentStep(History(), STARVED, outcome, None, desk.now, has_effect=True, instead=["a"]))

    waiting, hurrying = (step_from(record.data) for record in desk.records())
    assert [(step.evicts, step.waits) for step in (waiting, hurrying)] == [((), True), (("a",), False)]
    assert waiting.looks[-1].decision.evictions[0].pod == "b"


def test_a_dry_run_says_that_it_was_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path, is_dry_run=True)
    desk.look(STARVED)

    step = step_from(desk.records()[0].data)
    assert (step.acts, step.evicts, step.waits) == (False, ("b",), False)


def test_a_bad_disk_is_reported_and_nothing_more(tmp_path: Path) -> None:
    desk = Desk(tmp_path, largest_record=10)
    desk.look(STARVED)

    (fact,) = desk.facts.taken
    assert isinstance(fact, events.ActionFailed)
    assert fact.what == "write the journal"
    assert "too large" in fact.why


def test_the_history_outlives_the_agent(desk: Desk) -> None:
    history = desk.look(STARVED).history
    desk.recorder.history(history)

    found = take_over_history(desk.directory / "history.json", desk.clock, boot_id(), desk.recorder._emit)
    assert found == replace(history, readings={})
    assert history.conditions == {Condition.MEMORY_PRESSURE}


def test_the_first_agent_has_no_history(tmp_path: Path) -> None:
    assert read_history(tmp_path / "history.json") is None


def test_a_history_that_makes_no_sense_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text("{}")

    with pytest.raises(ObservationError, match=r"history\.json: kind is"):
        read_history(tmp_path / "history.json")
    with pytest.raises(ObservationError, match="not a plain file"):
        read_history(tmp_path)


def test_a_history_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.recorder._history_path = tmp_path / "absent" / "history.json"

    desk.recorder.history(History())

    assert desk.facts.names() == ["ActionFailed"]


@pytest.mark.parametrize("is_urgent", [False, True])
def test_preparing_leaves_less_to_do_later_and_no_trace(desk: Desk, *, is_urgent: bool) -> None:
    desk.recorder.prepare(CALM, is_urgent=is_urgent)
    assert desk.records() == []

    desk.look(STARVED)

    assert len(desk.records()) == 1


def test_whatever_is_in_the_place_of_a_history_another_one_is_written(desk: Desk) -> None:
    """A pipe would be waited for, a directory refused: both make way, and what was there is kept."""
    for path in (desk.directory / "history.json", desk.directory / "history.json.new"):
        path.mkdir()
        desk.recorder.history(History())
        assert path.with_name(f"{path.name}.broken").is_dir()
    os.mkfifo(desk.directory / "history.json.new")
    desk.recorder.history(History())
    assert desk.facts.names() == []
    assert read_history(desk.directory / "history.json") is not None


def _instead(path: Path, make: Callable[[], None]) -> None:
    path.unlink()
    make()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 20),
    "another type": lambda path: path.write_text('{"kind": "JettisonHistory", "version": 1, "met": 5}'),
    "another document": lambda path: path.write_text("[]"),
    "not a number": lambda path: path.write_text('{"kind": "JettisonHistory", "version": NaN}'),
    "a long number": lambda path: path.write_text(f'{{"kind": "JettisonHistory", "version": {"9" * 1000}}}'),
    "nested": lambda path: path.write_text("[" * 100_000),
    "from the future": lambda path: path.write_text('{"kind": "JettisonHistory", "version": 99}'),
    "huge": lambda path: path.write_bytes(b" " * (LARGEST_HISTORY + 1)),
    "a directory": lambda path: _instead(path, path.mkdir),
    "a pipe": lambda path: _instead(path, lambda: os.mkfifo(path)),
    "a loop": lambda path: _instead(path, lambda: path.symlink_to(path)),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_history_is_set_aside_and_begun_anew(desk: Desk, damage: Callable[[Path], object]) -> None:
    """It is worth a few minutes of patience, and no reason to leave a node without its agent."""
    path = desk.directory / "history.json"
    desk.recorder.history(desk.look(STARVED).history)
    damage(path)

    assert take_over_history(path, desk.clock, boot_id(), desk.recorder._emit) is None

    (fact,) = desk.facts.taken
    assert isinstance(fact, events.ActionFailed)
    assert str(path) in fact.why
    assert "history.json.broken" in fact.why
    assert os.path.lexists(desk.directory / "history.json.broken")
    assert take_over_history(path, desk.clock, boot_id(), desk.recorder._emit) is None
    assert len(desk.facts.taken) == 1


HOUR = 3600 * 10**9


@pytest.mark.parametrize("jump_ns", [0, HOUR, -HOUR])
def test_how_long_an_agent_was_away_does_not_depend_on_the_wall_clock(desk: Desk, jump_ns: int) -> None:
    """In the same boot: a threshold that was crossed for 20 s is crossed for 25 s when the next agent begins."""
    began_ns = desk.clock.steady_ns()
    history = History(True, {SOFT: began_ns}, (), {Condition.MEMORY_PRESSURE: began_ns})
    desk.clock.pass_seconds(20)
    desk.recorder.history(history)
    desk.clock.pass_seconds(5)
    desk.clock.ahead_ns = jump_ns

    found = take_over_history(desk.directory / "history.json", desk.clock, boot_id(), desk.recorder._emit)

    assert found is not None
    assert found.first_observed == {SOFT: began_ns}
    assert found.condition_observed == {Condition.MEMORY_PRESSURE: began_ns}


@pytest.mark.parametrize(("jump_ns", "age_s"), [(0, 25), (HOUR, 3625), (-HOUR, 23)])
def test_after_a_boot_the_wall_clock_tells_as_far_as_it_can_be_believed(desk: Desk, jump_ns: int, age_s: int) -> None:
    """No condition is younger than the boot, and a threshold that was not watched is not crossed without a break."""
    began_ns = desk.clock.steady_ns()
    desk.clock.pass_seconds(20)
    desk.recorder.history(History(True, {SOFT: began_ns}, (SOFT,), {Condition.MEMORY_PRESSURE: began_ns}))
    saved = read_history(desk.directory / "history.json")
    assert saved is not None
    desk.clock.pass_seconds(5)
    booted = HandClock()
    booted.time_ns = 3 * 10**9
    booted.ahead_ns = desk.clock.time_ns - booted.time_ns + jump_ns

    found = by_our_clock(saved, booted, "another boot")

    assert (found.first_observed, found.met) == ({}, ())
    assert booted.steady_ns() - found.condition_observed[Condition.MEMORY_PRESSURE] == age_s * 10**9


def test_a_condition_that_was_never_observed_is_not_believed(desk: Desk) -> None:
    """The loop asks until when each of them lasts."""
    saved = SavedHistory(History(conditions=frozenset({Condition.MEMORY_PRESSURE})))
    assert by_our_clock(saved, desk.clock, "boot").conditions == frozenset()


def test_a_history_without_a_boot_is_never_of_the_future(desk: Desk) -> None:
    """As older versions wrote it."""
    saved = SavedHistory(History(True, {SOFT: desk.clock.now_ns() + HOUR}))
    assert by_our_clock(saved, desk.clock, "boot").first_observed == {SOFT: desk.clock.steady_ns()}


def test_on_record_times_are_the_wall_clocks(desk: Desk) -> None:
    """And the step can be decided again all the same."""
    desk.clock.ahead_ns = HOUR
    outcome = desk.look(STARVED, has_effect=True)

    (record,) = desk.records()
    step = step_from(record.data)
    (look,) = step.looks
    assert look.snapshot is not None
    assert look.snapshot.now_ns == STARVED.now_ns + HOUR
    assert [each.history for each in decide_again(step)] == [outcome.history.shifted(HOUR)]


def test_what_is_said_of_a_pod_is_said_since_it_was_told_to_go(desk: Desk) -> None:
    """It may have been evicted before, under the same uid: its manifest came back."""
    sink, order = JournalSink(desk.journal, "node1"), Eviction(STARVED.pods[1], "", 1, "memory.available")
    assert set(desk.recorder.said_of("b")) == set()
    for fact in (events.EvictionStarted(order, 5), events.PodEvicted(order, 6), events.PodCleanedUp(order.pod)):
        sink.take(fact, 7)
    assert set(desk.recorder.said_of("b")) == {"eviction_started", "pod_evicted", "pod_cleaned_up"}
    assert set(desk.recorder.said_of("a")) == set()

    desk.look(STARVED, has_effect=True)
    assert set(desk.recorder.said_of("b")) == set()
    sink.take(events.PodEvicted(order, 6), 7)
    assert set(desk.recorder.said_of("b")) == {"pod_evicted"}
