"""One file per pod, to which every new record is appended as a line; the last whole line counts.

Appending takes 0.03 ms, but a busy filesystem makes every writer wait for its journal, 40 ms have been seen. So one
thread encodes and writes, in the order in which records come, and the loop goes on; what has to follow a record follows
it when the thread says so. Of the records of a pod that wait only the newest is written: a disk that hangs costs one of
each pod.

Replacing a file instead of appending takes 1 ms on ext4 and 4 ms on a busy disk, which is too long for an eviction to
wait; so that is done when a file has grown, in another thread. Until it is done records go to both files, the old one
first; if the new one is in its place before both were written, the record goes there once more.

Two dangers, two answers. SIGKILL of the agent: what the kernel has it keeps, so a line that was written is safe, and
half a line is passed over for the one before it. Loss of the machine: a thread brings the files to the disk soon after,
at 1 to 50 ms that nothing waits for, because no process that a record names survives such a loss anyway.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path

import msgspec

from jettison import events
from jettison.errors import InputError, ManifestError, ObservationError, RemovalError, WriteError
from jettison.manifests.files.decoding import bounded, decode
from jettison.manifests.files.plain_files import LARGEST_STATE, clear, read_plain, set_aside
from jettison.runtimes.host.pods.records import PodRecord, encode
from jettison.runtimes.host.settings import checked_uid
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.machine.background_tasks import promptly, staffed_pool
from jettison.values import frozen

# A file is cut to its last line when it is larger than this and than four such lines.
_LARGEST = 65_536
_LINES = 4
# Long enough for the signals that follow a record to be sent before a thread competes for the interpreter, and for the
# three records of a starting container to become one write.
_SYNC_DELAY = 0.02
# From one time to the next: while files are brought to the disk the filesystem may make every writer wait, up to 30 ms.
_SYNC_PERIOD = 0.5

_SUFFIX = ".json"
_TEMPORARY = ".tmp"
# Environments hold passwords.
_DIRECTORY_MODE, _FILE_MODE = 0o700, 0o600
# Without O_NONBLOCK a pipe in the place of a file would be waited for.
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC


@frozen
class Loaded:
    """What was found at the start; `broken` says of which files nothing can be made, and where they are now."""

    records: tuple[PodRecord, ...] = ()
    broken: tuple[str, ...] = ()


class Saving:
    """A record on its way into its file. When it is there no SIGKILL undoes it; else the record before it counts."""

    __slots__ = ("_working", "_written", "begun_at", "record")

    def __init__(self, record: PodRecord) -> None:
        self.record: PodRecord | None = record
        # On the loop's clock.
        self.begun_at = asyncio.get_running_loop().time()
        self._working: Future[None]
        self._written: asyncio.Future[None]

    def follow(self, working: Future[None]) -> asyncio.Future[None]:
        """That of the thread; returns one of the loop."""
        self._working, self._written = working, asyncio.wrap_future(working)
        return self._written

    def is_over(self, patience: float = 0) -> bool:
        """Whether it is in its file, or refused. With patience the loop is held up, for so many seconds at most."""
        try:
            self._working.exception(patience)
        except TimeoutError:
            return False
        return True

    async def done(self) -> None:
        """Returns when it is in its file. Raises WriteError, or ManifestError where it cannot be encoded."""
        await asyncio.shield(self._written)

    async def over(self, patience: float) -> None:
        """Returns when it is in its file, or refused, or so many seconds have passed."""
        await asyncio.wait([self._written], timeout=patience)

    def when_over(self, then: Callable[[asyncio.Future[None]], None]) -> None:
        """Have it called by the loop."""
        self._written.add_done_callback(then)


class RecordFiles:
    """The directory with the files. Belongs to one event loop; `pool` is where files are brought to the disk."""

    def __init__(self, directory: Path, pool: Executor, emit: events.Emit) -> None:
        self._directory = directory
        self._pool = pool
        self._emit = emit
        self._decoder = msgspec.json.Decoder(PodRecord)
        self._writer = staffed_pool(1, "jettison-record")
        # What the thread has not begun to write, by the name of the file.
        self._waiting: dict[str, Saving] = {}
        self._lock = threading.Lock()
        self._under_way: set[asyncio.Future[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._unsynced: set[str] = set()
        # Files that are about to be replaced by their last line, and by what came after it.
        self._cutting: dict[str, Future[None]] = {}
        self._syncing: asyncio.Future[str | None] | None = None
        self._sync_timer: asyncio.TimerHandle | None = None
        self._synced_at = float("-inf")

    def load(self) -> Loaded:
        """All records, oldest first. Files that are none get another name, so that they are complained about once."""
        records, broken = list[PodRecord](), list[str]()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._directory.chmod(_DIRECTORY_MODE)
            for path in sorted(self._directory.iterdir()):
                if path.name.endswith(_TEMPORARY):
                    clear(path)
                elif path.name.endswith(_SUFFIX):
                    self._read(path, records, broken)
        except OSError as error:
            raise ObservationError(
                f"cannot read records in `{self._directory}`: {kernel_files.reason(error)}"
            ) from error
        records.sort(key=lambda record: (record.created_ns, record.uid))
        return Loaded(tuple(records), tuple(broken))

    def save(self, record: PodRecord) -> Saving:
        """Have it written. Of one pod a later record may be written in the place of this one."""
        name = checked_uid(record.uid) + _SUFFIX
        with self._lock:
            known = self._waiting.get(name)
            if known is not None:
                known.record = record
                return known
            saving = self._waiting[name] = Saving(record)
        written = saving.follow(self._writer.submit(promptly, partial(self._write, name)))
        self._under_way.add(written)
        written.add_done_callback(partial(self._was_written, name))
        return saving

    def _write(self, name: str) -> None:
        """In the thread that writes."""
        with self._lock:
            saving = self._waiting.pop(name)
            record, saving.record = saving.record, None
        uid = name.removesuffix(_SUFFIX)
        line = encode(record, uid) + b"\n"
        try:
            size = _append(self._directory / name, line)
            if name in self._cutting:
                if not _append_if_there(self._directory / (name + _TEMPORARY), line):
                    _append(self._directory / name, line)
            elif size > max(_LARGEST, _LINES * len(line)):
                self._cut(name, line)
        except OSError as error:
            raise WriteError(f"cannot record pod `{uid}`: {kernel_files.reason(error)}") from error

    def _was_written(self, name: str, written: asyncio.Future[None]) -> None:
        self._under_way.discard(written)
        if written.exception() is None:
            self._sync_soon(name)

    async def forget(self, uid: str) -> None:
        """This pod is not needed any more. Raises RemovalError."""
        path = self._directory / (checked_uid(uid) + _SUFFIX)
        # By the same thread: no record comes after this.
        await asyncio.wrap_future(self._writer.submit(_forget, path, uid))
        self._sync_soon("")

    def close(self) -> None:
        """Nothing is saved any more."""
        self._writer.shutdown()

    async def settle(self) -> None:
        """Wait until everything is on the disk."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        while self._cutting:
            await asyncio.wait([asyncio.wrap_future(each) for each in list(self._cutting.values())])
        while self._syncing is not None or self._unsynced:
            if self._syncing is None:
                self._sync_now()
            else:
                await asyncio.wait([self._syncing])

    def _read(self, path: Path, records: list[PodRecord], broken: list[str]) -> None:
        why, data = "", b""
        try:
            data = read_plain(path, LARGEST_STATE)
            lines = data.rstrip(b"\n").split(b"\n")
        except ManifestError as error:  # a pipe, a directory, or more than all that we ever write
            lines, why = [], str(error)
        except OSError as error:
            if not path.is_symlink():
                raise
            # One that leads nowhere, or in a circle.
            lines, why = [], f"a link, {kernel_files.reason(error)}"
        for line in reversed(lines):
            found = self._decode(line, path.name.removesuffix(_SUFFIX))
            if isinstance(found, PodRecord):
                records.append(found)
                if why or not data.endswith(b"\n"):
                    # What is appended next must not continue half a line.
                    self._replace(path, line + b"\n")
                return
            why = why or found
        broken.append(set_aside(path, f"`{path}`: {why}"))

    def set_aside(self, uid: str, why: str) -> str:
        """Keep a record that says nothing under another name; `why` with that name."""
        path = self._directory / (checked_uid(uid) + _SUFFIX)
        return set_aside(path, f"`{path}`: {why}")

    def _decode(self, line: bytes, uid: str) -> PodRecord | str:
        try:
            record = decode(self._decoder, bounded(line, "record"), "record")
            return record if checked_uid(record.uid) == uid else f"it speaks of pod `{record.uid}`"
        except InputError as error:
            return str(error)

    def _cut(self, name: str, line: bytes) -> None:
        path = self._directory / name
        temporary = path.with_name(path.name + _TEMPORARY)
        clear(temporary)
        _append(temporary, line)
        cutting = self._cutting[name] = self._pool.submit(_move, temporary, path)
        cutting.add_done_callback(partial(self._was_cut, name))

    def _was_cut(self, name: str, done: Future[None]) -> None:
        """In the thread that has done it. What could not be shortened is tried again with the next record."""
        del self._cutting[name]
        error = None if done.cancelled() else done.exception()
        if isinstance(error, OSError):
            fact = events.ActionFailed(f"shorten the record `{name}`", kernel_files.reason(error))
            self._loop.call_soon_threadsafe(self._emit, fact)

    def _replace(self, path: Path, line: bytes) -> None:
        temporary = path.with_name(path.name + _TEMPORARY)
        clear(temporary)
        _append(temporary, line)
        temporary.replace(path)

    def _sync_soon(self, name: str) -> None:
        self._unsynced.add(name)
        if self._syncing is None and self._sync_timer is None:
            loop = asyncio.get_running_loop()
            delay = max(_SYNC_DELAY, self._synced_at + _SYNC_PERIOD - loop.time())
            self._sync_timer = loop.call_later(delay, self._sync_now)

    def _sync_now(self) -> None:
        if self._sync_timer is not None:
            self._sync_timer.cancel()
            self._sync_timer = None
        names, self._unsynced = self._unsynced, set()
        self._syncing = asyncio.get_running_loop().run_in_executor(self._pool, _sync, self._directory, names)
        self._syncing.add_done_callback(self._synced)

    def _synced(self, done: asyncio.Future[str | None]) -> None:
        self._syncing = None
        self._synced_at = asyncio.get_running_loop().time()
        if not done.cancelled() and (why := done.result()) is not None:
            self._emit(events.ActionFailed("bring records to the disk", why))
        if self._unsynced:
            self._sync_soon("")


