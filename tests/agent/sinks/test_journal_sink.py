"""Which facts are kept in the journal."""

from __future__ import annotations

from pathlib import Path

from jettison import events
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.reading import read_journal
from jettison.agent.sinks.journal import REPEAT_NS, JournalSink
from jettison.engine.node.facts import ConditionChanged
from jettison.engine.node.signals import Condition, Reclaimable
from jettison.events import Fact
from tests.builders import pod


def test_what_ended_a_pod_is_kept_and_what_a_restless_one_repeats_is_not(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    sink = JournalSink(journal, "node1")
    for fact in (
        events.PodAdmitted(pod("a")),
        events.ContainerStarted(pod("a"), "c", 0),
        events.ProbeFailed(pod("a"), "c", "liveness", "no"),
        events.ContainerBackOff(pod("a"), "c", 10),
        events.ContainerFinished(pod("a"), "c", 137, "OOMKilled"),
        events.OutOfMemoryKill(pod("a"), "c", 1),
        events.DeadlineExceeded(pod("a"), 60),
        events.AlarmRaised("psi"),
        events.LimitsEnforced("jettison/n/kubepods"),
        ConditionChanged(Condition.MEMORY_PRESSURE, True),
    ):
        sink.take(fact, 5)
    journal.close()

    found = list(read_journal(tmp_path))
    kept = ["pod_admitted", "container_finished", "out_of_memory_kill", "deadline_exceeded"]
    assert [record.event for record in found] == kept
    assert all(record.time_ns == 5 and record.node == "node1" for record in found)


def test_a_failure_that_goes_on_is_kept_once_a_minute(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    sink = JournalSink(journal, "node1")
    failures: dict[str, Fact] = {
        "observation_failed": events.ObservationFailed("no numbers"),
        "action_failed": events.ActionFailed("evict", "busy"),
        "kill_failed": events.KillFailed(pod("a"), "c", "busy"),
        "collection_failed": events.CollectionFailed(Reclaimable.CONTAINERS, "busy"),
        "limits_refused": events.LimitsRefused("kubepods", "busy"),
    }
    for time_ns in range(0, 3 * REPEAT_NS, REPEAT_NS // 10):
        for fact in failures.values():
            sink.take(fact, time_ns)
    sink.take(events.ObservationFailed("other numbers"), 3 * REPEAT_NS - 1)
    journal.close()

    assert [record.event for record in read_journal(tmp_path)] == [*failures] * 3 + ["observation_failed"]
