"""Noticing that disk, inodes or process ids are running out. The kernel has no alarm for these, so they are looked at:
rarely while there is plenty, fifty times a second while they vanish. A look is two system calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from jettison.clock import Clock
from jettison.engine.node.signals import ROWS, Resource, Signal, readings
from jettison.engine.node.snapshot import NodeStats, Reading
from jettison.engine.node.thresholds import Threshold, is_watched
from jettison.errors import ObservationError
from jettison.runtimes.machine.alarms import Wakeups
from jettison.runtimes.machine.outlook import LONGEST_PAUSE, Growth, poll_pause

# While it would be used up within a second, and else.
_SHORTEST_PAUSE, _QUIET_PAUSE = 0.02, 0.1
_PAUSE_WHEN_CROSSED = 1.0
# What may begin at any moment, in bytes, inodes and processes a second.
_FEARED: Mapping[Resource, float] = {
    Resource.EPHEMERAL_STORAGE: 2.0**30,
    Resource.INODES: 100_000.0,
    Resource.PIDS: 10_000.0,
}


class LevelWatch:
    """Between two observations. `measure` gives the node's numbers; memory is watched elsewhere and may be missing."""

    def __init__(
        self, thresholds: Iterable[Threshold], measure: Callable[[], NodeStats], wakeups: Wakeups, clock: Clock
    ) -> None:
        self._thresholds = _watchable(thresholds)
        self._measure = measure
        self._wakeups = wakeups
        self._clock = clock
        self._growths = {threshold: Growth() for threshold in self._thresholds}
        self._known: frozenset[Threshold] = frozenset()
        self._timer: asyncio.TimerHandle | None = None

    def observed(self, node: NodeStats) -> None:
        """The agent knows these numbers: watch for what comes after them."""
        if self._thresholds:
            found = readings(node)
            self._known = self._crossed(found)
            self._go_on(found)

    def use(self, thresholds: Iterable[Threshold]) -> None:
        """Watch for these instead; what is crossed already rings."""
        self.close()
        self._thresholds = _watchable(thresholds)
        self._growths = {threshold: Growth() for threshold in self._thresholds}
        self._known = frozenset()
        if self._thresholds:
            self._look()

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        try:
            found = readings(self._measure())
        except ObservationError:
            # The next observation meets the same and says so.
            self._wait(LONGEST_PAUSE)
            return
        crossed = self._crossed(found)
        if not crossed <= self._known:
            self._wakeups.ring("poll")
        self._known = crossed
        self._go_on(found)

    def _crossed(self, found: Mapping[Signal, Reading]) -> frozenset[Threshold]:
        return frozenset(
            threshold
            for threshold in self._thresholds
            if (reading := found.get(threshold.signal)) is not None and threshold.is_crossed(reading)
        )

    def _go_on(self, found: Mapping[Signal, Reading]) -> None:
        now_ns = self._clock.monotonic_ns()
        self._wait(min(self._pause(threshold, found.get(threshold.signal), now_ns) for threshold in self._thresholds))

    def _pause(self, threshold: Threshold, reading: Reading | None, now_ns: int) -> float:
        growth = self._growths[threshold]
        if reading is None or threshold in self._known:
            growth.note(None, now_ns)
            return LONGEST_PAUSE if reading is None else _PAUSE_WHEN_CROSSED
        headroom = reading.available - threshold.quantity(reading.capacity).value
        growth.note(headroom, now_ns)
        shortest = _SHORTEST_PAUSE if growth.rate > headroom else _QUIET_PAUSE
        return poll_pause(headroom, growth.rate, _FEARED[ROWS[threshold.signal].resource], shortest)

    def _wait(self, pause: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(pause, self._look)


def _watchable(thresholds: Iterable[Threshold]) -> list[Threshold]:
    return [each for each in thresholds if not is_watched(each) and not each.is_inert]
