"""What a step has to say. Log lines, Kubernetes Events, metrics and the journal are all made from these."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from jettison.engine.node.signals import Condition, Resource, Signal
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.thresholds import Threshold
from jettison.engine.pods.pod import Pod
from jettison.values import frozen


@frozen
class ThresholdCrossed:
    """The reading fell below the threshold; a soft one starts its grace clock."""

    threshold: Threshold
    reading: Reading


@frozen
class ThresholdMet:
    """Crossed for its grace period: from now on a pod may go because of it."""

    threshold: Threshold
    reading: Reading


@frozen
class ThresholdResolved:
    """No longer crossed, and above the minimum reclaim if it had been met."""

    threshold: Threshold


@frozen
class ConditionChanged:
    """The node reports a condition, or reports it no longer."""

    condition: Condition
    is_true: bool


@frozen
class ReclaimAttempted:
    """The node is starved of something and will do something about it."""

    signal: Signal
    resource: Resource


@frozen
class ReclaimSufficed:
    """Freeing node resources was enough; no pod has to go."""

    signal: Signal
    resource: Resource


@frozen
class PodsRanked:
    """A pod must go. `stats_age_ns` tells how old the readings were that say so, by signal."""

    signal: Signal
    count: int
    stats_age_ns: Mapping[Signal, int]


@frozen
class CriticalPodSpared:
    """Its turn had come, but it may not be evicted."""

    pod: Pod


@frozen
class GraceCutShort:
    """It was on its way out and is killed before its time is up: the node would not have survived the rest."""

    pod: Pod
    signal: Signal
    # Since it was told, and what it had been given.
    after_ns: int
    grace_seconds: int
    # Bytes, when that was decided.
    available: int
    fall_per_second: int


@frozen
class NothingToEvict:
    """A threshold is met and no pod may or can go for it."""

    signal: Signal
    why: str


Fact = (
    ThresholdCrossed
    | ThresholdMet
    | ThresholdResolved
    | ConditionChanged
    | ReclaimAttempted
    | ReclaimSufficed
    | PodsRanked
    | CriticalPodSpared
    | NothingToEvict
    | GraceCutShort
)


class RemovalReason(StrEnum):
    """Why an image went; the label of kubelet_image_garbage_collected_total."""

    AGE = "age"
    SPACE = "space"
