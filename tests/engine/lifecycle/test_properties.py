"""What holds for every pod, every program and every moment at which the agent is killed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jettison.engine.lifecycle import effects, facts, phases
from jettison.engine.lifecycle.rules import SECOND_NS, RestartPolicy
from jettison.engine.node.evictions import RUNTIME_MINIMUM, effective_grace
from tests.engine.lifecycle.strategies import crash_points, orders, worlds
from tests.engine.lifecycle.virtual import Program, World


def sidecar_count(world: World) -> int:
    return sum(each.is_sidecar for each in world.spec.init_containers)


def until_it_is_gone(world: World, crashes: list[int], grace: float) -> None:
    """Pass so many seconds as an ending may take, and kill the agent at the given effects meanwhile."""
    stages = 1 + sidecar_count(world)
    # Each stage may take the 2 s after SIGTERM and what it leaves behind, once or again after a crash.
    limit = grace + stages * (RUNTIME_MINIMUM + 1 + 6 * (1 + len(crashes))) + 10
    until_ns = world.now_ns + round(limit * SECOND_NS)
    pending = list(crashes)
    while not world.life.is_cleaned:
        if world.crash_in is None and pending:
            world.crash_in = pending.pop(0)
        next_ns = world.next_ns()
        assert next_ns is not None, "nothing will ever happen again"
        assert next_ns <= until_ns, "it takes longer than its grace period allows"
        world.happen()


@settings(max_examples=40)
@given(worlds(), st.integers(0, 120), orders, crash_points)
def test_an_ending_ends_in_time_and_starts_nothing_wherever_the_agent_is_killed(
    world: World, before: int, order: dict[str, Any], crashes: list[int]
) -> None:
    world.ask()
    world.pass_seconds(before)
    if world.life.has_stopped:
        return
    known = world.life.ending
    in_force = 0 if known is None or known.is_natural else known.grace_seconds
    grace = effective_grace(override=order["grace_seconds"], pod_grace=world.spec.grace_seconds, in_force=in_force)
    world.end(**order)
    started = len(world.starts())
    world.facts.clear()
    until_it_is_gone(world, crashes, grace)
    assert len(world.starts()) == started, "something was started though the pod ends"
    assert not world.processes
    verdict = world.life.verdict
    assert verdict is not None
    if order["order"] is not None:
        assert (verdict.phase, verdict.reason) == ("Failed", "Evicted")
        assert not [fact for fact in world.facts if isinstance(fact, facts.PodCleanedUp)]
    if order["is_unwanted"]:
        assert world.saved.is_unwanted


@settings(max_examples=40)
@given(worlds(), st.integers(0, 120), orders, orders, st.integers(0, 20))
def test_sigkill_follows_sigterm_when_the_time_is_up_and_not_before(
    world: World, before: int, first: dict[str, Any], second: dict[str, Any], between: int
) -> None:
    world.ask()
    world.pass_seconds(before)
    world.done.clear()
    if not world.life.has_stopped:
        world.end(**first)
        world.pass_seconds(between)
    if not world.life.has_stopped:
        world.end(**second)
        ending = world.life.ending
        assert ending is not None
    world.pass_seconds(150)
    assert world.life.has_stopped
    is_at_once = first["is_at_once"] or second["is_at_once"]
    told: dict[str, int] = {}
    for when, effect in world.done:
        if isinstance(effect, effects.Signal):
            told.setdefault(effect.container, when)
        if isinstance(effect, effects.Kill) and not is_at_once and effect.container in told:
            assert when - told[effect.container] >= RUNTIME_MINIMUM * SECOND_NS
            assert when - told[effect.container] <= (40 + RUNTIME_MINIMUM) * SECOND_NS


@settings(max_examples=40)
@given(worlds(), st.integers(1, 150), crash_points)
def test_a_container_of_a_pod_that_never_restarts_runs_once(world: World, length: int, crashes: list[int]) -> None:
    """Sidecars are restarted whatever the pod's policy is."""
    world = World(replace(world.spec, restart_policy=RestartPolicy.NEVER), world.programs)
    world.ask()
    for _ in live(world, length, crashes):
        pass
    plain = [each for each in world.life.containers if not each.rules.is_sidecar]
    assert all(each.run <= 0 for each in plain)
    for each in plain:
        assert sum(fact.container == each.name for fact in world.facts if isinstance(fact, facts.ContainerStarted)) <= 1


@given(st.integers(0, 30), st.integers(2, 12))
def test_restarts_wait_ten_seconds_doubling_to_five_minutes(lasts: int, count: int) -> None:
    world = World(programs={"c": Program(lasts=lasts, code=1)}).ask()
    while len(world.starts()) < count:
        world.happen()
    starts = [when for when, _ in world.starts()]
    waits = [later - sooner - lasts for sooner, later in pairwise(starts)]
    assert waits == [0.0, *(min(10.0 * 2**number, 300.0) for number in range(count - 2))]


def live(world: World, length: int, crashes: list[int]) -> Iterator[None]:
    """Let it happen, and kill the agent at the given effects meanwhile."""
    until_ns, pending = world.now_ns + length * SECOND_NS, list(crashes)
    while (next_ns := world.next_ns()) is not None and next_ns <= until_ns:
        if world.crash_in is None and pending:
            world.crash_in = pending.pop(0)
        world.happen()
        yield


@settings(max_examples=40)
@given(worlds(), st.integers(1, 150), crash_points)
def test_every_life_that_is_left_alone_is_consistent(world: World, length: int, crashes: list[int]) -> None:
    """Statuses can always be told, runs only grow, and a pod that ends for good stays ended."""
    world.ask()
    runs: dict[str, int] = {}
    was_over = None
    for _ in live(world, length, crashes):
        assert was_over is None or world.life.verdict == was_over
        was_over = world.life.verdict
        statuses = phases.container_statuses(world.life, lambda name, run: f"{name}/{run}")
        assert {each.state for each in statuses} <= {"waiting", "running", "terminated"}
        assert phases.verdict(world.life).phase in ("Pending", "Running", "Succeeded", "Failed")
        for each in world.life.containers:
            assert each.run >= runs.get(each.name, -1) - 1
            runs[each.name] = each.run
            assert not (each.is_ready and not each.is_running)
