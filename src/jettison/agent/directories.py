"""A directory of manifests, and what of it has changed.

Looking into it is a stat of each file, once a second; only what changed is read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jettison import events
from jettison.agent.manifest_reader import Documents, ManifestReader
from jettison.errors import JettisonError, ManifestError, ObservationFailed
from jettison.events import Emit
from jettison.manifests.plain_files import plain_text, read_plain
from jettison.runtimes.linux.kernel_files import reason

_SUFFIXES = (".yaml", ".yml", ".json")
LARGEST_FILE = 8 * 2**20

_Stamp = tuple[int, int, int]


@dataclass(slots=True)
class _File:
    # None: to be read again, whatever it is now.
    stamp: _Stamp | None
    # As last understood.
    documents: Documents
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

    def reread(self) -> None:
        """Take every file for changed at the next look."""
        for file in self._files.values():
            file.stamp = None

    async def look(self) -> bool:
        """Read what changed; True when something did. That is done aside: a node is guarded however long it takes."""
        found = self._listed()
        if found is None:
            return False
        changed = self._changed(found)
        return self._settle(found, await asyncio.to_thread(_read_all, tuple(changed)) if changed else {})

    def look_now(self) -> bool:
        """The same for a command, which has nothing else to do."""
        found = self._listed()
        return False if found is None else self._settle(found, _read_all(tuple(self._changed(found))))

    def _listed(self) -> dict[str, _Stamp | None] | None:
        try:
            # By texts rather than Paths, which take four times as long: this is half of what an idle node costs.
            with os.scandir(self.path) as entries:
                return {entry.path: _stamp(entry) for entry in entries if self._has(entry.name)}
        except OSError as error:
            self._complain(f"{self.path}: {error.strerror}; its pods stay as they are")
            return None

    def _changed(self, found: Mapping[str, _Stamp | None]) -> list[str]:
        return [path for path, stamp in found.items() if stamp is not None and stamp != self._stamp_of(path)]

    def _settle(self, found: Mapping[str, _Stamp | None], read: Mapping[str, Documents | JettisonError | None]) -> bool:
        is_first, self._is_listed = not self._is_listed, True
        gone = self._files.keys() - found.keys()
        for path in gone:
            del self._files[path]
        taken = [self._take(path, stamp, result) for path, result in read.items() if (stamp := found[path]) is not None]
        if not any(isinstance(result, ObservationFailed) for result in read.values()):
            self._complaint = ""
        unread, self._unread = self._unread, frozenset(map(_shown, found.keys() - self._files.keys()))
        return bool(gone) or any(taken) or is_first or unread != self._unread

    def files(self, remembered: Iterable[str]) -> dict[str, bool]:
        """The files that are there, and whether each is understood as it is now.

        Of a directory that was never seen it is not known; it may have all files of its that somebody remembers.
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

    def _take(self, path: str, stamp: _Stamp, result: Documents | JettisonError | None) -> bool:
        if isinstance(result, ObservationFailed):
            self._complain(str(result))  # the next look tries again
        elif isinstance(result, JettisonError):
            self._emit(events.ActionFailed(f"read {_shown(path)}", str(result)))
            # Remembered with its new stamp, so that the complaint is made once.
            before = self._files.get(path)
            self._files[path] = _File(stamp, before.documents if before else [], is_understood=False)
            return True
        elif result is not None:
            self._files[path] = _File(stamp, result)
            return True
        return False

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._emit(events.ActionFailed("look for manifests", text))
            self._complaint = text


def _stamp(entry: os.DirEntry[str]) -> _Stamp | None:
    try:
        stat = entry.stat()
    except OSError:
        return None  # gone between listing and looking; the next look settles it
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _read_all(paths: Sequence[str]) -> dict[str, Documents | JettisonError | None]:
    """What is in each file, or why that is not known; None for one that is gone by now."""
    with ManifestReader() as reader:
        return {path: _read(path, reader) for path in paths}


def _read(path: str, reader: ManifestReader) -> Documents | JettisonError | None:
    shown = _shown(path)
    try:
        return reader.parse(plain_text(read_plain(Path(path), LARGEST_FILE), shown), shown)
    except FileNotFoundError:
        return None
    except JettisonError as error:
        return error
    except OSError as error:
        return ManifestError(f"{shown}: {reason(error)}")


def _shown(path: str) -> str:
    """A file's name may be any bytes; what is not UTF-8 can neither be sent to the reader nor be recorded."""
    return os.fsencode(path).decode(errors="backslashreplace")
