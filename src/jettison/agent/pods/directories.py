"""A directory of manifests, and what of it has changed.

A look is one question to the kernel, once a second; when something has changed, and every ten seconds in any case, it
is a stat of each file, and only what changed is read. All of it is asked in a thread: a network file system whose
server is gone does not answer, nor does what a link leads to there, and the node is guarded meanwhile. How much there
may be is in `manifests.bounds`: what is beyond is said once, and the pods stay as they were.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jettison import events
from jettison.agent.pods.manifest_reader import Documents, ManifestReader, Reading
from jettison.errors import JettisonError, ManifestError, ObservationError
from jettison.events import Emit
from jettison.manifests.files import bounds
from jettison.runtimes.linux.files.file_changes import FileChanges

_SUFFIXES = (".yaml", ".yml", ".json")
# After so many entries another thread may do something: a stat takes 2 µs.
_AT_ONCE = 200

_MOST_ENTRIES = 10 * bounds.MOST_FILES

_LOOKS_UNTOLD = 20
"""After so many looks every file is looked at, because the kernel does not tell of every change; a kubelet does so
every 20 seconds, too.
"""

_Stamp = tuple[int, int, int]


@dataclass(slots=True)
class _File:
    # None: to be read again, whatever it is now.
    stamp: _Stamp | None
    # As last understood.
    documents: Documents
    # Bytes of JSON.
    size: int = 0
    is_understood: bool = True


class ManifestDirectory:
    """One directory; `is_static` makes its pods static in the kubelet's sense: critical, never evicted.

    `only` is the one file of it that counts, whatever its name ends in.
    """

    def __init__(self, path: Path, emit: Emit, *, is_static: bool = False, only: str = "") -> None:
        self.path = path
        self.is_static = is_static
        self._only = only
        self._emit = emit
        self._files: dict[str, _File] = {}
        self._complaint = ""
        # Files that are there and were not read, as far as is known.
        self._unread: frozenset[str] = frozenset()
        self._is_listed = False
        self._has_links = False
        self._quiet = _Quiet(str(path))
        # Its thread begins with the first look.
        self._pool = ThreadPoolExecutor(1, "jettison-manifest")

    def close(self) -> None:
        """Look no more. A look that hangs is not waited for."""
        self._pool.submit(self._quiet.close)
        self._pool.shutdown(wait=False)

    def reread(self) -> None:
        """Take every file for changed at the next look."""
        for file in self._files.values():
            file.stamp = None
        self._quiet.is_over = True

    async def look(self) -> bool:
        """Read what changed; True when something did. That is done aside: a node is guarded however long it takes."""
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._pool, self._found_if_due)
        except ObservationError as failure:
            self._complain(str(failure))
            return False
        if found is None:
            return False
        changed = self._changed(found)
        is_other = self._settle(found, await asyncio.to_thread(_read_all, changed) if changed else {})
        # What a link leads to may be anywhere, and what could not be read is tried again.
        self._quiet.is_over = self._has_links or None in found.values() or bool(self._changed(found))
        return is_other

    def look_now(self) -> bool:
        """The same for a command, which has nothing else to do."""
        try:
            found = self._found()
        except ObservationError as failure:
            self._complain(str(failure))
            return False
        return self._settle(found, _read_all(self._changed(found)))

    def _found_if_due(self) -> dict[str, _Stamp | None] | None:
        """What is there; None where nothing has changed. In the thread. Raises ObservationError."""
        return None if self._quiet.lasts() else self._found()

    def _found(self) -> dict[str, _Stamp | None]:
        found: dict[str, _Stamp | None] = {}
        for _ in self._listing(found):
            # The loop that guards has its turn.
            time.sleep(0)
        return found

    def _listing(self, found: dict[str, _Stamp | None]) -> Iterator[None]:
        """Fill in what is there, in parts. Raises ObservationError."""
        self._has_links = False
        try:
            # By texts rather than Paths, which take four times as long: this is half of what an idle node costs.
            with os.scandir(self.path) as entries:
                for count, entry in enumerate(entries, 1):
                    if self._has(entry.name):
                        found[entry.path] = _stamp(entry)
                        self._has_links |= entry.is_symlink()
                    if len(found) > bounds.MOST_FILES or count > _MOST_ENTRIES:
                        most = f"{bounds.MOST_FILES} manifests and {_MOST_ENTRIES} entries in all"
                        raise ObservationError(f"{self.path}: more than {most}; its pods stay as they are")
                    if count % _AT_ONCE == 0:
                        yield
        except OSError as error:
            raise ObservationError(f"{self.path}: {error.strerror}; its pods stay as they are") from error

    def _changed(self, found: Mapping[str, _Stamp | None]) -> list[str]:
        return sorted(path for path, stamp in found.items() if stamp is not None and stamp != self._stamp_of(path))

    def _settle(self, found: Mapping[str, _Stamp | None], read: Mapping[str, Reading | JettisonError | None]) -> bool:
        is_first, self._is_listed = not self._is_listed, True
        gone = self._files.keys() - found.keys()
        for path in gone:
            del self._files[path]
        taken = [self._take(path, stamp, result) for path, result in read.items() if (stamp := found[path]) is not None]
        if not any(isinstance(result, ObservationError) for result in read.values()):
            self._complaint = ""
        unread, self._unread = self._unread, frozenset(map(_shown, found.keys() - self._files.keys()))
        return bool(gone) or any(taken) or is_first or unread != self._unread

    def files(self, remembered: Iterable[str]) -> dict[str, bool]:
        """The files that are there, and whether each is understood as it is now.

        For a directory that was never read this is not known; it may have all of its files that are remembered.
        """
        if not self._is_listed:
            directory = Path(_shown(str(self.path)))
            return {source: False for source in remembered if Path(source).parent == directory}
        read = {_shown(path): file.is_understood for path, file in self._files.items()}
        return read | dict.fromkeys(self._unread, False)

    def documents(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """Every document with the file it came from, in the order of the files' names."""
        for path in sorted(self._files):
            for document in self._files[path].documents:
                yield _shown(path), document

    def _has(self, name: str) -> bool:
        return name == self._only if self._only else name.endswith(_SUFFIXES)

    def _stamp_of(self, path: str) -> _Stamp | None:
        known = self._files.get(path)
        return None if known is None else known.stamp

    def _take(self, path: str, stamp: _Stamp, result: Reading | JettisonError | None) -> bool:
        if isinstance(result, Reading):
            result = self._refusal(path, result) or result
        if isinstance(result, ObservationError):
            self._complain(str(result))  # the next look tries again
        elif isinstance(result, JettisonError):
            self._emit(events.ActionFailed(f"read {_shown(path)}", str(result)))
            # Remembered with its new stamp, so that the complaint is made once.
            before = self._files.get(path, _File(stamp, []))
            self._files[path] = _File(stamp, before.documents, before.size, is_understood=False)
            return True
        elif result is not None:
            self._files[path] = _File(stamp, result.documents, result.size)
            return True
        return False

    def _refusal(self, path: str, reading: Reading) -> ManifestError | None:
        """With the other files of the directory it is too much."""
        others = [file for other, file in self._files.items() if other != path]
        count = len(reading.documents) + sum(len(file.documents) for file in others)
        size = reading.size + sum(file.size for file in others)
        where = _shown(path)
        if count > bounds.MOST_DOCUMENTS:
            most = bounds.MOST_DOCUMENTS
            return ManifestError(f"{where}: with it the directory has {count} documents, at most {most} are allowed")
        if size > bounds.LARGEST_TOTAL:
            most = bounds.LARGEST_TOTAL
            return ManifestError(f"{where}: with it the directory has {size} bytes of JSON, at most {most} are allowed")
        return None

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._emit(events.ActionFailed("look for manifests", text))
            self._complaint = text


