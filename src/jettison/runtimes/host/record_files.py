"""One JSON file per pod, replaced as a whole.

Two dangers, two answers. SIGKILL of the agent: the new file has its name before `save` returns, and what the kernel
holds it keeps; that takes 0.1 ms, for which an eviction can wait. Loss of the machine: a thread brings the file to the
disk right after, at 1 to 50 ms for which nobody waits, because no process that a record speaks of survives such a loss
anyway. A file torn by it is put aside and reported.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from jettison import events
from jettison.errors import ActionFailed, InputError, ManifestError
from jettison.runtimes.host.records import PodRecord
from jettison.runtimes.host.settings import checked_uid
from jettison.runtimes.linux import kernel_files

_SUFFIX = ".json"
_BROKEN = ".broken"
_TEMPORARY = ".tmp"
# Environments hold passwords.
_DIRECTORY_MODE, _FILE_MODE = 0o700, 0o600


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was found at the start; `broken` says of which files nothing can be made."""

    records: tuple[PodRecord, ...] = ()
    broken: tuple[str, ...] = ()


class RecordFiles:
    """The directory with the files. Belongs to one event loop; `pool` is where files are brought to the disk."""

    def __init__(self, directory: Path, pool: Executor, emit: events.Emit) -> None:
        self._directory = directory
        self._pool = pool
        self._emit = emit
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(PodRecord)
        self._unsynced: set[str] = set()
        self._syncing: asyncio.Future[str | None] | None = None

    def load(self) -> Loaded:
        """All records, oldest first. Files that are none get another name, so that they are complained about once."""
        records, broken = list[PodRecord](), list[str]()
        try:
            self._directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
            for path in sorted(self._directory.iterdir()):
                if path.name.endswith(_TEMPORARY):
                    path.unlink()
                elif path.name.endswith(_SUFFIX):
                    self._read(path, records, broken)
        except OSError as error:
            raise ActionFailed(f"cannot read records in `{self._directory}`: {kernel_files.reason(error)}") from error
        records.sort(key=lambda record: (record.created_ns, record.uid))
        return Loaded(tuple(records), tuple(broken))

    def save(self, record: PodRecord) -> None:
        """Replace the pod's file. When this returns, no SIGKILL undoes it; when it raises, the old one is in place."""
        name = checked_uid(record.uid) + _SUFFIX
        data = self._encode(record)
        temporary = self._directory / (name + _TEMPORARY)
        try:
            _write(temporary, data)
            temporary.replace(self._directory / name)
        except OSError as error:
            raise ActionFailed(f"cannot record pod `{record.uid}`: {kernel_files.reason(error)}") from error
        self._sync_soon(name)

    def forget(self, uid: str) -> None:
        """Nobody will ask for this pod again."""
        try:
            (self._directory / (checked_uid(uid) + _SUFFIX)).unlink(missing_ok=True)
        except OSError as error:
            raise ActionFailed(f"cannot forget pod `{uid}`: {kernel_files.reason(error)}") from error
        self._sync_soon("")

    async def settle(self) -> None:
        """Wait until everything is on the disk."""
        while self._syncing is not None:
            await asyncio.wait([self._syncing])

    def _read(self, path: Path, records: list[PodRecord], broken: list[str]) -> None:
        try:
            record = self._decoder.decode(path.read_bytes())
            if checked_uid(record.uid) + _SUFFIX == path.name:
                records.append(record)
                return
            why = f"it speaks of pod `{record.uid}`"
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InputError) as error:
            why = str(error)
        path.rename(path.with_name(path.name + _BROKEN))
        broken.append(f"`{path.name}`: {why}")

    def _encode(self, record: PodRecord) -> bytes:
        try:
            return self._encoder.encode(record)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ManifestError(f"pod `{record.uid}` cannot be written as JSON: {error}") from error

    def _sync_soon(self, name: str) -> None:
        self._unsynced.add(name)
        if self._syncing is None:
            self._sync_now()

    def _sync_now(self) -> None:
        names, self._unsynced = self._unsynced, set()
        self._syncing = asyncio.get_running_loop().run_in_executor(self._pool, _sync, self._directory, names)
        self._syncing.add_done_callback(self._synced)

    def _synced(self, done: asyncio.Future[str | None]) -> None:
        self._syncing = None
        if not done.cancelled() and (why := done.result()) is not None:
            self._emit(events.ActionFailed("bring records to the disk", why))
        if self._unsynced:
            self._sync_now()


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode=_FILE_MODE)
    try:
        # A disk that is nearly full takes part of it and says so only in the count.
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)


def _sync(directory: Path, names: set[str]) -> str | None:
    """In a thread. A file that was replaced again meanwhile is brought to the disk in its newer form."""
    try:
        for path in (*(directory / name for name in names if name), directory):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        return kernel_files.reason(error)
    return None
