"""One node of a world: the real agent on a simulated runtime, in virtual time.

An agent of Jettison looks when it says it will and when an alarm rings. One that looks as a kubelet does has no alarms:
it looks every ten seconds, and after an eviction as soon as the pod is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from jettison.agent.agent import TICK_SECONDS, Agent, AgentStep
from jettison.engine.config.policy import Policy
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Condition
from jettison.engine.node.snapshot import Snapshot
from jettison.events import Fact
from jettison.runtimes.simulated.agenda import Agenda, Entry
from jettison.runtimes.simulated.runtime import SimulatedRuntime

_SECOND_NS = 10**9
_TICK_NS = round(TICK_SECONDS * _SECOND_NS)


class StepListener:
    """The agent's `Recorder`: nothing is written, and what is decided is told."""

    def __init__(self, tell: Callable[[AgentStep], None]) -> None:
        self._tell = tell

    def step(self, step: AgentStep) -> None:
        """Tell it."""
        self._tell(step)

    def prepare(self, snapshot: Snapshot, *, is_urgent: bool) -> None:
        """Nothing is in a hurry here."""

    def settle(self) -> None:
        """There is no disk."""

    def history(self, history: History) -> None:
        """No agent comes after this one."""

    def use(self, policy: Policy) -> None:
        """The agent has it."""

    def said_of(self, uid: str) -> Collection[str]:  # noqa: ARG002  no agent was before this one
        """Nothing."""
        return ()


class SimulatedNode:
    """Steps when it is due."""

    def __init__(
        self,
        runtime: SimulatedRuntime,
        policy: Policy,
        agenda: Agenda,
        listener: StepListener,
        emit: Callable[[Fact], None],
        *,
        has_alarms: bool = True,
        first_look_ns: int = 0,
    ) -> None:
        self.runtime = runtime
        self.name = runtime.machine_model.size.name
        self.agent = Agent(runtime, policy, agenda.clock, listener, emit)
        self.steps = 0
        # Told after each step.
        self.looked: Callable[[SimulatedNode], None] = lambda _: None
        self._agenda = agenda
        self._has_alarms = has_alarms
        self._next: Entry | None = None
        self._is_evicting = False
        runtime.rings = has_alarms
        runtime.wake = self._wake
        self._plan(first_look_ns)

    @property
    def conditions(self) -> frozenset[Condition]:
        """As reported."""
        return self.agent.history.conditions

    def _plan(self, time_ns: int) -> None:
        if self._next is not None and self._next[2] is not None and self._next[0] <= time_ns:
            return
        self._agenda.cancel(self._next)
        self._next = self._agenda.at(time_ns, self._step)

    def look_soon(self) -> None:
        """As `Agent.look_soon`: the next step comes now."""
        self._plan(self._agenda.now_ns)

    def _wake(self) -> None:
        """An alarm: look now. A kubelet only hears of the end of a pod that it waits for."""
        if self._has_alarms or self._is_evicting:
            self._plan(self._agenda.now_ns)

    def _step(self) -> None:
        self._next = None
        self.steps += 1
        agent = self.agent
        try:
            agent.step(self.runtime.next_alarm()).send(None)
        except StopIteration:
            pass
        else:
            raise AssertionError("a step of a simulated node must not wait")
        self._is_evicting = bool(self.runtime.endings())
        now_ns = self._agenda.now_ns
        if self._has_alarms or self._is_evicting:
            # At least a nanosecond: readings of one moment are one measurement, and decide once.
            self._plan(now_ns + max(round(agent.seconds_to_next_look() * _SECOND_NS), 1))
        else:
            self._plan(now_ns + _TICK_NS)
        self.looked(self)
