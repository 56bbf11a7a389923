"""A pod's life in virtual time: started, restarted, probed, ended. No test sleeps."""

from __future__ import annotations

from itertools import pairwise

import pytest

from jettison.engine.lifecycle import effects, events, facts, phases
from jettison.engine.lifecycle.rules import HookKind, ProbeKind, RestartPolicy
from jettison.engine.lifecycle.state import Trouble
from jettison.engine.node.evictions import Eviction
from tests.builders import pod as make_pod
from tests.engine.lifecycle.virtual import PodSpec, ProbeSpec, Program, Spec, World, init, sidecar

NEVER, ON_FAILURE = RestartPolicy.NEVER, RestartPolicy.ON_FAILURE
STUBBORN = Program(obeys=None)
EVICTION = Eviction(make_pod("p"), "The node was low on resource: memory. ", 5, "memory.available")


def said(world: World, kind: type[facts.LifeFact]) -> list[facts.LifeFact]:
    return [fact for fact in world.facts if isinstance(fact, kind)]


def phase(world: World) -> str:
    return phases.verdict(world.life).phase


def times(world: World, kind: type[effects.Effect]) -> list[float]:
    return [round(when, 3) for when, _ in world.effects_of(kind)]


def test_init_containers_one_after_another_then_the_regular_ones() -> None:
    spec = PodSpec((Spec("a"), Spec("b")), (init("i"), sidecar("s"), init("j")), NEVER)
    world = World(spec, {"i": Program(lasts=2), "j": Program(lasts=3), "a": Program(lasts=10), "b": Program(lasts=10)})
    world.ask()
    assert phase(world) == "Pending"
    world.pass_seconds(4)
    assert phase(world) == "Pending"
    world.pass_seconds(4)
    assert phase(world) == "Running"
    assert world.starts() == [(0.5, "i"), (2.5, "s"), (2.5, "j"), (5.5, "a"), (5.5, "b")]
    world.pass_seconds(20)
    assert phase(world) == "Succeeded"
    assert world.life.is_cleaned
    assert world.container("s").exit_code == 143


def test_each_start_waits_for_the_one_before() -> None:
    world = World(PodSpec((Spec("a"), Spec("b"))), {"a": Program(starts_in=2)}).ask()
    world.pass_seconds(1)
    assert not world.life.has_begun
    world.pass_seconds(9)
    assert world.starts() == [(0.5, "a"), (2.5, "b")]
    assert world.life.has_begun


def test_restarts_back_off_from_ten_seconds_to_five_minutes_and_ten_minutes_of_life_are_forgiven() -> None:
    world = World(programs={"c": Program(lasts=1, code=1)}).ask()
    world.pass_seconds(1200)
    starts = [when for when, _ in world.starts()]
    gaps = [round(later - sooner - 1, 3) for sooner, later in pairwise(starts)]
    assert gaps == [0, 10, 20, 40, 80, 160, 300, 300]
    backing_off = said(world, facts.ContainerBackOff)
    assert [fact.seconds for fact in backing_off] == [10, 20, 40, 80, 160, 300, 300, 300]  # type: ignore[union-attr]
    world.programs["c"] = Program(lasts=601, code=1)
    world.pass_seconds(301)
    count = len(world.starts())
    world.pass_seconds(602)
    assert len(world.starts()) == count + 1


def test_what_cannot_be_started_is_tried_again() -> None:
    world = World(programs={"c": Program(starts_in=None)}).ask()
    world.pass_seconds(5)
    (finished, _) = said(world, facts.ContainerFinished)
    assert finished == facts.ContainerFinished(world.life.pod, "c", 128, "StartError", "no such program")
    assert len(world.starts()) == 2


def test_a_start_needs_a_record() -> None:
    """The driver is told to save before each start."""
    world = World(programs={"c": Program(lasts=1, code=1)}).ask()
    world.pass_seconds(60)
    kinds = [type(effect) for _, effect in world.done]
    before_starts = [kinds[index - 1] for index, kind in enumerate(kinds) if kind is effects.Start]
    assert set(before_starts) == {effects.Save}


