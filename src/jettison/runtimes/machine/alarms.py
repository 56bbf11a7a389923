"""Noticing within milliseconds that the node is running out of memory. For what else runs out see `level_watch`.

Three means, of which the machine decides which can be had. Usage alarms of cgroup version 1 ring within 512 KiB of the
crossing. Pressure triggers ring when processes lose time to reclaiming, at the earliest after their window (1 s, or 2 s
without CAP_SYS_RESOURCE). And there is polling, with a pause that is safe by the headroom and the growth seen: it
serves where there is no alarm, while an alarm is being moved, and when page cache keeps usage from showing the
crossing.

Whatever rings, the memory is read again before the agent is told: alarms also come for cache, and on the way down.
Everything that says "look now" says it to `Wakeups`, to which one listens.

Shortly before a crossing it rings as well. Then there is nothing to decide yet, but what was looked at, decided and
written down a moment ago takes a third of the time when it comes to that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor
from pathlib import Path

from jettison.clock import Clock
from jettison.engine.node.thresholds import Threshold
from jettison.errors import ObservationError
from jettison.runtimes.linux.psi import PressureFile, PressureTrigger
from jettison.runtimes.machine.outlook import (
    LONGEST_PAUSE,
    Growth,
    MemoryPair,
    Outlook,
    look_ahead,
    poll_pause,
    watched,
)
from jettison.runtimes.machine.usage_events import UsageEvents
from jettison.runtimes.protocol import CLOSE_ALARM, Alarm
from jettison.values import frozen

_SHORTEST_PAUSE = 0.02
# While an alarm is being moved, which is over in some 50 ms.
_BRIDGING_PAUSE = 0.002
# A pod that is quiet now may start to take memory at about this rate, bytes a second, at any moment.
_SUDDEN_GROWTH = 2**30
# With an alarm set, polling only has to see the levels drift away from it: what others on the machine use is in them.
_DRIFT_FACTOR = 8
_DRIFT_PAUSE = 0.25
# Close to a crossing and while usage grows: the kernel's next alarm may come half a mebibyte too late.
_CLOSE_PAUSE = 0.001
# Between two rings for having come close: memory may come and go there.
_WARNING_PAUSE_NS = 10**9
# With everything crossed there is nothing to notice but the way back.
_PAUSE_WHEN_CROSSED = 1.0

_STALL_US, _WINDOW_US = 100_000, 1_000_000


class Wakeups:
    """Rings are kept until heard. The first of several is the one that is told: latency counts from there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: Alarm | None = None
        self._rung = asyncio.Event()

    def ring(self, source: str) -> None:
        """Look now."""
        if self._pending is None:
            self._pending = Alarm(source, self._clock.monotonic_ns())
            self._rung.set()

    async def alarms(self) -> AsyncIterator[Alarm]:
        """For one listener; with two, each ring is heard by one of them."""
        while True:
            await self._rung.wait()
            self._rung.clear()
            alarm, self._pending = self._pending, None
            if alarm is not None:
                yield alarm


@frozen
class Watched:
    """Where the kernel's alarms are to be had; None where it has none."""

    # The directories of the node's and the pods' cgroups in the version 1 memory hierarchy.
    node: Path | None = None
    pods: Path | None = None
    pressure: Path | None = None


