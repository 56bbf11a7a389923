"""What the scheduler reckons with: the caches as sums per node, and what it has done itself that they do not show yet.

A watch is behind by milliseconds, and in these the scheduler decides about a hundred pods. So a pod that it is binding
counts on its node from the decision on, until the cache shows it there or the server has refused.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from jettison.controllers.machinery.objects import is_terminating
from jettison.controllers.scheduler.queue import SchedulingQueue
from jettison.engine.scheduling.nodes import ClusterLoad
from jettison.engine.scheduling.pods import Key, PlaceablePod
from jettison.errors import ManifestError
from jettison.manifests.pod_view import has_ended, node_name_of
from jettison.manifests.scheduling import node_offer_from, placeable_pod_from, refreshed
from jettison.runtimes.kube.cache import Cache, Change, key_of
from jettison.runtimes.kube.client import Document

SCHEDULERS: Final = ("default-scheduler", "jettison-scheduler")
"""Whose pods are ours."""

_log = logging.getLogger(__name__)


class World:
    """Nodes, pods on them, and pods that wait; it tells the queue which pods to try (again)."""

    def __init__(self, pods: Cache, nodes: Cache, queue: SchedulingQueue) -> None:
        self.cluster = ClusterLoad()
        self.pending: dict[Key, PlaceablePod] = {}
        self._pods = pods
        self._queue = queue
        # By uid: its successor of the same name is another pod.
        self._assumed: dict[Key, str] = {}
        pods.listen(self._pod_changed)
        nodes.listen(self._node_changed)

    def waiting(self, key: Key) -> PlaceablePod | None:
        """The pod, if it needs a node: one that is being bound to one does not, whatever the cache says."""
        return None if key in self._assumed else self.pending.get(key)

    def document(self, key: Key) -> Document | None:
        """A pod as the server last told of it."""
        return self._pods.get(key)

    def assume(self, pod: PlaceablePod, node: str) -> None:
        """It is being bound to that node."""
        if self.cluster.nomination_of(pod.key) not in ("", node):
            self._queue.stir()
        self._assumed[pod.key] = pod.uid
        self.cluster.put(pod.on(node))

    def forget(self, pod: PlaceablePod) -> None:
        """It was not bound."""
        if self._assumed.get(pod.key) == pod.uid:
            del self._assumed[pod.key]
            self._vacate(pod.key)

    def withdraw(self, key: Key) -> None:
        """It no longer waits for other pods to go, so that others may come there."""
        if self.cluster.withdraw(key):
            self._queue.stir()

    def expect_end(self, victim: PlaceablePod) -> None:
        """It is being told to go, so it must not be told a second time."""
        if self.cluster.place_of(victim.key) == victim.node:
            self.cluster.put(replace(victim, is_terminating=True, is_preempted=True))

    def take(self, document: Document) -> None:
        """What the server says of a pod now, in a list, a watch or an answer."""
        key = key_of(document)
        try:
            pod = placeable_pod_from(document)
        except ManifestError as error:
            _log.warning("left out: %s", error)
            return
        if has_ended(document):
            self._gone(key)
        elif pod.node:
            self._placed(pod)
        elif self._assumed.get(key) == pod.uid:
            self.cluster.put(pod.on(self.cluster.place_of(key)))
        else:
            self._unplaced(pod)

    def _pod_changed(self, change: Change) -> None:
        if change.new is None:
            self._gone(change.key)
        elif not change.is_resync and not self._is_refreshed(change):
            self.take(change.new)

    def _is_refreshed(self, change: Change) -> bool:
        """Whether it is a pod that is known on its node, and the change is one of the status, the coming end of it, or
        the binding that we assumed; then it is up to date.
        """
        if change.old is None or change.new is None or has_ended(change.new):
            return False
        load = self.cluster.load(node_name_of(change.new))
        known = load.pods.get(change.key) if load else None
        if known is None or change.differs(_identity) or not _wants_the_same(change.old, change.new):
            return False
        if change.differs(_passing) or known.is_terminating != is_terminating(change.new):
            self._placed(refreshed(known, change.new))
        elif change.key in self._assumed:
            self._placed(known)
        return True

    def _node_changed(self, change: Change) -> None:
        if change.is_resync:
            return
        name = change.newest["metadata"]["name"]
        if change.new is None:
            self.cluster.drop_node(name)
            return
        try:
            offer = node_offer_from(change.new)
        except ManifestError as error:
            _log.warning("left as it was: %s", error)
            return
        if self.cluster.set_node(offer):
            self._queue.stir()

    def _placed(self, pod: PlaceablePod) -> None:
        load = self.cluster.load(pod.node)
        known = load.pods.get(pod.key) if load else None
        self._assumed.pop(pod.key, None)
        if self.pending.pop(pod.key, None) is not None:
            self._queue.remove(pod.key)
        if known is not pod:
            self.cluster.put(pod)
        if known is not None and known.claim != pod.claim:
            self._queue.stir()

    def _unplaced(self, pod: PlaceablePod) -> None:
        self._vacate(pod.key)
        if pod.is_terminating or pod.scheduler not in SCHEDULERS:
            self._gone(pod.key)
            return
        known = self.pending.get(pod.key)
        self.pending[pod.key] = pod
        if known is None or known.uid != pod.uid:
            self.cluster.withdraw(pod.key)
            if pod.nominated_node:
                self.cluster.nominate(pod, pod.nominated_node)
            self._queue.add(pod.key, pod.priority)
        elif known.wants != pod.wants:
            self._queue.add(pod.key, pod.priority)

    def _gone(self, key: Key) -> None:
        self._vacate(key)
        if self.pending.pop(key, None) is not None:
            self._queue.remove(key)
            self.withdraw(key)

    def _vacate(self, key: Key) -> None:
        self._assumed.pop(key, None)
        if self.cluster.remove(key):
            self._queue.stir()


def _identity(document: Document) -> object:
    metadata = document["metadata"]
    return metadata["uid"], metadata.get("labels"), metadata.get("ownerReferences")


def _wants_the_same(old: Document, new: Document) -> bool:
    """Whether the spec is the same but for the node. To compare takes a hundredth of reading it again."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    return before is after or {**before, "nodeName": ""} == {**after, "nodeName": ""}


def _passing(document: Document) -> object:
    """What `refreshed` looks at. Conditions count only near the end, and change more often than anything else."""
    status = document.get("status") or {}
    conditions = status.get("conditions") if is_terminating(document) else None
    return status.get("nominatedNodeName"), status.get("startTime"), conditions
