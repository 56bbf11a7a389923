"""Takes back `DisruptionTarget` from pods that were to go two minutes ago and are still there.

A client announced the pod's end and failed before asking for it. The condition stays, as False: that there was such an
announcement is worth knowing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jettison.controllers.machinery.object_state import condition_of, is_terminating, with_conditions
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.engine.budgets.sync import DELETION_TIMEOUT_NS
from jettison.errors import ManifestError, NotFound
from jettison.manifests.pod_view import DISRUPTION_TARGET, has_ended
from jettison.manifests.times import parse_time, time_text
from jettison.runtimes.kube.cache import Cache, Change, Key, key_of
from jettison.runtimes.kube.client import Document
from jettison.runtimes.kube.kinds import PODS

_SECOND_NS: Final = 10**9
# The kubelet says it together with the end itself, so there is nothing to take back.
_FINAL_REASON: Final = "TerminationByKubelet"


class StaleConditions:
    """A part of the disruption controller, with a queue of its own."""

    def __init__(self, around: Surroundings, pods: Cache) -> None:
        self._around = around
        self._pods = pods
        self._reconciler: Reconciler[Key] = Reconciler("stale conditions", self._reconcile)
        self._reconciler.follow(pods, _announced)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reconciler.run()

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.get(key)
        condition = None if pod is None else _announcement(pod)
        if pod is None or condition is None:
            return
        now_ns = self._around.clock.now_ns()
        left_ns = _changed_ns(condition) + DELETION_TIMEOUT_NS - now_ns
        if left_ns > 0:
            self._reconciler.queue.add_after(key, left_ns / _SECOND_NS)
            return
        kept = {name: value for name, value in condition.items() if name not in ("reason", "message")}
        withdrawn = {**kept, "status": "False", "lastTransitionTime": time_text(now_ns)}
        if generation := pod["metadata"].get("generation"):
            withdrawn["observedGeneration"] = generation
        whole = {"apiVersion": "v1", "kind": "Pod", **with_conditions(pod, withdrawn)}
        try:
            await self._around.client.replace(PODS, whole, "status")
        except NotFound:
            return


def _announced(change: Change) -> Iterable[Key]:
    return () if change.new is None or _announcement(change.new) is None else (key_of(change.new),)


def _announcement(pod: Document) -> Document | None:
    """The condition of a pod that is to go but does not yet."""
    condition = condition_of(pod, DISRUPTION_TARGET)
    if condition is None or is_terminating(pod) or has_ended(pod):
        return None
    is_open = condition.get("status") == "True" and condition.get("reason") != _FINAL_REASON
    return condition if is_open else None


def _changed_ns(condition: Document) -> int:
    """Without a time, or with one that is none, it is old enough."""
    try:
        return parse_time(condition.get("lastTransitionTime") or "")
    except ManifestError:
        return 0
