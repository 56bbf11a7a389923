"""What is remembered of a pod across the agent's own death: values that are written as JSON and read back.

The rule for all of them: a record says what may have been done, never more. It is written before a process is let go,
before a signal is sent and before anything is removed, so that whoever reads it knows at least as much as the dead.

Times ending in `monotonic_ns` count from the boot that the pod's record names, and are for measuring: a clock that is
set makes no back-off shorter and no grace period longer. The others are the wall clock's, for those who read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from msgspec import Meta

from jettison.clock import Instant
from jettison.engine.node.evictions import Eviction, PodCondition
from jettison.engine.pods.pod import Pod

# Whoever reads a record acts on its numbers, and a damaged one must be recognised as such: a signal to process -1 would
# go to everybody.
_Pid = Annotated[int, Meta(ge=1, le=2**22)]
_Count = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
_Code = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
_Number = Annotated[int, Meta(ge=-(2**62), le=2**62)]

RunState = Literal["waiting", "starting", "running", "terminated"]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run that is over."""

    run: _Count
    exit_code: _Code | None
    reason: str = ""
    message: str = ""
    started_ns: _Number | None = None
    finished_ns: _Number | None = None


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """One container and its latest run. While `starting` there may be a process anywhere between fork and exec."""

    name: str
    state: RunState = "waiting"
    # Counted from 0, so also the number of restarts. -1: never started.
    run: _Count = -1
    pid: _Pid | None = None
    start_ticks: _Number | None = None
    # When this run was begun, and when it ended.
    begun_monotonic_ns: _Number | None = None
    ended_monotonic_ns: _Number | None = None
    started_ns: _Number | None = None
    finished_ns: _Number | None = None
    exit_code: _Code | None = None
    reason: str = ""
    message: str = ""
    # Seconds between `finished_ns` and the next start.
    back_off: _Count = 0
    # Its startup probe has succeeded, or there is none.
    is_started: bool = False
    # Killed in order to be started again, whatever it says when it ends: a probe failed.
    is_doomed: bool = False
    # When it was sent SIGTERM because its pod ends; written after the signal.
    told_monotonic_ns: _Number | None = None
    # The run before this one. None for most of all containers, and in what was written before this was.
    last: RunRecord | None = None


@dataclass(frozen=True, slots=True)
class OrderRecord:
    """An eviction without its pod, which the record around it has."""

    message: str
    grace_seconds: _Number | None
    signal: str
    reason: str
    annotations: dict[str, str] | None = None
    condition: PodCondition | None = None

    @classmethod
    def of(cls, order: Eviction) -> OrderRecord:
        """To be written."""
        annotations = None if order.annotations is None else dict(order.annotations)
        return cls(order.message, order.grace_seconds, order.signal, order.reason, annotations, order.condition)

    def eviction(self, pod: Pod, *, is_at_once: bool = False) -> Eviction:
        """As it was given; whether it was to be at once, the record of the ending knows."""
        return Eviction(
            pod,
            self.message,
            self.grace_seconds,
            self.signal,
            self.annotations,
            self.condition,
            self.reason,
            is_at_once,
        )


@dataclass(frozen=True, slots=True)
class EndingRecord:
    """The pod is on its way out: evicted when there is an order, of its own accord when not.

    Whoever takes over goes on with what is left of its time: `until_monotonic_ns` comes nearer when it must hurry, and
    never moves away.
    """

    grace_seconds: _Number
    # 0 in what an older version of this program has written.
    began_monotonic_ns: _Number = 0
    until_monotonic_ns: _Number = 0
    order: OrderRecord | None = None
    # Not all that there is to say about this eviction is in the journal yet.
    is_untold: bool = False
    is_at_once: bool = False
    # It was active for longer than its document allows.
    is_overdue: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the pod's status says from now on."""

    phase: str
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class PodRecord:
    """Everything about a pod that is not written elsewhere."""

    uid: str
    document: Mapping[str, Any]
    origin: str = ""
    # Process ids and instants of birth begin anew with every boot.
    boot_id: str = ""
    created_ns: _Number = 0
    started_ns: _Number | None = None
    started_monotonic_ns: _Number | None = None
    containers: tuple[ContainerRecord, ...] = ()
    # All init containers have done their work once; it is not repeated.
    is_initialized: bool = False
    # Nobody wants it any more: once it has ended and is cleaned up, it is forgotten.
    is_unwanted: bool = False
    ending: EndingRecord | None = None
    verdict: Verdict | None = None
    is_cleaned: bool = False


def in_this_boot(record: PodRecord, boot: str, now: Instant) -> PodRecord:
    """The record with times that can be compared with ours.

    Within one boot they can be as they are. After another one, and where an older version of this program has written
    none, they follow from the wall clock, as far as that can be believed.
    """
    is_same = bool(boot) and record.boot_id == boot

    def since(wall_ns: int | None, monotonic_ns: int | None) -> int | None:
        if is_same and monotonic_ns is not None:
            return min(monotonic_ns, now.monotonic_ns)
        return None if wall_ns is None else now.monotonic_ns - now.age_ns(wall_ns, is_same_boot=is_same)

    ending = record.ending
    if ending is not None and not (is_same and ending.until_monotonic_ns):
        # Of what another boot has seen nothing has survived, and there is nothing to be waited for.
        until_ns = now.monotonic_ns + (ending.grace_seconds * 10**9 if is_same else 0)
        ending = replace(ending, began_monotonic_ns=now.monotonic_ns, until_monotonic_ns=until_ns)
    return replace(
        record,
        boot_id=boot,
        started_monotonic_ns=since(record.started_ns, record.started_monotonic_ns),
        containers=tuple(
            replace(
                each,
                begun_monotonic_ns=since(each.started_ns, each.begun_monotonic_ns),
                ended_monotonic_ns=since(each.finished_ns, each.ended_monotonic_ns),
            )
            for each in record.containers
        ),
        ending=ending,
    )
