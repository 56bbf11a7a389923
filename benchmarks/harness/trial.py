"""One growing process from its start to its death, and what its notes say about the process that ended it."""

from __future__ import annotations

import mmap
import os
import select
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

MI = 2**20
MEMINFO = Path("/proc/meminfo")

# As in grower.c: go, told_ns, count, then rows of time and usage.
_HEAD = struct.Struct("qqq")
_ROW = struct.Struct("qq")
_MOST_ROWS = 16_384


class TrialFailed(Exception):  # noqa: N818  an outcome, and not an error of ours
    """This one says nothing: the process did not start, or was ended before it crossed the line, or never."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """From the moment at which usage was over the line. `signal_ms` is None where the signal was not recorded."""

    signal_ms: float | None
    death_ms: float
    overshoot: int


@dataclass(frozen=True, slots=True)
class Grower:
    """How the process is started."""

    command: tuple[str, ...]
    rate_mib: int

    @classmethod
    def build(cls, scratch: Path, rate_mib: int, *, is_static: bool = False) -> Self:
        """Compiled where there is a compiler; `is_static` for a container without libraries."""
        source, compiler = Path(__file__).with_suffix("").with_name("grower.c"), shutil.which("cc")
        if compiler is None:
            return cls((sys.executable, str(source.with_suffix(".py"))), rate_mib)
        options = ["-O2", *(["-static"] if is_static else [])]
        subprocess.run([compiler, *options, "-o", scratch / "grower", source], check=True)
        return cls((str(scratch / "grower"),), rate_mib)

    @property
    def language(self) -> str:
        """What it is written in."""
        return "C" if len(self.command) == 1 else "Python"


class Trial:
    """The watcher's side. Made before the process, which gets `arguments`."""

    def __init__(self, grower: Grower, directory: Path, usage: Path, most_mib: int) -> None:
        notes, pipe = directory / "notes", directory / "pipe"
        # Touched here, so that its pages are not charged to the process.
        notes.write_bytes(bytes(_HEAD.size + _MOST_ROWS * _ROW.size))
        with notes.open("r+b") as file:
            self._notes = mmap.mmap(file.fileno(), 0)
        os.mkfifo(pipe)
        self._pipe = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        # Reading /proc/meminfo takes 50 times as long as reading a cgroup's counter.
        step_kib = 256 if usage == MEMINFO else 64
        numbers = (step_kib, grower.rate_mib, most_mib)
        self.arguments = [*grower.command, str(notes), str(pipe), str(usage), *map(str, numbers)]

    def await_start(self, seconds: float) -> None:
        """Until it is ready to grow."""
        if not self._wait(select.POLLIN, seconds):
            raise TrialFailed(f"it did not start within {seconds} s")
        os.read(self._pipe, 1)

    def go(self) -> None:
        """Let it grow."""
        struct.pack_into("q", self._notes, 0, 1)

    def await_death(self, seconds: float) -> int:
        """When its files were closed, which the kernel does after it has taken back the memory."""
        if not self._wait(select.POLLHUP, seconds):
            raise TrialFailed(f"it was not ended within {seconds} s")
        return time.monotonic_ns()

    def reaction(self, line: int, death_ns: int, sent_ns: int | None = None) -> Reaction:
        """What became of the process that was to be stopped at `line`."""
        _, told_ns, count = _HEAD.unpack_from(self._notes, 0)
        rows = [_ROW.unpack_from(self._notes, _HEAD.size + row * _ROW.size) for row in range(count)]
        crossed_ns = next((ns for ns, used in rows if used >= line), None)
        if crossed_ns is None:
            raise TrialFailed("it was ended before it crossed the line")
        signal_ns = sent_ns or told_ns or None
        signal_ms = None if signal_ns is None else (signal_ns - crossed_ns) / 1e6
        return Reaction(signal_ms, (death_ns - crossed_ns) / 1e6, max(used for _, used in rows) - line)

    def close(self) -> None:
        """Let go of the files."""
        self._notes.close()
        os.close(self._pipe)

    def _wait(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._pipe, event)
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if any(events & event for _, events in poll.poll(left * 1000)):
                return True
        return False


@contextmanager
def trial(grower: Grower, scratch: Path, usage: Path, most_mib: int) -> Iterator[Trial]:
    """With files of its own, which are gone afterwards."""
    directory = scratch / "trial"
    directory.mkdir()
    made = Trial(grower, directory, usage, most_mib)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(directory)