def test_a_pod_that_cannot_be_set_up_waits_and_is_tried_again_soon_then_every_ten_seconds() -> None:
    trouble = Trouble("ContainerCreating", "no disk", "FailedMount", "no disk")
    world = World(set_up_troubles=[trouble] * 7).ask()
    world.pass_seconds(4)
    assert world.life.has_begun
    status = phases.container_statuses(world.life, lambda name, run: f"{name}/{run}")[0]
    assert (status.state, status.reason, status.message) == ("waiting", "ContainerCreating", "no disk")
    world.pass_seconds(60)
    assert [fact.seconds for fact in said(world, facts.PodWaiting)] == [0.5, 1, 2, 4, 8, 10, 10]  # type: ignore[union-attr]
    assert times(world, effects.SetUp)[:4] == [0, 1, 2.5, 5]
    assert phase(world) == "Running"


def test_a_pod_that_is_refused_is_asked_for_less_and_less_often() -> None:
    trouble = Trouble("CreateContainerConfigError", "no", "Failed", "no", is_refusal=True)
    world = World(set_up_troubles=[trouble] * 8).ask()
    world.pass_seconds(1)
    assert world.life.is_refused
    world.pass_seconds(2000)
    waits = [fact.seconds for fact in said(world, facts.PodWaiting)]  # type: ignore[union-attr]
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]
    assert not world.life.is_refused


def test_a_deadline_counts_whatever_the_pod_does() -> None:
    world = World(PodSpec(deadline_seconds=60, grace_seconds=7), {"c": STUBBORN}).ask()
    is_ending = []
    for seconds in (59.9, 0.2):
        world.pass_seconds(seconds)
        is_ending.append(world.life.is_ending)
    assert is_ending == [False, True]
    assert said(world, facts.DeadlineExceeded) == [facts.DeadlineExceeded(world.life.pod, 60)]
    world.pass_seconds(10)
    verdict = phases.verdict(world.life)
    assert (verdict.phase, verdict.reason) == ("Failed", "DeadlineExceeded")
    assert times(world, effects.Signal) == [60]
    assert times(world, effects.Kill) == [67]


@pytest.mark.parametrize(("grace", "killed"), [(1, 12), (2, 12), (3, 13), (30, 40)])
def test_sigkill_comes_after_the_grace_period_and_never_before_two_seconds(grace: int, killed: float) -> None:
    world = World(programs={"c": STUBBORN}).ask()
    world.pass_seconds(10)
    world.end(grace_seconds=grace)
    world.pass_seconds(60)
    assert times(world, effects.Signal) == [10]
    assert times(world, effects.Kill) == [killed]
    assert world.container().exit_code == 137


def test_a_grace_period_only_shrinks() -> None:
    world = World(programs={"c": STUBBORN}).ask()
    world.pass_seconds(10)
    world.end(grace_seconds=30)
    world.pass_seconds(5)
    world.end(grace_seconds=50)
    world.pass_seconds(5)
    world.end(grace_seconds=3)
    world.pass_seconds(60)
    assert times(world, effects.Kill) == [23]
    assert len(said(world, facts.ContainerStopping)) == 1


def test_ending_at_once_asks_nothing() -> None:
    world = World(PodSpec((Spec("a"), Spec("b")), (sidecar("s"),)), dict.fromkeys("abs", STUBBORN)).ask()
    world.pass_seconds(10)
    world.end(is_at_once=True, order=EVICTION)
    assert times(world, effects.Signal) == []
    assert times(world, effects.Kill) == [10, 10, 10]
    assert said(world, facts.ContainerStopping) == []
    world.pass_seconds(1)
    assert (phases.verdict(world.life).reason, world.life.is_cleaned) == ("Evicted", True)


