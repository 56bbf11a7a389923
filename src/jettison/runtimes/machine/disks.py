"""What the pods' directories take on disk, found out in a thread and at most every few seconds.

A walk over a million files takes seconds, so what a snapshot carries is the result of the last round: as with a
kubelet, whose numbers may be two minutes old. A directory that takes longer than its share of patience is left half
way and gone on with in the next round, after all others had their turn; until then its last result counts, or what was
found so far, if that is more already.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping
from concurrent.futures import Executor

from jettison.clock import Clock
from jettison.errors import ObservationError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.disk_usage import DirectoryWalk, DiskUsage, NoQuota, project_usage

_BLOCK = 512
_PORTION = 1000
# Seconds from a look to the round that it found to be due.
_AFTERWARDS = 0.05


# By path; True for a log directory, of which only plain files directly in it count, and not the directory itself: so
# Kubernetes measures logs (spec §3.2). Paths are texts because hundreds of them are looked up in every step.
Targets = Mapping[str, bool]


class DiskWatch:
    """The last known usage of each target. Only `_round` runs in a thread, and never twice at the same time."""

    def __init__(self, pool: Executor, clock: Clock, period: float, patience: float) -> None:
        self._pool = pool
        self._clock = clock
        self._period_ns = round(period * 10**9)
        self._patience_ns = round(patience * 10**9)
        self._wanted: Targets = {}
        self._found: dict[str, DiskUsage] = {}
        self._walks: dict[str, DirectoryWalk] = {}
        # Those of which the filesystem keeps no count. It is asked once: ids are given before files are written.
        self._uncounted: set[str] = set()
        self._is_new = True
        self._round_ns: int | None = None
        self._running: asyncio.Future[None] | None = None
        self._soon: asyncio.TimerHandle | None = None
        self._is_closed = False
        # Directories that could not be measured in the last round, and why.
        self.failures: Mapping[str, str] = {}

    @property
    def usages(self) -> Mapping[str, DiskUsage]:
        """By path; what is missing was not measured yet, or is gone."""
        return self._found

    def want(self, targets: Targets) -> None:
        """What the next rounds are about; the rest is forgotten. A new pod is a reason for a round by itself."""
        self._is_new = self._is_new or not targets.keys() <= self._wanted.keys()
        self._wanted = targets

    async def refresh(self, patience: float = 0.0) -> None:
        """Have a round if it is time for one; with `patience` in any case, and wait for its end so many seconds.

        A round that nothing waits for begins when what this look leads to is over: its thread would hold up the
        eviction by a millisecond or two for each time that the two compete for the interpreter.
        """
        if patience > 0:
            self._begin()
            if self._running is not None:
                await asyncio.wait([self._running], timeout=patience)
        elif self._soon is None and self._is_due():
            self._soon = asyncio.get_running_loop().call_later(_AFTERWARDS, self._begin)

    async def close(self) -> None:
        """Ends a round under way at its next portion."""
        self._is_closed = True
        if self._soon is not None:
            self._soon.cancel()
        if self._running is not None:
            await asyncio.wait([self._running])
        for walk in self._walks.values():
            walk.close()
        self._walks.clear()

    def _begin(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._running is None and not self._is_closed:
            self._round_ns, self._is_new = self._clock.monotonic_ns(), False
            self._running = asyncio.get_running_loop().run_in_executor(self._pool, self._round, self._wanted)
            self._running.add_done_callback(self._finish)

    def _is_due(self) -> bool:
        is_old = self._round_ns is None or self._clock.monotonic_ns() - self._round_ns >= self._period_ns
        return is_old or self._is_new

    def _finish(self, running: asyncio.Future[None]) -> None:
        self._running = None
        running.result()

    def _round(self, wanted: Targets) -> None:
        failures: dict[str, str] = {}
        for path in self._walks.keys() - wanted.keys():
            self._walks.pop(path).close()
        # Those left half way come last: the others do not wait for a directory of a million files.
        for path in sorted(wanted, key=self._walks.__contains__):
            if self._is_closed:
                return
            try:
                usage = _logs(path) if wanted[path] else self._tree(path)
            except ObservationError as failure:
                failures[path] = str(failure)
                continue
            if usage is not None:
                self._found[path] = usage
        self._found = {path: usage for path, usage in self._found.items() if path in wanted}
        self._uncounted &= wanted.keys()
        self.failures = failures

    def _tree(self, path: str) -> DiskUsage | None:
        if path not in self._uncounted:
            counted = project_usage(path)
            if not isinstance(counted, NoQuota):
                return counted
            self._uncounted.add(path)
        walk = self._walks.pop(path, None) or DirectoryWalk(path)
        until = self._clock.monotonic_ns() + self._patience_ns
        while walk.step(_PORTION):
            if self._is_closed or self._clock.monotonic_ns() >= until:
                self._walks[path] = walk
                return _larger(walk.usage, self._found.get(path))
        return walk.usage


def _larger(one: DiskUsage | None, other: DiskUsage | None) -> DiskUsage | None:
    if one is None or other is None:
        return one or other
    return DiskUsage(max(one.size, other.size), max(one.inodes, other.inodes), max(one.unreadable, other.unreadable))


def _logs(directory: str) -> DiskUsage | None:
    size = inodes = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    size += status.st_blocks * _BLOCK
                    inodes += 1
    except OSError as error:
        if error.errno in kernel_files.GONE:
            return DiskUsage(size, inodes) if inodes else None
        raise kernel_files.unreadable(directory, error) from error
    return DiskUsage(size, inodes)
