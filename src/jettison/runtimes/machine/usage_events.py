"""The kernel's usage alarms (cgroup version 1), kept at the levels where they are wanted.

Setting one makes the kernel wait until every processor has passed a quiet point: 8 to 70 ms, 32 in the middle. So that
is done in a thread, and the old alarm stays until the new one is set. Closing one costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path

from jettison.clock import Clock
from jettison.engine.node.thresholds import REARM_NS
from jettison.errors import ObservationError
from jettison.runtimes.linux.cgroups.memcg_events import UsageAlarm

# An alarm so near to where it is wanted is left alone: the kernel itself looks only every 512 KiB.
_NEAR = 256 * 1024
# How long an alarm that rang for nothing stays silent: page cache that comes and goes may cross a level 1,000 times a
# second.
_SILENCE = 0.005

# By the cgroup's directory, the wanted usages.
Levels = Mapping[Path, frozenset[int]]
_Key = tuple[Path, int]


class UsageEvents:
    """`on_event` is called on a crossing and answers whether it was news; `on_settled`, when alarms were moved."""

    def __init__(
        self, pool: Executor, clock: Clock, on_event: Callable[[], bool], on_settled: Callable[[], None]
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._on_event = on_event
        self._on_settled = on_settled
        self._set: dict[_Key, UsageAlarm] = {}
        self._set_ns = 0
        self._wanted: frozenset[_Key] = frozenset()
        self._setting: asyncio.Future[dict[_Key, UsageAlarm]] | None = None
        self._is_closed = False
        # Why alarms cannot be had at the moment: the table of descriptors may be full, and not be so later.
        self.failure: str | None = None
        self._failed_ns = 0

    @property
    def is_settled(self) -> bool:
        """Whether the alarms stand where they were last wanted."""
        return self._setting is None and self.failure is None

    def aim(self, levels: Levels, headroom: int) -> None:
        """Move the alarms if one is off by more than a sixteenth of the headroom, or at all for more than 10 s.

        Far from the threshold precision is worth nothing, and on a busy machine the levels move all the time.
        """
        self._wanted = frozenset((directory, level) for directory, each in levels.items() for level in each)
        now_ns = self._clock.monotonic_ns()
        tolerance = _NEAR if now_ns - self._set_ns > REARM_NS else max(_NEAR, headroom // 16)
        may_try = self.failure is None or now_ns - self._failed_ns > REARM_NS
        is_idle = self._setting is None and not self._is_closed
        if is_idle and may_try and any(self._distance(key) > tolerance for key in self._wanted):
            loop = asyncio.get_running_loop()
            self._setting = loop.run_in_executor(self._pool, _register, _thinned(self._wanted))
            self._setting.add_done_callback(self._finish)

    async def close(self) -> None:
        """No more alarms; waits for one that is being set in this moment."""
        self._is_closed = True
        self._replace({})
        if self._setting is not None:
            await asyncio.wait([self._setting])

    def _distance(self, wanted: _Key) -> int:
        return min((abs(level - wanted[1]) for place, level in self._set if place == wanted[0]), default=2**62)

    def _finish(self, setting: asyncio.Future[dict[_Key, UsageAlarm]]) -> None:
        self._setting = None
        if setting.cancelled():
            return
        failure = setting.exception()
        if failure is None:
            self.failure = None
            self._replace(setting.result())
        elif isinstance(failure, ObservationError):
            self.failure, self._failed_ns = str(failure), self._clock.monotonic_ns()
        else:
            raise failure
        if not self._is_closed:
            self._on_settled()

    def _replace(self, fresh: dict[_Key, UsageAlarm]) -> None:
        loop = asyncio.get_running_loop()
        old, self._set = self._set, {} if self._is_closed else fresh
        self._set_ns = self._clock.monotonic_ns()
        for alarm in self._set.values():
            loop.add_reader(alarm.fileno(), self._ring, alarm)
        for alarm in old.values():
            loop.remove_reader(alarm.fileno())
            alarm.close()
        if self._is_closed:
            for alarm in fresh.values():
                alarm.close()

    def _ring(self, alarm: UsageAlarm) -> None:
        alarm.consume()
        if not self._on_event():
            loop = asyncio.get_running_loop()
            loop.remove_reader(alarm.fileno())
            loop.call_later(_SILENCE, self._listen_again, alarm)

    def _listen_again(self, alarm: UsageAlarm) -> None:
        if alarm in self._set.values():
            asyncio.get_running_loop().add_reader(alarm.fileno(), self._ring, alarm)


def _thinned(wanted: frozenset[_Key]) -> list[_Key]:
    """Of several levels that are near each other the lowest will do."""
    kept: list[_Key] = []
    for directory, level in sorted(wanted):
        if not kept or kept[-1][0] != directory or level - kept[-1][1] > _NEAR:
            kept.append((directory, level))
    return kept


def _register(keys: list[_Key]) -> dict[_Key, UsageAlarm]:
    done: dict[_Key, UsageAlarm] = {}
    try:
        for directory, level in keys:
            done[directory, level] = UsageAlarm(directory, level)
    except ObservationError:
        for alarm in done.values():
            alarm.close()
        raise
    return done
