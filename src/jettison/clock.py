"""Time is injected, so that tests and the simulator can supply their own.

Three readings, because a wall clock may be set at any moment. Times that are shown are the wall clock's.
Durations are measured with the monotonic one, which stands still while the machine is suspended: so does everything
that is timed. Where one number has to be both, as in a snapshot, it is the steady one.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple, Protocol


class Clock(Protocol):
    """What time it is. Only `Agent.run()` lets time pass, so a clock cannot sleep."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch; what records and statuses carry. It jumps whenever the clock is set."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since the machine was booted; never jumps, and is the same for every process of one boot."""

    def steady_ns(self) -> int:
        """Nanoseconds since the epoch as this process knew it when it began; never jumps.

        Off from the wall clock by as much as that was set since. Another process has another one.
        """


class SystemClock:
    """The machine's own."""

    def now_ns(self) -> int:
        """The wall clock."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Never jumps."""
        return time.monotonic_ns()

    def steady_ns(self) -> int:
        """The same for all clocks of this process."""
        return _BOOT_NS + time.monotonic_ns()


_BOOT_NS = time.time_ns() - time.monotonic_ns()

SYSTEM_CLOCK: Final = SystemClock()
"""The default of functions that take a clock."""


class Stamp(NamedTuple):
    """What all three readings showed at one moment: a step goes by one, so that it can be repeated exactly."""

    wall_ns: int
    monotonic_ns: int
    steady_ns: int

    @classmethod
    def of(cls, clock: Clock) -> Stamp:
        """Now."""
        if isinstance(clock, HeldClock):
            return clock.stamp
        return cls(clock.now_ns(), clock.monotonic_ns(), clock.steady_ns())


class HeldClock:
    """Shows one moment until it is given another: for replays and simulations."""

    __slots__ = ("stamp",)

    def __init__(self, stamp: Stamp) -> None:
        self.stamp = stamp

    def now_ns(self) -> int:
        """Of the moment."""
        return self.stamp.wall_ns

    def monotonic_ns(self) -> int:
        """Of the moment."""
        return self.stamp.monotonic_ns

    def steady_ns(self) -> int:
        """Of the moment."""
        return self.stamp.steady_ns


def to_next_beat(now: float, period: float) -> float:
    """Seconds until the clock shows the next multiple of `period`, at most one period.

    What is done every second is done by all in the same round of the event loop: each waking of an idle process costs
    more than what it then does.
    """
    return period - now % period


class Instant(NamedTuple):
    """One moment: its wall-clock time, to be shown, and its monotonic time, to be compared within this boot."""

    wall_ns: int
    monotonic_ns: int

    @classmethod
    def of(cls, clock: Clock) -> Instant:
        """Now."""
        return cls(clock.now_ns(), clock.monotonic_ns())

    def age_ns(self, wall_ns: int, *, is_same_boot: bool) -> int:
        """How long ago something was of which only the wall clock's time is known.

        The clock may have been set since, so no more is believed than can be: not before it happened; in this boot no
        longer ago than that began, in another one no later.
        """
        passed = self.wall_ns - wall_ns
        return min(max(passed, 0), self.monotonic_ns) if is_same_boot else max(passed, self.monotonic_ns)
