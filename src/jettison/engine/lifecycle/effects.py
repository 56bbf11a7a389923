"""What a runtime has to do for a pod, in the order given, and how one call of `advance` gathers it.

No effect names a process id, a path or another detail of a runtime. A runtime answers with events.
"""

from __future__ import annotations

from typing import Any

from jettison.engine.lifecycle.facts import LifeFact
from jettison.engine.lifecycle.rules import HookKind, Moment, ProbeKind
from jettison.engine.lifecycle.state import ContainerLife, PodLife
from jettison.values import frozen

MOST_AT_ONCE, MOST_OF_A_CROWD = 4, 2
"""For how many containers or probes one event may have something done: each takes a runtime up to 0.1 ms, and its loop
guards a node. What is left is done with the next event, which then is due at once. Most pods have four containers at
most, and for those that is all in one; of a larger pod, where the rules alone take longer, it is done for two."""


@frozen
class SetUp:
    """Provide what the pod needs before any of its containers; then SetUpDone, SetUpFailed or SetUpCancelled."""


@frozen
class CancelSetUp:
    """Stop that."""


@frozen
class Start:
    """Start this run of the container; then Started, NotStarted, StartHindered or StartCancelled.

    Without the record that the `Save` before it asked for nothing may start: that is a NotStarted, too.
    """

    container: str
    run: int


@frozen
class CancelStart:
    """Stop that."""

    container: str


@frozen
class Signal:
    """Ask the container's main process to end: SIGTERM."""

    container: str


@frozen
class Kill:
    """SIGKILL to everything in the container. Repeated by the life until it is gone."""

    container: str


@frozen
class Remove:
    """Kill what a run has left behind and take its place away, however long that takes; then Removed."""

    container: str


@frozen
class RunHook:
    """Run the hook of this kind; then HookDone."""

    container: str
    run: int
    kind: HookKind = HookKind.PRE_STOP


@frozen
class CancelHook:
    """Its time is up, or it has become pointless."""

    container: str
    kind: HookKind = HookKind.PRE_STOP


@frozen
class Probe:
    """Ask once; then ProbeAnswered."""

    container: str
    run: int
    kind: ProbeKind


@frozen
class StopProbing:
    """An answer that is still on its way is of no use."""

    container: str
    kind: ProbeKind


@frozen
class CleanUp:
    """Take away what the pod as a whole has, and with `is_all` its writable directories; then CleanedUp."""

    is_all: bool


@frozen
class Save:
    """Write this life down before the next effect. What `is_late` tells of what was done: nothing waits for it."""

    life: PodLife
    is_late: bool = False


@frozen
class Say:
    """Something worth knowing has happened."""

    fact: LifeFact


@frozen
class WakeAt:
    """Send TimePassed at this moment instead of any earlier one; None: not at all."""

    monotonic_ns: int | None


Effect = (
    SetUp
    | CancelSetUp
    | Start
    | CancelStart
    | Signal
    | Kill
    | Remove
    | RunHook
    | CancelHook
    | Probe
    | StopProbing
    | CleanUp
    | Save
    | Say
    | WakeAt
)


class Turn:
    """The changes are not visible outside until `advance` returns the life."""

    __slots__ = ("_left", "effects", "is_cut", "life", "now")

    def __init__(self, life: PodLife, now: Moment) -> None:
        self.life = life
        self.now = now
        self.effects: list[Effect] = []
        # Something is due and was not done, because one event may not bring more.
        self.is_cut = False
        self._left = MOST_AT_ONCE if len(life.containers) <= MOST_AT_ONCE else MOST_OF_A_CROWD

    @property
    def now_ns(self) -> int:
        """On the monotonic clock."""
        return self.now.monotonic_ns

    def do(self, *effects: Effect) -> None:
        """In this order, after what was asked for before."""
        self.effects += effects

    def may_act(self) -> bool:
        """Whether something may be done for one more container or probe; asked right before it is done."""
        if self._left:
            self._left -= 1
            return True
        self.is_cut = True
        return False

    def save(self, *, is_late: bool = False) -> None:
        """The life as it is by now, before whatever is asked for next."""
        self.effects.append(Save(self.life, is_late))

    def say(self, fact: LifeFact) -> None:
        """Report a fact."""
        self.effects.append(Say(fact))

    def change(self, **fields: Any) -> None:
        """Of the pod."""
        self.life = self.life._replace(**fields)

    def container(self, name: str) -> ContainerLife | None:
        """As it is by now; None when the pod has none of this name."""
        for each in self.life.containers:
            if each.rules.name == name:
                return each
        return None

    def put(self, container: ContainerLife) -> None:
        """In the place of what it was."""
        name = container.name
        containers = tuple([container if each.rules.name == name else each for each in self.life.containers])
        self.life = self.life._replace(containers=containers)

    def whole(self) -> list[Effect]:
        """All effects. Up to the next signal one record is enough, and that is the last one: what is about to be done
        may be on record early, but that a container was told may not.
        """
        latest: PodLife | None = None
        for index in range(len(self.effects) - 1, -1, -1):
            effect = self.effects[index]
            if isinstance(effect, Signal):
                latest = None
            elif isinstance(effect, Save):
                latest = latest or effect.life
                self.effects[index] = Save(latest, effect.is_late)
        return self.effects
