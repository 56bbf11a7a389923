"""Phases, conditions and container statuses, in Kubernetes' words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.lifecycle import phases
from jettison.engine.lifecycle.phases import ContainerEnd, ContainerStatus
from jettison.engine.lifecycle.rules import RestartPolicy
from jettison.engine.lifecycle.state import ContainerLife, FinishedRun, PodLife, RunState, Trouble
from tests.builders import pod as make_pod
from tests.engine.lifecycle.virtual import PodSpec, Spec, init, sidecar

POD = replace(make_pod("p"), generation=4)
REGULAR, INIT, SIDECAR = Spec(), init(), sidecar()
NEW = ContainerLife(REGULAR)
UP = ContainerLife(REGULAR, "running", 0, is_started=True, started_ns=5)
DONE = ContainerLife(REGULAR, "terminated", 0, exit_code=0, reason="Completed", started_ns=5, finished_ns=6)


def of(spec: Spec, life: ContainerLife, *, is_ready: bool = False) -> ContainerLife:
    return life._replace(rules=spec, is_ready=is_ready)


def pod_of(
    *containers: ContainerLife, policy: RestartPolicy = RestartPolicy.NEVER, is_initialized: bool = True
) -> PodLife:
    return PodLife(POD, PodSpec(restart_policy=policy), containers, is_initialized=is_initialized)


@pytest.mark.parametrize(
    ("record", "was_initialized", "phase"),
    [
        (NEW, False, "Pending"),
        (NEW, True, "Pending"),
        (NEW._replace(state="starting", run=0), True, "Pending"),
        (NEW._replace(state="starting", run=1), True, "Running"),
        (UP, True, "Running"),
        (DONE, True, "Running"),
    ],
)
def test_the_phase_of_a_pod_that_lives(record: ContainerLife, was_initialized: bool, phase: str) -> None:
    assert phases.phase([record], was_initialized=was_initialized) == phase


def test_a_pod_runs_only_when_all_have_started() -> None:
    assert phases.phase([UP, NEW], was_initialized=True) == "Pending"


def test_a_pod_succeeds_only_when_all_have() -> None:
    failed = DONE._replace(exit_code=1)
    assert phases.final_phase(pod_of(DONE, DONE)) == "Succeeded"
    assert phases.final_phase(pod_of(DONE, of(REGULAR, failed))) == "Failed"
    assert phases.final_phase(pod_of(of(INIT, failed), NEW)) == "Failed"
    assert phases.final_phase(pod_of(of(SIDECAR, failed), DONE)) == "Succeeded"


def told(phase: str, *containers: ContainerLife, was_initialized: bool) -> dict[str, tuple[str, ...]]:
    found = phases.conditions(pod_of(*containers), phase, was_initialized=was_initialized)
    kinds = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    assert [each.type for each in found] == kinds
    assert {each.observed_generation for each in found} == {4}
    return {each.type: (each.status, each.reason, each.message) for each in found}


def test_a_pod_that_initialises() -> None:
    inits = [of(INIT, DONE), of(replace(INIT, name="j"), UP), of(SIDECAR, NEW)]
    found = told("Pending", *inits, NEW, was_initialized=False)
    assert found["Initialized"] == ("False", "ContainersNotInitialized", "containers with incomplete status: [j s]")
    assert found["Ready"] == ("False", "ContainersNotReady", "containers with unready status: [s c]")
    assert found["ContainersReady"] == found["Ready"]
    assert found["PodScheduled"] == ("True", "", "")


def test_containers_may_start_once_the_pod_has_its_place() -> None:
    """While it is set up they may not; over a restart of the agent those that run say that there is a place."""
    waiting = pod_of(NEW)
    places = [waiting, waiting._replace(set_up="done"), pod_of(of(REGULAR, UP))]
    found = [phases.conditions(each, "Pending", was_initialized=True)[0] for each in places]
    assert [each.type for each in found] == ["PodReadyToStartContainers"] * 3
    assert [each.status for each in found] == ["False", "True", "True"]


def test_a_pod_whose_containers_are_ready() -> None:
    regulars = [of(REGULAR, UP, is_ready=True)]
    found = told("Running", of(INIT, DONE), *regulars, was_initialized=True)
    assert set(found.values()) == {("True", "", "")}


@pytest.mark.parametrize(("phase", "reason"), [("Succeeded", "PodCompleted"), ("Failed", "PodFailed")])
def test_a_pod_that_has_ended_is_not_ready(phase: str, reason: str) -> None:
    found = told(phase, DONE, was_initialized=True)
    assert found["Ready"] == found["ContainersReady"] == ("False", reason, "")
    assert found["PodReadyToStartContainers"] == ("False", "", "")
    assert found["Initialized"] == ("True", "", "")


def status(each: ContainerLife, *, will_restart: bool = False, is_initializing: bool = False) -> ContainerStatus:
    policy = RestartPolicy.ALWAYS if will_restart else RestartPolicy.NEVER
    inits = (of(INIT, UP),) if is_initializing else ()
    life = pod_of(*inits, each, policy=policy, is_initialized=not is_initializing)
    return phases.container_statuses(life, lambda name, run: f"jettison://p/{name}/{run}")[-1]


def test_what_a_container_waits_for() -> None:
    assert status(NEW).reason == "ContainerCreating"
    assert status(NEW, is_initializing=True).reason == "PodInitializing"
    assert status(of(REGULAR, NEW._replace(state="starting", run=0))).state == "waiting"


def test_a_container_in_back_off_tells_how_its_last_run_ended() -> None:
    before = FinishedRun(3, 137, "OOMKilled", "", 1, 2)
    record = DONE._replace(run=4, exit_code=3, reason="Error", message="why", back_off=80, last=before)
    found = status(of(REGULAR, record), will_restart=True)
    assert (found.state, found.reason, found.exit_code, found.restarts) == ("waiting", "CrashLoopBackOff", None, 4)
    assert found.message == "back-off 1m20s restarting failed container=c pod=p_default(p)"
    assert found.last == ContainerEnd(3, "Error", "why", 5, 6, "jettison://p/c/4")
    assert found.container_id == "jettison://p/c/4"


def test_a_container_that_stays_ended_tells_of_the_run_before() -> None:
    """Also one that is started again at once: Kubernetes calls nothing waiting that does not wait."""
    record = DONE._replace(run=4, last=FinishedRun(3, 137, "OOMKilled", "", 1, 2))
    for will_restart in (False, True):
        found = status(of(REGULAR, record), will_restart=will_restart)
        assert (found.state, found.reason, found.exit_code) == ("terminated", "Completed", 0)
        assert found.last == ContainerEnd(137, "OOMKilled", "", 1, 2, "jettison://p/c/3")


@pytest.mark.parametrize("state", ["starting", "running"])
def test_a_container_that_was_started_again_tells_of_the_run_before(state: RunState) -> None:
    found = status(of(REGULAR, UP._replace(state=state, run=1, last=FinishedRun(0, 1, "Error", "", 1, 2))))
    assert (found.exit_code, found.last) == (None, ContainerEnd(1, "Error", "", 1, 2, "jettison://p/c/0"))
    assert found.container_id == "jettison://p/c/1"


def test_running_and_ended() -> None:
    found = status(of(REGULAR, UP, is_ready=True))
    assert (found.state, found.started_ns, found.is_ready, found.is_started) == ("running", 5, True, True)
    assert not status(of(REGULAR, UP._replace(is_started=False))).is_started
    found = status(of(REGULAR, DONE._replace(is_started=True)))
    assert (found.state, found.reason, found.exit_code, found.is_ready) == ("terminated", "Completed", 0, False)
    assert (found.is_started, found.last) == (False, None)
    assert status(NEW).container_id == ""


def test_an_init_container_that_succeeded_is_ready_and_a_sidecar_that_ended_is_not() -> None:
    assert status(of(INIT, DONE)).is_ready
    assert status(of(INIT, DONE)).is_init
    assert not status(of(SIDECAR, DONE)).is_ready


def test_what_keeps_the_whole_pod_from_starting_is_said_of_each_container() -> None:
    trouble = Trouble("CreateContainerConfigError", "no secrets", "Failed", "Error: no secrets")
    life = pod_of(NEW)._replace(trouble=trouble)
    (found,) = phases.container_statuses(life, lambda name, run: f"{name}/{run}")
    assert (found.state, found.reason, found.message) == ("waiting", "CreateContainerConfigError", "no secrets")


def test_a_pod_that_has_no_containers_to_say_it_says_itself_why_it_waits() -> None:
    trouble = Trouble("CreateContainerConfigError", "more than 524288 bytes", "Failed", "Error", is_refusal=True)
    found = phases.verdict(pod_of()._replace(trouble=trouble, is_initialized=False))
    assert (found.phase, found.reason, found.message) == ("Pending", trouble.reason, trouble.message)
    with_containers = phases.verdict(pod_of(NEW)._replace(trouble=trouble))
    assert (with_containers.reason, with_containers.message) == ("", "")
