"""When the lines of a log were written, though no process stands between a container and its file.

Once a second the agent asks the kernel which logs have grown, and notes their length together with the time of the last
write, which the kernel keeps. So a line has the time of the first mark at or behind its end: never earlier than it was
written, and at most a second later. Lines that were written while no agent ran have the time of the last of them. The
marks of a log lie beside it (`0.log.times`, `0.log.1.times`) and are rotated with it. They are bounded: past 8,192 of
them every second one of the older is dropped, so that old lines are timed more coarsely.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from jettison.errors import ManifestError
from jettison.manifests.files.plain_files import check_plain, read_plain
from jettison.runtimes.linux.files.file_changes import FileChanges

SUFFIX = ".times"

PERIOD = 1.0
"""Seconds between two looks."""

MOST_MARKS = 8192

_MARK = struct.Struct("<qq")
# The newest, which stay as they are when the others are thinned out.
_RECENT = 1024
_FILE_MODE = 0o640
# In the year 2116.
_LATEST_NS = 2**62


def times_file(path: str | Path) -> str:
    """Where the marks of a log lie."""
    return f"{path}{SUFFIX}"


class LogTimes:
    """Notes how logs grow. `look` waits for a disk and is for a thread."""

    def __init__(self) -> None:
        # How long each log was, of those that are being written.
        self._known: dict[str, int] = {}
        # None: the kernel tells nothing, and each log is looked at.
        self._changes: FileChanges | None = None
        self._followed: set[str] = set()
        with suppress(OSError):
            self._changes = FileChanges()

    def grown(self, paths: Sequence[str]) -> Sequence[str]:
        """Those that may have grown since they were looked at. To be looked at, because each is told once."""
        told = None if self._changes is None else self._changes.take()
        if told is None:
            return paths
        self._followed -= told
        return [path for path in paths if path not in self._followed]

    def look(self, paths: Iterable[str]) -> None:
        """One mark for each log that has grown. A disk that takes none leaves lines without a better time."""
        for path in paths:
            # First: what is written in between is told.
            self._follow(path)
            with suppress(OSError):
                self._known[path] = note(path, self._known.get(path, -1))

    def _follow(self, path: str) -> None:
        """One that cannot be followed is looked at every second."""
        with suppress(OSError):
            if self._changes is not None:
                self._changes.follow(path)
                self._followed.add(path)

    def forget(self, paths: Collection[str]) -> None:
        """All but these: they are no longer written."""
        self._known = {path: size for path, size in self._known.items() if path in paths}
        self._followed.intersection_update(paths)

    def close(self) -> None:
        """The kernel need not tell any more."""
        if self._changes is not None:
            self._changes.close()


def note(path: str, before: int = -1, most: int = MOST_MARKS, recent: int = _RECENT) -> int:
    """Note how long the log is now if that is not `before`; the length."""
    found = os.lstat(path)
    size = found.st_size
    if size == before or not size:
        return size
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(times_file(path), flags, _FILE_MODE)
    try:
        length = check_plain(descriptor).st_size // _MARK.size
        if length > most:
            # So many are never kept: it is not ours, and a file of a terabyte takes no disk.
            os.ftruncate(descriptor, 0)
            length = 0
        last = _decoded(os.pread(descriptor, _MARK.size, (length - 1) * _MARK.size)) if length else []
        if last and last[-1].size == size:
            return size
        if last and last[-1].size > size:
            # The container itself has cut its log.
            os.ftruncate(descriptor, 0)
        elif length >= most:
            marks = _decoded(os.pread(descriptor, length * _MARK.size, 0))
            kept = marks[:-recent][1::2] + marks[-recent:]
            os.ftruncate(descriptor, 0)
            os.write(descriptor, b"".join(_MARK.pack(*each) for each in kept))
        os.write(descriptor, _MARK.pack(_sane(found.st_mtime_ns), size))
    finally:
        os.close(descriptor)
    return size


class Mark(NamedTuple):
    """The first `size` bytes were there at this time."""

    time_ns: int
    size: int


class Marks:
    """Of one file; what is behind the last mark was written when the file was written last."""

    def __init__(self, marks: Iterable[Mark], last_ns: int) -> None:
        self._times: list[int] = []
        self._sizes: list[int] = []
        for mark in marks:
            # What is not in order is not ours, or was torn.
            if mark.size > (self._sizes[-1] if self._sizes else 0):
                self._sizes.append(mark.size)
                self._times.append(max(_sane(mark.time_ns), self._times[-1] if self._times else 0))
        self._last_ns = max(_sane(last_ns), self._times[-1] if self._times else 0)

    @classmethod
    def of(cls, path: Path) -> Marks:
        """Raises the kernel's OSError for a log that is not there; one without marks is as good as unmarked."""
        last_ns = path.stat().st_mtime_ns
        try:
            data = read_plain(Path(times_file(path)), (MOST_MARKS + 1) * _MARK.size)
        except (OSError, ManifestError):
            data = b""
        return cls(_decoded(data), last_ns)

    def time_ns(self, end: int) -> int:
        """Of the line that ends there."""
        place = bisect_left(self._sizes, end)
        return self._times[place] if place < len(self._sizes) else self._last_ns

    def place_since(self, since_ns: int) -> int | None:
        """From where on lines are not older, but for the line that this is in the middle of; None: all are older."""
        if self._last_ns < since_ns:
            return None
        older = bisect_left(self._times, since_ns)
        return self._sizes[older - 1] if older else 0


def _sane(time_ns: int) -> int:
    """A container can give its log any time, also one that no calendar has."""
    return min(max(time_ns, 0), _LATEST_NS)


def _decoded(data: bytes) -> list[Mark]:
    whole = len(data) - len(data) % _MARK.size
    return [Mark(*each) for each in _MARK.iter_unpack(data[:whole])]
