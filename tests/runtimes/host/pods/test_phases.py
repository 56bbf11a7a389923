"""Phases, conditions and container statuses, in Kubernetes' words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.runtimes.host.pods import phases
from jettison.runtimes.host.pods.phases import Seen
from jettison.runtimes.host.pods.records import ContainerRecord, RunRecord, RunState
from jettison.runtimes.host.specs.spec import ContainerSpec
from jettison.runtimes.protocol import ContainerEnd, ContainerStatus
from tests.builders import pod as make_pod

POD = replace(make_pod("p"), generation=4)
REGULAR = ContainerSpec("c", ("x",))
INIT = replace(REGULAR, name="i", is_init=True)
SIDECAR = replace(INIT, name="s", is_sidecar=True)
NEW = ContainerRecord("c")
UP = ContainerRecord("c", "running", 0, is_started=True, started_ns=5)
DONE = ContainerRecord("c", "terminated", 0, exit_code=0, reason="Completed", started_ns=5, finished_ns=6)


@pytest.mark.parametrize(
    ("record", "was_initialized", "phase"),
    [
        (NEW, False, "Pending"),
        (NEW, True, "Pending"),
        (replace(NEW, state="starting", run=0), True, "Pending"),
        (replace(NEW, state="starting", run=1), True, "Running"),
        (UP, True, "Running"),
        (DONE, True, "Running"),
    ],
)
def test_the_phase_of_a_pod_that_lives(record: ContainerRecord, was_initialized: bool, phase: str) -> None:
    assert phases.phase([Seen(REGULAR, record)], was_initialized=was_initialized) == phase


def test_a_pod_runs_only_when_all_have_started() -> None:
    assert phases.phase([Seen(REGULAR, UP), Seen(REGULAR, NEW)], was_initialized=True) == "Pending"


def test_a_pod_succeeds_only_when_all_have() -> None:
    failed = replace(DONE, exit_code=1)
    assert phases.final_phase([], [Seen(REGULAR, DONE), Seen(REGULAR, DONE)]) == "Succeeded"
    assert phases.final_phase([], [Seen(REGULAR, DONE), Seen(REGULAR, failed)]) == "Failed"
    assert phases.final_phase([Seen(INIT, failed)], [Seen(REGULAR, NEW)]) == "Failed"
    assert phases.final_phase([Seen(SIDECAR, failed)], [Seen(REGULAR, DONE)]) == "Succeeded"


def told(phase: str, inits: list[Seen], regulars: list[Seen], *, was_initialized: bool) -> dict[str, tuple[str, ...]]:
    found = phases.conditions(POD, phase, inits, regulars, was_initialized=was_initialized)
    assert [each.type for each in found] == ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
    assert {each.observed_generation for each in found} == {4}
    return {each.type: (each.status, each.reason, each.message) for each in found}


def test_a_pod_that_initialises() -> None:
    inits = [Seen(INIT, DONE), Seen(replace(INIT, name="j"), UP), Seen(SIDECAR, NEW)]
    found = told("Pending", inits, [Seen(REGULAR, NEW)], was_initialized=False)
    assert found["Initialized"] == ("False", "ContainersNotInitialized", "containers with incomplete status: [j s]")
    assert found["Ready"] == ("False", "ContainersNotReady", "containers with unready status: [s c]")
    assert found["ContainersReady"] == found["Ready"]
    assert found["PodScheduled"] == ("True", "", "")


def test_a_pod_whose_containers_are_ready() -> None:
    regulars = [Seen(REGULAR, UP, is_ready=True)]
    found = told("Running", [Seen(INIT, DONE)], regulars, was_initialized=True)
    assert set(found.values()) == {("True", "", "")}


@pytest.mark.parametrize(("phase", "reason"), [("Succeeded", "PodCompleted"), ("Failed", "PodFailed")])
def test_a_pod_that_has_ended_is_not_ready(phase: str, reason: str) -> None:
    found = told(phase, [], [Seen(REGULAR, DONE)], was_initialized=True)
    assert found["Ready"] == found["ContainersReady"] == ("False", reason, "")
    assert found["Initialized"] == ("True", "", "")


def status(each: Seen, *, will_restart: bool = False, is_initializing: bool = False) -> ContainerStatus:
    return phases.container_status(POD, each, will_restart=will_restart, is_initializing=is_initializing)


def test_what_a_container_waits_for() -> None:
    assert status(Seen(REGULAR, NEW)).reason == "ContainerCreating"
    assert status(Seen(REGULAR, NEW), is_initializing=True).reason == "PodInitializing"
    assert status(Seen(REGULAR, replace(NEW, state="starting", run=0))).state == "waiting"


def test_a_container_in_back_off_tells_how_its_last_run_ended() -> None:
    before = RunRecord(3, 137, "OOMKilled", "", 1, 2)
    record = replace(DONE, run=4, exit_code=3, reason="Error", message="why", back_off=80, last=before)
    found = status(Seen(REGULAR, record), will_restart=True)
    assert (found.state, found.reason, found.exit_code, found.restarts) == ("waiting", "CrashLoopBackOff", None, 4)
    assert found.message == "back-off 1m20s restarting failed container=c pod=p_default(p)"
    assert found.last == ContainerEnd(3, "Error", "why", 5, 6, "jettison://p/c/4")
    assert found.container_id == "jettison://p/c/4"


def test_a_container_that_stays_ended_tells_of_the_run_before() -> None:
    """Also one that is started again at once: Kubernetes calls nothing waiting that does not wait."""
    record = replace(DONE, run=4, last=RunRecord(3, 137, "OOMKilled", "", 1, 2))
    for will_restart in (False, True):
        found = status(Seen(REGULAR, record), will_restart=will_restart)
        assert (found.state, found.reason, found.exit_code) == ("terminated", "Completed", 0)
        assert found.last == ContainerEnd(137, "OOMKilled", "", 1, 2, "jettison://p/c/3")


@pytest.mark.parametrize("state", ["starting", "running"])
def test_a_container_that_was_started_again_tells_of_the_run_before(state: RunState) -> None:
    found = status(Seen(REGULAR, replace(UP, state=state, run=1, last=RunRecord(0, 1, "Error", "", 1, 2))))
    assert (found.exit_code, found.last) == (None, ContainerEnd(1, "Error", "", 1, 2, "jettison://p/c/0"))
    assert found.container_id == "jettison://p/c/1"


def test_running_and_ended() -> None:
    found = status(Seen(REGULAR, UP, is_ready=True))
    assert (found.state, found.started_ns, found.is_ready, found.is_started) == ("running", 5, True, True)
    assert not status(Seen(REGULAR, replace(UP, is_started=False))).is_started
    found = status(Seen(REGULAR, replace(DONE, is_started=True)))
    assert (found.state, found.reason, found.exit_code, found.is_ready) == ("terminated", "Completed", 0, False)
    assert (found.is_started, found.last) == (False, None)
    assert status(Seen(REGULAR, NEW)).container_id == ""


def test_an_init_container_that_succeeded_is_ready_and_a_sidecar_that_ended_is_not() -> None:
    assert status(Seen(INIT, DONE)).is_ready
    assert status(Seen(INIT, DONE)).is_init
    assert not status(Seen(SIDECAR, DONE)).is_ready
