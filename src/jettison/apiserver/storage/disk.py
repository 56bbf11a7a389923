"""The disk: writes that share a transaction, the thread for what takes long, and space for deletions when it is full.

The event loop does not wait: it takes the next requests meanwhile, whose writes are the next batch.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Final

from jettison.apiserver.http.statuses import internal_error
from jettison.apiserver.storage.private_files import open_private, tighten
from jettison.apiserver.storage.stored import Change, Stored
from jettison.clock import Clock
from jettison.errors import ApiError

Job = Callable[[], None]
Report = Callable[[Exception | None], None]

RESERVE_FILE: Final = "store.reserve"
MOST_RESERVED_BYTES: Final = 4 * 2**20
"""An eviction takes three rows, or 25 kB of pages in the write-ahead log until that begins again."""
_SHARE: Final = 16
"""On a small disk the reserve is at most this part of it."""
_LOOK_NS: Final = 10_000_000
_FEWEST_BYTES: Final = 64 * 2**10


class Batch:
    """What was written, and the requests that wait for it."""

    __slots__ = ("_waiting", "changes", "failure", "is_done", "oldest", "superseded")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        # Versions with the checksums of their rows.
        self.superseded: list[tuple[int, int]] = []
        # The version after which everything is in the log once these are gone.
        self.oldest = 0
        self.failure: ApiError | None = None
        self.is_done = False
        # One for each request, so that one that stops waiting does not cancel it for the others.
        self._waiting: list[asyncio.Future[None]] = []

    async def done(self) -> None:
        """Wait for the disk; raises what it refused."""
        if not self.is_done:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        if self.failure is not None:
            raise self.failure

    def end(self, failure: ApiError | None) -> None:
        """It is on disk, or was refused."""
        self.is_done, self.failure = True, failure
        if failure is not None:
            for change in self.changes:
                change.stored.is_given_up = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def replace(self, stored: Stored) -> None:
        """Put it in the place of the write with its version."""
        place = self._place(stored)
        kind, _, previous = self.changes[place]
        self.changes[place] = Change(kind, stored, previous)

    def before(self, stored: Stored) -> Stored:
        """What was there before this write, which made no new object."""
        previous = self.changes[self._place(stored)].previous
        assert previous is not None, f"version {stored.version} is a new object"
        return previous

    def _place(self, stored: Stored) -> int:
        return stored.version - self.changes[0].stored.version

    def holds(self, version: int) -> bool:
        """Whether the write of this version is one of them."""
        return self.changes[0].stored.version <= version <= self.changes[-1].stored.version


class Disk:
    """The thread: one job at a time, in the order in which they were given.

    A thread pool does the same for 40 µs a job in futures and locks, which a single client would pay with every write
    where the kernel does not flush (`flush`).
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[asyncio.AbstractEventLoop, Job, Report] | None] = SimpleQueue()
        # It begins with the first job: a store that is only read needs none, and there may be no event loop yet.
        self._thread: Thread | None = None

    def do(self, job: Job, report: Report) -> None:
        """Have it done; `report` is called in this event loop, with the error if there was one."""
        if self._thread is None:
            self._thread = Thread(target=self._work, name="store", daemon=True)
            self._thread.start()
        self._jobs.put((asyncio.get_running_loop(), job, report))

    def close(self) -> None:
        """To be called when all jobs are reported."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (given := self._jobs.get()) is not None:
            loop, job, report = given
            error: Exception | None = None
            try:
                job()
            except Exception as failure:  # noqa: BLE001  the job's owner is told, and the next job is done
                error = failure
            loop.call_soon_threadsafe(report, error)


class DiskReserve:
    """Reserved disk space, so that deletions and evictions go on when the disk is full and other writes are refused.

    Kubernetes' store has a quota below the size of its disk, and takes only deletions once it is reached. Here a file
    beside the store keeps blocks for that time. When the disk is nearly full, ordinary writes are refused; when it is
    full, the blocks go to the write-ahead log, in one step, because whatever fills the disk would take them too. The
    last of them are used to checkpoint that log into the store, so that it starts again in its own space. As deletions
    also shorten the history that is kept for watches, this can go on without end. Once there is space again, the
    reserve is restored, and all writes are accepted.
    """

    def __init__(self, folder: Path, wal: Path, clock: Clock) -> None:
        self._clock = clock
        self._folder = folder
        self._path = folder / RESERVE_FILE
        self._wal = wal
        disk = os.statvfs(folder)
        self._size = min(MOST_RESERVED_BYTES, disk.f_blocks * disk.f_frsize // _SHARE)
        # Below this, ordinary writes stop; above twice as much they go on.
        self._least = self._size // 8
        self._next_look_ns = 0
        tighten(self._path)
        self.is_full = not self._keep() or self._free() < self._least

    def look(self) -> bool:
        """Whether ordinary writes are accepted, as of up to 10 ms ago: every write asks."""
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._next_look_ns:
            return not self.is_full
        self._next_look_ns = now_ns + _LOOK_NS
        free = self._free()
        if free < self._least:
            self.is_full = True
        elif self.is_full and free >= 2 * self._least:
            self.is_full = not self._keep()
        return not self.is_full

    def refusal(self) -> ApiError:
        """An internal error, as for a full etcd in Kubernetes."""
        return internal_error(f"the store cannot write: {self.complaint}; deletions and evictions are still possible")

    @property
    def complaint(self) -> str:
        """What is wrong; empty if nothing is."""
        return f"the disk of `{self._folder}` is full" if self.is_full else ""

    def claim(self) -> bool:
        """Give a quarter of the reserve to the write-ahead log; False when no more than a quarter is left."""
        self.is_full = True
        size, piece = self._kept(), self._size // 4
        if size <= piece:
            return False
        self._shrink(size - piece)
        with self._wal.open("ab") as wal:
            # What is behind the last frame is not read.
            return bool(_allocate(wal.fileno(), os.fstat(wal.fileno()).st_size, piece))

    def release(self) -> None:
        """Give up the rest: the file itself needs it, to take what is in the write-ahead log."""
        if self._kept():
            self._shrink(0)

    def _shrink(self, size: int) -> None:
        with self._path.open("r+b") as reserve:
            reserve.truncate(size)
            # ext4 lets others have the blocks only when its journal is on disk.
            os.fsync(reserve.fileno())

    def close(self) -> None:
        """The write-ahead log is gone, and with it what was claimed: keep that for the next start."""
        if self.is_full:
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._keep()

    def _free(self) -> int:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize

    def _kept(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def _keep(self) -> bool:
        """Whether the reserve is whole, if need be from now on; else it is as large as it can be."""
        kept = self._kept()
        if kept < self._size:
            descriptor = open_private(self._path)
            try:
                kept += _allocate(descriptor, kept, self._size - kept)
            finally:
                os.close(descriptor)
        return kept >= self._size


def _allocate(descriptor: int, start: int, size: int) -> int:
    """How many bytes the file got: all of them, a half, a quarter, and so on."""
    while size >= _FEWEST_BYTES:
        try:
            os.posix_fallocate(descriptor, start, size)
        except OSError:
            # A part of it may have been taken.
            os.ftruncate(descriptor, start)
            size //= 2
        else:
            return size
    return 0


def is_disk_full(error: Exception) -> bool:
    """Whether the error says that the disk is full."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