class _Quiet:
    """Whether a directory is as it was at its last look, as far as the kernel tells."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._looks = 0
        self._changes: FileChanges | None = None
        self._identity: tuple[int, int] | None = None
        # The next look has to be a real one, whatever the kernel tells.
        self.is_over = True

    def lasts(self) -> bool:
        """To be asked at each look. After a no, what happens during the look is told at the next one."""
        self._looks += 1
        if not self.is_over and self._looks < _LOOKS_UNTOLD and self._is_told_nothing():
            return True
        self._looks = 0
        self.is_over = True
        self._identity = None
        # Where the kernel tells nothing, or has no room for it, every look is a real one.
        with suppress(OSError):
            self._changes = self._changes or FileChanges()
            self._changes.take()
            identity = self._found()
            # With a dot, because the directory itself may be reached by a link.
            self._changes.follow(f"{self._path}/.")
            self._identity = identity
        return False

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _is_told_nothing(self) -> bool:
        """Another directory may have got the name."""
        with suppress(OSError):
            is_the_same = self._identity is not None and self._identity == self._found()
            return is_the_same and self._changes is not None and self._changes.take() == set()
        return False

    def _found(self) -> tuple[int, int]:
        found = os.stat(self._path)  # noqa: PTH116  as all of this, by texts
        return found.st_dev, found.st_ino


def _stamp(entry: os.DirEntry[str]) -> _Stamp | None:
    try:
        stat = entry.stat()
    except OSError:
        return None  # gone between listing and looking; the next look settles it
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _read_all(paths: Sequence[str]) -> dict[str, Reading | JettisonError | None]:
    """What is in each file, or why that is not known; None for one that is gone by now."""
    with ManifestReader() as reader:
        return {path: _read(path, reader) for path in paths}


def _read(path: str, reader: ManifestReader) -> Reading | JettisonError | None:
    try:
        return reader.read(path, _shown(path))
    except JettisonError as error:
        return error


def _shown(path: str) -> str:
    """A file's name may be any bytes; what is not UTF-8 can neither be sent to the reader nor be recorded."""
    return os.fsencode(path).decode(errors="backslashreplace")
