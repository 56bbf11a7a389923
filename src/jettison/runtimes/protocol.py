"""What the agent asks of a runtime. The agent knows this and never a concrete runtime; there is no base class."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jettison.engine.config.allocatable import MachineCapacity
from jettison.engine.lifecycle.phases import ContainerEnd, ContainerStatus
from jettison.engine.node.decide import Reclaim
from jettison.engine.node.evictions import Eviction, PodCondition
from jettison.engine.node.snapshot import Snapshot
from jettison.engine.pods.pod import Pod

# A container's status is what its life says; the agent and the sinks know it by this protocol.
__all__ = ["ContainerEnd", "ContainerStatus"]

CLOSE_ALARM = "close"
"""Raised shortly before a crossing: there is nothing to decide yet, but soon there will be."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Look now. `source` names what raised it: `memcg`, `psi`, `poll`, `close`, `oom`, `pods`."""

    source: str
    # On the monotonic clock, when the kernel or the poll noticed; latency is counted from here.
    raised_ns: int


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What was freed without harming a pod."""

    containers: int = 0
    images: int = 0
    freed_bytes: int = 0
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Untold:
    """An eviction that an earlier agent has begun, and whose story it may not have written to its end."""

    eviction: Eviction
    # On the monotonic clock.
    began_ns: int
    # All its containers have.
    has_stopped: bool


class Runtime(Protocol):
    """Observes and acts."""

    async def observe(self) -> Snapshot:
        """One consistent instant; what cannot be measured is None. Raises ObservationError."""

    async def reclaim(self, order: Reclaim) -> Reclaimed:
        """Free what the order names, in its order. Failures are in the answer."""

    async def evict(self, order: Eviction) -> None:
        """End the pod; return when all its containers have stopped.

        For a pod already on its way out this shortens the grace period: it only ever shrinks. Raises PodGone when there
        is no such pod, StillRunning when it did not stop in time (the killing goes on).
        """

    def untold(self) -> Sequence[Untold]:
        """Evictions that were begun and never reported as `told`: after a restart, those that were under way."""

    def told(self, uid: str) -> None:
        """Everything about the pod's eviction is on record; whoever takes over need not ask."""

    def is_finished(self, uid: str) -> bool:
        """Whether nothing is left of the pod: processes, volumes, cgroup. True for a pod nobody knows."""

    def alarms(self) -> AsyncIterator[Alarm]:
        """Whenever something says: look now. Never ends."""


@dataclass(frozen=True, slots=True)
class PodManifest:
    """A pod somebody wants to run: what the engine reads of it, and the whole document for whoever starts it."""

    pod: Pod
    document: Mapping[str, Any]
    # Where it came from, for messages: a file, or the API.
    origin: str = ""


@dataclass(frozen=True, slots=True)
class PodStatus:
    """One pod as Kubernetes' status tells it. Evicted and rejected pods stay here for all to see."""

    pod: Pod
    phase: str
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    started_ns: int | None = None
    # Set while the pod is on its way out.
    is_ending: bool = False
    document: Mapping[str, Any] = field(default_factory=dict)


class Hosting(Runtime, Protocol):
    """A runtime that also starts pods."""

    async def start(self, manifest: PodManifest) -> None:
        """Run the pod. Returns once its first container was started or the failure is in its status."""

    async def stop(self, uid: str, grace_seconds: int | None = None) -> None:
        """Somebody no longer wants the pod: end it with its own or this grace period and forget it."""

    def is_found(self, uid: str) -> bool:
        """Whether the pod runs here though its record is lost: it was admitted before, and `start` takes it over."""

    async def reject(self, manifest: PodManifest, reason: str, message: str) -> None:
        """Remember a pod that was not admitted, as Failed."""

    def statuses(self) -> Sequence[PodStatus]:
        """All pods of this node, ended ones included, oldest first."""

    def machine(self) -> MachineCapacity:
        """What this node has; a node may be smaller than its machine."""
