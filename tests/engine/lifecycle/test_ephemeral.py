"""Containers that are added to a running pod for debugging, in virtual time: each runs once, beside the pod's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.lifecycle import effects, events, facts, phases
from jettison.engine.lifecycle.rules import RestartPolicy
from jettison.engine.lifecycle.state import Trouble
from tests.engine.lifecycle.virtual import PodSpec, Program, Spec, World, at, ephemeral, init

NEVER = RestartPolicy.NEVER
NO_IMAGE = Trouble("ImagePullBackOff", "Back-off pulling image", "Failed", "Failed to pull image", is_refusal=True)
NO_TARGET = Trouble("CreateContainerConfigError", "no target", "Failed", "Error: no target")


def running(**programs: Program) -> World:
    """A pod that runs for 10 s."""
    world = World(programs=programs).ask()
    world.pass_seconds(10)
    return world


def status(world: World, name: str = "e") -> phases.ContainerStatus:
    told = phases.container_statuses(world.life, lambda container, run: f"{container}/{run}")
    return next(each for each in told if each.name == name)


def starts_of(world: World, name: str = "e") -> list[float]:
    return [when for when, each in world.starts() if each == name]


def test_it_starts_as_soon_as_it_is_added_and_is_saved_before() -> None:
    world = running()
    world.add(ephemeral())
    asked = [effect for _, effect in world.done if isinstance(effect, effects.Save | effects.Start)]
    assert isinstance(asked[-2], effects.Save)
    assert asked[-1] == effects.Start("e", 0)
    world.pass_seconds(1)
    assert starts_of(world) == [10.0]
    told = status(world)
    assert (told.state, told.is_ephemeral, told.is_init) == ("running", True, False)
    # A kubelet asks no ephemeral container.
    assert not told.is_ready


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("policy", list(RestartPolicy))
def test_it_runs_once_whatever_its_code_and_the_policy(policy: RestartPolicy, code: int) -> None:
    world = World(PodSpec(restart_policy=policy), {"e": Program(lasts=2, code=code)}).ask()
    world.pass_seconds(10)
    world.add(ephemeral())
    world.pass_seconds(3600)
    assert starts_of(world) == [10.0]
    told = status(world)
    assert (told.state, told.exit_code, told.restarts) == ("terminated", code, 0)
    assert told.reason == ("Error" if code else "Completed")
    # Nothing is left of it but its status, and the pod goes on.
    assert not world.container("e").has_processes
    assert phases.verdict(world.life).phase == "Running"


def test_what_cannot_be_started_is_not_tried_again() -> None:
    world = running(e=Program(starts_in=None))
    world.add(ephemeral())
    world.pass_seconds(3600)
    assert len(starts_of(world)) == 1
    told = status(world)
    assert (told.state, told.exit_code, told.reason, told.message) == (
        "terminated",
        128,
        "StartError",
        "no such program",
    )


def test_phase_and_readiness_do_not_depend_on_it() -> None:
    """Neither while it waits, runs and fails, nor when the pod has ended."""
    spec = PodSpec((Spec("c"),), restart_policy=NEVER)
    world = World(spec, {"c": Program(lasts=20), "e": Program(lasts=5, code=9, starts_in=1)}).ask()
    world.pass_seconds(10)
    well = phases.verdict(world.life)
    assert (well.phase, well.conditions[2].status) == ("Running", "True")
    world.add(ephemeral())
    for seconds in (0.5, 2.0, 6.0):
        world.pass_seconds(seconds)
        assert phases.verdict(world.life) == well
    world.pass_seconds(30)
    assert phases.verdict(world.life).phase == "Succeeded"


def test_a_pod_that_ends_by_itself_takes_it_along() -> None:
    world = World(PodSpec(restart_policy=NEVER), {"c": Program(lasts=20)}).ask()
    world.pass_seconds(10)
    world.add(ephemeral())
    world.pass_seconds(60)
    assert phases.verdict(world.life).phase == "Succeeded"
    assert status(world).exit_code == 143
    assert world.life.is_cleaned


@pytest.mark.parametrize(("obeys", "code", "killed"), [(1.0, 143, 0), (None, 137, 1)])
def test_it_ends_with_its_pod_and_within_the_grace_period(obeys: float | None, code: int, killed: int) -> None:
    world = running(e=Program(obeys=obeys))
    world.add(ephemeral())
    world.pass_seconds(5)
    world.end(grace_seconds=10)
    told = [effect for when, effect in world.effects_of(effects.Signal) if when == 15.0]
    assert told == [effects.Signal("c"), effects.Signal("e")]
    world.pass_seconds(11)
    assert world.life.is_cleaned
    assert world.container("e").exit_code == code
    assert [when for when, _ in world.effects_of(effects.Kill)] == [25.0] * killed


def test_a_start_that_is_under_way_ends_with_the_pod() -> None:
    world = running(e=Program(starts_in=600))
    world.add(ephemeral())
    world.pass_seconds(5)
    world.end(grace_seconds=10)
    world.pass_seconds(3)
    assert world.life.is_cleaned
    assert not world.processes
    assert status(world).state == "waiting"


def test_a_pod_that_ends_gets_no_more() -> None:
    world = World(programs={"c": Program(obeys=5)}).ask()
    world.pass_seconds(10)
    world.end(grace_seconds=20)
    world.add(ephemeral())
    world.pass_seconds(60)
    assert not starts_of(world)
    assert [each.name for each in world.life.containers] == ["c"]


def test_it_is_added_before_the_pod_is_set_up_and_beside_an_init_container() -> None:
    world = World(PodSpec(init_containers=(init(),)), {"i": Program(lasts=30)}).ask()
    world.add(ephemeral())
    assert not world.starts()
    world.pass_seconds(5)
    assert world.starts() == [(0.5, "i"), (0.5, "e")]
    assert status(world).state == "running"
    assert phases.verdict(world.life).phase == "Pending"


def test_an_image_that_does_not_come_makes_it_wait_longer_each_time_and_nothing_else() -> None:
    world = running(c=Program(lasts=15, code=1))
    world.start_troubles["e"] = [NO_IMAGE] * 3
    world.add(ephemeral())
    world.pass_seconds(1)
    told = status(world)
    assert (told.state, told.reason, told.message) == ("waiting", NO_IMAGE.reason, NO_IMAGE.message)
    assert world.life.trouble is None
    assert not world.life.is_refused
    world.pass_seconds(80)
    assert starts_of(world) == [10.0, 20.0, 40.0, 80.0]
    waited = [fact for fact in world.facts if isinstance(fact, facts.PodWaiting)]
    assert [fact.seconds for fact in waited] == [10, 20, 40]
    assert status(world).state == "running"
    # The pod's own container was restarted meanwhile.
    assert len(starts_of(world, "c")) > 1


def test_while_it_is_tried_again_its_status_still_says_what_it_lacks() -> None:
    world = running(e=Program(starts_in=5))
    world.start_troubles["e"] = [NO_IMAGE]
    world.add(ephemeral())
    world.pass_seconds(17)
    assert world.container("e").state == "starting"
    assert (status(world).state, status(world).reason) == ("waiting", NO_IMAGE.reason)
    world.pass_seconds(20)
    assert (status(world).state, status(world).reason) == ("running", "")


def test_a_target_that_may_come_is_asked_for_sooner() -> None:
    world = running()
    world.start_troubles["e"] = [NO_TARGET] * 3
    world.add(ephemeral())
    world.pass_seconds(10)
    assert starts_of(world) == [10.0, 10.5, 11.5, 13.5]


def test_one_that_waits_lets_the_next_one_go_first() -> None:
    world = running()
    world.start_troubles["e"] = [NO_IMAGE]
    world.add(ephemeral("e"), ephemeral("f"), ephemeral("g"))
    world.pass_seconds(5)
    assert [(when, name) for when, name in world.starts() if name != "c"] == [(10.0, "e"), (10.0, "f"), (10.0, "g")]
    world.pass_seconds(10)
    assert starts_of(world, "e") == [10.0, 20.0]


def test_a_slow_start_holds_up_neither_a_restart_nor_is_held_up_by_one() -> None:
    world = World(programs={"c": Program(lasts=12, code=1), "e": Program(starts_in=100)}).ask()
    world.pass_seconds(10)
    world.add(ephemeral())
    world.pass_seconds(10)
    assert starts_of(world, "c") == [0.5, 12.5]
    world = World(programs={"c": Program(starts_in=100)}).ask()
    world.pass_seconds(10)
    world.add(ephemeral())
    world.pass_seconds(1)
    assert starts_of(world) == [10.0]


def test_what_another_container_lacks_is_asked_for_by_the_whole_set_up() -> None:
    """And an image that is gone from under a running pod is a failed start."""
    world = World(programs={"c": Program()}, start_troubles={"c": [NO_TARGET, NO_TARGET]}).ask()
    world.pass_seconds(10)
    assert len(world.effects_of(effects.SetUp)) == 3
    assert world.container().is_running
    world = World(programs={"c": Program()}, start_troubles={"c": [NO_IMAGE]}).ask()
    world.pass_seconds(1)
    (finished,) = (fact for fact in world.facts if isinstance(fact, facts.ContainerFinished))
    assert (finished.reason, finished.message) == ("StartError", NO_IMAGE.told)
    assert not world.life.is_refused


@pytest.mark.parametrize("seconds", [0.5, 5.0, 30.0])
@pytest.mark.parametrize("program", [Program(), Program(lasts=3, code=2), Program(starts_in=None), Program(leaves=2)])
def test_no_program_runs_twice_wherever_the_agent_is_killed(program: Program, seconds: float) -> None:
    """Killed after any effect of its life, and of the next agent's, too."""
    for first in range(12):
        for second in (0, 1, 2, 3, None):
            world = running(e=program)
            born: list[int] = []
            world.crash_in = first
            world.add(ephemeral())
            for _ in range(400):
                if (next_ns := world.next_ns()) is None or next_ns > (11 + seconds) * 10**9:
                    break
                before = world.processes.get("e")
                world.happen()
                after = world.processes.get("e")
                born += [after.started_ns] if after is not None and after is not before else []
                if world.agents == 1 and second is not None:
                    world.crash_in, second = second, None
            assert len(born) == (0 if program.starts_in is None else 1), (first, second)
            # A start that failed, or that was cut off before anything ran, may be tried by the next agent.
            assert len(starts_of(world)) <= 1 + world.agents


