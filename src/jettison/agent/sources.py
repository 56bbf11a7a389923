"""Who wants pods on this node. Directories of manifests are here; the pods of an API come from `membership`.

Looking into a directory is a stat of each file, once a second; only what changed is read. A file that cannot be read
or understood is reported once and its pods stay as they were: a typing mistake must not stop what runs.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from jettison import events
from jettison.agent.manifest_reader import Documents, ManifestReader
from jettison.agent.readmission import Readmitter
from jettison.errors import JettisonError, ManifestError, ObservationFailed
from jettison.events import Emit, Fact
from jettison.manifests.documents import PriorityClasses, prepare_pod
from jettison.manifests.plain_files import read_plain
from jettison.manifests.pods import pod_from
from jettison.runtimes.linux.kernel_files import reason
from jettison.runtimes.protocol import PodManifest

_SUFFIXES = (".yaml", ".yml", ".json")
# A uid becomes a directory and a cgroup.
_SAFE_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}", re.ASCII)
LARGEST_FILE = 8 * 2**20

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants of one pod: to be run, unless it says otherwise."""

    manifest: PodManifest
    # It has ended, and that is on record elsewhere: kept for all to see, never begun anew.
    is_over: bool = False
    # It is to end within so many seconds.
    grace_seconds: int | None = None

    @property
    def is_to_run(self) -> bool:
        """Whether it should be started where it does not run."""
        return not self.is_over and self.grace_seconds is None


class PodSource(Protocol):
    """Somebody who wants pods."""

    @property
    def is_known(self) -> bool:
        """False while it cannot be told what is wanted: until then no pod is stopped for not being wanted."""

    async def look(self) -> bool:
        """Whether something has changed since the last look."""

    def wishes(self) -> Mapping[str, Wish]:
        """By uid, as of the last look."""


@dataclass(slots=True)
class _File:
    stamp: _Stamp
    documents: Documents


class ManifestDirectory:
    """One directory; `is_static` makes its pods static in the kubelet's sense: critical, never evicted."""

    def __init__(self, path: Path, emit: Emit, *, is_static: bool = False) -> None:
        self.path = path
        self.is_static = is_static
        self._emit = emit
        self._files: dict[str, _File] = {}
        self._complaint = ""

    async def look(self) -> bool:
        """Read what changed; True when something did. That is done aside: a node is guarded however long it takes."""
        try:
            # By texts rather than Paths, which take four times as long: this is half of what an idle node costs.
            with os.scandir(self.path) as entries:
                found = {entry.path: _stamp(entry) for entry in entries if entry.name.endswith(_SUFFIXES)}
        except OSError as error:
            self._complain(f"{self.path}: {error.strerror}")
            return False
        gone = self._files.keys() - found.keys()
        for path in gone:
            del self._files[path]
        changed = {path: stamp for path, stamp in found.items() if stamp is not None and stamp != self._stamp_of(path)}
        read = await asyncio.to_thread(_read_all, tuple(changed)) if changed else {}
        taken = [self._take(path, changed[path], result) for path, result in read.items()]
        return bool(gone) or any(taken)

    def documents(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """Every document with the file it came from, in the order of the files' names."""
        for path in sorted(self._files):
            for document in self._files[path].documents:
                yield _shown(path), document

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
            self._files[path] = _File(stamp, before.documents if before else [])
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
        return reader.parse(read_plain(Path(path), LARGEST_FILE).decode(), shown)
    except FileNotFoundError:
        return None
    except JettisonError as error:
        return error
    except OSError as error:
        return ManifestError(f"{shown}: {reason(error)}")
    except UnicodeDecodeError as error:
        return ManifestError(f"{shown}: {error}")


def _shown(path: str) -> str:
    """A file's name may be any bytes; what is not UTF-8 can neither be sent to the reader nor be recorded."""
    return os.fsencode(path).decode(errors="backslashreplace")


class Manifests:
    """All directories together: a priority class in one of them counts in all. With a readmitter the evicted return."""

    is_known = True

    def __init__(
        self, directories: Sequence[ManifestDirectory], emit: Emit, readmitter: Readmitter | None = None
    ) -> None:
        self._directories = directories
        self._emit = emit
        self._readmitter = readmitter
        self._wishes: dict[str, Wish] = {}
        self._complaints: list[Fact] = []
        self._is_first = True

    async def look(self) -> bool:
        """Into every directory, and at whose second chance has come."""
        looks = [await directory.look() for directory in self._directories]  # all of them, not up to the first change
        is_due = self._readmitter is not None and self._readmitter.is_due(self._wishes)
        if not (is_due or any(looks) or self._is_first):
            return False
        self._is_first = False
        lives = self._readmitter.lives if self._readmitter else {}
        complaints: list[Fact] = []
        wanted = wanted_pods(self._directories, lives, complaints.append)
        # All files are judged together, also when only one has changed: what was said already is not repeated.
        for complaint in complaints:
            if complaint not in self._complaints:
                self._emit(complaint)
        self._complaints = complaints
        self._wishes = {uid: Wish(manifest) for uid, manifest in wanted.items()}
        return True

    def wishes(self) -> Mapping[str, Wish]:
        """By uid."""
        return self._wishes


def wanted_pods(directories: Iterable[ManifestDirectory], lives: dict[str, int], emit: Emit) -> dict[str, PodManifest]:
    """All pods of all directories by uid. `lives` counts how often a pod (namespace/name) was admitted again."""
    directories = list(directories)
    everything = [(each, source, document) for each in directories for source, document in each.documents()]
    try:
        classes = PriorityClasses(document for _, _, document in everything if document["kind"] == "PriorityClass")
    except ManifestError as error:
        emit(events.ActionFailed("read priority classes", str(error)))
        classes = PriorityClasses()
    pods: dict[str, PodManifest] = {}
    names: set[str] = set()
    for directory, source, document in everything:
        if document["kind"] == "PriorityClass":
            continue
        try:
            manifest = _manifest(directory, source, document, classes, lives)
            if str(manifest.pod) in names:
                raise ManifestError(f"{source}: pod `{manifest.pod}` is there twice, the second is left out")
        except ManifestError as error:
            emit(events.ActionFailed(f"read {source}", str(error)))
            continue
        names.add(str(manifest.pod))
        pods[manifest.pod.uid] = manifest
    return pods


def _manifest(
    directory: ManifestDirectory,
    source: str,
    document: dict[str, Any],
    classes: PriorityClasses,
    lives: dict[str, int],
) -> PodManifest:
    if document["kind"] != "Pod":
        raise ManifestError(f"{source}: kind is `{document['kind']}`, expected Pod or PriorityClass")
    metadata = document.get("metadata") if isinstance(document.get("metadata"), dict) else {}
    key = f"{(metadata or {}).get('namespace') or 'default'}/{(metadata or {}).get('name')}"
    life = lives.get(key, 0)
    prepared = prepare_pod(document, source, classes, is_static=directory.is_static, generation=life)
    uid = str(prepared["metadata"]["uid"])
    if life and (metadata or {}).get("uid"):
        uid = prepared["metadata"]["uid"] = f"{uid}.{life}"
    if not _SAFE_UID.fullmatch(uid):
        raise ManifestError(f"{source}: uid `{uid}` is not a name made of letters, digits, dots and dashes")
    return PodManifest(pod_from(prepared, source), prepared, source)
