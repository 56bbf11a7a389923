"""What a step has to say. Log lines, Kubernetes Events, metrics and the journal are all made from these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jettison.engine.node.signals import Condition, Resource, Signal
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.thresholds import Threshold
from jettison.engine.pods.pod import Pod


@dataclass(frozen=True, slots=True)
class ThresholdCrossed:
    """The reading fell below the threshold; a soft one starts its grace clock."""

    threshold: Threshold
    reading: Reading


@dataclass(frozen=True, slots=True)
class ThresholdMet:
    """Crossed for its grace period: from now on a pod may go because of it."""

    threshold: Threshold
    reading: Reading


@dataclass(frozen=True, slots=True)
class ThresholdResolved:
    """No longer crossed, and above the minimum reclaim if it had been met."""

    threshold: Threshold


@dataclass(frozen=True, slots=True)
class ConditionChanged:
    """The node reports a condition, or reports it no longer."""

    condition: Condition
    is_true: bool


@dataclass(frozen=True, slots=True)
class ReclaimAttempted:
    """The node is starved of something and will do something about it."""

    signal: Signal
    resource: Resource


@dataclass(frozen=True, slots=True)
class ReclaimSufficed:
    """Freeing node resources was enough; no pod has to go."""

    signal: Signal
    resource: Resource


@dataclass(frozen=True, slots=True)
class PodsRanked:
    """A pod must go. `stats_age_ns` tells how old the readings were that say so, by signal."""

    signal: Signal
    count: int
    stats_age_ns: Mapping[Signal, int]


@dataclass(frozen=True, slots=True)
class CriticalPodSpared:
    """Its turn had come, but it may not be evicted."""

    pod: Pod


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
