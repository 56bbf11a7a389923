"""What containers wrote, found by the names of directories: `<namespace>_<name>_<uid>/<container>/<run>.log`.

No record is needed for that, because logs outlive pods and their records. What a container writes can be followed: over
rotations, over its restarts, until it is over for good. A log is rotated by copying it to `<run>.log.1` and cutting it
to nothing, so a file that became shorter is read on first in the copy, from where we were.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from jettison.agent.journal.reading import PodQuery
from jettison.clock import Clock, SystemClock
from jettison.errors import JettisonError, ObservationError
from jettison.manifests.files.plain_files import check_plain
from jettison.manifests.times import fixed_time_text
from jettison.node.logs.box_lines import BoxLines
from jettison.runtimes.host.volumes.log_times import Marks
from jettison.runtimes.host.volumes.logs import BOX_SUFFIX, SUFFIX, files_of, log_file
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.values import frozen

_BLOCK = 64 * 1024

_PAUSE = 0.2
# Records change rarely; and a container that ends and is started again at once must not be caught in between twice.
_LOOK_NS = 10**9


@frozen
class PodLogs:
    """The logs of one pod."""

    namespace: str
    name: str
    uid: str
    directory: Path

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def containers(self) -> list[str]:
        """By name."""
        return [path.name for path in _entries(self.directory) if path.is_dir()]


def find_pod_logs(logs_dir: Path, query: PodQuery) -> PodLogs | None:
    """Of several pods with that name, the one that wrote last; pods of several namespaces are for the user to tell."""
    found = [logs for path in _entries(logs_dir) if (logs := _pod_logs(path)) and query.matches(_named(logs))]
    names = sorted({str(logs) for logs in found})
    if len(names) > 1:
        raise JettisonError(f"which pod is meant? there are {', '.join(names)}")
    return max(found, key=last_written, default=None)


def runs_of(directory: Path) -> list[int]:
    """The runs of a container of which there are logs, in order."""
    stems = {path.stem for path in _entries(directory) if path.suffix in (SUFFIX, BOX_SUFFIX)}
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def log_blocks(
    path: Path, tail: int | None, since_ns: int | None = None, stamper: Stamper | None = None
) -> Iterator[tuple[bytes, int]]:
    """The log of one run with everything that was rotated out of it, and after each block how far that is in `path`.

    The last `tail` lines, of those that were written at `since_ns` or later; a stamper puts its time before each.
    """
    files = list(files_of(path))
    if path.suffix == BOX_SUFFIX:
        yield from _box_blocks(path, files, tail, BoxLines(has_times=stamper is not None, since_ns=since_ns))
        return
    for file, start in [(file, 0) for file in files] if tail is None else last_lines(files, tail):
        marks = None if since_ns is None and stamper is None else _marks(file)
        place = start if marks is None or since_ns is None else max(start, _place_since(file, marks, since_ns))
        end = place
        for block in read_from(file, place):
            end += len(block)
            shown = block if stamper is None or marks is None else stamper.stamp(block, end - len(block), marks.time_ns)
            yield shown, end if file == path else 0
        if file == path and end == place:
            yield b"", place


def _box_blocks(path: Path, files: list[Path], tail: int | None, lines: BoxLines) -> Iterator[tuple[bytes, int]]:
    """The same of a container runtime's log, which has its own times."""
    end = 0
    for file, start in [(file, 0) for file in files] if tail is None else last_lines(files, tail):
        end = start
        for block in read_from(file, start):
            end += len(block)
            yield lines.read(block), end - len(lines.rest) if file == path else 0
    # Half a line is read again by a caller that follows.
    yield b"", max(end - len(lines.rest), 0)


class Stamper:
    """Puts the time before each line, as `kubectl logs --timestamps` does; a line may come in several pieces."""

    def __init__(self) -> None:
        self._is_inside_line = False

    def stamp(self, data: bytes, place: int, time_ns: Callable[[int], int]) -> bytes:
        """`data` is at `place` in its file; `time_ns` tells when what ends somewhere was written."""
        pieces: list[bytes] = []
        while data:
            line, newline, data = data.partition(b"\n")
            place += len(line) + len(newline)
            if not self._is_inside_line:
                pieces.append(f"{fixed_time_text(time_ns(place))} ".encode())
            pieces += (line, newline)
            self._is_inside_line = not newline
        return b"".join(pieces)


def _marks(path: Path) -> Marks:
    try:
        return Marks.of(path)
    except FileNotFoundError:
        return Marks((), 0)  # cleared away meanwhile, and nothing will be read from it either
    except OSError as error:
        raise _unreadable(path, error) from error