def test_a_slow_ending_can_become_one_at_once() -> None:
    world = World(programs={"c": STUBBORN}).ask()
    world.pass_seconds(10)
    world.end(grace_seconds=600)
    world.pass_seconds(1)
    world.end(is_at_once=True, order=EVICTION)
    assert times(world, effects.Kill) == [11]


def test_the_order_is_saved_before_the_signal_and_the_signal_right_after_it() -> None:
    world = World().ask()
    world.pass_seconds(10)
    before = len(world.done)
    world.end(order=EVICTION, grace_seconds=5)
    kinds = [type(effect) for _, effect in world.done[before:]]
    assert kinds[:4] == [effects.Save, effects.Signal, effects.Save, effects.Say]


def test_sidecars_go_last_and_in_reverse() -> None:
    spec = PodSpec((Spec("a"), Spec("b")), (sidecar("s"), sidecar("t")))
    programs = {"a": Program(obeys=3), "b": Program(obeys=1), "s": Program(obeys=1), "t": Program(obeys=2)}
    world = World(spec, programs).ask()
    world.pass_seconds(10)
    world.end(grace_seconds=20)
    world.pass_seconds(60)
    stopped = [fact.container for fact in said(world, facts.ContainerStopping)]  # type: ignore[union-attr]
    assert stopped == ["a", "b", "t", "s"]
    assert times(world, effects.Signal) == [10, 10, 13, 15]
    assert times(world, effects.Kill) == []


def test_a_sidecar_gets_two_seconds_also_when_the_time_is_over() -> None:
    spec = PodSpec(init_containers=(sidecar("s"),))
    world = World(spec, {"c": STUBBORN, "s": STUBBORN}).ask()
    world.pass_seconds(10)
    world.end(grace_seconds=5)
    world.pass_seconds(60)
    assert times(world, effects.Kill) == [15, 17]


def test_the_hook_comes_before_the_signal() -> None:
    world = World(PodSpec((Spec(pre_stop="x"),)), {"c": Program(hook=3)}).ask()
    world.pass_seconds(10)
    world.end(grace_seconds=20)
    world.pass_seconds(60)
    assert (times(world, effects.RunHook), times(world, effects.Signal)) == ([10], [13])
    assert times(world, effects.CancelHook) == []


def test_a_hook_that_hangs_has_the_grace_period_and_the_container_two_seconds_more() -> None:
    world = World(PodSpec((Spec(pre_stop="x"),)), {"c": Program(hook=600, obeys=None)}).ask()
    world.pass_seconds(10)
    world.end(grace_seconds=5)
    world.pass_seconds(60)
    assert (times(world, effects.CancelHook), times(world, effects.Signal)) == ([15], [15])
    assert times(world, effects.Kill) == [17]


def test_a_failed_hook_is_told_and_changes_nothing() -> None:
    world = World(PodSpec((Spec(pre_stop="x"),)), {"c": Program(hook=3, hook_failure="exit 4")}).ask()
    world.pass_seconds(10)
    world.end(grace_seconds=20)
    world.pass_seconds(60)
    assert said(world, facts.HookFailed) == [facts.HookFailed(world.life.pod, "c", "preStop", "exit 4")]
    assert times(world, effects.Signal) == [13]


GREETED = Spec(post_start="x")


def test_what_follows_a_start_waits_for_the_post_start_hook() -> None:
    """Probes, readiness and the next container; not the container's own process."""
    ready = Spec(probes=(ProbeSpec(ProbeKind.READINESS),), post_start="x")
    world = World(PodSpec((ready, Spec("d"))), {"c": Program(hook=5)}).ask()
    world.pass_seconds(4)
    assert [name for _, name in world.starts()] == ["c"]
    assert world.life.containers[0].is_running
    assert times(world, effects.Probe) == []
    world.pass_seconds(4)
    assert [name for _, name in world.starts()] == ["c", "d"]
    assert world.life.containers[0].is_ready
    (hook,) = [each for _, each in world.effects_of(effects.RunHook)]
    assert hook == effects.RunHook("c", 0, HookKind.POST_START)


