"""An eviction on disk, so that an agent that comes back goes on with what an earlier one has begun."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from jettison.engine.node.evictions import Eviction, PodCondition
from jettison.engine.pods.pod import Pod
from jettison.values import frozen


@frozen
class OrderRecord:
    """An eviction without its pod, which the record around it has."""

    message: str
    grace_seconds: Annotated[int, Meta(ge=-(2**62), le=2**62)] | None
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
