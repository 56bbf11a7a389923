"""A pod as the scheduler sees it, waiting for a node or on one, and what it takes of a node.

Two numbers of each pod are not what it asks for but what a score takes it for: a container that asks for nothing
counts there as 100m of cpu and 200Mi of memory, so that pods without requests do not all end up on one node.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field
from typing import Final, NamedTuple

from jettison.engine.numbers.quantity import ZERO, Quantity, binary, parse
from jettison.engine.pods.pod import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGEPAGES_PREFIX,
    MEMORY,
    Container,
    Pod,
    Resources,
    requests,
)
from jettison.engine.pods.pod import aggregate as aggregated
from jettison.engine.scheduling.placement import ANYWHERE, NodeAffinity, Toleration
from jettison.values import frozen

Key = tuple[str, str]
"""Namespace and name."""

NOT_YET: Final = 2**63
"""When a pod started that has not: later than every other."""

_ASSUMED: Final[Resources] = {CPU: parse("100m"), MEMORY: binary(200 * 2**20)}


class PodClaim(NamedTuple):
    """What a pod takes, as integers, cpu in thousandths; `scored_` what scores take it for."""

    cpu: int = 0
    memory: int = 0
    storage: int = 0
    others: tuple[tuple[str, int], ...] = ()
    scored_cpu: int = 0
    scored_memory: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the pod asks for nothing but a place."""
        return not (self.cpu or self.memory or self.storage or self.others)


NO_CLAIM: Final = PodClaim()


@frozen
class PlaceablePod:
    """One pod. `group` names those among which it is to be spread: the pods of its ReplicaSet or StatefulSet."""

    key: Key
    uid: str = ""
    priority: int = 0
    claim: PodClaim = NO_CLAIM
    tolerations: tuple[Toleration, ...] = ()
    affinity: NodeAffinity = ANYWHERE
    labels: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    node: str = ""
    nominated_node: str = ""
    scheduler: str = ""
    gates: tuple[str, ...] = ()
    may_preempt: bool = True
    is_terminating: bool = False
    # Terminating because the scheduler wanted its place.
    is_preempted: bool = False
    started_ns: int = NOT_YET

    def __str__(self) -> str:
        return "/".join(self.key)

    def on(self, node: str) -> PlaceablePod:
        """The same pod on that node. Not by `replace`, which takes four times as long: every binding comes here."""
        return PlaceablePod(
            self.key,
            self.uid,
            self.priority,
            self.claim,
            self.tolerations,
            self.affinity,
            self.labels,
            self.group,
            node,
            self.nominated_node,
            self.scheduler,
            self.gates,
            self.may_preempt,
            self.is_terminating,
            self.is_preempted,
            self.started_ns,
        )

    @property
    def wants(self) -> Hashable:
        """All that decides whether a node will do: of two pods that want the same, both are refused or none."""
        return self.priority, self.claim, self.tolerations, self.affinity, self.gates, self.may_preempt


def claim_of(pod: Pod) -> PodClaim:
    """What the scheduler reckons with. A resource that no node could have, such as `foo`, is not reckoned with."""
    asked = requests(pod)
    others = ((name, amount.value) for name, amount in sorted(asked.items()) if is_scalar(name) and amount)
    scored = aggregated(pod, _assumed_requests)
    if pod.resources is not None:
        scored |= {name: amount for name, amount in pod.resources.requests.items() if name in _ASSUMED}
    for name, extra in pod.overhead.items():
        scored[name] = scored.get(name, ZERO) + extra
    return PodClaim(
        cpu=asked.get(CPU, ZERO).milli,
        memory=asked.get(MEMORY, ZERO).value,
        storage=asked.get(EPHEMERAL_STORAGE, ZERO).value,
        others=tuple(others),
        scored_cpu=scored.get(CPU, ZERO).milli,
        scored_memory=scored.get(MEMORY, ZERO).value,
    )


def is_scalar(name: str) -> bool:
    """Devices, huge pages and volumes: counted as they come, and short where a node has never heard of them."""
    return "/" in name or name.startswith((HUGEPAGES_PREFIX, "attachable-volumes-"))


def _assumed_requests(container: Container) -> Mapping[str, Quantity]:
    """A request of zero is a request."""
    own = container.requests
    return {name: own.get(name, assumed) for name, assumed in _ASSUMED.items()}