def test_a_sidecar_is_up_after_its_post_start_hook() -> None:
    spec = PodSpec(init_containers=(Spec("s", post_start="x", is_init=True, is_sidecar=True),))
    world = World(spec, {"s": Program(hook=20)}).ask()
    world.pass_seconds(15)
    assert [name for _, name in world.starts()] == ["s"]
    world.pass_seconds(15)
    assert [name for _, name in world.starts()] == ["s", "c"]


def test_a_container_whose_post_start_hook_fails_is_ended_and_started_again() -> None:
    world = World(PodSpec((GREETED,)), {"c": Program(hook=3, hook_failure="exit 4")}).ask()
    world.pass_seconds(60)
    (first, *_) = said(world, facts.HookFailed)
    assert first == facts.HookFailed(world.life.pod, "c", "postStart", "exit 4")
    assert len(world.starts()) >= 2
    assert not world.life.containers[0].is_ready


def test_with_the_policy_never_a_failed_post_start_hook_ends_the_pod() -> None:
    spec = PodSpec((GREETED,), restart_policy=RestartPolicy.NEVER)
    world = World(spec, {"c": Program(hook=3, hook_failure="exit 4")}).ask()
    world.pass_seconds(60)
    assert len(world.starts()) == 1
    assert world.life.verdict is not None
    assert world.life.verdict.phase == "Failed"


def test_an_ending_does_not_wait_for_a_post_start_hook() -> None:
    world = World(PodSpec((GREETED,)), {"c": Program(hook=600)}).ask()
    world.pass_seconds(10)
    world.end(grace_seconds=20)
    world.pass_seconds(5)
    cancelled = [each for _, each in world.effects_of(effects.CancelHook)]
    assert cancelled == [effects.CancelHook("c", HookKind.POST_START)]
    assert times(world, effects.Signal) == [10]
    assert world.life.verdict is not None


def test_a_container_that_ends_takes_its_post_start_hook_along() -> None:
    spec = PodSpec((GREETED,), restart_policy=RestartPolicy.NEVER)
    world = World(spec, {"c": Program(hook=600, lasts=3)}).ask()
    world.pass_seconds(30)
    assert [each for _, each in world.effects_of(effects.CancelHook)] == [effects.CancelHook("c", HookKind.POST_START)]
    assert world.life.verdict is not None
    assert world.life.verdict.phase == "Succeeded"


def test_an_agent_that_was_killed_does_not_repeat_a_post_start_hook() -> None:
    """As a kubelet that is restarted: the container counts as started."""
    world = World(PodSpec((GREETED,)), {"c": Program(hook=600)}).ask()
    world.pass_seconds(5)
    world.crash()
    world.pass_seconds(5)
    assert len(world.effects_of(effects.RunHook)) == 1
    assert world.life.containers[0].is_ready


def test_a_start_that_is_under_way_is_cancelled() -> None:
    world = World(programs={"c": Program(starts_in=5)}).ask()
    world.pass_seconds(2)
    world.end(order=EVICTION, grace_seconds=1)
    world.pass_seconds(1)
    assert (world.container().state, world.container().run) == ("waiting", -1)
    assert phases.verdict(world.life).reason == "Evicted"
    assert times(world, effects.CancelStart) == [2]


def test_a_restart_that_is_cancelled_leaves_the_run_before_as_it_was() -> None:
    world = World(programs={"c": Program(lasts=1, code=3)}).ask()
    world.pass_seconds(1)
    world.programs["c"] = Program(starts_in=5)
    world.pass_seconds(2)
    assert world.container().state == "starting"
    world.end(grace_seconds=1)
    world.pass_seconds(5)
    assert (world.container().state, world.container().exit_code, world.container().run) == ("terminated", 3, 0)


