"""The pods that a budget guards, as a sync counts them: how many, how many of them are healthy, and whose they are.

A sync asks little of each pod, and of most the same as before. To visit 1,500 of them takes 2 ms, because they lie all
over the memory, and evictions of the budget wait meanwhile. So a controller keeps this count, and visits the pods that
have changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.workloads.owners import OwnerReference


class Counted(NamedTuple):
    """What counts of one pod."""

    name: str
    controller: OwnerReference | None
    is_terminating: bool
    # Ready, and not terminating.
    is_healthy: bool

    @classmethod
    def of(cls, pod: ApiPod) -> Self:
        """As the pod is now."""
        is_terminating = pod.is_terminating
        return cls(pod.name, pod.controller, is_terminating, pod.is_ready and not is_terminating)


class Headcount:
    """Pods of one namespace, where names are unique. Every one that was added must be discarded as it was."""

    __slots__ = ("healthy", "owners", "staying")

    def __init__(self) -> None:
        # The names of all pods by their controller, in the order in which they came.
        self.owners: dict[OwnerReference | None, dict[str, None]] = {}
        # Those that are not terminating, and the healthy ones among them.
        self.staying: set[str] = set()
        self.healthy: set[str] = set()

    @classmethod
    def of(cls, pods: Iterable[ApiPod]) -> Self:
        """All of these."""
        count = cls()
        for pod in pods:
            count.add(Counted.of(pod))
        return count

    @classmethod
    def together(cls, counts: Iterable[Headcount]) -> Self:
        """A copy of their sum, which stays as it is."""
        whole = cls()
        for count in counts:
            for owner, names in count.owners.items():
                whole.owners.setdefault(owner, {}).update(names)
            whole.staying |= count.staying
            whole.healthy |= count.healthy
        return whole

    @property
    def total(self) -> int:
        """Whatever their state."""
        return sum(map(len, self.owners.values()))

    def add(self, pod: Counted) -> None:
        """One more."""
        self.owners.setdefault(pod.controller, {})[pod.name] = None
        if not pod.is_terminating:
            self.staying.add(pod.name)
        if pod.is_healthy:
            self.healthy.add(pod.name)

    def discard(self, pod: Counted) -> None:
        """One less."""
        names = self.owners[pod.controller]
        del names[pod.name]
        if not names:
            del self.owners[pod.controller]
        self.staying.discard(pod.name)
        self.healthy.discard(pod.name)
