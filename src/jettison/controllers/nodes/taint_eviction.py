"""The taint-eviction controller: a pod that does not tolerate a NoExecute taint of its node is deleted, in its time.

Disruption budgets are not asked. A wait that has begun is neither shortened nor lengthened by further taints, and
begins anew when the controller is restarted. A pod that is terminating already is marked and deleted all the same, once
for each set of taints. All of it as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from jettison.controllers.machinery.objects import disruption_patch, is_terminating, keys_by_node
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.engine.node.event_correlation import Subject
from jettison.engine.scheduling.placement import NO_EXECUTE, Taint, no_execute_stay
from jettison.errors import NotFound
from jettison.manifests.placement import taints_from, tolerations_from
from jettison.manifests.pod_view import node_name_of
from jettison.manifests.times import time_text
from jettison.runtimes.kube.cache import Change, Key, key_of
from jettison.runtimes.kube.client import DeleteOptions, Document
from jettison.runtimes.kube.kinds import NODES, PODS

SOURCE: Final = "taint-eviction-controller"
REASON: Final = "DeletionByTaintManager"
MESSAGE: Final = "Taint manager: deleting due to NoExecute taint"

_SECOND_NS: Final = 10**9
_WORKERS: Final = 8


class _Timer(NamedTuple):
    uid: str
    due_ns: int


class TaintEvictionController:
    """Knows when each pod must have left; monotonic time, so that setting the clock evicts no pod."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._pods = around.caches.of(PODS)
        self._nodes = around.caches.of(NODES)
        self._by_node = self._pods.index(keys_by_node)
        self._timers: dict[Key, _Timer] = {}
        # Pods that were deleted, with their uids, and for which taints: a resync is no reason to do it again.
        self._deleted: dict[Key, tuple[str, tuple[Taint, ...]]] = {}
        self._reconciler: Reconciler[Key] = Reconciler("taint eviction", self._reconcile, workers=_WORKERS)
        self._reconciler.follow(self._pods, self._touched)
        self._reconciler.follow(self._nodes, self._tainted)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reconciler.run()

    def _touched(self, change: Change) -> Iterable[Key]:
        key = change.key
        matters = change.is_resync or (not change.keeps_spec and change.differs(_placement))
        return (key,) if matters and (key in self._timers or self._taints(change.newest)) else ()

    def _tainted(self, change: Change) -> Iterable[Key]:
        if not (_no_execute_taints(change.newest) if change.is_resync else change.differs(_no_execute_taints)):
            return ()
        return self._by_node.values(change.newest["metadata"]["name"])

    def _taints(self, pod: Document) -> tuple[Taint, ...]:
        node = self._nodes.get(("", node_name_of(pod)))
        return () if node is None else _no_execute_taints(node)

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.get(key)
        timer = self._timers.get(key)
        if timer is not None and (pod is None or pod["metadata"]["uid"] != timer.uid):
            self._cancel(key)
            timer = None
        if pod is None:
            self._deleted.pop(key, None)
            return
        taints = self._taints(pod)
        stay = no_execute_stay(taints, tolerations_from(pod.get("spec") or {}))
        if stay.seconds is None:
            self._cancel(key)
            self._deleted.pop(key, None)
            return
        reason = pod["metadata"]["uid"], taints
        if is_terminating(pod) and self._deleted.get(key) == reason:
            return
        now_ns = self._around.clock.monotonic_ns()
        if stay.seconds > 0:
            if timer is None:
                timer = self._timers[key] = _Timer(pod["metadata"]["uid"], now_ns + stay.seconds * _SECOND_NS)
            if timer.due_ns > now_ns:
                self._reconciler.queue.add_after(key, (timer.due_ns - now_ns) / _SECOND_NS)
                return
        elif timer is not None:
            self._cancel(key)
        await self._delete(pod)
        self._timers.pop(key, None)
        self._deleted[key] = reason

    def _cancel(self, key: Key) -> None:
        if self._timers.pop(key, None) is not None:
            self._tell(key, f"Cancelling deletion of Pod {key[0]}/{key[1]}")

    async def _delete(self, pod: Document) -> None:
        """Say why, then delete it with its own grace; that very pod, and none that got its name meanwhile."""
        namespace, name = key_of(pod)
        uid = pod["metadata"]["uid"]
        client = self._around.client
        self._tell((namespace, name), f"Marking for deletion Pod {namespace}/{name}")
        try:
            current = await client.get(PODS, name, namespace)
            if current["metadata"]["uid"] != uid:
                return
            patch = disruption_patch(current, REASON, MESSAGE, time_text(self._around.clock.now_ns()))
            await client.patch(PODS, name, patch, namespace, subresource="status")
            await client.delete(PODS, name, namespace, DeleteOptions(uid=uid))
        except NotFound:
            return

    def _tell(self, key: Key, message: str) -> None:
        """Kubernetes leaves out the uid here."""
        self._around.events.tell(SOURCE, Subject("Pod", key[1], key[0]), "TaintManagerEviction", message)


def _placement(pod: Document) -> object:
    return pod["metadata"]["uid"], node_name_of(pod), (pod.get("spec") or {}).get("tolerations")


def _no_execute_taints(node: Document) -> tuple[Taint, ...]:
    return tuple(each for each in taints_from(node) if each.effect == NO_EXECUTE)
