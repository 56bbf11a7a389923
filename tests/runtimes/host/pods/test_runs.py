"""Back-off and restart policies, as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.clock import Instant
from jettison.runtimes.host.pods import runs
from jettison.runtimes.host.pods.records import ContainerRecord, RunRecord
from jettison.runtimes.host.pods.runs import SECOND_NS
from jettison.runtimes.host.specs.spec import ContainerSpec, RestartPolicy

REGULAR = ContainerSpec("c", ("x",))
INIT = replace(REGULAR, is_init=True)
SIDECAR = replace(REGULAR, is_init=True, is_sidecar=True)
ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER


def at(time_ns: int) -> Instant:
    """A moment, by a clock that nobody has set."""
    return Instant(time_ns, time_ns)


def crashes(count: int, lasting_s: float = 1) -> list[int]:
    """The waits after each of so many runs."""
    record, now_ns, waits = ContainerRecord("c"), 10**18, []
    for _ in range(count):
        record = runs.running(runs.begun(record, at(now_ns)), at(now_ns), is_started=True)
        now_ns += int(lasting_s * SECOND_NS)
        record = runs.ended(record, at(now_ns), 1)
        waits.append(record.back_off)
        now_ns = runs.due_ns(record, now_ns)
    return waits


def test_the_first_restart_comes_at_once_then_the_wait_doubles_up_to_five_minutes() -> None:
    assert crashes(9) == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_ten_minutes_of_life_are_forgiven_and_less_is_not() -> None:
    assert crashes(3, lasting_s=601) == [0, 0, 0]
    assert crashes(3, lasting_s=599) == [0, 10, 20]


def test_runs_are_counted_from_zero() -> None:
    first = runs.begun(ContainerRecord("c"), at(1))
    assert (first.state, first.run) == ("starting", 0)
    assert runs.begun(runs.ended(first, at(2), 0), at(3)).run == 1


def test_a_run_remembers_the_one_before_it() -> None:
    first = runs.running(runs.begun(ContainerRecord("c"), at(1)), at(2), is_started=True)
    second = runs.begun(runs.ended(first, at(3), 137, oom_kills=1), at(4))
    assert first.last is None
    assert second.last == RunRecord(0, 137, "OOMKilled", "", 2, 3)
    assert runs.running(second, at(5), is_started=True).last == second.last
    third = runs.begun(runs.not_started(second, at(6), "no room"), at(7))
    assert third.last == RunRecord(1, 128, "StartError", "no room", None, 6)


def test_an_attempt_that_never_was_is_no_last_run() -> None:
    """As an agent that died between the record and the fork leaves it."""
    second = runs.begun(runs.ended(runs.begun(ContainerRecord("c"), at(1)), at(2), 1), at(3))
    again = runs.begun(replace(second, state="waiting", run=0), at(4))
    assert (again.run, again.last) == (1, RunRecord(0, 1, "Error", "", None, 2))


BORN = replace(runs.begun(ContainerRecord("c"), at(1)), pid=5, start_ticks=6)


@pytest.mark.parametrize(
    ("record", "lives", "state", "run", "reason"),
    [
        (runs.begun(ContainerRecord("c"), at(1)), False, "waiting", -1, ""),
        (BORN, True, "running", 0, ""),
        (BORN, False, "terminated", 0, "ContainerStatusUnknown"),
        (runs.running(BORN, at(2), is_started=True), False, "terminated", 0, "ContainerStatusUnknown"),
    ],
)
def test_what_a_dead_agent_saw_last_is_led_on(
    record: ContainerRecord, lives: bool, state: str, run: int, reason: str
) -> None:
    found = runs.found_again(record, at(3), lives=lives, is_started=True)
    assert (found.state, found.run, found.reason) == (state, run, reason)


def test_what_is_as_it_was_when_the_agent_died_stays_the_same() -> None:
    running = runs.running(BORN, at(2), is_started=False)
    for record, lives in ((ContainerRecord("c"), False), (running, True), (runs.ended(running, at(3), 0), False)):
        assert runs.found_again(record, at(4), lives=lives, is_started=True) is record


@pytest.mark.parametrize(
    ("exit_code", "oom_kills", "code", "reason"),
    [
        (0, 0, 0, "Completed"),
        (0, 3, 0, "Completed"),
        (1, 0, 1, "Error"),
        (143, 0, 143, "Error"),
        (137, 1, 137, "OOMKilled"),
        (None, 0, 137, "ContainerStatusUnknown"),
    ],
)
def test_how_an_end_is_told(exit_code: int | None, oom_kills: int, code: int, reason: str) -> None:
    record = replace(runs.begun(ContainerRecord("c"), at(1)), pid=5, start_ticks=6)
    ended = runs.ended(record, at(2), exit_code, oom_kills=oom_kills)
    assert (ended.state, ended.exit_code, ended.reason, ended.finished_ns) == ("terminated", code, reason, 2)
    assert ended.pid is None


def test_what_could_not_be_started_has_ended_with_128() -> None:
    ended = runs.not_started(runs.begun(ContainerRecord("c"), at(1)), at(2), "no such file")
    assert (ended.exit_code, ended.reason, ended.message) == (128, "StartError", "no such file")


@pytest.mark.parametrize(
    ("spec", "policy", "exit_code", "is_doomed", "is_to_restart"),
    [
        (REGULAR, ALWAYS, 0, False, True),
        (REGULAR, ALWAYS, 1, False, True),
        (REGULAR, ON_FAILURE, 0, False, False),
        (REGULAR, ON_FAILURE, 1, False, True),
        (REGULAR, ON_FAILURE, 0, True, True),
        (REGULAR, NEVER, 0, False, False),
        (REGULAR, NEVER, 1, False, False),
        (REGULAR, NEVER, 1, True, False),
        (INIT, ALWAYS, 0, False, False),
        (INIT, ALWAYS, 1, False, True),
        (INIT, ON_FAILURE, 1, False, True),
        (INIT, NEVER, 1, False, False),
        (SIDECAR, NEVER, 0, False, True),
        (SIDECAR, NEVER, 1, False, True),
        (SIDECAR, ON_FAILURE, 0, False, True),
    ],
)
def test_who_is_started_again(
    spec: ContainerSpec, policy: RestartPolicy, exit_code: int, is_doomed: bool, is_to_restart: bool
) -> None:
    record = ContainerRecord("c", "terminated", 0, exit_code=exit_code, is_doomed=is_doomed)
    assert runs.is_to_restart(spec, record, policy) is is_to_restart


def test_a_new_run_is_not_doomed() -> None:
    assert not runs.begun(ContainerRecord("c", "terminated", 0, is_doomed=True), at(1)).is_doomed


def test_a_clock_that_is_set_neither_shortens_a_back_off_nor_prolongs_it() -> None:
    hour = 3600 * SECOND_NS
    for jump in (hour, -hour):
        record = runs.running(
            runs.begun(ContainerRecord("c", run=2, back_off=20), at(10**18)), at(10**18), is_started=True
        )
        ended = runs.ended(record, Instant(10**18 + jump, 10**18 + SECOND_NS), 1)
        assert (ended.back_off, ended.finished_ns) == (40, 10**18 + jump)
        assert runs.due_ns(ended, 10**18 + 2 * SECOND_NS) == 10**18 + 41 * SECOND_NS


def test_what_ended_at_an_unknown_time_waits_for_nothing() -> None:
    record = ContainerRecord("c", "terminated", 3, back_off=40)
    assert runs.due_ns(record, 5 * SECOND_NS) == 5 * SECOND_NS