def _place_since(path: Path, marks: Marks, since_ns: int) -> int:
    """Where the first line begins that is not older: a mark may have been made in the middle of one."""
    size = size_and_time(path)[0]
    place = marks.place_since(since_ns)
    if place is None or not 0 < place < size:
        return size if place is None else min(place, size)
    return _place_of_last(path, place, 1, is_last=True)[0] if not _ends_line(path, place) else place


def _ends_line(path: Path, place: int) -> bool:
    return next(read_from(path, place - 1), b"\n")[:1] == b"\n"


def last_lines(files: list[Path], count: int) -> list[tuple[Path, int]]:
    """Which files, from which place on, hold the last so many lines."""
    chosen: list[tuple[Path, int]] = []
    is_last = True
    for path in reversed(files):
        size = size_and_time(path)[0]
        if count <= 0:
            place = size
        else:
            place, count = _place_of_last(path, size, count, is_last=is_last)
        chosen.insert(0, (path, place))
        if count <= 0:
            break
        is_last = is_last and size == 0
    return chosen


def read_from(path: Path, place: int) -> Iterator[bytes]:
    """What is in the file from there on; nothing where there is no such file."""
    try:
        file = _opened(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(path, error) from error
    with file:
        file.seek(place)
        while True:
            try:
                block = file.read(_BLOCK)
            except OSError as error:
                raise _unreadable(path, error) from error
            if not block:
                return
            yield block


def _place_of_last(path: Path, size: int, count: int, *, is_last: bool) -> tuple[int, int]:
    """Where the last `count` lines of one file begin, and how many are still to be found before it."""
    try:
        with _opened(path) as file:
            place = size
            while place > 0:
                start = max(0, place - _BLOCK)
                file.seek(start)
                block = file.read(place - start)
                # The very last byte ends a line and does not begin another.
                at = len(block) - 1 if is_last and place == size and block.endswith(b"\n") else len(block)
                while (at := block.rfind(b"\n", 0, at)) >= 0:
                    count -= 1
                    if count <= 0:
                        return start + at + 1, 0
                place = start
    except OSError as error:
        raise _unreadable(path, error) from error
    return 0, count


def _opened(path: Path) -> BinaryIO:
    """A pipe in the place of a log is not waited for, and a link not followed: a pod that may write in the directory of
    logs, as collectors do, would have its reader shown any file of the host.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        check_plain(descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _unreadable(path: Path, error: OSError) -> ObservationError:
    return ObservationError(f"cannot read `{path}`: {reason(error)}")


def _pod_logs(path: Path) -> PodLogs | None:
    parts = path.name.split("_")
    return PodLogs(parts[0], parts[1], parts[2], path) if len(parts) == 3 else None


def _named(logs: PodLogs) -> tuple[str, str, str]:
    return logs.namespace, logs.name, logs.uid


def last_written(logs: PodLogs) -> int:
    """When, in nanoseconds."""
    newest = 0
    for container in logs.containers:
        directory = logs.directory / container
        for run in runs_of(directory)[-1:]:
            newest = max(newest, size_and_time(log_file(directory, run))[1])
    return newest


def size_and_time(path: Path) -> tuple[int, int]:
    """Bytes, and when it was written last in nanoseconds. Zeros for a file that was cleared away meanwhile."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0, 0
    except OSError as error:
        raise _unreadable(path, error) from error
    return found.st_size, found.st_mtime_ns


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(directory, error) from error


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
        self,
        directory: Path,
        run: int,
        place: int,
        fate: Callable[[], Fate],
        clock: Clock | None = None,
        stamper: Stamper | None = None,
    ) -> None:
        self.run = run
        # Puts the time before each line.
        self._stamper = stamper
        self._box_lines = BoxLines(has_times=stamper is not None)
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
                self._box_lines = BoxLines(has_times=self._stamper is not None)
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
        size, written_ns = size_and_time(path)
        if size < self._place:
            for block in read_from(Path(f"{path}.1"), self._place):
                yield self._shown(path, block, written_ns)
            self._place = 0
        if size > self._place:
            for block in read_from(path, self._place):
                self._place += len(block)
                yield self._shown(path, block, written_ns)

    def _shown(self, path: Path, block: bytes, written_ns: int) -> bytes:
        if path.suffix == BOX_SUFFIX:
            return self._box_lines.read(block)
        # What was read now was written then, at the latest.
        return block if self._stamper is None else self._stamper.stamp(block, 0, lambda _: written_ns)
