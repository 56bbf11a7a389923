"""What the agent asks of a runtime. The agent knows this and never a concrete runtime; there is no base class."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, Protocol

from jettison.engine.config.allocatable import MachineCapacity
from jettison.engine.lifecycle.phases import ContainerEnd, ContainerStatus
from jettison.engine.node.decide import Reclaim
from jettison.engine.node.evictions import Eviction, PodCondition
from jettison.engine.node.snapshot import Snapshot
from jettison.engine.pods.pod import Pod
from jettison.values import frozen

# A container's status is what its life says; the agent and the sinks know it by this protocol.
__all__ = ["ContainerEnd", "ContainerStatus"]

CLOSE_ALARM = "close"
"""Raised shortly before a crossing: there is nothing to decide yet, but soon there will be."""


@frozen
class Alarm:
    """Look now. `source` names what raised it: `memcg`, `psi`, `poll`, `close`, `oom`, `pods`."""

    source: str
    # On the monotonic clock, when the kernel or the poll noticed; latency is counted from here.
    raised_ns: int


@frozen
class Reclaimed:
    """What was freed without harming a pod."""

    containers: int = 0
    images: int = 0
    freed_bytes: int = 0
    errors: tuple[str, ...] = ()

    def and_also(self, other: Reclaimed) -> Reclaimed:
        """Both together."""
        return Reclaimed(
            self.containers + other.containers,
            self.images + other.images,
            self.freed_bytes + other.freed_bytes,
            (*self.errors, *other.errors),
        )


@frozen
class EndingPod:
    """An eviction that was begun, and whose story is not told to its end. Times are on the monotonic clock.

    The runtime knows what is on its way out, over a restart of the agent, too; nothing else keeps a list of it.
    """

    # The last order, and when it was given.
    eviction: Eviction
    ordered_ns: int
    # When the pod was told for the first time.
    began_ns: int
    # When the last of its containers stopped; None while one runs.
    stopped_ns: int | None = None
    # Why the pod lives on all the same: an API that was asked to end it refused. Empty where none did.
    withdrawn: str = ""


class Runtime(Protocol):
    """Observes and acts."""

    async def observe(self) -> Snapshot:
        """One consistent instant; what cannot be measured is None. Raises ObservationError."""

    async def reclaim(self, order: Reclaim) -> Reclaimed:
        """Free what the order names, in its order. Failures are in the answer."""

    def end(self, order: Eviction) -> None:
        """Tell the pod to end, or to hurry: its grace period only ever shrinks. Does not wait.

        On return the order is on record and the signals are sent. Raises PodGone when there is no such pod.
        """

    async def evict(self, order: Eviction) -> None:
        """The same; returns when all its containers have stopped.

        Raises PodGone, and StillRunning when it did not stop in time (the killing goes on).
        """

    def endings(self) -> Sequence[EndingPod]:
        """Evictions that were begun and not reported as `told`: after a restart, those that were under way."""

    def told(self, uid: str) -> None:
        """Everything about the pod's eviction is in the journal: it is no ending any more."""

    def is_finished(self, uid: str) -> bool:
        """Whether nothing is left of the pod: processes, volumes, cgroup. True for an unknown pod."""

    def alarms(self) -> AsyncIterator[Alarm]:
        """Whenever something says: look now. Never ends."""


@frozen
class PodManifest:
    """A pod to run: what the engine reads of it, and the whole document for the runtime that starts it."""

    pod: Pod
    document: Mapping[str, Any]
    # Where it came from, for messages: a file, or the API.
    origin: str = ""

    @property
    def ephemeral(self) -> Sequence[Mapping[str, Any]]:
        """The ephemeral containers of the document, which alone may become more while the pod is here."""
        return (self.document.get("spec") or {}).get("ephemeralContainers") or ()


@frozen
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
    # In a network of its own; none where it has the node's.
    addresses: tuple[str, ...] = ()


class ProbeCount(NamedTuple):
    """How often the probe of one kind had one result: `successful`, `failed`, or `unknown` where it could not ask."""

    pod: Pod
    container: str
    kind: str
    result: str
    times: int


class Hosting(Runtime, Protocol):
    """A runtime that also starts pods."""

    async def start(self, manifest: PodManifest) -> None:
        """Run the pod. Returns once its first container was started or the failure is in its status."""

    async def add(self, manifest: PodManifest) -> None:
        """The pod is here, and its document has ephemeral containers that it had not: run them."""

    async def stop(self, uid: str, grace_seconds: int | None = None) -> None:
        """The pod is no longer wanted: end it with its own or this grace period and forget it."""

    def is_found(self, uid: str) -> bool:
        """Whether the pod runs here though its record is lost: it was admitted before, and `start` takes it over."""

    async def reject(self, manifest: PodManifest, reason: str, message: str) -> None:
        """Remember a pod that was not admitted, as Failed."""

    def statuses(self) -> Sequence[PodStatus]:
        """All pods of this node, ended ones included, oldest first."""

    def machine(self) -> MachineCapacity:
        """What this node has; a node may be smaller than its machine."""
