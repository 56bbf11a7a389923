"""A recording decided again, by the real agent: with the recorded policy to the byte, or with another one.

Until the replay tells another pod to end than the recorded agent did, the world is the recorded one, to the nanosecond.
From there on it is estimated, by two rules. A pod that the replay has evicted and the recorded agent had not is taken
out at once, and what it used is given back to the node. A pod that the recorded agent had evicted and the replay has
not stays, with what it used when it was told. Looks come when they came: a replay cannot see more than was seen.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from jettison.agent.agent import Agent, AgentStep, TapedLook
from jettison.agent.journal.recorder import StepRecords
from jettison.agent.journal.records import Document
from jettison.clock import HeldClock, Stamp
from jettison.engine.config.policy import Policy
from jettison.engine.node.decide import Reclaim
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.pressure import History
from jettison.engine.node.snapshot import Snapshot
from jettison.errors import ManifestError, ObservationError
from jettison.events import Fact
from jettison.runtimes.protocol import Alarm, EndingPod, Reclaimed
from jettison.simulator.estimates import Estimate
from jettison.simulator.recordings import (
    Beginning,
    FailedLook,
    InterruptedReclaim,
    RecordingReader,
    WrittenFact,
    WrittenStep,
)
from jettison.values import frozen

PolicyChange = Callable[[Policy], Policy]
"""What becomes of a recorded policy."""


@frozen
class Decided:
    """One step that had something to say, as the journal would have it."""

    at: Stamp
    # Seconds since the recording began.
    seconds: float
    document: Document


@dataclass(slots=True)
class Replay:
    """What came of it."""

    beginning: Beginning
    looks: int = 0
    failed: int = 0
    decided: list[Decided] = field(default_factory=list)
    # All records of the journal in order, those of facts as they were; empty unless they are asked for.
    journal: list[bytes] = field(default_factory=list)
    # How many steps were as recorded, to the byte, and which record is the first that was not.
    same: int = 0
    first_difference: str = ""
    # Seconds after which the world is estimated, and why; None: never.
    estimated_from: float | None = None
    estimated_because: str = ""
    torn: str = ""
    seconds: float = 0.0


def replay(path: Path, change: PolicyChange | None = None, *, keeps_journal: bool = False) -> Replay:
    """Decide a recording again. Raises ManifestError where it cannot be used."""
    reader = RecordingReader(path)
    entries = reader.entries()
    first = next(entries)
    if not isinstance(first, Beginning):
        raise ManifestError(f"`{path}`: the first line is not its beginning")
    found = Replay(first)
    player = _Player(first, change, found, keeps_journal=keeps_journal)
    for entry in entries:
        match entry:
            case TapedLook() | FailedLook():
                player.look(entry)
            case InterruptedReclaim():
                player.interrupt()
            case WrittenStep():
                player.compare(entry)
            case WrittenFact(data):
                player.pass_on(data)
            case Policy():
                player.use(entry)
    player.close()
    found.torn = reader.torn
    return found


class _Player:
    """Takes the steps of a recording as they come, and compares."""

    def __init__(self, first: Beginning, change: PolicyChange | None, found: Replay, *, keeps_journal: bool) -> None:
        self._change = change or (lambda policy: policy)
        self._is_changed = change is not None
        self._found = found
        self._keeps_journal = keeps_journal
        policy = self._change(first.policy)
        self._began_ns = first.at.monotonic_ns
        self._runtime = RecordedRuntime(HeldClock(first.at))
        if first.source != "agent":
            # Nothing is known of what that node was told, and when.
            self._runtime.estimate = Estimate()
        is_dry_run = not first.acts
        self._agent = Agent(
            self._runtime,
            policy,
            self._runtime.clock,
            ReplayRecorder(StepRecords(policy, first.node, is_dry_run=is_dry_run), self._wrote),
            self._say,
            history=first.history,
            trends=first.trends,
            is_dry_run=is_dry_run,
        )
        self._step: Coroutine[Any, Any, None] | None = None
        # Records of the last step that were not compared yet.
        self._written: list[bytes] = []

    def look(self, look: TapedLook | FailedLook) -> None:
        """Take a step, or go on with one that waits for a second look."""
        if self._step is None:
            self.finish()
            self._step = self._agent.step(look.alarm if isinstance(look, TapedLook) else None)
        self._runtime.next_look = look
        found = self._found
        if isinstance(look, TapedLook):
            found.looks += 1
            found.seconds = (look.at.monotonic_ns - self._began_ns) / 1e9
        else:
            found.failed += 1
        try:
            self._step.send(None)
        except StopIteration:
            self._step = None
        if isinstance(look, TapedLook) and (parting := self._runtime.decided(look)):
            found.estimated_from, found.estimated_because = found.seconds, parting

    def interrupt(self) -> None:
        """A pod had to go before a reclaim was done."""
        if self._step is not None:
            self._step.close()
            self._step = None
            self._agent.interrupt_reclaim()

    def compare(self, mark: WrittenStep) -> None:
        """The recorded agent wrote a step."""
        if self._is_changed:
            self._written = []
            return
        data = self._written.pop(0) if self._written else b""
        if (zlib.crc32(data), len(data)) == (mark.crc, mark.size):
            self._found.same += 1
        else:
            self._differs("decided otherwise" if data else "has no such step")
        if self._keeps_journal and data:
            self._found.journal.append(data)

    def pass_on(self, data: bytes) -> None:
        """What came of a decision is not decided again."""
        if self._keeps_journal and not self._is_changed:
            self._found.journal.append(data)

    def use(self, policy: Policy) -> None:
        """The operator changed something while it was recorded; what the replay changes stays changed."""
        self.finish()
        self._agent.use(self._change(policy))

    def finish(self) -> None:
        """The last step is over, and all that the recorded agent wrote of it was compared."""
        if self._written and not self._is_changed:
            self._differs("has a step more")
        self._written = []

    def close(self) -> None:
        """Nothing more comes; a step that waits for a second look stays without it."""
        self.finish()
        if self._step is not None:
            self._step.close()

    def _differs(self, how: str) -> None:
        if self._found.beginning.source == "agent" and not self._found.first_difference:
            self._found.first_difference = f"{self._found.seconds:.3f} s: the replay {how}"

    def _wrote(self, document: Document, at: Stamp) -> None:
        data = msgspec.json.encode(document)
        self._written.append(data)
        self._found.decided.append(Decided(at, (at.monotonic_ns - self._began_ns) / 1e9, document))
        if self._keeps_journal and (self._is_changed or self._found.beginning.source != "agent"):
            self._found.journal.append(data)

    def _say(self, fact: Fact) -> None:
        """What came of a decision is in the recording, or cannot be known."""


class ReplayRecorder:
    """The agent's `Recorder`, which hands on what a journal would hold."""

    def __init__(self, steps: StepRecords, wrote: Callable[[Document, Stamp], None]) -> None:
        self._steps = steps
        self._wrote = wrote

    def step(self, step: AgentStep) -> None:
        """Whatever a journal would keep."""
        record = self._steps.record(step)
        if record is not None:
            self._wrote(record, step.at)

    def prepare(self, snapshot: Snapshot, *, is_urgent: bool) -> None:
        """Nothing is in a hurry here."""

    def settle(self) -> None:
        """There is no disk."""

    def history(self, history: History) -> None:
        """No agent comes after this one."""

    def use(self, policy: Policy) -> None:
        """From now on."""
        self._steps.use(policy)

    def said_of(self, uid: str) -> Collection[str]:  # noqa: ARG002  no agent was before this one
        """Nothing."""
        return ()