def test_a_set_up_that_is_under_way_is_cancelled() -> None:
    world = World().ask()
    world.end(is_unwanted=True)
    assert not world.life.has_stopped
    world.pass_seconds(1)
    assert world.life.is_cleaned
    assert world.starts() == []
    assert [effect for _, effect in world.effects_of(effects.CleanUp)] == [effects.CleanUp(is_all=True)]


@pytest.mark.parametrize(
    ("spec", "programs", "order", "expected"),
    [
        (PodSpec(restart_policy=NEVER), Program(lasts=1), None, ("Succeeded", "")),
        (PodSpec(restart_policy=NEVER), Program(lasts=1, code=2), None, ("Failed", "")),
        (PodSpec(restart_policy=ON_FAILURE), Program(lasts=1), None, ("Succeeded", "")),
        (PodSpec(restart_policy=NEVER), Program(), EVICTION, ("Failed", "Evicted")),
        (PodSpec(deadline_seconds=2), Program(), None, ("Failed", "DeadlineExceeded")),
    ],
)
def test_how_a_pod_ends_is_in_its_verdict(
    spec: PodSpec, programs: Program, order: Eviction | None, expected: tuple[str, str]
) -> None:
    world = World(spec, {"c": programs}).ask()
    world.pass_seconds(5)
    if order is not None:
        world.end(order=order)
        world.pass_seconds(5)
    verdict = phases.verdict(world.life)
    assert (verdict.phase, verdict.reason) == expected
    # An evicted pod's end is told by the agent, after its journal.
    assert len(said(world, facts.PodCleanedUp)) == (order is None)


def liveness(failures: int = 3, grace: int | None = None) -> ProbeSpec:
    return ProbeSpec(ProbeKind.LIVENESS, failures=failures, grace=grace)


def test_a_container_that_fails_its_liveness_probe_is_restarted_after_three_answers() -> None:
    sick = Program(answers=lambda kind, age: age < 25, obeys=1)
    world = World(PodSpec((Spec(probes=(liveness(),)),), restart_policy=ON_FAILURE), {"c": sick}).ask()
    world.pass_seconds(55)
    (failed,) = said(world, facts.ProbeFailed)
    assert failed == facts.ProbeFailed(world.life.pod, "c", "liveness", "because")
    assert times(world, effects.Signal) == [50.51]
    assert [round(when, 2) for when, _ in world.starts()] == [0.5, 51.51]


def test_a_probe_may_have_a_grace_period_of_its_own() -> None:
    sick = Program(answers=lambda kind, age: False, obeys=None)
    world = World(PodSpec((Spec(probes=(liveness(1, grace=4),)),), grace_seconds=600), {"c": sick}).ask()
    world.pass_seconds(5)
    assert times(world, effects.Kill) == [4.51]


def test_nothing_else_is_asked_before_the_startup_probe_has_succeeded() -> None:
    startup = ProbeSpec(ProbeKind.STARTUP, initial_delay=5, period=5, failures=10)
    ready = ProbeSpec(ProbeKind.READINESS, initial_delay=8, period=10)
    slow = Program(answers=lambda kind, age: kind is not ProbeKind.STARTUP or age > 12)
    world = World(PodSpec((Spec(probes=(startup, ready, liveness())),)), {"c": slow}).ask()
    world.pass_seconds(30)
    asked = [(round(when, 2), each.kind.value) for when, each in world.effects_of(effects.Probe)]  # type: ignore[union-attr]
    assert [when for when, kind in asked if kind == "startup"] == [5.5, 10.5, 15.5]
    assert min(when for when, kind in asked if kind != "startup") == 15.51
    assert world.container().is_started
    assert world.container().is_ready


def test_an_answer_that_cannot_be_had_counts_for_nothing() -> None:
    lost = Program(answers=lambda kind, age: None)
    world = World(PodSpec((Spec(probes=(liveness(1),)),)), {"c": lost}).ask()
    world.pass_seconds(100)
    assert said(world, facts.ProbeFailed) == []
    assert world.container().run == 0


