"""A pod's life as a value: what `advance` takes and returns.

Fields up to the mark in each class are what a runtime must save, so that an agent that takes over goes on where the
last one died. Those below the mark are known only to a running agent; `Found` makes them anew.

Times ending in `monotonic_ns` are for measuring: a clock that is set makes no back-off shorter and no grace period
longer. `started_ns` and `finished_ns` are the wall clock's, for display.

What changes with every event is a named tuple: to make one with another field takes a fifth of the time of a frozen
class, and an event of a pod with 32 containers makes some ten.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from jettison.engine.lifecycle.rules import (
    PAUSES,
    ContainerRules,
    Moment,
    Pauses,
    PodRules,
    ProbeKind,
    ProbeRules,
    every_container,
)
from jettison.engine.node.evictions import Eviction, PodCondition
from jettison.engine.pods.pod import Pod
from jettison.values import frozen

RunState = Literal["waiting", "starting", "running", "terminated"]
SetUpState = Literal["waiting", "under way", "done"]


@frozen
class FinishedRun:
    """A run that is over, after which another one came."""

    run: int
    exit_code: int | None
    reason: str = ""
    message: str = ""
    started_ns: int | None = None
    finished_ns: int | None = None


class ContainerLife(NamedTuple):
    """One container and its latest run."""

    rules: ContainerRules
    state: RunState = "waiting"
    # Counted from 0, so also the number of restarts. -1: never started.
    run: int = -1
    # When this run was begun, and when it ended.
    begun_monotonic_ns: int | None = None
    ended_monotonic_ns: int | None = None
    started_ns: int | None = None
    finished_ns: int | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    # Seconds between the end of this run and the next start.
    back_off: int = 0
    # Its startup probe has succeeded, or there is none.
    is_started: bool = False
    # Ended in order to be started again, whatever its exit code is: a probe failed.
    is_doomed: bool = False
    # When it was sent SIGTERM; saved after the signal.
    told_monotonic_ns: int | None = None
    # Until when it may take its time; None while it is not being stopped.
    until_monotonic_ns: int | None = None
    last: FinishedRun | None = None
    # Not saved from here on. Processes may exist: also after the main one has ended, until the rest is gone.
    has_processes: bool = False
    is_ready: bool = False
    is_hook_running: bool = False
    # Its main process runs and its postStart hook too: it is not ready, not asked, and no other container starts.
    is_post_start_running: bool = False
    # When SIGKILL is due, for the first time or again; None before SIGTERM.
    kill_monotonic_ns: int | None = None
    is_back_off_said: bool = False
    # What it was before the start that is under way; it is that again when the start is cancelled.
    before: ContainerLife | None = None
    # Of an ephemeral container: what it lacks, how long the next pause is, and when it is tried again.
    trouble: Trouble | None = None
    start_pause: float = 0
    start_again_ns: int | None = None

    @property
    def name(self) -> str:
        """Unique in its pod."""
        return self.rules.name

    @property
    def is_regular(self) -> bool:
        """Neither an init container nor an ephemeral one."""
        return not (self.rules.is_init or self.rules.is_ephemeral)

    @property
    def is_running(self) -> bool:
        """Its program runs, as far as is known."""
        return self.state == "running"

    @property
    def is_up(self) -> bool:
        """Running, and its startup probe is satisfied."""
        return self.is_running and self.is_started

    @property
    def has_succeeded(self) -> bool:
        """It ended with exit code 0."""
        return self.state == "terminated" and self.exit_code == 0


class Probing(NamedTuple):
    """One probe of a running container. An answer counts only for the run that was asked."""

    container: str
    run: int
    rules: ProbeRules
    due_monotonic_ns: int
    is_asked: bool = False
    # How many answers in a row were like the latest one.
    streak: int = 0
    latest: bool | None = None
    verdict: bool | None = None

    @property
    def kind(self) -> ProbeKind:
        """What the answer is used for."""
        return self.rules.kind


@frozen
class Ending:
    """The pod is on its way out: evicted when there is an order. This is the one place that knows.

    An agent that takes over goes on with what is left of the time: `until_monotonic_ns` comes nearer when the pod must
    hurry, and never moves away.
    """

    grace_seconds: int
    began_monotonic_ns: int
    until_monotonic_ns: int
    # The last order, and when it was given.
    order: Eviction | None = None
    ordered_monotonic_ns: int = 0
    # Not all that there is to say about this eviction is in the journal yet.
    is_untold: bool = False
    # No SIGTERM and no grace period.
    is_at_once: bool = False
    # It was active for longer than its document allows.
    is_overdue: bool = False
    # All regular containers have ended for good, so its sidecars end. Not shown as an ending.
    is_natural: bool = False


@frozen
class Verdict:
    """What the pod's status says once no container runs any more."""

    phase: str
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()


