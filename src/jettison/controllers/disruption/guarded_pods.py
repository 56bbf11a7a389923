"""Pods as budgets see them, sorted by their labels: the pods of a workload have the same, so that a selector is asked
once for all of them and not two thousand times.

Mirrors of static pods are not among them. A node makes those by itself, with any labels and ready at once: counted,
they would let it open the budgets of pods on other nodes, or close them. To evict a mirror ends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from jettison.engine.budgets.budget import GuardedPod
from jettison.engine.labels.selectors import LabelSelector
from jettison.manifests.budgets import guarded_pod_from
from jettison.manifests.pods import is_mirror
from jettison.runtimes.kube.cache import Cache, Change, View, key_of
from jettison.runtimes.kube.client import Document


class GuardedPods:
    """All pods of a cache but the mirrors."""

    def __init__(self, pods: Cache) -> None:
        self._view: View[GuardedPod] = View(pods, guarded_pod_from, _shelf, self._forget)
        # By namespace: where the pods with such labels are.
        self._shelves: dict[str, dict[str, Mapping[str, str]]] = {}
        pods.listen(self._take)

    def matching(self, namespace: str, selector: LabelSelector) -> list[GuardedPod]:
        """Those of the namespace that are selected."""
        found: list[GuardedPod] = []
        for shelf, labels in tuple(self._shelves.get(namespace, {}).items()):
            if selector.matches(labels):
                found += self._view.group(shelf).values()
        return found

    def _take(self, change: Change) -> None:
        if change.new is not None and not change.is_resync and not is_mirror(change.new):
            shelves = self._shelves.setdefault(key_of(change.new)[0], {})
            shelves[_shelf(change.new)] = change.new["metadata"].get("labels") or {}

    def _forget(self, shelf: str) -> None:
        """Every Job has labels of its own: what nobody is on any more must not pile up."""
        namespace = shelf.partition(" ")[0]
        shelves = self._shelves.get(namespace, {})
        shelves.pop(shelf, None)
        if not shelves:
            self._shelves.pop(namespace, None)


def _shelf(pod: Document) -> str:
    """No namespace has a blank in it."""
    labels = pod["metadata"].get("labels") or {}
    return f"{key_of(pod)[0]} {'mirror' if is_mirror(pod) else sorted(labels.items())}"