def test_readiness_needs_its_thresholds_and_restarts_nothing() -> None:
    ready = ProbeSpec(ProbeKind.READINESS, period=1, successes=2, failures=3)
    flaky = Program(answers=lambda kind, age: age < 10 or age > 20)
    world = World(PodSpec((Spec(probes=(ready,)),)), {"c": flaky}).ask()
    seen = []
    for _ in range(30):
        world.pass_seconds(1)
        seen.append(world.container().is_ready)
    assert [index for index in range(1, 30) if seen[index] != seen[index - 1]] == [1, 12, 22]
    assert world.container().run == 0
    assert len(said(world, facts.ProbeFailed)) == 1


@pytest.mark.parametrize(
    ("answers", "verdicts"),
    [
        ([1, 1, 1], [(True, 2)]),
        ([1, 0, 1, 0, 1], []),
        ([0, 0, 0, 0], [(False, 3)]),
        ([1, 1, 0, 0, 1, 0, 0, 0, 1, 1], [(True, 2), (False, 8), (True, 10)]),
        ([0, 0, None, 0], [(False, 4)]),
        ([None] * 5, []),
    ],
)
def test_it_takes_some_in_a_row(answers: list[int | None], verdicts: list[tuple[bool, int]]) -> None:
    """The verdicts, each with how many answers it took; None is a question that could not be asked."""
    ready = ProbeSpec(ProbeKind.READINESS, period=1, successes=2, failures=3)
    pending = [None if each is None else bool(each) for each in answers]
    world = World(PodSpec((Spec(probes=(ready,)),)), {"c": Program(answers=lambda _kind, _age: pending.pop(0))}).ask()
    found, last = list[tuple[bool | None, int]](), None
    for count in range(1, len(answers) + 1):
        while len(answers) - len(pending) < count or world.life.probes[0].is_asked:
            world.happen()
        if world.life.probes[0].verdict is not last:
            last = world.life.probes[0].verdict
            found.append((last, count))
    assert found == verdicts


def test_the_first_question_waits_for_the_initial_delay_and_the_next_for_the_period() -> None:
    """Also over a restart of the agent, and a slow answer delays no other."""
    ready = ProbeSpec(ProbeKind.READINESS, initial_delay=100, period=50)
    world = World(PodSpec((Spec(probes=(ready,)),))).ask()
    world.pass_seconds(40)
    world.crash()
    world.pass_seconds(200)
    assert times(world, effects.Probe) == [100.5, 150.5, 200.5]


def test_while_it_ends_a_container_is_asked_only_whether_it_is_ready() -> None:
    ready = ProbeSpec(ProbeKind.READINESS, period=1, failures=1)
    sick = Program(answers=lambda kind, age: age < 15, obeys=None)
    world = World(PodSpec((Spec(probes=(ready, liveness(1))),)), {"c": sick}).ask()
    world.pass_seconds(10.2)
    world.end(grace_seconds=30)
    world.pass_seconds(20)
    assert {fact.probe for fact in said(world, facts.ProbeFailed)} == {"readiness"}  # type: ignore[union-attr]
    assert not world.container().is_ready
    assert times(world, effects.Kill) == []


def test_an_answer_to_an_earlier_run_is_of_no_account() -> None:
    world = World(PodSpec((Spec(probes=(liveness(1),)),))).ask()
    world.pass_seconds(1)
    before = world.life
    world.feed(events.ProbeAnswered(world.now, "c", 7, ProbeKind.LIVENESS, False, "stale"))
    assert world.life._replace(wake_at_ns=before.wake_at_ns) == before


def test_a_pod_found_again_goes_on() -> None:
    ready = ProbeSpec(ProbeKind.READINESS, initial_delay=5)
    world = World(PodSpec((Spec(probes=(ready,)),))).ask()
    world.pass_seconds(60)
    world.crash()
    world.pass_seconds(1)
    assert (world.container().run, world.container().is_ready) == (0, True)
    assert len(world.starts()) == 1


