"""What is remembered between steps, and nothing else: the grace clocks, the conditions, the last readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from jettison.engine.node.signals import Condition, Signal
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.thresholds import Threshold

if TYPE_CHECKING:
    from jettison.engine.node.decide import Reclaim


@dataclass(frozen=True, slots=True)
class History:
    """Empty at start. A failed observation leaves it as it is, so conditions keep their last value."""

    # The thresholds derived from the disk layout count from the second step on (spec §2.7).
    knows_layout: bool = False
    # Since when each threshold is crossed without a break.
    first_observed: Mapping[Threshold, int] = field(default_factory=dict)
    # Crossed for their grace period at the last step; they stay until minimum reclaim is reached.
    met: tuple[Threshold, ...] = ()
    # Never shrinks: a condition is reported until its age reaches the transition period.
    condition_observed: Mapping[Condition, int] = field(default_factory=dict)
    conditions: frozenset[Condition] = frozenset()
    readings: Mapping[Signal, Reading] = field(default_factory=dict)
    # A reclaim was ordered and not yet judged; the next snapshot does that and begins no new step.
    reclaiming: Reclaim | None = None

    def shifted(self, by_ns: int) -> History:
        """The same by a clock that shows so much more. What is decided by it stays the same, too."""
        if not by_ns:
            return self
        return replace(
            self,
            first_observed={each: since + by_ns for each, since in self.first_observed.items()},
            condition_observed={each: seen + by_ns for each, seen in self.condition_observed.items()},
            readings={
                signal: reading if reading.time_ns is None else reading._replace(time_ns=reading.time_ns + by_ns)
                for signal, reading in self.readings.items()
            },
        )
