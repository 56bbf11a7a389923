"""What can happen to a pod. Each event says when it happened; nothing else lets time pass.

No event names a process id, a path or another detail of a runtime.
"""

from __future__ import annotations

from jettison.engine.lifecycle.rules import HookKind, Moment, PodRules, ProbeKind
from jettison.engine.lifecycle.state import Trouble
from jettison.engine.node.evictions import Eviction
from jettison.values import frozen


@frozen
class Asked:
    """The pod shall run, and was never here before."""

    at: Moment


@frozen
class FoundContainer:
    """What is left of a container after the agent's own death."""

    name: str
    # Its main process lives.
    is_running: bool
    # Its program may have run: the start had come so far that a process was on record.
    was_born: bool
    # There is something to be removed, with or without a main process.
    has_remains: bool


@frozen
class Found:
    """The agent was restarted: the life was made from a record, and this is what still exists of it."""

    at: Moment
    containers: tuple[FoundContainer, ...]


@frozen
class Added:
    """Ephemeral containers were added to the pod's document; `rules` has all that there are by now."""

    at: Moment
    rules: PodRules


@frozen
class SetUpDone:
    """What the pod needs before any of its containers exists. `rules` may be new for a pod that was refused."""

    at: Moment
    rules: PodRules


@frozen
class SetUpFailed:
    """It could not be had; `rules` is what is known by now."""

    at: Moment
    trouble: Trouble
    rules: PodRules


@frozen
class SetUpCancelled:
    """The pod was told to end meanwhile."""

    at: Moment


@frozen
class Started:
    """The container's program runs."""

    at: Moment
    container: str


@frozen
class NotStarted:
    """The container's program could not be started, and why."""

    at: Moment
    container: str
    why: str


@frozen
class StartHindered:
    """The container lacks something that may still come; no foreign program has run."""

    at: Moment
    container: str
    trouble: Trouble


@frozen
class StartCancelled:
    """The pod was told to end meanwhile; no foreign program has run."""

    at: Moment
    container: str


@frozen
class Exited:
    """The container's main process ended; an exit code of None means that nothing could tell how."""

    at: Moment
    container: str
    exit_code: int | None
    is_oom: bool = False
    # What its node has to say about it.
    message: str = ""


@frozen
class Removed:
    """Nothing is left of the container's run but its files."""

    at: Moment
    container: str


@frozen
class HookDone:
    """The hook has ended; `why` says what went wrong with it, where something has."""

    at: Moment
    container: str
    run: int
    kind: HookKind = HookKind.PRE_STOP
    why: str = ""


@frozen
class ProbeAnswered:
    """`is_well` is None when the question could not be asked."""

    at: Moment
    container: str
    run: int
    kind: ProbeKind
    is_well: bool | None
    why: str = ""


@frozen
class TimePassed:
    """The moment of the last `WakeAt` has come."""

    at: Moment


@frozen
class ToldToEnd:
    """The pod must end; told again, it must hurry. A grace period only shrinks.

    `order` says why, where it is an eviction. Without grace seconds the pod has its own. One that `is_unwanted` is
    forgotten once it is cleaned up, also when it has ended already.
    """

    at: Moment
    order: Eviction | None = None
    grace_seconds: int | None = None
    is_at_once: bool = False
    is_unwanted: bool = False


@frozen
class EvictionTold:
    """All there is to say about the pod's eviction is in the journal."""

    at: Moment


@frozen
class CleanedUp:
    """What `CleanUp` asked for is done."""

    at: Moment


Event = (
    Asked
    | Found
    | Added
    | SetUpDone
    | SetUpFailed
    | SetUpCancelled
    | Started
    | NotStarted
    | StartHindered
    | StartCancelled
    | Exited
    | Removed
    | HookDone
    | ProbeAnswered
    | TimePassed
    | ToldToEnd
    | EvictionTold
    | CleanedUp
)