def test_a_container_that_died_while_there_was_no_agent_is_restarted() -> None:
    world = World().ask()
    world.pass_seconds(60)
    world.processes.clear()
    world.crash()
    world.pass_seconds(1)
    last = world.container().last
    assert last is not None
    assert (world.container().run, last.reason) == (1, "ContainerStatusUnknown")


def test_a_back_off_goes_on_over_a_restart_of_the_agent() -> None:
    world = World(programs={"c": Program(lasts=1, code=1)}).ask()
    world.pass_seconds(10)
    assert world.container().back_off == 10
    world.crash()
    world.pass_seconds(1)
    assert world.container().run == 1
    world.pass_seconds(3)
    assert world.container().run == 2
    assert [round(when, 2) for when, _ in world.starts()] == [0.5, 1.5, 12.5]


def test_a_container_that_a_probe_gave_up_has_no_second_grace_period() -> None:
    sick = Program(answers=lambda kind, age: age < 5, obeys=None)
    world = World(PodSpec((Spec(probes=(liveness(1),)),), grace_seconds=20), {"c": sick}).ask()
    world.pass_seconds(12)
    assert world.container().is_doomed
    for _ in range(4):
        world.crash()
        world.pass_seconds(4)
    assert times(world, effects.Signal) == [10.51]
    world.pass_seconds(5)
    assert times(world, effects.Kill) == [30.51]


@pytest.mark.parametrize("crashes", [0, 1, 5])
def test_a_grace_period_goes_on_over_any_number_of_agents(crashes: int) -> None:
    spec = PodSpec((Spec(), Spec("h", pre_stop="x")), (sidecar("s"),))
    world = World(spec, {"c": STUBBORN, "h": Program(hook=600, obeys=None), "s": STUBBORN}).ask()
    world.pass_seconds(10)
    world.end(order=EVICTION, grace_seconds=10)
    for _ in range(crashes):
        world.pass_seconds(1)
        world.crash()
    world.pass_seconds(60)
    kills = {each.container: when for when, each in reversed(world.effects_of(effects.Kill))}  # type: ignore[union-attr]
    assert kills == {"c": 20, "h": 22, "s": 24}
    assert [each.container for _, each in world.effects_of(effects.Signal)].count("c") == 1  # type: ignore[union-attr]
    assert phases.verdict(world.life).reason == "Evicted"


def test_what_is_told_is_told_once() -> None:
    world = World().ask()
    world.pass_seconds(1)
    world.end(order=EVICTION, grace_seconds=1)
    world.pass_seconds(5)
    assert world.life.ending is not None
    assert world.life.ending.is_untold
    world.feed(events.EvictionTold(world.now))
    assert not world.saved.ending.is_untold  # type: ignore[union-attr]


def test_an_idle_pod_wants_no_timer() -> None:
    world = World().ask()
    world.pass_seconds(60)
    assert world.next_ns() is None


def crowd(**programs: Program) -> World:
    """As many containers as a pod may have, each with two probes and every other one with a hook."""
    probes = (ProbeSpec(ProbeKind.LIVENESS, period=2), ProbeSpec(ProbeKind.READINESS, period=2))
    hooks = (None, object())
    specs = tuple(Spec(f"c{number}", probes, pre_stop=hooks[number % 2]) for number in range(32))
    world = World(PodSpec(specs, grace_seconds=20), {each.name: programs.get("all", Program()) for each in specs}).ask()
    world.pass_seconds(10)
    assert all(each.is_running for each in world.life.containers)
    return world


def busiest(world: World) -> int:
    """For how many containers and probes one event had something done at most."""
    acts = effects.Signal | effects.Kill | effects.RunHook | effects.Probe
    return max(sum(isinstance(each, acts) for each in turn) for turn in world.turns)


