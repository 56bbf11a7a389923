"""The pods that an API has bound to this node: one of the sources of pods that the agent runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

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
        # Made once per pod: what may change in a spec (tolerations, labels) does not matter to a bare host.
        self._manifests: dict[str, PodManifest | None] = {}
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
            while new := {uid: each for uid, each in self._shown().items() if uid not in self._manifests}:
                for uid, document in new.items():
                    self._manifests[uid] = await self._read(document)
            self._wishes = self._current()
        return changed

    def wishes(self) -> Mapping[str, Wish]:
        """By uid, as of the last look."""
        return self._wishes

    def _shown(self) -> dict[str, Document]:
        return {uid_of(each): each for each in self._cache if not is_mirror(each)}

    def _current(self) -> Mapping[str, Wish]:
        """Without a pause, so that no pod is neither in the cache nor among the missing ones."""
        documents = self._shown()
        self._manifests = {uid: self._manifests[uid] for uid in documents}
        self._leaving = {uid: wish for uid, wish in self._leaving.items() if not self._is_finished(uid)}
        here = {uid: _wish(found, documents[uid]) for uid, found in self._manifests.items() if found is not None}
        return {**self._missing(), **self._leaving, **here}

    def look_again(self) -> None:
        """`missing` has changed."""
        self._has_changed = True
        self._wake()

    def _hear(self, change: Change) -> None:
        if change.is_resync:
            return
        if change.new is None and change.old is not None and is_terminating(change.old):
            manifest = self._manifests.get(uid_of(change.old))
            if manifest is not None:
                self._leaving[manifest.pod.uid] = _wish(manifest, change.old)
        self.look_again()

    async def _read(self, document: Document) -> PodManifest | None:
        try:
            return await asyncio.to_thread(_manifest, document)
        except ManifestError as error:
            metadata = document["metadata"]
            self._emit(events.ActionFailed(f"read pod {metadata.get('namespace')}/{metadata['name']}", str(error)))
            return None


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
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": document["spec"]}
    return PodManifest(pod_from(bare, ORIGIN), bare, ORIGIN)


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
