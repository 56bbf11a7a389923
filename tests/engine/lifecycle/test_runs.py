"""Back-off, restart policies and which containers start next, as tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.lifecycle import runs
from jettison.engine.lifecycle.rules import SECOND_NS, ProbeKind, RestartPolicy
from jettison.engine.lifecycle.runs import Plan, plan
from jettison.engine.lifecycle.state import ContainerLife, FinishedRun
from tests.engine.lifecycle.virtual import At, ProbeSpec, Spec

REGULAR = Spec()
INIT = replace(REGULAR, is_init=True)
SIDECAR = replace(REGULAR, is_init=True, is_sidecar=True)
EPHEMERAL = replace(REGULAR, is_ephemeral=True)
ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER

NOW_NS = 10**18
ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER

NEW = ContainerLife(Spec())
UP = ContainerLife(Spec(), "running", 0, is_started=True)
SLOW = ContainerLife(Spec(), "running", 0)  # its startup probe has not succeeded yet
STARTING = ContainerLife(Spec(), "starting", 0)
DONE = ContainerLife(Spec(), "terminated", 0, exit_code=0, ended_monotonic_ns=NOW_NS)
FAILED = DONE._replace(exit_code=1)
BACKING_OFF = FAILED._replace(run=1, back_off=10)
DUE = BACKING_OFF._replace(ended_monotonic_ns=NOW_NS - 10 * 10**9)


def at(time_ns: int) -> At:
    """A moment, by a clock that was never set."""
    return At(time_ns, time_ns)


def crashes(count: int, lasting_s: float = 1) -> list[int]:
    """The waits after each of so many runs."""
    record, now_ns, waits = ContainerLife(REGULAR), 10**18, []
    for _ in range(count):
        record = runs.running(runs.begun(record, at(now_ns)), at(now_ns))
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
    first = runs.begun(ContainerLife(REGULAR), at(1))
    assert (first.state, first.run) == ("starting", 0)
    assert runs.begun(runs.ended(first, at(2), 0), at(3)).run == 1


def test_a_run_remembers_the_one_before_it() -> None:
    first = runs.running(runs.begun(ContainerLife(REGULAR), at(1)), at(2))
    second = runs.begun(runs.ended(first, at(3), 137, is_oom=True), at(4))
    assert first.last is None
    assert second.last == FinishedRun(0, 137, "OOMKilled", "", 2, 3)
    assert runs.running(second, at(5)).last == second.last
    third = runs.begun(runs.not_started(second, at(6), "no room"), at(7))
    assert third.last == FinishedRun(1, 128, "StartError", "no room", None, 6)


def test_an_attempt_that_never_was_is_no_last_run() -> None:
    """As an agent that died between the record and the fork leaves it."""
    second = runs.begun(runs.ended(runs.begun(ContainerLife(REGULAR), at(1)), at(2), 1), at(3))
    again = runs.begun(second._replace(state="waiting", run=0), at(4))
    assert (again.run, again.last) == (1, FinishedRun(0, 1, "Error", "", None, 2))


UNBORN = runs.begun(ContainerLife(REGULAR), at(1))
BORN = runs.begun(ContainerLife(REGULAR), at(1))


@pytest.mark.parametrize(
    ("record", "lives", "state", "run", "reason"),
    [
        (UNBORN, False, "waiting", -1, ""),
        (BORN, True, "running", 0, ""),
        (BORN, False, "terminated", 0, "ContainerStatusUnknown"),
        (runs.running(BORN, at(2)), False, "terminated", 0, "ContainerStatusUnknown"),
    ],
)
def test_what_a_dead_agent_saw_last_is_led_on(
    record: ContainerLife, lives: bool, state: str, run: int, reason: str
) -> None:
    found = runs.found_again(record, at(3), is_running=lives, was_born=record is not UNBORN)
    assert (found.state, found.run, found.reason) == (state, run, reason)


def test_what_is_as_it_was_when_the_agent_died_stays_the_same() -> None:
    running = runs.running(BORN, at(2))
    for record, lives in ((ContainerLife(REGULAR), False), (running, True), (runs.ended(running, at(3), 0), False)):
        assert runs.found_again(record, at(4), is_running=lives, was_born=record is not UNBORN) is record


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
    record = runs.begun(ContainerLife(REGULAR), at(1))
    ended = runs.ended(record, at(2), exit_code, is_oom=bool(oom_kills))
    assert (ended.state, ended.exit_code, ended.reason, ended.finished_ns) == ("terminated", code, reason, 2)


def test_what_could_not_be_started_has_ended_with_128() -> None:
    ended = runs.not_started(runs.begun(ContainerLife(REGULAR), at(1)), at(2), "no such file")
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
        (EPHEMERAL, ALWAYS, 0, False, False),
        (EPHEMERAL, ALWAYS, 1, False, False),
        (EPHEMERAL, ON_FAILURE, 1, False, False),
    ],
)
def test_which_container_is_started_again(
    spec: Spec, policy: RestartPolicy, exit_code: int, is_doomed: bool, is_to_restart: bool
) -> None:
    life = ContainerLife(spec, "terminated", 0, exit_code=exit_code, is_doomed=is_doomed)
    assert runs.is_to_restart(life, policy) is is_to_restart


def test_a_new_run_is_not_doomed() -> None:
    assert not runs.begun(ContainerLife(REGULAR, "terminated", 0, is_doomed=True), at(1)).is_doomed


def test_a_clock_that_is_set_neither_shortens_a_back_off_nor_prolongs_it() -> None:
    hour = 3600 * SECOND_NS
    for jump in (hour, -hour):
        record = runs.running(runs.begun(ContainerLife(REGULAR, run=2, back_off=20), at(10**18)), at(10**18))
        ended = runs.ended(record, At(10**18 + jump, 10**18 + SECOND_NS), 1)
        assert (ended.back_off, ended.finished_ns) == (40, 10**18 + jump)
        assert runs.due_ns(ended, 10**18 + 2 * SECOND_NS) == 10**18 + 41 * SECOND_NS


def test_what_ended_at_an_unknown_time_waits_for_nothing() -> None:
    record = ContainerLife(REGULAR, "terminated", 3, back_off=40)
    assert runs.due_ns(record, 5 * SECOND_NS) == 5 * SECOND_NS


@pytest.mark.parametrize(("kind", "is_started"), [(None, True), (ProbeKind.STARTUP, False), (ProbeKind.LIVENESS, True)])
def test_without_a_startup_probe_a_program_that_runs_has_started(kind: ProbeKind | None, is_started: bool) -> None:
    spec = Spec(probes=() if kind is None else (ProbeSpec(kind),))
    assert runs.running(runs.begun(ContainerLife(spec), at(1)), at(2)).is_started is is_started


def test_a_start_that_is_cancelled_was_never_tried() -> None:
    ended = runs.ended(runs.running(runs.begun(ContainerLife(REGULAR), at(1)), at(2)), at(3), 4)
    assert runs.cancelled(runs.begun(ended, at(4))) == ended._replace(has_processes=True)


def regular(name: str, life: ContainerLife, *, has_processes: bool | None = None) -> ContainerLife:
    alive = life.state in ("running", "starting") if has_processes is None else has_processes
    return life._replace(rules=Spec(name), has_processes=alive)


def init(name: str, life: ContainerLife) -> ContainerLife:
    return regular(name, life)._replace(rules=Spec(name, is_init=True))


def sidecar(name: str, life: ContainerLife) -> ContainerLife:
    return regular(name, life)._replace(rules=Spec(name, is_init=True, is_sidecar=True))


A_NEW = regular("a", NEW)
OVER = Plan(is_over=True, is_initialized=True)


@pytest.mark.parametrize(
    ("inits", "expected"),
    [
        ([], Plan(("a",), is_initialized=True)),
        ([init("i", NEW), init("j", NEW)], Plan(("i",))),
        ([init("i", STARTING), init("j", NEW)], Plan()),
        ([init("i", UP), init("j", NEW)], Plan()),
        ([init("i", DONE), init("j", NEW)], Plan(("j",))),
        ([init("i", DONE), init("j", DONE)], Plan(("a",), is_initialized=True)),
        ([init("i", BACKING_OFF)], Plan((), ("i",), NOW_NS + 10 * 10**9)),
        ([init("i", DUE)], Plan(("i",))),
        ([sidecar("s", NEW), init("i", NEW)], Plan(("s",))),
        ([sidecar("s", SLOW), init("i", NEW)], Plan()),
        ([sidecar("s", UP), init("i", NEW)], Plan(("i",))),
        ([sidecar("s", UP), init("i", DONE)], Plan(("a",), is_initialized=True)),
        # A sidecar that died while the next one initialises is started again, and holds up the rest.
        ([sidecar("s", DUE), init("i", NEW)], Plan(("s",))),
        ([init("i", DONE), sidecar("s", NEW)], Plan(("s",))),
        ([init("i", DONE), sidecar("s", UP)], Plan(("a",), is_initialized=True)),
    ],
)
def test_init_containers_come_one_after_another(inits: list[ContainerLife], expected: Plan) -> None:
    assert plan(ALWAYS, inits, [A_NEW], NOW_NS, was_initialized=False) == expected


def test_an_init_container_that_fails_for_good_ends_the_pod() -> None:
    assert plan(NEVER, [init("i", FAILED)], [A_NEW], NOW_NS, was_initialized=False) == Plan(is_over=True)
    assert plan(ON_FAILURE, [init("i", FAILED)], [A_NEW], NOW_NS, was_initialized=False) == Plan(("i",))


@pytest.mark.parametrize(
    ("policy", "regulars", "expected"),
    [
        (ALWAYS, [A_NEW, regular("b", NEW)], Plan(("a", "b"), is_initialized=True)),
        (ALWAYS, [regular("a", UP), regular("b", DONE)], Plan(("b",), is_initialized=True)),
        (ALWAYS, [regular("a", BACKING_OFF)], Plan((), ("a",), NOW_NS + 10 * 10**9, is_initialized=True)),
        (ON_FAILURE, [regular("a", DONE), regular("b", UP)], Plan(is_initialized=True)),
        (ON_FAILURE, [regular("a", DONE), regular("b", FAILED)], Plan(("b",), is_initialized=True)),
        (ON_FAILURE, [regular("a", DONE), regular("b", DONE)], OVER),
        (NEVER, [regular("a", DONE), regular("b", FAILED)], OVER),
        # Its main process has ended, but not everything that it left behind.
        (NEVER, [regular("a", DONE, has_processes=True)], Plan(is_initialized=True)),
        (ALWAYS, [regular("a", DONE, has_processes=True)], Plan(is_initialized=True)),
    ],
)
def test_regular_containers_run_together(policy: RestartPolicy, regulars: list[ContainerLife], expected: Plan) -> None:
    assert plan(policy, [], regulars, NOW_NS, was_initialized=True) == expected


def test_a_sidecar_is_kept_running_but_keeps_no_pod_alive() -> None:
    side = sidecar("s", DUE)
    assert plan(NEVER, [side], [regular("a", UP)], NOW_NS, was_initialized=True).start == ("s",)
    assert plan(NEVER, [side], [regular("a", DONE)], NOW_NS, was_initialized=True) == OVER


def test_initialisation_is_not_repeated() -> None:
    assert plan(ALWAYS, [init("i", FAILED)], [A_NEW], NOW_NS, was_initialized=True) == Plan(("a",), is_initialized=True)