@pytest.mark.parametrize("how", [{}, {"grace_seconds": 3}, {"is_at_once": True}, {"order": EVICTION}])
def test_an_event_has_something_done_for_two_containers_of_a_crowd_at_most(how: dict[str, object]) -> None:
    """Probes that are due together, an order to end, the end of 32 hooks and of 32 grace periods, and one crash."""
    world = crowd(all=Program(obeys=None, hook=600))
    for process in world.processes.values():
        process.ends_ns = world.now_ns
    world.pass_seconds(10)
    assert all(each.run == 1 for each in world.life.containers)
    world.end(**how)
    world.pass_seconds(60)
    assert world.life.is_cleaned
    assert busiest(world) == effects.MOST_OF_A_CROWD
    assert max(map(len, world.turns)) < 20


def test_four_containers_are_killed_by_the_event_of_the_order() -> None:
    specs = tuple(Spec(f"c{number}") for number in range(effects.MOST_AT_ONCE))
    world = World(PodSpec(specs), {each.name: STUBBORN for each in specs}).ask()
    world.pass_seconds(10)
    world.end(is_at_once=True, order=EVICTION)
    assert len(world.effects_of(effects.Kill)) == effects.MOST_AT_ONCE


def test_doomed_containers_that_are_found_again_are_stopped_a_few_at_a_time() -> None:
    """Their probes had failed, and the agent died before it had told them."""
    world = crowd(all=Program(obeys=None, hook=600))
    doomed = [each._replace(is_doomed=True, until_monotonic_ns=30 * 10**9) for each in world.life.containers]
    world.saved = world.life._replace(containers=tuple(doomed))
    world.crash()
    world.pass_seconds(0)
    assert busiest(world) == effects.MOST_OF_A_CROWD
    assert all(each.until_monotonic_ns == 30 * 10**9 for each in world.life.containers)
    assert len(world.effects_of(effects.Signal)) + len(world.effects_of(effects.RunHook)) == 32


def test_all_containers_are_told_in_the_moment_of_the_order() -> None:
    world = crowd(all=Program(hook=1))
    world.end(grace_seconds=10)
    world.pass_seconds(0)
    told = [effect for when, effect in world.effects_of(effects.Signal) if when == 10]
    begun = [effect for when, effect in world.effects_of(effects.RunHook) if when == 10]
    assert len(told) == len(begun) == 16
    until = {each.until_monotonic_ns for each in world.life.containers}
    assert until == {20 * 10**9}


def test_an_order_to_hurry_overtakes_what_is_left_of_the_one_before() -> None:
    world = crowd(all=STUBBORN)
    world.end(grace_seconds=600)
    told = len(world.effects_of(effects.Signal)) + len(world.effects_of(effects.RunHook))
    assert told == effects.MOST_OF_A_CROWD
    world.end(is_at_once=True, order=EVICTION)
    assert len(world.effects_of(effects.Kill)) == effects.MOST_OF_A_CROWD
    world.pass_seconds(0)
    assert times(world, effects.Kill) == [10] * 32
    assert len(world.effects_of(effects.Signal)) + len(world.effects_of(effects.RunHook)) == told


@pytest.mark.parametrize("deed", range(1, 40))
def test_each_container_is_told_wherever_the_agent_is_killed(deed: int) -> None:
    """That a container was told is on record after it was told: else one that obeys would be killed."""
    specs = tuple(Spec(f"c{number}") for number in range(10))
    world = World(PodSpec(specs), {each.name: Program(obeys=1) for each in specs}).ask()
    world.pass_seconds(10)
    world.crash_in = deed
    world.end(grace_seconds=10)
    world.pass_seconds(60)
    assert world.life.is_cleaned
    told = [effect.container for _, effect in world.done if isinstance(effect, effects.Signal)]
    assert set(told) == {each.name for each in specs}
    assert len(told) <= len(specs) + 1
    assert not world.effects_of(effects.Kill)
