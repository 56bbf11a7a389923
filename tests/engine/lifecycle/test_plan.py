"""What comes next in a pod's life, as a table of containers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.lifecycle.plan import Plan, plan
from jettison.engine.lifecycle.rules import RestartPolicy
from jettison.engine.lifecycle.state import ContainerLife
from tests.engine.lifecycle.virtual import Spec

NOW_NS = 10**18
ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER

NEW = ContainerLife(Spec())
UP = ContainerLife(Spec(), "running", 0, is_started=True)
SLOW = ContainerLife(Spec(), "running", 0)  # its startup probe has not succeeded yet
STARTING = ContainerLife(Spec(), "starting", 0)
DONE = ContainerLife(Spec(), "terminated", 0, exit_code=0, ended_monotonic_ns=NOW_NS)
FAILED = replace(DONE, exit_code=1)
BACKING_OFF = replace(FAILED, run=1, back_off=10)
DUE = replace(BACKING_OFF, ended_monotonic_ns=NOW_NS - 10 * 10**9)


def regular(name: str, life: ContainerLife, *, has_processes: bool | None = None) -> ContainerLife:
    alive = life.state in ("running", "starting") if has_processes is None else has_processes
    return replace(life, rules=Spec(name), has_processes=alive)


def init(name: str, life: ContainerLife) -> ContainerLife:
    return replace(regular(name, life), rules=Spec(name, is_init=True))


def sidecar(name: str, life: ContainerLife) -> ContainerLife:
    return replace(regular(name, life), rules=Spec(name, is_init=True, is_sidecar=True))


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


def test_a_sidecar_is_kept_running_but_keeps_nobody_alive() -> None:
    side = sidecar("s", DUE)
    assert plan(NEVER, [side], [regular("a", UP)], NOW_NS, was_initialized=True).start == ("s",)
    assert plan(NEVER, [side], [regular("a", DONE)], NOW_NS, was_initialized=True) == OVER


def test_initialisation_is_not_repeated() -> None:
    assert plan(ALWAYS, [init("i", FAILED)], [A_NEW], NOW_NS, was_initialized=True) == Plan(("a",), is_initialized=True)
