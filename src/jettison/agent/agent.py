"""The loop of spec §5: one step at a time, alarms and ticks coalesced, at most one victim for pressure under way.

What it says goes to all sinks of the node through one `Broadcast`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from jettison import events
from jettison.agent.endings import Ending, told_instead
from jettison.clock import Clock, Stamp
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Evict, Outcome, Reclaim, decide, give_up_reclaim
from jettison.engine.node.evictions import HARD_GRACE, Eviction
from jettison.engine.node.facts import GraceCutShort
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Reclaimable
from jettison.engine.node.snapshot import Snapshot
from jettison.engine.node.survival import Trends, fatal, follow
from jettison.errors import ActionError, JettisonError, ObservationError, PodGone, StillRunning
from jettison.events import Emit, Fact, Sink
from jettison.runtimes.protocol import CLOSE_ALARM, Alarm, EndingPod, Runtime
from jettison.values import frozen

TICK_SECONDS = 10.0
"""How often the node is looked at when nothing else asks for it; the kubelet's period."""

ENDING_TICK_SECONDS = 0.1
"""While a pod is on its way out: the next decision waits for what it leaves behind, so the look must come soon."""


class AgentStep(NamedTuple):
    """One look, and what was decided on it. The history is that before it."""

    before: History
    snapshot: Snapshot
    outcome: Outcome
    alarm: Alarm | None
    at: Stamp
    # Without an effect no pod is told to end: one that was told before is still on its way out.
    has_effect: bool
    # The uid of the pod that is told though the decision names another one first.
    instead: Sequence[str] = ()


class Recorder(Protocol):
    """Where steps are kept."""

    def step(self, step: AgentStep) -> None:
        """A step that had something to say. On return no SIGKILL undoes the record: it is acted upon next."""

    def prepare(self, snapshot: Snapshot, *, is_urgent: bool) -> None:
        """Do beforehand what a record of this node will need: the first one over 110 pods takes 19 ms otherwise.

        It is urgent when a crossing is near, and then worth a rehearsal.
        """

    def settle(self) -> None:
        """Make the records safe against a loss of power, too. That takes milliseconds, so it comes after the act."""

    def history(self, history: History) -> None:
        """What a restarted agent must know."""

    def use(self, policy: Policy) -> None:
        """From now on steps are decided by this."""

    def said_of(self, uid: str) -> Collection[str]:
        """Names of the facts about the pod that are on record since it was last chosen to go, or told to."""


class Tape(Protocol):
    """Notes all that a step depends on, so that it can be taken again elsewhere. It must return at once."""

    def looked(self, look: TapedLook) -> None:
        """The node was measured, and this was decided."""

    def failed(self, why: str) -> None:
        """The node could not be measured."""

    def interrupted(self) -> None:
        """A pod must go before a reclaim is done: no second look follows."""

    def uses(self, policy: Policy) -> None:
        """From the next look on."""


@frozen
class TapedLook:
    """One look of a step: what was seen, and what came of it."""

    at: Stamp
    alarm: Alarm | None
    snapshot: Snapshot
    # Before anything was done about what was seen.
    endings: tuple[EndingPod, ...]
    # The uids of the pods that are told to end.
    told: tuple[str, ...]


@dataclass(slots=True)
class _Story:
    """An eviction as the runtime last told of it, and the names of the facts that were said about it."""

    pod: EndingPod
    said: set[str] = field(default_factory=set)