class MemoryAlarms:
    """Watches between two observations. `measure` must be cheap: it is called up to 1,000 times a second."""

    def __init__(
        self,
        thresholds: Iterable[Threshold],
        measure: Callable[[], MemoryPair],
        wakeups: Wakeups,
        clock: Clock,
        pool: Executor,
        where: Watched,
    ) -> None:
        self._thresholds = watched(thresholds)
        self._measure = measure
        self._wakeups = wakeups
        self._clock = clock
        self._where = where
        self._events = None if where.pods is None else UsageEvents(pool, clock, self._on_event, self._on_settled)
        self._trigger: PressureTrigger | None = None
        # What the last observation, or the last ring, has made known.
        self._known: frozenset[Threshold] = frozenset()
        self._is_close = False
        # The kernel's alarm has made us look so often.
        self._is_hastened = False
        self._warned_ns = -_WARNING_PAUSE_NS
        self._growth = Growth()
        self._timer: asyncio.TimerHandle | None = None

    def open(self) -> tuple[str, ...]:
        """Begin; returns what this machine does not permit, one line each."""
        if self._events is not None or not self._thresholds:
            return ()
        lacks = ["no memory threshold events: memory is polled every 20 ms to 10 s, by its headroom"]
        if self._where.pressure is None:
            return tuple(lacks)
        try:
            self._trigger = PressureFile(self._where.pressure).arm(_STALL_US, _WINDOW_US)
        except ObservationError as failure:
            lacks.append(f"no pressure alarms: {failure}")
        else:
            asyncio.get_running_loop().add_reader(self._trigger.fileno(), self._on_pressure)
            if self._trigger.window_us > _WINDOW_US:
                lacks.append("no CAP_SYS_RESOURCE: pressure alarms come only every 2 s")
        return tuple(lacks)

    @property
    def source(self) -> str:
        """Which of the three means it is, in the words of `jettison doctor`."""
        if self._events is not None and self.failure is None:
            return "memory threshold events of the kernel"
        return "pressure events of the kernel, and polling" if self._trigger is not None else "polling"

    def use(self, thresholds: Iterable[Threshold]) -> None:
        """Watch for these instead: the kernel's alarms move, and what is crossed already rings."""
        self._thresholds = watched(thresholds)
        self._known, self._is_close = frozenset(), False
        self._look("poll", aims=True)

    def observed(self, memory: MemoryPair) -> None:
        """The agent knows these numbers: watch for what comes after them."""
        outlook = look_ahead(self._thresholds, memory)
        self._known, self._is_close = outlook.crossed, outlook.is_close
        self._go_on(outlook, aims=True)

    async def close(self) -> None:
        """Silence."""
        self._end_trigger()
        if self._events is not None:
            await self._events.close()
        if self._timer is not None:
            self._timer.cancel()

    @property
    def failure(self) -> str | None:
        """Why the kernel's usage alarms could not be set after all."""
        return None if self._events is None else self._events.failure

    def _look(self, source: str, *, aims: bool) -> bool:
        """Measure; ring when something was crossed that is not known yet. Whether it rang."""
        try:
            outlook = look_ahead(self._thresholds, self._measure())
        except ObservationError:
            # The next observation meets the same and says so.
            self._wait(LONGEST_PAUSE)
            return False
        is_news = not outlook.crossed <= self._known
        self._known = outlook.crossed
        if is_news:
            self._wakeups.ring(source)
        else:
            self._warn(outlook)
        self._go_on(outlook, aims=aims and not is_news)
        return is_news

    def _warn(self, outlook: Outlook) -> None:
        has_come_close = outlook.is_close and not self._is_close
        self._is_close = outlook.is_close
        now_ns = self._clock.monotonic_ns()
        if has_come_close and now_ns - self._warned_ns > _WARNING_PAUSE_NS:
            self._warned_ns = now_ns
            self._wakeups.ring(CLOSE_ALARM)

    def _go_on(self, outlook: Outlook, *, aims: bool) -> None:
        self._growth.note(outlook.headroom, self._clock.monotonic_ns())
        headroom, where = outlook.headroom, self._where
        if aims and headroom is not None and self._events is not None and outlook.is_reachable:
            levels = {where.node: outlook.node_levels, where.pods: outlook.pods_levels}
            self._events.aim({place: each for place, each in levels.items() if place is not None}, headroom)
        self._wait(self._pause(outlook))

    def _pause(self, outlook: Outlook) -> float:
        headroom, growth = outlook.headroom, self._growth.rate
        self._is_hastened = False
        if headroom is None:
            return _PAUSE_WHEN_CROSSED if outlook.crossed else LONGEST_PAUSE
        if self._events is None or self._events.failure is not None or not outlook.is_reachable:
            return poll_pause(headroom, growth, _SUDDEN_GROWTH, _SHORTEST_PAUSE)
        if not self._events.is_settled:
            return poll_pause(headroom, growth, _SUDDEN_GROWTH, _BRIDGING_PAUSE)
        pause = poll_pause(headroom * _DRIFT_FACTOR, growth, _SUDDEN_GROWTH, _DRIFT_PAUSE)
        self._is_hastened = outlook.is_close and growth > 0
        return min(pause, max(headroom / (2 * growth), _CLOSE_PAUSE)) if self._is_hastened else pause

    def _wait(self, pause: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(pause, self._on_time)

    def _on_time(self) -> None:
        self._look("memcg" if self._is_hastened else "poll", aims=True)

    def _on_event(self) -> bool:
        return self._look("memcg", aims=True)

    def _on_settled(self) -> None:
        # What was crossed while the kernel was still setting the alarm raises none.
        self._look("memcg", aims=False)

    def _on_pressure(self) -> None:
        if self._trigger is not None and not self._trigger.consume():
            self._end_trigger()
            return
        self._wakeups.ring("psi")

    def _end_trigger(self) -> None:
        if self._trigger is not None:
            asyncio.get_running_loop().remove_reader(self._trigger.fileno())
            self._trigger.close()
            self._trigger = None