@frozen
class Trouble:
    """What keeps the whole pod from starting.

    `reason` and `message` are of the containers that wait, `event` and `told` of the event that says so.
    """

    reason: str
    message: str
    event: str
    told: str
    # The document asks for what this runtime does not have: nothing of the pod exists, and pauses grow.
    is_refusal: bool = False


class PodLife(NamedTuple):
    """One pod."""

    pod: Pod
    rules: PodRules
    # In the order in which they start: init containers, the regular ones, then ephemeral ones.
    containers: tuple[ContainerLife, ...]
    started_ns: int | None = None
    started_monotonic_ns: int | None = None
    # All init containers have done their work once; it is not repeated.
    is_initialized: bool = False
    # Once it has ended and is cleaned up, it is forgotten.
    is_unwanted: bool = False
    ending: Ending | None = None
    verdict: Verdict | None = None
    is_cleaned: bool = False
    # Not saved from here on.
    set_up: SetUpState = "waiting"
    trouble: Trouble | None = None
    set_up_pause: float = 0
    set_up_again_ns: int | None = None
    probes: tuple[Probing, ...] = ()
    # When the last container stopped, if this agent saw it.
    stopped_monotonic_ns: int | None = None
    # Containers that the ending has not come to yet, in their order: not all are told by one event.
    untold: tuple[str, ...] = ()
    # What the last `WakeAt` said.
    wake_at_ns: int | None = None
    pauses: Pauses = PAUSES

    @property
    def inits(self) -> list[ContainerLife]:
        """Sidecars among them."""
        return [each for each in self.containers if each.rules.is_init]

    @property
    def regulars(self) -> list[ContainerLife]:
        """The containers that the pod is about."""
        return [each for each in self.containers if not (each.rules.is_init or each.rules.is_ephemeral)]

    @property
    def ephemerals(self) -> list[ContainerLife]:
        """Added for debugging: neither phase nor readiness depends on them."""
        return [each for each in self.containers if each.rules.is_ephemeral]

    @property
    def is_refused(self) -> bool:
        """The runtime cannot run it: nothing of it exists, so there is nothing to measure and nothing to free."""
        return self.trouble is not None and self.trouble.is_refusal

    @property
    def is_ending(self) -> bool:
        """It was told to end, or is out of time, and something of it is left."""
        return self.ending is not None and not self.ending.is_natural and not self.is_cleaned

    @property
    def has_stopped(self) -> bool:
        """No container of it runs, and none will."""
        return self.verdict is not None

    @property
    def has_begun(self) -> bool:
        """Its first containers were started, or its status says why not."""
        if self.ending is not None or self.verdict is not None:
            return True
        if self.set_up == "waiting":
            return self.trouble is not None
        is_starting = any(each.state == "starting" for each in self.containers if not each.rules.is_ephemeral)
        return self.set_up == "done" and not is_starting


def new_life(pod: Pod, rules: PodRules, now: Moment, trouble: Trouble | None = None) -> PodLife:
    """A pod that was never here before."""
    return PodLife(pod, rules, new_containers(rules), now.wall_ns, now.monotonic_ns, trouble=trouble)


def new_containers(rules: PodRules, known: Iterable[ContainerLife] = ()) -> tuple[ContainerLife, ...]:
    """One for each container of the rules, with what is known of it."""
    by_name = {each.name: each for each in known if each.run >= 0}
    return tuple(
        by_name[each.name]._replace(rules=each) if each.name in by_name else ContainerLife(each)
        for each in every_container(rules)
    )