class Agent:
    """Guards one node. Which pods are on their way out the runtime knows; the agent knows what it said of them."""

    def __init__(
        self,
        runtime: Runtime,
        policy: Policy,
        clock: Clock,
        recorder: Recorder,
        emit: Emit,
        *,
        history: History | None = None,
        trends: Trends | None = None,
        is_dry_run: bool = False,
    ) -> None:
        self.runtime = runtime
        self.policy = policy
        self.clock = clock
        self.recorder = recorder
        self.emit = emit
        self.history = history if history is not None else History()
        self.snapshot: Snapshot | None = None
        # Set once the node was looked at, whatever came of it.
        self.has_looked = asyncio.Event()
        # By uid, what was said about an eviction that is not told to its end.
        self._stories: dict[str, _Story] = {}
        self._trends: Trends = trends or {}
        self.is_dry_run = is_dry_run
        # The uids of those that a dry run has said would go.
        self._foreseen: frozenset[str] = frozenset()
        self._wake = asyncio.Event()
        self._alarm: Alarm | None = None
        self._next_policy: Policy | None = None
        # What is being freed before a pod has to go.
        self._reclaiming: asyncio.Future[None] | None = None
        self._reclaims: tuple[Reclaimable, ...] = ()
        # Set while the node is recorded.
        self.tape: Tape | None = None

    @property
    def trends(self) -> Trends:
        """Which way memory has been going."""
        return self._trends

    def use(self, policy: Policy) -> None:
        """From the next step on: a step that is under way ends as it began."""
        self._next_policy = policy
        self._wake.set()

    def _take_policy(self, policy: Policy) -> None:
        """What is remembered of thresholds that are no more, or have another amount, is forgotten."""
        self.policy, self._next_policy = policy, None
        known = {*policy.thresholds, *(each for layout in policy.layouts.values() for each in layout.all)}
        self.history = self.history.about(known)
        self.recorder.use(policy)
        self.recorder.history(self.history)
        if self.tape is not None:
            self.tape.uses(policy)

    def adopt(self) -> None:
        """Go on with the evictions that an earlier agent has begun; to be called before the first step.

        They are waited for as if that agent still lived. What it did not come to say about them is said now.
        """
        for found in self.runtime.endings():
            said = set(self.recorder.said_of(found.eviction.pod.uid))
            self._stories[found.eviction.pod.uid] = _Story(found, said)
            if "eviction_started" not in said:
                self.emit(events.EvictionStarted(found.eviction, None))

    async def step(self, alarm: Alarm | None = None) -> None:
        """Look once, and do what the look asks for. Never sleeps."""
        started_ns = self.clock.monotonic_ns() if alarm is None else alarm.raised_ns
        if self._next_policy is not None:
            self._take_policy(self._next_policy)
        self._tell_of_endings()
        try:
            snapshot = await self.runtime.observe()
        except ObservationError as error:
            self._could_not_look(str(error))
            self.history = self.history.unobserved()
            return
        if self.snapshot is not None and self.snapshot.layout != snapshot.layout:
            self.history = self.history.about(self.policy.layouts[snapshot.layout].all)
        before = self.history
        outcome = decide(self.policy, before, snapshot)
        at, endings = Stamp.of(self.clock), self._taped_endings()
        self._cut_short(outcome, at)
        orders = self._record(snapshot, outcome, alarm, at, endings)
        if isinstance(outcome.decision, Reclaim):
            self._say(*outcome.facts)
            if not await self._freed(outcome.decision):
                self.interrupt_reclaim()
                return
            snapshot, outcome = await self._after_reclaim(snapshot)
            orders = self._record(snapshot, outcome, alarm, Stamp.of(self.clock), self._taped_endings())
        # Remember first, then act, then say: what is not on record did not happen, and words cost milliseconds.
        begun: list[Fact] = self._foresee(outcome) if self.is_dry_run else []
        if isinstance(outcome.decision, Evict):
            for order in orders:
                if self._end(order):
                    took_ns = self.clock.monotonic_ns() - started_ns
                    begun.append(events.EvictionStarted(order, took_ns))
            self._soon(self.recorder.settle)
        else:
            is_urgent = alarm is not None and alarm.source == CLOSE_ALARM
            self._soon(lambda: self.recorder.prepare(snapshot, is_urgent=is_urgent))
        if not _is_alike(before, self.history):
            self._soon(lambda: self.recorder.history(self.history))
        # The cause before the effect, though the effect came first.
        if outcome.facts or begun:
            self._say(*outcome.facts, *begun)

    def _could_not_look(self, why: str) -> None:
        if self.tape is not None:
            self.tape.failed(why)
        self.emit(events.ObservationFailed(why))

    def _taped_endings(self) -> tuple[EndingPod, ...]:
        return () if self.tape is None else tuple(self.runtime.endings())

    def _cut_short(self, outcome: Outcome, at: Stamp) -> None:
        """Kill a pod that is on its way out when the node would not survive the rest of its grace period."""
        if not self.policy.switches.cut_grace_short or self.is_dry_run:
            return
        self._trends = follow(self._trends, outcome.history.readings)
        for ending in [each for each in self._endings(at) if each.has_time]:
            trend = fatal(self._trends, ending.grace_seconds * 10**9 - ending.passed_ns)
            if trend is None:
                continue
            order, reading = ending.eviction, trend.reading
            fact = GraceCutShort(
                order.pod,
                trend.signal,
                ending.passed_ns,
                ending.grace_seconds,
                reading.available,
                trend.fall_per_second,
            )
            # On record first, as any deed; it is one short line.
            self.emit(fact)
            self._end(replace(order, grace_seconds=HARD_GRACE, is_at_once=True))

    def _record(
        self,
        snapshot: Snapshot,
        outcome: Outcome,
        alarm: Alarm | None,
        at: Stamp,
        endings: tuple[EndingPod, ...],
    ) -> list[Eviction]:
        """Returns the pods that are to be told to end now that this is on record."""
        before, self.history, self.snapshot = self.history, outcome.history, snapshot
        orders = self._due(outcome.decision, at) if isinstance(outcome.decision, Evict) else []
        if self.tape is not None:
            told = tuple(order.pod.uid for order in orders)
            self.tape.looked(TapedLook(at, alarm, snapshot, endings, told))
        if outcome.facts or isinstance(outcome.decision, Evict):
            # Without an order no pod is told, and nothing has to be worded to find that out.
            instead = told_instead(outcome.decision, orders) if orders and isinstance(outcome.decision, Evict) else ()
            self.recorder.step(AgentStep(before, snapshot, outcome, alarm, at, bool(orders), instead))
        return orders

    def _say(self, *facts: Fact) -> None:
        self._soon(lambda: [self.emit(fact) for fact in facts])

    def _soon(self, callback: Callable[[], object]) -> None:
        """After the tasks that were just begun have taken their first step; at once where no loop runs."""
        if _has_loop():
            asyncio.get_running_loop().call_soon(callback)
        else:
            callback()

    async def _freed(self, order: Reclaim) -> bool:
        """Have it carried out. False when a pod must go meanwhile: memory does not wait for a disk.

        To remove images takes a runtime seconds, and one that hangs takes until its deadlines. It goes on beside the
        next steps then, and the first of them that still wants it waits for it again.
        """
        if self.is_dry_run:
            return True
        if not _has_loop():
            # In a rehearsal, where nothing else happens until this is done.
            await self._reclaim(order)
            return True
        if self._reclaiming is None or self._reclaims != order.what:
            # Where another disk wants something else, one after the other.
            self._reclaiming = asyncio.ensure_future(self._reclaim(order, self._reclaiming))
            self._reclaims = order.what
        was_woken = False
        while not self._reclaiming.done():
            waking = asyncio.ensure_future(self._wake.wait())
            both: list[asyncio.Future[Any]] = [self._reclaiming, waking]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            waking.cancel()
            if self._reclaiming.done():
                break
            self._wake.clear()
            was_woken = True
            if await self._must_evict():
                self._wake.set()
                return False
        reclaiming, self._reclaiming = self._reclaiming, None
        if was_woken:
            self._wake.set()
        reclaiming.result()
        return True

    def interrupt_reclaim(self) -> None:
        """The step ends here; the next one looks anew."""
        self.history = replace(self.history, reclaiming=None)
        if self.tape is not None:
            self.tape.interrupted()

    async def _reclaim(self, order: Reclaim, before: asyncio.Future[None] | None = None) -> None:
        if before is not None:
            await before
        done = await self.runtime.reclaim(order)
        self.emit(events.ReclaimFinished(done.containers, done.images, done.freed_bytes, done.errors))

    async def _must_evict(self) -> bool:
        try:
            snapshot = await self.runtime.observe()
        except ObservationError:
            return False  # the step that follows says so
        decision = decide(self.policy, replace(self.history, reclaiming=None), snapshot).decision
        return isinstance(decision, Evict)

    async def _after_reclaim(self, before: Snapshot) -> tuple[Snapshot, Outcome]:
        try:
            after = await self.runtime.observe()
        except ObservationError as error:
            self._could_not_look(str(error))
            return before, give_up_reclaim(self.history)
        return after, decide(self.policy, self.history, after)

    def _endings(self, at: Stamp) -> list[Ending]:
        found = self.runtime.endings()
        return [Ending(each, at.monotonic_ns) for each in found] if found else []

    def _due(self, decision: Evict, at: Stamp) -> list[Eviction]:
        if self.is_dry_run:
            return []
        endings = self._endings(at)
        if not decision.at_most_one:
            ending = {each.eviction.pod.uid for each in endings if not each.is_overdue}
            return [order for order in decision.evictions if order.pod.uid not in ending]
        chosen = self._next_for_pressure(decision, endings)
        return [] if chosen is None else [chosen]

    def _next_for_pressure(self, decision: Evict, endings: Sequence[Ending]) -> Eviction | None:
        """The pod that goes now, or the one that must hurry; None while another is still clearing away.

        A pod that was told to end is waited for, whatever the reason (spec §9.6). One that is over a limit of its own
        has the least grace already; one that makes room for a critical pod keeps its own time, so it is waited for once
        it has stopped.
        """
        is_hard = decision.starved is not None and decision.starved.is_hard
        for ending in endings if is_hard else ():
            if ending.may_hurry:
                is_at_once = self.policy.switches.kill_hard_at_once
                return replace(ending.eviction, grace_seconds=HARD_GRACE, is_at_once=is_at_once)
        if any(ending.is_waited_for for ending in endings):
            return None
        going = {each.eviction.pod.uid for each in endings if not (each.is_making_room or each.is_overdue)}
        return next((order for order in decision.evictions if order.pod.uid not in going), None)

    def _foresee(self, outcome: Outcome) -> list[Fact]:
        """In a dry run: what has not been said of the pods that would go now."""
        decision, before = outcome.decision, self._foreseen
        if not isinstance(decision, Evict):
            if not outcome.history.met:
                self._foreseen = frozenset()
            return []
        orders = [decision.evictions[0]] if decision.at_most_one else decision.evictions
        self._foreseen = frozenset(order.pod.uid for order in orders)
        return [events.WouldEvict(order) for order in orders if order.pod.uid not in before]

    def _end(self, order: Eviction) -> bool:
        """Whether the pod was told; one that could not be may be tried again at the next step."""
        try:
            self.runtime.end(order)
        except PodGone:
            return False
        except ActionError as error:
            self.emit(events.ActionFailed(f"evict {order.pod}", str(error)))
            return False
        self._follow(order)
        return True

    def _follow(self, order: Eviction) -> _Story:
        now_ns = self.clock.monotonic_ns()
        return self._stories.setdefault(order.pod.uid, _Story(EndingPod(order, now_ns, now_ns)))

    async def evict(self, order: Eviction) -> None:
        """End a pod for another reason than pressure: it makes room for a critical one, or the operator says so.

        Returns when it has stopped or was given up.
        """
        self.emit(events.EvictionStarted(order, 0))
        self._follow(order)
        try:
            await self.runtime.evict(order)
        except StillRunning:
            self._say_timed_out(self._follow(order))
            self._wake.set()
        except PodGone:
            self._stories.pop(order.pod.uid, None)
        except ActionError as error:
            self._stories.pop(order.pod.uid, None)
            self.emit(events.ActionFailed(f"evict {order.pod}", str(error)))
        else:
            self._tell_of_endings()
            self._wake.set()

    def _tell_of_endings(self) -> None:
        """Say how far evictions have come, each fact once; then they are no endings any more.

        A pod that the runtime has forgotten meanwhile is gone: it was evicted and is wanted no longer.
        """
        for each in self.runtime.endings():
            self._stories.setdefault(each.eviction.pod.uid, _Story(each)).pod = each
        if not self._stories:
            return
        now_ns = self.clock.monotonic_ns()
        for uid, story in list(self._stories.items()):
            if story.pod.withdrawn:
                self.emit(events.EvictionWithdrawn(story.pod.eviction, story.pod.withdrawn))
                self.runtime.told(uid)
                del self._stories[uid]
                continue
            ending, is_finished = Ending(story.pod, now_ns), self.runtime.is_finished(uid)
            if ending.pod.stopped_ns is not None or is_finished:
                self._say_ended(ending, story.said)
            elif ending.is_given_up:
                self._say_timed_out(story)
            if is_finished:
                if "pod_cleaned_up" not in story.said:
                    self.emit(events.PodCleanedUp(ending.eviction.pod))
                self.runtime.told(uid)
                del self._stories[uid]

    def _say_timed_out(self, story: _Story) -> None:
        if "eviction_timed_out" not in story.said:
            story.said.add("eviction_timed_out")
            self.emit(events.EvictionTimedOut(story.pod.eviction))

    def _say_ended(self, ending: Ending, said: set[str]) -> None:
        if "pod_evicted" not in said:
            said.add("pod_evicted")
            stopped_ns = ending.now_ns if ending.pod.stopped_ns is None else ending.pod.stopped_ns
            self.emit(events.PodEvicted(ending.eviction, max(stopped_ns - ending.pod.began_ns, 0)))

    async def run(self) -> None:
        """Guard the node until cancelled."""
        listener = asyncio.create_task(self._listen())
        try:
            self.adopt()
            while True:
                alarm, self._alarm = self._alarm, None
                self._wake.clear()
                await self._guarded_step(alarm)
                self.has_looked.set()
                await self._rest()
        finally:
            under_way = [listener, *([] if self._reclaiming is None else [self._reclaiming])]
            for each in under_way:
                each.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def look_soon(self) -> None:
        """Let the next step come now rather than at the next tick: a client is watching."""
        self._wake.set()

    async def _guarded_step(self, alarm: Alarm | None) -> None:
        try:
            await self.step(alarm)
        except JettisonError as error:
            self.emit(events.ActionFailed("step", str(error)))
        except Exception as error:  # noqa: BLE001  a bug must not leave the node unguarded
            self.emit(events.ActionFailed("step", f"{type(error).__name__}: {error}"))

    def seconds_to_next_look(self) -> float:
        """How long to rest after a step, unless an alarm rings."""
        endings = self._endings(Stamp.of(self.clock))
        is_waiting = bool(endings) and any(not each.is_overdue for each in endings)
        return ENDING_TICK_SECONDS if is_waiting else min(TICK_SECONDS, self._seconds_to_next_change())

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self.seconds_to_next_look()):
                await self._wake.wait()
        except TimeoutError:
            return

    def _seconds_to_next_change(self) -> float:
        """Until a grace period or a condition runs out by itself; no alarm rings for that."""
        history, now_ns = self.history, self.clock.steady_ns()
        if not history.first_observed and not history.conditions:
            return TICK_SECONDS
        due = [since + each.grace_ns for each, since in history.first_observed.items() if each not in history.met]
        due += [history.condition_observed[each] + self.policy.transition_ns for each in history.conditions]
        return max(0.0, min((moment - now_ns for moment in due), default=TICK_SECONDS * 1e9) / 1e9)

    async def _listen(self) -> None:
        async for alarm in self.runtime.alarms():
            if self._alarm is None:
                self._alarm = alarm
            self._wake.set()
            self._say(events.AlarmRaised(alarm.source))


def _has_loop() -> bool:
    """False in a replay or a simulation, which drive a step by hand."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _is_alike(one: History, other: History) -> bool:
    """In what a restart must not lose; readings change with every look and are not part of it."""
    return (
        one.conditions == other.conditions
        and one.met == other.met
        and one.first_observed == other.first_observed
        and one.knows_layout == other.knows_layout
    )


class Broadcast:
    """The node's `Emit`: every sink gets each fact, with the same time."""

    def __init__(self, clock: Clock, *sinks: Sink) -> None:
        self._clock = clock
        self._sinks = list(sinks)

    def add(self, sink: Sink) -> None:
        """A sink that is made later, because it needs what the first facts are about."""
        self._sinks.append(sink)

    def __call__(self, fact: Fact) -> None:
        now_ns = self._clock.now_ns()
        for sink in self._sinks:
            sink.take(fact, now_ns)
