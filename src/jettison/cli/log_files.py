"""What containers wrote, found by the names of directories: `<namespace>_<name>_<uid>/<container>/<run>.log`.

No record is needed for that, because logs outlive pods and their records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jettison.agent.journal_reading import PodQuery
from jettison.errors import JettisonError, ObservationFailed
from jettison.runtimes.host.logs import files_of, log_file
from jettison.runtimes.linux.kernel_files import reason

_BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
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
    stems = [path.stem for path in _entries(directory) if path.suffix == ".log"]
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def log_blocks(path: Path, tail: int | None) -> Iterator[tuple[bytes, int]]:
    """The log of one run with everything that was rotated out of it, and after each block how far that is in `path`."""
    files = list(files_of(path))
    for file, place in [(file, 0) for file in files] if tail is None else last_lines(files, tail):
        end = place
        for block in read_from(file, place):
            end += len(block)
            yield block, end if file == path else 0
        if file == path and end == place:
            yield b"", place


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
        file = path.open("rb")
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
        with path.open("rb") as file:
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


def _unreadable(path: Path, error: OSError) -> ObservationFailed:
    return ObservationFailed(f"cannot read `{path}`: {reason(error)}")


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
        found = path.stat()
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
