"""Pods that run on this node and are in no list of the API, though no deletion of them was seen.

A kubelet ends such pods at once. That is right when they were deleted while it was disconnected, and ends every pod of
the node when the server has lost its state, or is another one. So they run on until the API has confirmed it twice,
some seconds apart, each time with a new list and a GET of each pod; and only if it is the cluster that the pods are
from. The uid of the node's Node object is kept in a file, so that a restarted agent knows it too: a cluster in which
the Node had to be created again may have lost more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from jettison.agent.pods.sources import ORIGIN as MANIFEST
from jettison.agent.pods.sources import Wish
from jettison.engine.pods.pod import ENDED_PHASES
from jettison.errors import ApiError, JettisonError, NotFound, ObservationError, WriteError
from jettison.manifests.files.decoding import read_json
from jettison.manifests.files.plain_files import replace_file
from jettison.runtimes.kube.cache import Cache, Change
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import NODES, PODS
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.protocol import PodManifest, PodStatus

FILE: Final = "cluster.json"
CONFIRM_SECONDS: Final = 5.0
"""Between two questions."""

_OFTEN_ENOUGH: Final = 2
_FORBIDDEN: Final = 403
_DECODER: Final = msgspec.json.Decoder(dict[str, str])


class MissingPods:
    """Those of one node. `statuses` are all pods that it has, `pods` those that the API lists for it, and `memory` is
    where the uid of its Node is noted.
    """

    def __init__(
        self,
        client: KubeClient,
        node_name: str,
        pods: Cache,
        statuses: Callable[[], Iterable[PodStatus]],
        memory: Path,
    ) -> None:
        self._client = client
        self._node_name = node_name
        self._pods = pods
        self._statuses = statuses
        self._memory = memory
        # Called when one of them is to end.
        self.wake: Callable[[], None] = lambda: None
        # How often the API has said that a pod is not there.
        self._confirmed: dict[str, int] = {}
        # The API reported the deletion, or confirmed that the pod is gone: to be ended.
        self._gone: set[str] = set()
        self._checked_ns = 0
        pods.listen(self._hear)

    def wishes(self) -> dict[str, Wish]:
        """What stays although it is not listed, by uid."""
        return {
            uid: Wish(PodManifest(status.pod, status.document, "api"), status.phase in ENDED_PHASES)
            for uid, status in self._missing().items()
        }

    async def confirm(self) -> None:
        """Ask the API about each of them; where it does not answer, the error is raised, and all of them run on."""
        if not self._pods.is_listed:
            return
        missing = self._missing()
        self._confirmed = {uid: count for uid, count in self._confirmed.items() if uid in missing}
        if missing or self._checked_ns != self._pods.listed_ns:
            await self._check_cluster(len(missing))
        if not missing:
            return
        listed = {each["metadata"]["uid"] for each in await self._pods.list_again()}
        for uid, status in missing.items():
            if uid in listed or await self._is_there(status):
                self._confirmed.pop(uid, None)
                continue
            self._confirmed[uid] = self._confirmed.get(uid, 0) + 1
            if self._confirmed[uid] >= _OFTEN_ENOUGH:
                self._gone.add(uid)
                self.wake()

    def _hear(self, change: Change) -> None:
        """A deletion that the API reports is meant; a pod that is merely missing from a list may be a mistake."""
        if change.new is None and not self._pods.is_listing:
            self._gone.add(change.newest["metadata"]["uid"])

    def _missing(self) -> dict[str, PodStatus]:
        here = {status.pod.uid: status for status in self._statuses()}
        listed = {each["metadata"]["uid"] for each in self._pods}
        self._gone &= here.keys()
        self._gone -= listed
        known = listed | self._gone
        return {uid: status for uid, status in here.items() if uid not in known and _is_from_api(status)}

    async def _is_there(self, status: PodStatus) -> bool:
        """A damaged object is in no list, and an error here. A pod that is gone is 403 for a node, which may read only
        its own pods.
        """
        try:
            found = await self._client.get(PODS, status.pod.name, status.pod.namespace)
        except NotFound:
            return False
        except ApiError as error:
            if error.code == _FORBIDDEN:
                return False
            raise
        return bool(found["metadata"]["uid"] == status.pod.uid)

    async def _check_cluster(self, count: int) -> None:
        known = self._read()
        listed_ns = self._pods.listed_ns
        try:
            found = (await self._client.get(NODES, self._node_name))["metadata"]["uid"]
        except NotFound:
            # The Node is about to be created. If the API has just lost it, that is a reason to wait, too.
            if not count:
                return
            found = ""
        if known != found and known is not None and count:
            raise JettisonError(
                f"the API has forgotten this node and {count} pods that run on it, or is that of another cluster: they"
                f" run on; remove `{self._memory}` to let the API decide"
            )
        if found and known != found:
            self._write(found)
        self._checked_ns = listed_ns

    def _read(self) -> str | None:
        try:
            return read_json(self._memory, _DECODER).get("uid")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ObservationError(f"cannot read `{self._memory}`: {reason(error)}") from error

    def _write(self, uid: str) -> None:
        try:
            replace_file(self._memory, msgspec.json.encode({"uid": uid}))
        except OSError as error:
            raise WriteError(f"cannot write `{self._memory}`: {reason(error)}") from error


def _is_from_api(status: PodStatus) -> bool:
    """What is from a manifest says so."""
    return MANIFEST not in ((status.document.get("metadata") or {}).get("annotations") or {})
