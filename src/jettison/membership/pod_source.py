"""The pods that an API has bound to this node: one of the sources of pods that the agent runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from jettison import events
from jettison.agent.pods.sources import Wish
from jettison.engine.pods.pod import ENDED_PHASES
from jettison.errors import ManifestError
from jettison.events import Emit
from jettison.manifests.files.bounds import REFUSED, check_document, stand_in
from jettison.manifests.pods import CONFIG_MIRROR, is_mirror, pod_from
from jettison.runtimes.configuration import API_ORIGIN
from jettison.runtimes.kube.cache import Cache, Change
from jettison.runtimes.kube.client import Document
from jettison.runtimes.protocol import PodManifest

ORIGIN = API_ORIGIN

_OUR_NOTES = "jettison.dev/"
_EPHEMERAL = "ephemeralContainers"

MOST_EPHEMERAL = 64
"""Of a pod; they are never taken back. Some more are told of, so that a client that has added one hears why."""

_MOST_REFUSED = 16


class _Read(NamedTuple):
    """A pod as it was when it was first seen: what may change in a spec (tolerations, labels) does not matter to a
    node, but for its ephemeral containers, here as the API has them. None for what is no pod.
    """

    manifest: PodManifest | None
    ephemeral: object


class ApiPods:
    """What the cache holds. `wake` is called at every change, so that a new pod need not wait for the next look.

    `is_finished` tells whether anything of a pod is left on this node, `missing` what stays although the cache does not
    have it.
    """

    def __init__(
        self,
        cache: Cache,
        wake: Callable[[], None],
        is_finished: Callable[[str], bool],
        emit: Emit,
        missing: Callable[[], Mapping[str, Wish]] = dict,
    ) -> None:
        self._cache = cache
        self._wake = wake
        self._is_finished = is_finished
        self._emit = emit
        self._missing = missing
        # Force-deleted pods are gone from the API at once; they still get a second to end.
        self._leaving: dict[str, Wish] = {}
        self._manifests: dict[str, _Read] = {}
        self._wishes: Mapping[str, Wish] = {}
        self._has_changed = True
        cache.listen(self._hear)

    @property
    def is_known(self) -> bool:
        """After the first list. When the API is lost later, what it wanted last still counts."""
        return self._cache.is_listed

    async def look(self) -> bool:
        """Whether the API had news. New pods are read one by one and aside: a list may have hundreds of them."""
        changed, self._has_changed = self._has_changed, False
        if changed:
            while new := {uid: each for uid, each in self._shown().items() if self._is_news(uid, each)}:
                for uid, document in new.items():
                    self._manifests[uid] = await self._read(document, self._manifests.get(uid))
            self._wishes = self._current()
        return changed

    def wishes(self) -> Mapping[str, Wish]:
        """By uid, as of the last look."""
        return self._wishes

    def _shown(self) -> dict[str, Document]:
        return {uid_of(each): each for each in self._cache if not is_mirror(each)}

    def _is_news(self, uid: str, document: Document) -> bool:
        known = self._manifests.get(uid)
        if known is None:
            return True
        ephemeral = _ephemeral(document)
        # Of one that has become too large nothing new is known.
        return known.ephemeral is not ephemeral and REFUSED not in document and known.ephemeral != ephemeral

    def _current(self) -> Mapping[str, Wish]:
        """Without a pause, so that no pod is neither in the cache nor among the missing ones."""
        documents = self._shown()
        self._manifests = {uid: self._manifests[uid] for uid in documents}
        self._leaving = {uid: wish for uid, wish in self._leaving.items() if not self._is_finished(uid)}
        known = {uid: found.manifest for uid, found in self._manifests.items()}
        here = {uid: _wish(found, documents[uid]) for uid, found in known.items() if found is not None}
        return {**self._missing(), **self._leaving, **here}

    def look_again(self) -> None:
        """`missing` has changed."""
        self._has_changed = True
        self._wake()

    def _hear(self, change: Change) -> None:
        if change.is_resync:
            return
        if change.new is None and change.old is not None and is_terminating(change.old):
            known = self._manifests.get(uid_of(change.old))
            if known is not None and known.manifest is not None:
                self._leaving[known.manifest.pod.uid] = _wish(known.manifest, change.old)
        self.look_again()

    async def _read(self, document: Document, known: _Read | None) -> _Read:
        ephemeral = _ephemeral(document)
        try:
            if known is not None and known.manifest is not None:
                return _Read(await asyncio.to_thread(_extended, known.manifest, ephemeral), ephemeral)
            return _Read(await asyncio.to_thread(_manifest, document), ephemeral)
        except ManifestError as error:
            metadata = document["metadata"]
            self._emit(events.ActionFailed(f"read pod {metadata.get('namespace')}/{metadata['name']}", str(error)))
            return _Read(None if known is None else known.manifest, ephemeral)


def _manifest(document: Document) -> PodManifest:
    try:
        if REFUSED in document:
            raise ManifestError(document[REFUSED])
        check_document(document.get("spec"), "spec")
        check_document(document["metadata"].get("annotations"), "metadata.annotations")
    except ManifestError as error:
        bare = stand_in(document, str(error))
        return PodManifest(pod_from(bare, ORIGIN), bare, ORIGIN)
    # Without the status, which the API has, and without managedFields, which are half of a pod.
    metadata = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
    # The agent trusts its own annotations when it finds its pods again, so none may come from the API.
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {key: value for key, value in annotations.items() if not key.startswith(_OUR_NOTES)}
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": document.get("spec") or {}}
    return _extended(PodManifest(pod_from(bare, ORIGIN), bare, ORIGIN), _ephemeral(document))


def _ephemeral(document: Document) -> object:
    spec = document.get("spec")
    return spec.get(_EPHEMERAL) if isinstance(spec, dict) else None


def _extended(manifest: PodManifest, ephemeral: object) -> PodManifest:
    """The pod as it was, with its ephemeral containers as they are now. Raises ManifestError: they may be too large."""
    if not isinstance(ephemeral, list) or REFUSED in (manifest.document["metadata"].get("annotations") or ()):
        return manifest
    spec = {**manifest.document["spec"], _EPHEMERAL: _bounded(ephemeral)}
    check_document(spec, "spec")
    return replace(manifest, document={**manifest.document, "spec": spec})


def _bounded(ephemeral: list[Any]) -> list[Document]:
    """Of those that are too many, some names and why they are not started."""
    count = len(ephemeral)
    why = f"at most {MOST_EPHEMERAL} ephemeral containers of a pod are started, it has {count}"
    known = [each for each in ephemeral[: MOST_EPHEMERAL + _MOST_REFUSED] if isinstance(each, dict)]
    found = [{key: value for key, value in each.items() if key != REFUSED} for each in known[:MOST_EPHEMERAL]]
    return [*found, *({"name": each.get("name"), REFUSED: why} for each in known[MOST_EPHEMERAL:])]


def uid_of(document: Document) -> str:
    """Names are used again, uids are not."""
    uid: str = document["metadata"]["uid"]
    return uid


def local_uid(document: Document) -> str:
    """The uid under which the node knows the pod: a mirror has that of its static pod in an annotation."""
    uid: str = (document["metadata"].get("annotations") or {}).get(CONFIG_MIRROR) or uid_of(document)
    return uid


def is_terminating(document: Document) -> bool:
    """It was deleted, and stays in the API until the node reports that it has ended."""
    return "deletionTimestamp" in document["metadata"]


def _wish(manifest: PodManifest, document: Document) -> Wish:
    grace = None
    if is_terminating(document):
        grace = document["metadata"].get("deletionGracePeriodSeconds") or 0
    return Wish(manifest, (document.get("status") or {}).get("phase") in ENDED_PHASES, grace)
