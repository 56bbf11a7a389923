"""Follows what a container writes: over rotations, over its restarts, until it is over for good.

A log is rotated by copying it to `<run>.log.1` and cutting it to nothing, so a file that became shorter is read on
first in the copy, from where we were.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path

from jettison.clock import Clock, SystemClock
from jettison.node.logs.log_files import read_from, runs_of, size_and_time
from jettison.runtimes.host.volumes.logs import log_file

_PAUSE = 0.2
# Records change rarely; and a container that ends and is started again at once must not be caught in between twice.
_LOOK_NS = 10**9


class Fate(Enum):
    """What is known of a container."""

    LIVES = "lives"
    # It has ended, and should it be started again, that happens at once.
    ENDED = "ended"
    # Nothing will start it again.
    OVER = "over"


class LogFollower:
    """Reads on from `place` in the log of `run`."""

    def __init__(
        self, directory: Path, run: int, place: int, fate: Callable[[], Fate], clock: Clock | None = None
    ) -> None:
        self.run = run
        # When what was read last was written, at the latest.
        self.written_ns = 0
        self._directory = directory
        self._place = place
        self._fate = fate
        self._clock = clock or SystemClock()

    def follow(self) -> Iterator[bytes]:
        """Everything that is written. Empty bytes say: nothing more for the moment, or another run begins."""
        looked, last = self._clock.monotonic_ns(), self._fate()
        while True:
            yield from self.news()
            later = [run for run in runs_of(self._directory) if run > self.run]
            if later:
                yield from self.news()
                self.run, self._place = later[0], 0
                looked, last = self._clock.monotonic_ns(), self._fate()
                yield b""
                continue
            if last is Fate.OVER:
                return
            yield b""
            time.sleep(_PAUSE)
            if self._clock.monotonic_ns() - looked >= _LOOK_NS:
                looked, before, last = self._clock.monotonic_ns(), last, self._fate()
                if before is last is Fate.ENDED:
                    last = Fate.OVER

    def news(self) -> Iterator[bytes]:
        """What was written since the last time."""
        path = log_file(self._directory, self.run)
        size, self.written_ns = size_and_time(path)
        if size < self._place:
            yield from read_from(Path(f"{path}.1"), self._place)
            self._place = 0
        if size > self._place:
            for block in read_from(path, self._place):
                self._place += len(block)
                yield block