def _append(path: Path, line: bytes, flags: int = _APPENDING) -> int:
    """Write a whole line or nothing; returns how large the file is then."""
    descriptor = os.open(path, flags, mode=_FILE_MODE)
    try:
        before = os.fstat(descriptor).st_size
        try:
            # A disk that is nearly full takes part of it and says so only in the count.
            rest = line
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            os.ftruncate(descriptor, before)
            raise
        return before + len(line)
    finally:
        os.close(descriptor)


def _forget(path: Path, uid: str) -> None:
    """In the thread that writes."""
    try:
        # First what may be about to take its place.
        for each in (path.with_name(path.name + _TEMPORARY), path):
            each.unlink(missing_ok=True)
    except OSError as error:
        raise RemovalError(f"cannot forget pod `{uid}`: {kernel_files.reason(error)}") from error


def _append_if_there(path: Path, line: bytes) -> bool:
    try:
        _append(path, line, _APPENDING & ~os.O_CREAT)
    except FileNotFoundError:
        return False
    return True


def _move(temporary: Path, path: Path) -> None:
    """In a thread."""
    try:
        temporary.replace(path)
    except FileNotFoundError:
        return  # the pod was forgotten meanwhile


def _sync(directory: Path, names: set[str]) -> str | None:
    """In a thread. A file that was appended to meanwhile is brought to the disk in its newer form."""
    try:
        for path in (*(directory / name for name in names if name), directory):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        return kernel_files.reason(error)
    return None
