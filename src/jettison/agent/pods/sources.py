"""The sources of pods for this node. Directories of manifests are here; the pods of an API come from `membership`.

A file that cannot be read or understood is reported once and its pods stay as they were, also those that an earlier
agent started: a typing mistake must not stop what runs.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jettison import events
from jettison.agent.pods.directories import ManifestDirectory
from jettison.agent.pods.manifest_objects import check_objects
from jettison.agent.pods.readmission import Life, Readmitter
from jettison.errors import ManifestError
from jettison.events import Emit, Fact
from jettison.manifests.files.documents import PriorityClasses, prepare_pod
from jettison.manifests.kept_objects import KINDS
from jettison.manifests.pods import pod_from
from jettison.runtimes.protocol import PodManifest, PodStatus
from jettison.values import frozen

ORIGIN = "jettison.dev/manifest"
"""The annotation that tells from which file a pod is: a restarted agent must know it of a file that it cannot read."""

_MOST_COMPLAINTS = 20

# What pods refer to.
_NO_PODS = ("PriorityClass", *KINDS)

# A uid becomes a directory and a cgroup.
_SAFE_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}", re.ASCII)


@frozen
class Wish:
    """What a source wants of one pod: to be run, unless it says otherwise."""

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
    """A source of pods."""

    @property
    def is_known(self) -> bool:
        """False while it cannot be told what is wanted: until then no pod is stopped for not being wanted."""

    async def look(self) -> bool:
        """Whether something has changed since the last look."""

    def wishes(self) -> Mapping[str, Wish]:
        """By uid, as of the last look."""


@dataclass(slots=True)
class LastGood:
    """What was wanted when nothing was wrong."""

    # By file and by the pod's name.
    pods: dict[str, dict[str, PodManifest]] = field(default_factory=dict)
    classes: PriorityClasses = field(default_factory=PriorityClasses)

    @classmethod
    def of(cls, statuses: Iterable[PodStatus]) -> LastGood:
        """What an earlier agent has left is the best that is known of files that are wrong from the start."""
        good = cls()
        for status in statuses:
            origin = _annotations(status.document).get(ORIGIN)
            if isinstance(origin, str):
                pods = good.pods.setdefault(origin, {})
                # Of two with one name the older is making room for the newer.
                if str(status.pod) not in pods or not status.is_ending:
                    pods[str(status.pod)] = PodManifest(status.pod, status.document, origin)
        return good


class Manifests:
    """All directories together: a priority class in one of them counts in all. With a readmitter the evicted return.

    `adopted` are the pods that are here already. They are why it is known from the start what is wanted: what came from
    a file that cannot be read, or from a directory that cannot be found, is wanted until the contrary is read.
    """

    is_known = True

    def __init__(
        self,
        directories: Sequence[ManifestDirectory],
        emit: Emit,
        readmitter: Readmitter | None = None,
        adopted: Iterable[PodStatus] = (),
    ) -> None:
        self._directories = directories
        self._emit = emit
        self._readmitter = readmitter
        self._good = LastGood.of(adopted)
        self._wishes: dict[str, Wish] = {}
        self._complaints: frozenset[Fact] = frozenset()
        self._is_first = True

    async def look(self) -> bool:
        """Into every directory, and at whose second chance has come."""
        looks = [await directory.look() for directory in self._directories]  # all of them, not up to the first change
        is_due = self._readmitter is not None and self._readmitter.is_due(self._wishes)
        if not (is_due or any(looks) or self._is_first):
            return False
        self._is_first = False
        lives = dict(self._readmitter.lives) if self._readmitter else {}
        complaints: list[Fact] = []
        # A thousand pods take a tenth of a second, and the node is guarded meanwhile. Only this look, which waits for
        # it, changes what the thread reads.
        wanted = await asyncio.to_thread(wanted_pods, self._directories, lives, complaints.append, self._good)
        # All files are judged together, also when only one has changed: what was said already is not repeated.
        self._tell([complaint for complaint in complaints if complaint not in self._complaints])
        self._complaints = frozenset(complaints)
        self._wishes = {uid: Wish(manifest) for uid, manifest in wanted.items()}
        return True

    def wishes(self) -> Mapping[str, Wish]:
        """By uid."""
        return self._wishes

    def _tell(self, complaints: Sequence[Fact]) -> None:
        """Each is a line in the log and in the journal, which a thousand wrong documents must not fill."""
        for complaint in complaints[:_MOST_COMPLAINTS]:
            self._emit(complaint)
        if len(complaints) > _MOST_COMPLAINTS:
            rest = len(complaints) - _MOST_COMPLAINTS
            self._emit(events.ActionFailed("read manifests", f"{rest} more documents are wrong"))


def wanted_pods(
    directories: Sequence[ManifestDirectory], lives: Mapping[str, Life], emit: Emit, good: LastGood
) -> dict[str, PodManifest]:
    """All pods of all directories by uid. `lives` has those that were admitted again, by namespace/name.

    A file with a mistake wants what it wanted before; if there was no before, what there is to understand in it. `good`
    is brought up to date.
    """
    found, wrong = _judged(directories, lives, emit, good)
    files = {
        source: is_understood
        for directory in directories
        for source, is_understood in directory.files(good.pods).items()
    }
    kept: dict[str, dict[str, PodManifest]] = {}
    for source, is_understood in files.items():
        # What is not understood, but was before, is in `found` as it was.
        if good.pods.get(source) and (source in wrong or (not is_understood and source not in found)):
            kept[source] = good.pods[source]
            found.pop(source, None)
        elif is_understood:
            good.pods[source] = found.get(source, {})
    good.pods = {source: pods for source, pods in good.pods.items() if source in files}
    wanted = {name: manifest for pods in found.values() for name, manifest in pods.items()}
    for pods in kept.values():
        # A name that is elsewhere by now has moved.
        wanted = pods | wanted
    return {manifest.pod.uid: manifest for manifest in wanted.values()}


def _judged(
    directories: Sequence[ManifestDirectory], lives: Mapping[str, Life], emit: Emit, good: LastGood
) -> tuple[dict[str, dict[str, PodManifest]], set[str]]:
    """By file the pods that are right, by their names; and the files in which something is wrong."""
    everything = [(each, source, document) for each in directories for source, document in each.documents()]
    try:
        good.classes = PriorityClasses(doc for _, _, doc in everything if doc["kind"] == "PriorityClass")
    except ManifestError as error:
        emit(events.ActionFailed("read priority classes", str(error)))
    found: dict[str, dict[str, PodManifest]] = {}
    wrong = check_objects(directories, emit)
    names: set[str] = set()
    for directory, source, document in everything:
        if document["kind"] in _NO_PODS:
            continue
        try:
            manifest = _manifest(directory, source, document, good.classes, lives)
            name = str(manifest.pod)
            if name in names:
                raise ManifestError(f"{source}: pod `{name}` is there twice, the second is left out")
        except ManifestError as error:
            emit(events.ActionFailed(f"read {source}", str(error)))
            wrong.add(source)
            continue
        names.add(name)
        found.setdefault(source, {})[name] = manifest
    return found, wrong


def _manifest(
    directory: ManifestDirectory,
    source: str,
    document: dict[str, Any],
    classes: PriorityClasses,
    lives: Mapping[str, Life],
) -> PodManifest:
    if document["kind"] != "Pod":
        known = ", ".join(("Pod", *_NO_PODS))
        raise ManifestError(f"{source}: kind is `{document['kind']}`, expected one of {known}")
    metadata = document.get("metadata") if isinstance(document.get("metadata"), dict) else {}
    key = f"{(metadata or {}).get('namespace') or 'default'}/{(metadata or {}).get('name')}"
    life = lives.get(key, Life())
    prepared = prepare_pod(document, source, classes, is_static=directory.is_static, generation=life.number)
    uid = str(prepared["metadata"]["uid"])
    if life.number and (metadata or {}).get("uid"):
        uid = prepared["metadata"]["uid"] = f"{uid}.{life.number}"
    if not _SAFE_UID.fullmatch(uid):
        raise ManifestError(f"{source}: uid `{uid}` is not a name made of letters, digits, dots and dashes")
    if not isinstance(prepared["metadata"].get("annotations") or {}, dict):
        raise ManifestError(f"{source}: annotations of pod `{key}` are not a map")
    # What a pod was elsewhere: one that Succeeded there would never be evicted here.
    prepared.pop("status", None)
    # Only now: the uid follows from the manifest as written, and must not change with what we add.
    prepared["metadata"]["annotations"] = {**life.mark(_annotations(prepared)), ORIGIN: source}
    return PodManifest(pod_from(prepared, source), prepared, source)


def _annotations(document: Mapping[str, Any]) -> dict[str, Any]:
    return (document.get("metadata") or {}).get("annotations") or {}