def test_it_is_found_again() -> None:
    world = running()
    world.add(ephemeral())
    world.pass_seconds(5)
    world.crash()
    world.pass_seconds(5)
    assert starts_of(world) == [10.0]
    assert (world.container("e").state, world.container("e").run) == ("running", 0)
    assert world.container("e").has_processes


def test_one_that_ended_while_there_was_no_agent_is_not_started_again() -> None:
    world = running(e=Program(lasts=4))
    world.add(ephemeral())
    world.pass_seconds(2)
    del world.processes["e"]
    world.crash()
    world.pass_seconds(60)
    assert len(starts_of(world)) == 1
    assert status(world).reason == "ContainerStatusUnknown"


def test_an_agent_that_takes_over_an_ending_gives_it_no_more_time() -> None:
    world = running(e=Program(obeys=None))
    world.add(ephemeral())
    world.pass_seconds(5)
    world.end(grace_seconds=10)
    world.pass_seconds(4)
    world.crash()
    world.pass_seconds(8)
    assert [when for when, _ in world.effects_of(effects.Kill)] == [25.0]
    assert world.life.is_cleaned


def test_what_is_known_already_is_not_added_again() -> None:
    world = running(e=Program(lasts=1))
    world.add(ephemeral())
    world.pass_seconds(5)
    before = world.life
    world.feed(events.Added(world.now, world.spec))
    assert world.life.containers == before.containers
    world.feed(events.Added(at(20), replace(world.spec, ephemeral_containers=())))
    assert [each.name for each in world.life.containers] == ["c", "e"]
