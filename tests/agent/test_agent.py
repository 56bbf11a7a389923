"""The loop's own logic: what it does with decisions, over time, one step after another."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from jettison import events
from jettison.agent.agent import Agent, Broadcast
from jettison.engine.config.kubelet_config import Source, assemble
from jettison.engine.config.kubelet_fields import API_VERSION, KIND
from jettison.engine.config.policy import Policy, build_policy
from jettison.engine.node.decide import Nothing, Reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Condition, Reclaimable, Signal
from jettison.engine.node.snapshot import Layout, Reading, Snapshot
from jettison.engine.numbers.quantity import parse
from jettison.engine.pods.pod import Volume
from jettison.engine.pods.preemption import preemption_of
from jettison.errors import PodGone, SignalError
from jettison.runtimes.protocol import CLOSE_ALARM, Alarm, EndingPod, Reclaimed
from tests.agent.scripted_runtime import MI, Facts, HandClock, Records, ScriptedRuntime, pod


def policy(**config: object) -> Policy:
    document = {"apiVersion": API_VERSION, "kind": KIND, "enforceNodeAllocatable": ["none"], **config}
    return build_policy(assemble(Source("test", document)))


HARD = policy(evictionHard={"memory.available": "100Mi"})
BOTH = policy(
    evictionHard={"memory.available": "100Mi"},
    evictionSoft={"memory.available": "300Mi"},
    evictionSoftGracePeriod={"memory.available": "30s"},
    evictionMaxPodGracePeriod=60,
)


class Stage:
    """An agent on a scripted node; pods end at once unless they are said to run on."""

    def __init__(self, wishes: Policy = HARD, *, is_dry_run: bool = False) -> None:
        self.clock = HandClock()
        self.runtime = ScriptedRuntime(self.clock, [pod("a"), pod("b"), pod("c")])
        self.runtime.used = {"a": 900 * MI, "b": 500 * MI, "c": 100 * MI}
        self.facts, self.records = Facts(), Records()
        emit = Broadcast(self.clock, self.facts)
        self.agent = Agent(self.runtime, wishes, self.clock, self.records, emit, is_dry_run=is_dry_run)

    def step(self, seconds: float = 1, alarm: str = "") -> None:
        self.clock.pass_seconds(seconds)
        drive(self.agent.step(Alarm(alarm, self.clock.monotonic_ns()) if alarm else None))

    def evicted(self) -> list[str]:
        return [order.pod.name for order in self.runtime.evictions]


def drive(work: Coroutine[Any, Any, None]) -> None:
    """A step never sleeps, so it runs to its end without an event loop."""
    with pytest.raises(StopIteration):
        work.send(None)


def test_an_idle_node_is_left_alone() -> None:
    """No pressure: no eviction, no condition, nothing on record."""
    stage = Stage()
    stage.step()
    assert stage.evicted() == []
    assert stage.records.steps == []
    assert stage.agent.history.conditions == frozenset()


def test_a_crossing_that_is_near_is_rehearsed() -> None:
    """And it is an ordinary look: where the line was crossed meanwhile, a pod goes."""
    stage = Stage()
    stage.step()
    stage.step(alarm="poll")
    assert stage.records.rehearsals == 0
    stage.step(alarm=CLOSE_ALARM)
    assert (stage.records.rehearsals, stage.records.steps) == (1, [])
    stage.runtime.available = 50 * MI
    stage.step(alarm=CLOSE_ALARM)
    assert (stage.records.rehearsals, stage.evicted()) == (1, ["a"])


def test_the_record_is_written_before_the_pod_goes() -> None:
    """What is not on record did not happen: the step is recorded before its eviction begins."""
    stage = Stage()
    recorded, end = list[int](), stage.runtime.end

    def note(order: Eviction) -> None:
        recorded.append(len(stage.records.steps))
        end(order)

    stage.runtime.end = note  # type: ignore[method-assign]
    stage.runtime.available = 50 * MI
    stage.step()
    assert (recorded, stage.evicted()) == ([1], ["a"])


def test_one_victim_at_a_time() -> None:
    """While one pod clears away, no second one goes for the same pressure, however often the node is looked at."""
    stage = Stage()
    stage.runtime.available = 50 * MI
    stage.runtime.unfinished = {"uid-a"}
    for _ in range(5):
        stage.step()
    assert stage.evicted() == ["a"]
    stage.runtime.unfinished.clear()
    stage.runtime.pods.pop(0)
    stage.step()
    assert stage.evicted() == ["a", "b"]


def test_the_record_is_told_which_steps_have_an_effect() -> None:
    """A victim that is chosen again while it clears away is not acted upon; the next victim is."""
    stage = Stage()
    stage.runtime.available = 50 * MI
    stage.runtime.unfinished = {"uid-a"}
    stage.step()
    stage.step(0.1)
    assert stage.records.effects == [True, False]
    stage.runtime.unfinished.clear()
    stage.runtime.pods.pop(0)
    stage.step(0.1)
    assert stage.records.effects == [True, False, True]


def test_what_will_not_clear_away_is_not_waited_for_forever() -> None:
    """30 s after a pod has stopped the next one goes, as upstream stops waiting then."""
    stage = Stage()
    stage.runtime.available = 50 * MI
    stage.runtime.unfinished = {"uid-a"}
    stage.step()
    stage.step(29)
    assert stage.evicted() == ["a"]
    stage.runtime.pods.pop(0)
    stage.step(2)
    assert stage.evicted() == ["a", "b"]


def test_a_pod_over_its_own_limit_is_waited_for_as_well() -> None:
    """What it leaves behind may be all that is missing: no pod goes for pressure while it is cleared away."""
    stage = Stage()
    hoarder = replace(pod("hoarder"), volumes=(Volume("cache", True, parse("1Mi")),))
    stage.runtime.pods.append(hoarder)
    stage.runtime.cached = {"hoarder": 2 * MI}
    stage.runtime.unfinished = {"uid-hoarder"}
    stage.step()
    assert stage.evicted() == ["hoarder"]
    stage.runtime.pods.remove(hoarder)
    stage.runtime.available = 50 * MI
    stage.step(0.02)
    stage.step()
    assert stage.evicted() == ["hoarder"]
    assert stage.records.effects == [True, False, False]
    stage.runtime.unfinished.clear()
    stage.step()
    assert stage.evicted() == ["hoarder", "a"]


def test_a_pod_that_makes_room_is_waited_for_once_it_has_stopped() -> None:
    """Not before: it has its own grace period, which no starving node can wait for; and it may be told to hurry."""
    stage = Stage()
    stage.runtime.lingering = {"uid-b"}
    for each in (stage.runtime.pods[2], stage.runtime.pods[1]):
        drive(stage.agent.evict(preemption_of(each)))
    stage.runtime.pods.pop(0)
    stage.runtime.available = 50 * MI
    stage.step()
    assert [(order.pod.name, order.grace_seconds) for order in stage.runtime.evictions][2:] == [("b", 1)]
    stage.runtime.let_stop("uid-b")
    stage.runtime.pods.append(pod("d"))
    stage.runtime.unfinished = {"uid-b"}
    stage.step()
    assert stage.evicted() == ["c", "b", "b"]
    stage.runtime.unfinished.clear()
    stage.step()
    assert len(stage.evicted()) == 4


def test_conditions_are_reported_while_a_pod_is_on_its_way_out() -> None:
    """Waiting never blinds the node: each look reports, unlike a kubelet that blocks for up to 40 s."""
    stage = Stage()
    stage.runtime.lingering = {"uid-a"}
    stage.runtime.available = 50 * MI
    for _ in range(2):
        stage.step()
        assert stage.agent.history.conditions == {Condition.MEMORY_PRESSURE}
    assert stage.evicted() == ["a"]


def test_a_hard_threshold_hurries_a_slow_soft_eviction() -> None:
    """The pod already on its way out with 30 s of grace is told to end within the second; no other pod goes."""
    stage = Stage(BOTH)
    stage.runtime.lingering = {"uid-a"}
    stage.runtime.available = 200 * MI
    stage.step()
    stage.step(30)
    assert [order.grace_seconds for order in stage.runtime.evictions] == [30]
    stage.runtime.available = 50 * MI
    stage.step()
    stage.step()
    assert [(order.pod.name, order.grace_seconds) for order in stage.runtime.evictions] == [("a", 30), ("a", 1)]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_pod_that_was_hurried_ends_once(*, is_late: bool) -> None:
    """Told twice, it has one end, counted from the first signal; also when the second order finds it gone."""
    stage = Stage(BOTH)
    stage.runtime.lingering = {"uid-a"}
    for available, seconds in ((200, 1), (200, 30), (50, 5)):
        stage.runtime.available = available * MI
        if is_late and available == 50:
            stage.runtime.refusal = PodGone("uid-a")
        stage.step(seconds)
        # In the end another one stands first in the order.
        stage.runtime.used = {"b": 900 * MI} if seconds == 30 else stage.runtime.used
    assert stage.evicted() == ["a", "a"]
    assert stage.records.instead[-1] == ["uid-a"]
    stage.clock.pass_seconds(1)
    stage.runtime.let_stop("uid-a")
    stage.runtime.unfinished = {"uid-a"}
    for _ in range(3):
        stage.step(0.1)
    (ended,) = [fact for fact in stage.facts.taken if isinstance(fact, events.PodEvicted)]
    assert ended.took_ns == 6 * 10**9
    stage.runtime.unfinished.clear()
    stage.step(0.1)
    assert stage.facts.names().count("PodCleanedUp") == 1


def test_a_pod_that_is_gone_already_does_not_hold_up_the_next() -> None:
    """PodGone is as good as done: the next look may evict again at once."""
    stage = Stage()
    stage.runtime.available = 50 * MI
    stage.runtime.refusal = PodGone("uid-a")
    stage.step()
    stage.step()
    assert stage.evicted() == ["a", "a"]
    assert "EvictionStarted" not in stage.facts.names()


def test_a_failed_kill_is_said() -> None:
    """Whatever goes wrong with a kill is a fact, and the loop goes on."""
    stage = Stage()
    stage.runtime.available = 50 * MI
    stage.runtime.refusal = SignalError("no such cgroup")
    stage.step()
    assert stage.facts.names()[0] == "ActionFailed"
    stage.runtime.refusal, stage.runtime.lingering = None, {"uid-a"}
    stage.step()
    for _ in range(3):
        stage.step(6)
    assert stage.facts.names().count("EvictionTimedOut") == 1


def test_a_node_that_cannot_be_measured_keeps_its_conditions() -> None:
    """Nothing is decided without numbers, and MemoryPressure stays reported."""
    stage = Stage()
    stage.runtime.available = 50 * MI
    stage.step()
    stage.runtime.fails_to_observe = True
    stage.step()
    assert stage.agent.history.conditions == {Condition.MEMORY_PRESSURE}
    assert stage.facts.names()[-1] == "ObservationFailed"


def test_a_first_look_that_fails_was_the_first_one() -> None:
    """The thresholds of the container filesystem count from the second look on, whatever became of the first."""
    stage = Stage()
    stage.runtime.fails_to_observe = True
    stage.step()
    assert stage.agent.history == History(knows_layout=True)


def test_a_dry_run_decides_and_records_but_touches_nothing() -> None:
    """--dry-run: the record says which pod would have gone; none goes."""
    stage = Stage(is_dry_run=True)
    stage.runtime.available = 50 * MI
    stage.step()
    assert stage.evicted() == []
    assert len(stage.records.steps) == 1


def test_a_dry_run_says_once_which_pod_would_go() -> None:
    """The prediction is in the log, and not at every look."""
    stage = Stage(is_dry_run=True)
    for available in (50 * MI, 40 * MI, 500 * MI, 50 * MI):
        stage.runtime.available = available
        stage.step()
    stage.runtime.used = {"a": 1 * MI, "b": 500 * MI, "c": 100 * MI}
    stage.step()
    said = [fact.eviction.pod.name for fact in stage.facts.taken if isinstance(fact, events.WouldEvict)]
    assert said == ["a", "a", "b"]


def test_history_is_kept_when_it_matters() -> None:
    """A restart must not lose conditions or grace clocks; readings alone are not worth a write."""
    stage = Stage()
    stage.step()
    kept = len(stage.records.histories)
    stage.step()
    assert len(stage.records.histories) == kept
    stage.runtime.available = 50 * MI
    stage.step()
    assert len(stage.records.histories) == kept + 1


HOUR = 3600 * 10**9


@pytest.mark.parametrize("jump_ns", [HOUR, -HOUR])
def test_a_clock_that_is_set_neither_hastens_nor_delays_an_eviction(jump_ns: int) -> None:
    """A soft threshold wants 30 s, whatever the wall clock shows meanwhile; a condition lasts as long as it should."""
    stage = Stage(BOTH)
    stage.runtime.available = 200 * MI
    stage.step()
    stage.clock.ahead_ns = jump_ns
    stage.step(29)
    assert stage.evicted() == []
    assert 0 < stage.agent._seconds_to_next_change() <= 1
    stage.step(1)
    assert stage.evicted() == ["a"]
    stage.clock.ahead_ns = -2 * jump_ns
    stage.runtime.available = 1000 * MI
    stage.step(299)
    assert stage.agent.history.conditions == {Condition.MEMORY_PRESSURE}
    stage.step(1)
    assert stage.agent.history.conditions == frozenset()


def leave(runtime: ScriptedRuntime, name: str, *, has_stopped: bool = False, grace_seconds: int = 1) -> None:
    """As an agent leaves it that was killed a second after it told the pod."""
    order = Eviction(pod(name), "The node was low on resource: memory. ", grace_seconds, "memory.available")
    began_ns = runtime.clock.monotonic_ns() - 10**9
    stopped_ns = runtime.clock.monotonic_ns() if has_stopped else None
    runtime.under_way[order.pod.uid] = EndingPod(order, began_ns, began_ns, stopped_ns)
    (runtime.ended if has_stopped else runtime.lingering).add(order.pod.uid)


def test_an_adopted_eviction_is_waited_for_and_ends_once() -> None:
    """An agent was killed while a pod was on its way out: the next one takes no second victim, and tells the end."""
    stage = Stage()
    stage.runtime.available = 50 * MI
    leave(stage.runtime, "a")
    stage.records.said = {"uid-a": {"eviction_started"}}
    stage.agent.adopt()
    stage.step()
    stage.step(5)
    assert stage.evicted() == []
    stage.runtime.let_stop("uid-a")
    stage.runtime.unfinished = {"uid-a"}
    stage.step()
    assert stage.facts.names().count("PodEvicted") == 1
    assert (stage.runtime.told_uids, stage.evicted()) == ([], [])
    stage.runtime.unfinished.clear()
    stage.step()
    assert stage.runtime.told_uids == ["uid-a"]
    assert "EvictionStarted" not in stage.facts.names()[:2]
    said = [name for name in stage.facts.names() if name.startswith("Pod") and name != "PodsRanked"]
    assert said == ["PodEvicted", "PodCleanedUp"]
    assert len(stage.evicted()) == 1, "now another one may go"


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        (set[str](), ["EvictionStarted", "PodEvicted", "PodCleanedUp"]),
        ({"eviction_started"}, ["PodEvicted", "PodCleanedUp"]),
        ({"eviction_started", "pod_evicted"}, ["PodCleanedUp"]),
        ({"eviction_started", "pod_evicted", "pod_cleaned_up"}, []),
    ],
)
def test_what_an_earlier_agent_did_not_come_to_say_is_said(said: set[str], missing: list[str]) -> None:
    """Each fact once, wherever the agent was killed."""
    stage = Stage()
    leave(stage.runtime, "a", has_stopped=True)
    stage.records.said = {"uid-a": said}
    stage.agent.adopt()
    stage.step()
    assert stage.facts.names() == missing
    assert stage.runtime.told_uids == ["uid-a"]


def test_an_evicted_pod_that_the_runtime_forgets_has_its_end_on_record() -> None:
    """It is wanted no longer, and was removed and forgotten between two steps."""
    stage = Stage()
    stage.runtime.available = 50 * MI
    stage.runtime.lingering = {"uid-a"}
    stage.step()
    stage.runtime.available = 1000 * MI
    stage.runtime.lingering.clear()
    stage.runtime.under_way.clear()
    stage.runtime.pods.pop(0)
    stage.step()
    stage.step()
    assert stage.facts.names().count("PodEvicted") == stage.facts.names().count("PodCleanedUp") == 1


def test_an_adopted_soft_eviction_is_hurried_by_a_hard_threshold() -> None:
    stage = Stage(BOTH)
    leave(stage.runtime, "a", grace_seconds=60)
    stage.runtime.available = 50 * MI
    stage.agent.adopt()
    stage.step()
    assert [(order.pod.name, order.grace_seconds) for order in stage.runtime.evictions] == [("a", 1)]


def test_a_pod_that_ends_after_all_has_its_end_on_record() -> None:
    """It was given up after 10 s and no longer waited for after 30 more; a minute later it is gone."""
    stage = Stage()
    stage.runtime.available = 50 * MI
    stage.runtime.lingering = {"uid-a"}
    stage.step()
    stage.runtime.available = 1000 * MI
    stage.step(31)
    assert stage.facts.names().count("EvictionTimedOut") == 1
    stage.runtime.let_stop("uid-a")
    stage.step(60)
    stage.step(60)
    assert stage.facts.names().count("PodEvicted") == stage.facts.names().count("PodCleanedUp") == 1
    assert stage.runtime.told_uids == ["uid-a"]


def test_a_pod_that_does_not_end_is_not_waited_for_forever() -> None:
    stage = Stage()
    stage.runtime.available = 50 * MI
    stage.runtime.lingering = {"uid-a"}
    stage.step()
    stage.runtime.pods.pop(0)
    stage.step(40)
    assert stage.evicted() == ["a"]
    stage.step(2)
    assert stage.evicted() == ["a", "b"]


def test_the_loop_survives_a_bug() -> None:
    """An unexpected exception becomes a fact; the node stays guarded."""
    stage = Stage()

    async def explode() -> None:
        raise ZeroDivisionError("boom")

    async def scenario() -> None:
        stage.runtime.observe = explode  # type: ignore[method-assign, assignment]
        task = asyncio.create_task(stage.agent.run())
        await asyncio.sleep(0.05)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert "ActionFailed" in stage.facts.names()


def test_the_loop_wakes_when_a_grace_period_ends() -> None:
    """No alarm rings for the passing of time: a soft threshold of 30 s is looked at again after 30 s, not 40."""
    stage = Stage(BOTH)
    stage.runtime.available = 200 * MI
    stage.step()
    stage.clock.pass_seconds(28)
    assert stage.agent._seconds_to_next_change() == 2
    stage.step(2)
    assert stage.evicted() == ["a"]


def test_the_cause_is_said_before_the_effect() -> None:
    """The signal goes out first, and the time it took is that of the signal; but a log is read from top to bottom."""
    clock, facts = HandClock(), Facts()
    runtime = ScriptedRuntime(clock, [pod("a")])
    agent = Agent(runtime, HARD, clock, Records(), Broadcast(clock, facts))

    async def starve() -> None:
        runtime.available = 50 * MI
        await agent.step(Alarm("memcg", clock.monotonic_ns()))
        while "PodEvicted" not in facts.names():
            await asyncio.sleep(0.001)
            await agent.step()

    asyncio.run(asyncio.wait_for(starve(), 60))
    order = ["ThresholdCrossed", "ThresholdMet", "PodsRanked", "EvictionStarted", "PodEvicted"]
    assert list(dict.fromkeys(name for name in facts.names() if name in order)) == order


def test_another_policy_counts_from_the_next_step_on() -> None:
    """What is remembered of thresholds that are no more is forgotten, and what both have is not."""
    stage = Stage(BOTH)
    stage.runtime.available = 250 * MI
    stage.step()
    (soft,) = stage.agent.history.first_observed
    stage.agent.use(
        policy(
            evictionHard={"memory.available": "120Mi"},
            evictionSoft={"memory.available": "300Mi"},
            evictionSoftGracePeriod={"memory.available": "30s"},
            evictionMaxPodGracePeriod=60,
        )
    )
    assert stage.agent.policy is BOTH
    stage.step()
    assert list(stage.agent.history.first_observed) == [soft]
    assert stage.records.policies == [stage.agent.policy]
    stage.agent.use(HARD)
    stage.step(60)
    assert not stage.agent.history.first_observed
    assert stage.evicted() == []
    stage.agent.use(policy(evictionHard={"memory.available": "260Mi"}))
    stage.step()
    assert stage.evicted() == ["a"]


def test_a_policy_that_comes_during_a_step_waits_for_its_end() -> None:
    stage = Stage(BOTH)
    stage.runtime.available = 90 * MI
    observe = stage.runtime.observe

    async def observe_and_change() -> Snapshot:
        stage.agent.use(policy(evictionHard={"memory.available": "1Mi"}))
        return await observe()

    stage.runtime.observe = observe_and_change  # type: ignore[method-assign]
    stage.step()
    assert stage.evicted() == ["a"]
    assert stage.agent.policy is BOTH


DISK = policy(evictionHard={"nodefs.available": "100Mi", "memory.available": "100Mi"})


def test_memory_does_not_wait_for_a_disk() -> None:
    """To remove images takes seconds. A pod that fills the memory meanwhile goes at once, and the disk is seen to
    later, by the same removal, which was not begun anew.
    """

    async def scenario() -> None:
        stage = Stage(DISK)
        begun, may_end = list[Reclaim](), asyncio.Event()

        async def reclaim(order: Reclaim) -> Reclaimed:
            begun.append(order)
            await may_end.wait()
            stage.runtime.disk_available = 500 * MI
            return Reclaimed(images=1)

        stage.runtime.reclaim = reclaim  # type: ignore[method-assign]
        stage.runtime.disk_available = 50 * MI
        running = asyncio.create_task(stage.agent.run())
        while not begun:
            await asyncio.sleep(0)
        stage.clock.pass_seconds(1)
        stage.agent.look_soon()
        await asyncio.sleep(0.01)
        assert stage.evicted() == []
        stage.clock.pass_seconds(1)
        stage.runtime.available = 50 * MI
        stage.agent.look_soon()
        while not stage.evicted():
            await asyncio.sleep(0)
        assert stage.evicted() == ["a"]
        stage.clock.pass_seconds(1)
        stage.runtime.available = 500 * MI
        may_end.set()
        while "ReclaimFinished" not in stage.facts.names():
            stage.clock.pass_seconds(0.1)
            stage.agent.look_soon()
            await asyncio.sleep(0)
        assert len(begun) == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert stage.evicted() == ["a"]

    asyncio.run(scenario())


def test_thresholds_of_another_disk_layout_are_forgotten() -> None:
    """The container runtime answered late: its images are elsewhere, and what held for one disk does not hold there."""
    stage = Stage(policy(evictionHard={"nodefs.available": "100Mi"}))
    stage.runtime.disk_available = 50 * MI

    def met_after_a_step() -> set[Signal]:
        stage.clock.pass_seconds(1)
        asyncio.run(stage.agent.step())
        return {each.signal for each in stage.agent.history.met}

    assert met_after_a_step() == {Signal.NODEFS_AVAILABLE}
    assert met_after_a_step() == {Signal.NODEFS_AVAILABLE, Signal.CONTAINERFS_AVAILABLE}
    stage.runtime.layout = Layout(has_image_fs=True)
    assert met_after_a_step() == {Signal.NODEFS_AVAILABLE}


def test_another_disk_that_wants_something_else_is_not_forgotten() -> None:
    """Images were asked for and a pod went for memory meanwhile; now containers are asked for: both are freed."""

    async def scenario() -> None:
        stage = Stage(DISK)
        orders, may_end = list[tuple[Reclaimable, ...]](), asyncio.Event()

        async def reclaim(order: Reclaim) -> Reclaimed:
            orders.append(order.what)
            await may_end.wait()
            return Reclaimed()

        stage.runtime.reclaim = reclaim  # type: ignore[method-assign]
        starved = DISK.thresholds[0]
        first, second = (
            Reclaim((what,), starved, Reading(0, 1, 1), Nothing(""), ())
            for what in (Reclaimable.IMAGES, Reclaimable.CONTAINERS)
        )
        waiting = asyncio.create_task(stage.agent._freed(first))
        await asyncio.sleep(0.01)
        stage.clock.pass_seconds(1)
        stage.runtime.available = 50 * MI
        stage.agent.look_soon()
        assert not await waiting
        stage.runtime.available = 500 * MI
        waiting = asyncio.create_task(stage.agent._freed(second))
        await asyncio.sleep(0.01)
        assert orders == [(Reclaimable.IMAGES,)]
        may_end.set()
        assert await waiting
        assert orders == [(Reclaimable.IMAGES,), (Reclaimable.CONTAINERS,)]

    asyncio.run(scenario())