class _Pause:
    """Suspends a step until it is sent on."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def _parting(look: TapedLook, told: Sequence[str]) -> str:
    """Which pods are told to end now, and were not then, or the other way round."""
    names = {pod.uid: str(pod) for pod in look.snapshot.pods}
    goes = ", ".join(names.get(uid, uid) for uid in told if uid not in look.told)
    stays = ", ".join(names.get(uid, uid) for uid in look.told if uid not in told)
    if goes and stays:
        return f"{goes} is evicted here instead of {stays}"
    return f"{goes} is evicted here and was not" if goes else f"{stays} was evicted here and is not"


class RecordedRuntime:
    """The agent's `Runtime`: what was measured is measured again; what is ordered is noted."""

    def __init__(self, clock: HeldClock) -> None:
        self.clock = clock
        self.next_look: TapedLook | FailedLook | None = None
        # Of the world, once it is not the recorded one any more.
        self.estimate: Estimate | None = None
        self._endings: dict[str, EndingPod] = {}
        self._told_now: list[str] = []

    def decided(self, look: TapedLook) -> str:
        """All orders of the look are given. Why the world is not the recorded one from here on; empty where it is, and
        where it has not been for longer.
        """
        told, self._told_now = self._told_now, []
        parting = ""
        if self.estimate is None and set(told) != set(look.told):
            self.estimate = Estimate()
            parting = _parting(look, told)
        if self.estimate is not None:
            self.estimate.decided(look, told)
        return parting

    async def observe(self) -> Snapshot:
        """The next look; waits for it."""
        while self.next_look is None:
            await _Pause()
        look, self.next_look = self.next_look, None
        if isinstance(look, FailedLook):
            raise ObservationError(look.why)
        self.clock.stamp = look.at
        if self.estimate is None:
            self._endings = {each.eviction.pod.uid: each for each in look.endings}
            return look.snapshot
        gone = self.estimate.gone
        recorded = {uid: each for each in look.endings if (uid := each.eviction.pod.uid) not in self.estimate.kept}
        self._endings = {**recorded, **{uid: each for uid, each in self._endings.items() if uid in gone}}
        return self.estimate.snapshot(look)

    async def reclaim(self, order: Reclaim) -> Reclaimed:  # noqa: ARG002  what it freed is in the next look
        """As was done, or would have been."""
        return Reclaimed()

    def end(self, order: Eviction) -> None:
        """Where the world is estimated the pod is gone at once."""
        uid, now_ns = order.pod.uid, self.clock.monotonic_ns()
        known = self._endings.get(uid)
        began_ns = now_ns if known is None else known.began_ns
        self._endings[uid] = EndingPod(order, now_ns, began_ns, None if self.estimate is None else now_ns)
        self._told_now.append(uid)

    async def evict(self, order: Eviction) -> None:
        """The same."""
        self.end(order)

    def endings(self) -> Sequence[EndingPod]:
        """As of the last look, and what was ordered since."""
        return list(self._endings.values())

    def told(self, uid: str) -> None:
        """It is no ending any more."""
        self._endings.pop(uid, None)

    def is_finished(self, uid: str) -> bool:
        """Whether nothing is left of it."""
        if self.estimate is not None and uid in self.estimate.gone:
            return True
        return uid not in self._endings

    async def alarms(self) -> AsyncIterator[Alarm]:
        """None ring by themselves."""
        none: tuple[Alarm, ...] = ()
        for alarm in none:
            yield alarm
