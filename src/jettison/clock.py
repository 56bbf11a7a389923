"""Time, as a thing one is given rather than a thing one takes: the simulator hands out its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What time it is. Only `Agent.run()` lets time pass, so a clock cannot sleep."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch; what records and statuses carry."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since some moment; never jumps, so latencies and timeouts are measured with it."""


class SystemClock:
    """The machine's own."""

    def now_ns(self) -> int:
        """The wall clock."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Never jumps."""
        return time.monotonic_ns()
