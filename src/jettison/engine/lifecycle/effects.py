"""What a runtime has to do for a pod, in the order given. It answers with events.

No effect names a process id, a path or another detail of a runtime.
"""

from __future__ import annotations

from dataclasses import dataclass

from jettison.engine.lifecycle.facts import LifeFact
from jettison.engine.lifecycle.rules import ProbeKind


@dataclass(frozen=True, slots=True)
class SetUp:
    """Provide what the pod needs before any of its containers; then SetUpDone, SetUpFailed or SetUpCancelled."""


@dataclass(frozen=True, slots=True)
class CancelSetUp:
    """Stop that."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start this run of the container; then Started, NotStarted or StartCancelled.

    Without the record that the `Save` before it asked for nothing may start: that is a NotStarted, too.
    """

    container: str
    run: int


@dataclass(frozen=True, slots=True)
class CancelStart:
    """Stop that."""

    container: str


@dataclass(frozen=True, slots=True)
class Signal:
    """Ask the container's main process to end: SIGTERM."""

    container: str


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL to everything in the container. Repeated by the life until it is gone."""

    container: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Kill what a run has left behind and take its place away, however long that takes; then Removed."""

    container: str


@dataclass(frozen=True, slots=True)
class RunHook:
    """Run the preStop hook; then HookDone."""

    container: str
    run: int


@dataclass(frozen=True, slots=True)
class CancelHook:
    """Its time is up."""

    container: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask once; then ProbeAnswered."""

    container: str
    run: int
    kind: ProbeKind


@dataclass(frozen=True, slots=True)
class StopProbing:
    """An answer that is still on its way is of no use."""

    container: str
    kind: ProbeKind


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Take away what the pod as a whole has, and with `is_all` its writable directories; then CleanedUp."""

    is_all: bool


@dataclass(frozen=True, slots=True)
class Save:
    """Write the life down before the next effect."""


@dataclass(frozen=True, slots=True)
class Say:
    """Something worth knowing has happened."""

    fact: LifeFact


@dataclass(frozen=True, slots=True)
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
