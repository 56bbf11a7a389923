"""A pod as the API shows it: what budgets, drains and workload controllers look at.

There is one such value for all of them, so that "is it ready" and "is it on its way out" have one answer. Over a stored
document it is a `manifests.pod_view.PodView`, which reads a field when a rule first asks for it.

Two other pods remain beside it: `engine.pods.pod.Pod`, which is what a node measures and ranks, and
`engine.scheduling.pods.PlaceablePod`, which the scheduler keeps in its sums (`docs/decisions.md` says why).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from jettison.engine.pods.pod import ENDED_PHASES
from jettison.engine.workloads.owners import OwnerReference

REVISION_LABEL: Final = "controller-revision-hash"
"""Which revision a pod was made from: a DaemonSet's pods carry its hash, a StatefulSet's its name."""

GENERATION_LABEL: Final = "pod-template-generation"
"""The older mark of a DaemonSet's pods: how often its template had changed. Kubernetes still writes and heeds it."""

_SECOND_NS: Final = 10**9


class ContainerExit(NamedTuple):
    """How a container ended."""

    name: str
    exit_code: int


@dataclass(frozen=True)
class ApiPod:
    """Times are 0 where none was written. Ready is the only health: neither phase nor age nor restarts count."""

    name: str
    namespace: str = "default"
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    controller: OwnerReference | None = None
    # Where it runs; empty before it is bound.
    node: str = ""
    phase: str = ""
    is_terminating: bool = False
    # When its grace period ends: the deletionTimestamp of a terminating pod lies in the future at first.
    deadline_ns: int | None = None
    is_ready: bool = False
    ready_since_ns: int = 0
    created_ns: int = 0
    finished_ns: int = 0
    # Each as type and status.
    conditions: tuple[tuple[str, str], ...] = ()
    ends: tuple[ContainerExit, ...] = ()
    # Of all containers together.
    restarts: int = 0
    # The most of any regular container, and the most of any sidecar.
    most_restarts: tuple[int, int] = (0, 0)
    # It shows what a node runs by itself: to delete it ends nothing.
    is_mirror: bool = False
    has_empty_dir: bool = False
    deletion_cost: int = 0
    # Its place in an indexed Job.
    index: int | None = None
    # It has the finalizer of a Job, and so was not counted yet.
    is_tracked: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_ended(self) -> bool:
        """Nothing of it runs any more, for example because its node evicted it: its replacement is due."""
        return self.phase in ENDED_PHASES

    @property
    def is_active(self) -> bool:
        """It counts as one of those that are wanted."""
        return not self.is_ended and not self.is_terminating

    @property
    def is_leaving(self) -> bool:
        """Its end was asked for and has not come."""
        return self.is_terminating and not self.is_ended

    @property
    def revision(self) -> str:
        """Of the set that made it."""
        return self.labels.get(REVISION_LABEL) or ""

    @property
    def template_generation(self) -> str:
        """Of a daemon pod: the generation of the template that it was made from."""
        return self.labels.get(GENERATION_LABEL) or ""

    def available_ns(self, min_ready_seconds: int) -> int | None:
        """From when on it counts as available; None where that is not in sight."""
        if not self.is_ready or (min_ready_seconds > 0 and not self.ready_since_ns):
            return None
        return self.ready_since_ns + max(min_ready_seconds, 0) * _SECOND_NS

    def is_available(self, min_ready_seconds: int, now_ns: int) -> bool:
        """Ready, and for long enough to believe it. Where no time is asked for the clock does not count."""
        since_ns = self.available_ns(min_ready_seconds)
        return since_ns is not None and (min_ready_seconds <= 0 or since_ns <= now_ns)

    def but(self, **changes: object) -> Self:
        """The same pod with other values in these fields. What a view has not read yet stays unread."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **changes)
        return other
