"""The journal: what was decided and what came of it, kept through crashes and bounded in size.

One agent writes; any process may read, while it writes and while it is down. What was appended is on disk once `sync`
has returned, so that a pod that ended has its reason on record even after a power cut.

A full disk is when the journal is needed most, so each segment's blocks are reserved before anything is written to it,
and the oldest segment makes room for a new one if it must. Nothing here raises because the disk is bad: the node is
guarded all the same, and `failures` and `failure` say what was lost.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from jettison.agent.journal.files import (
    LARGEST_PAYLOAD,
    MAGIC,
    SegmentReader,
    frame,
    no_segments,
    segment_path,
    segments,
)
from jettison.errors import WriteError
from jettison.manifests.files.plain_files import set_aside
from jettison.runtimes.linux.files.kernel_files import reason

SEGMENT_BYTES = 8 * 2**20
TOTAL_BYTES = 64 * 2**20

_FALLOC_FL_KEEP_SIZE = 1
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Journal:
    """The writing end. Open it with `Journal.open`; only one can be open at a time."""

    def __init__(
        self, directory: Path, lock: int, segment_bytes: int, total_bytes: int, largest_record: int = LARGEST_PAYLOAD
    ) -> None:
        self.directory = directory
        # What was found damaged when it was opened, one line each.
        self.complaints: list[str] = []
        # Told of each record that was written, with its JSON; set while the node is recorded.
        self.listener: Callable[[Mapping[str, Any], bytes], None] | None = None
        self.failures = 0
        self.failure = ""
        self._lock = lock
        self._segment_bytes = segment_bytes
        self._total_bytes = total_bytes
        self._largest_record = largest_record
        self._number = 0
        self._fd = -1
        self._end = 0
        self._fallocate = ctypes.CDLL(None, use_errno=True).fallocate
        self._fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        self._encoder = msgspec.json.Encoder()

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        total_bytes: int = TOTAL_BYTES,
        largest_record: int = LARGEST_PAYLOAD,
    ) -> Journal:
        """Continue the journal in this directory, or begin one. A torn last record is cut off.

        Raises WriteError when another agent has it open or when nothing can be written at all.
        """
        complaints = []
        if os.path.lexists(directory) and not directory.is_dir():
            complaints.append(set_aside(directory, f"`{directory}` is not a directory"))
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise WriteError(f"cannot use `{directory}` for the journal: {reason(error)}") from error
        journal = cls(directory, lock, segment_bytes, total_bytes, largest_record)
        journal.complaints = complaints
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            journal._continue()
        except BlockingIOError as error:
            os.close(lock)
            raise WriteError(f"the journal in `{directory}` is in use by another agent") from error
        except OSError as error:
            if error.errno in _FULL:
                journal._failed(reason(error))  # tried again with each record: a node on a full disk needs its agent
                return journal
            os.close(lock)
            raise WriteError(f"cannot continue the journal in `{directory}`: {reason(error)}") from error
        return journal

    def append(self, record: Mapping[str, Any]) -> bool:
        """Add a record. False when it could not be written."""
        document = self._encoder.encode(record)
        data = frame(document)
        if len(data) > self._largest_record:
            return self._failed(f"a record of {len(data)} bytes is too large, at most {self._largest_record} are kept")
        try:
            if self._fd < 0:
                self._begin(self._number + 1)
            elif self._end > len(MAGIC) and self._end + len(data) > self._segment_bytes:
                self._rotate()
            self._write(data)
        except OSError as error:
            return self._failed(reason(error))
        if self.listener is not None:
            self.listener(record, document)
        return True

    def encode(self, record: Mapping[str, Any]) -> bytes:
        """As it would be written."""
        return frame(self._encoder.encode(record))

    def sync(self) -> bool:
        """Bring what was appended to the disk. False when that failed."""
        try:
            if self._fd >= 0:
                os.fdatasync(self._fd)
        except OSError as error:
            return self._failed(reason(error))
        return True

    def close(self) -> None:
        """Give up the reserved space and let others write."""
        if self._fd >= 0:
            try:
                _trim(self._fd, self._end)
            except OSError as error:
                self._failed(reason(error))
            self._fd = -1
        os.close(self._lock)

    def _continue(self) -> None:
        for path in no_segments(self.directory):
            self.complaints.append(set_aside(path, f"`{path}` is not a plain file"))
        found = segments(self.directory)
        if not found:
            self._begin(1)
            return
        self._number, path = found[-1]
        with SegmentReader(path) as reader:
            is_ours, end, size = reader.is_ours, reader.end(), reader.size
            is_another_version = reader.is_another_version
        if not is_ours:
            if size >= len(MAGIC) and not is_another_version:
                self.complaints.append(set_aside(path, f"`{path}` is not a part of a journal"))
            # Another version's is left as it is; one that was torn before it had begun is begun again.
            self._number -= size < len(MAGIC)
            self._begin(self._number + 1)
            return
        self._fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._end = end
        os.ftruncate(self._fd, end)
        self._reserve(self._fd)
        os.fdatasync(self._fd)

    def _rotate(self) -> None:
        """Go on in a new segment. Where there is no room for one, this one grows as long as the disk lets it."""
        self._drop(self._total_bytes - self._segment_bytes)
        old, old_end = self._fd, self._end
        try:
            self._begin(self._number + 1)
        except OSError as error:
            self._failed(f"cannot begin a new segment: {reason(error)}")
            return
        _trim(old, old_end)

    def _begin(self, number: int) -> None:
        path = segment_path(self.directory, number)
        if os.path.lexists(path) and not path.is_file():
            set_aside(path, "")
        # A pipe that is put there now fails instead of waiting for a reader.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            while not self._reserve(fd) and self._drop_oldest():
                pass
            os.pwrite(fd, MAGIC, 0)
            os.fdatasync(fd)
            os.fsync(self._lock)  # the directory: without its entry a file is not there after a power cut
        except OSError:
            os.close(fd)
            raise
        self._fd, self._number, self._end = fd, number, len(MAGIC)

    def _drop(self, keep_bytes: int) -> None:
        """The oldest segments, until the rest has at most so many bytes."""
        while sum(path.stat().st_size for _, path in segments(self.directory)) > keep_bytes and self._drop_oldest():
            pass

    def _drop_oldest(self) -> bool:
        """False when there is none but the one being written."""
        older = [path for number, path in segments(self.directory) if number < self._number]
        if older:
            older[0].unlink()
        return bool(older)

    def _reserve(self, fd: int) -> bool:
        """Blocks for a whole segment, without changing its length. False when the disk has no room for it.

        Not every filesystem can do this; on those a full disk costs records.
        """
        if self._fallocate(fd, _FALLOC_FL_KEEP_SIZE, 0, self._segment_bytes) == 0:
            return True
        return ctypes.get_errno() not in _FULL

    def _write(self, data: bytes) -> None:
        """At the end we know of, so that what a failed write left behind is written over by the next one."""
        place, view = self._end, memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, place)
            place += written
            view = view[written:]
        self._end = place

    def _failed(self, why: str) -> bool:
        self.failures += 1
        self.failure = why
        return False


def _trim(fd: int, end: int) -> None:
    """Done with a segment: what it had reserved goes back to the disk."""
    try:
        os.ftruncate(fd, end)
        os.fdatasync(fd)
    finally:
        os.close(fd)
