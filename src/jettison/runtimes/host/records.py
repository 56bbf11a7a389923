"""What is remembered of a pod across the agent's own death: values that are written as JSON and read back.

The rule for all of them: a record says what may have been done, never more. It is written before a process is let go,
before a signal is sent and before anything is removed, so that whoever reads it knows at least as much as the dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jettison.engine.evictions import Eviction, PodCondition
from jettison.engine.pods import Pod
from jettison.runtimes.linux import kernel_files

RunState = Literal["waiting", "starting", "running", "terminated"]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run that is over."""

    run: int
    exit_code: int | None
    reason: str = ""
    message: str = ""
    started_ns: int | None = None
    finished_ns: int | None = None


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """One container and its latest run. While `starting` there may be a process anywhere between fork and exec."""

    name: str
    state: RunState = "waiting"
    # Counted from 0, so also the number of restarts. -1: never started.
    run: int = -1
    pid: int | None = None
    start_ticks: int | None = None
    created_ns: int = 0
    started_ns: int | None = None
    finished_ns: int | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    # Seconds between `finished_ns` and the next start.
    back_off: int = 0
    # Its startup probe has succeeded, or there is none.
    is_started: bool = False
    # Killed in order to be started again, whatever it says when it ends: a probe failed.
    is_doomed: bool = False
    # The run before this one. None for most of all containers, and in what was written before this was.
    last: RunRecord | None = None


@dataclass(frozen=True, slots=True)
class OrderRecord:
    """An eviction without its pod, which the record around it has."""

    message: str
    grace_seconds: int | None
    signal: str
    reason: str
    annotations: dict[str, str] | None = None
    condition: PodCondition | None = None

    @classmethod
    def of(cls, order: Eviction) -> OrderRecord:
        """To be written."""
        annotations = None if order.annotations is None else dict(order.annotations)
        return cls(order.message, order.grace_seconds, order.signal, order.reason, annotations, order.condition)

    def eviction(self, pod: Pod) -> Eviction:
        """As it was given."""
        return Eviction(
            pod, self.message, self.grace_seconds, self.signal, self.annotations, self.condition, self.reason
        )


@dataclass(frozen=True, slots=True)
class EndingRecord:
    """The pod is on its way out: evicted when there is an order, of its own accord when not."""

    began_ns: int
    grace_seconds: int
    order: OrderRecord | None = None
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
    created_ns: int = 0
    started_ns: int | None = None
    containers: tuple[ContainerRecord, ...] = ()
    # All init containers have done their work once; it is not repeated.
    is_initialized: bool = False
    # Nobody wants it any more: once it has ended and is cleaned up, it is forgotten.
    is_unwanted: bool = False
    ending: EndingRecord | None = None
    verdict: Verdict | None = None
    is_cleaned: bool = False


def boot_id(proc: Path) -> str:
    """Another one after every boot; empty where /proc does not tell."""
    return (kernel_files.read(proc / "sys" / "kernel" / "random" / "boot_id") or b"").decode("ascii", "replace").strip()
