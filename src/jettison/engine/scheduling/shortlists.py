"""What is known of every node from the last pod that wanted the same, so that the next one asks changed nodes only.

A Deployment of 500 replicas is 500 pods that want the same. To ask and score 1,000 nodes for each of them takes 30 ms;
binding a pod changes one node. So refusals and those scores that depend on one node alone are kept per kind of pod, and
the cluster notes which nodes have changed. What depends on all nodes together, the spread, is a number for each
count of pods of the group, and there are few counts.

The answers are those of `choice.place`; a property test compares the two.
"""

from __future__ import annotations

from collections.abc import Hashable
from operator import add
from typing import Final

from jettison.engine.scheduling.choice import (
    NodeRefusal,
    Placed,
    Unplaced,
    company,
    place,
    refusal,
    scores_of_its_own,
    spread_scores,
    unwelcome_taints,
)
from jettison.engine.scheduling.nodes import ClusterLoad, NodeLoad
from jettison.engine.scheduling.pods import PlaceablePod

_MOST: Final = 32
"""Kinds of pods. Each takes some 100 kB for 1,000 nodes."""


class Shortlists:
    """The lists of one cluster."""

    def __init__(self, cluster: ClusterLoad) -> None:
        self._cluster = cluster
        # The one that was used last comes last.
        self._lists: dict[Hashable, _Shortlist] = {}

    def place(self, pod: PlaceablePod) -> Placed | Unplaced:
        """As `choice.place`. A pod with preferences, or one that others make room for, is decided about there."""
        if pod.affinity.preferred or pod.node or self._cluster.nomination_of(pod.key):
            return place(pod, self._cluster)
        kind = (pod.wants, pod.group)
        found = self._lists.pop(kind, None)
        if found is None or found.is_outdated:
            if found is not None:
                found.close()
            found = _Shortlist(pod, self._cluster)
        self._lists[kind] = found
        if len(self._lists) > _MOST:
            self._lists.pop(next(iter(self._lists))).close()
        return found.best(pod)


class _Shortlist:
    """Nodes for one kind of pod, in order of their names."""

    def __init__(self, pod: PlaceablePod, cluster: ClusterLoad) -> None:
        self._cluster = cluster
        self._changed = cluster.note_changes()
        self._loads: list[NodeLoad] = list(cluster.loads)
        self._indexes = {load.offer.name: index for index, load in enumerate(self._loads)}
        self._refusals: list[NodeRefusal | None] = [refusal(pod, load) for load in self._loads]
        self._is_plain = not any(unwelcome_taints(pod, load.offer) for load in self._loads)
        self._gather(pod)

    @property
    def is_outdated(self) -> bool:
        """Whether nodes have come, gone or become others: then everything is asked anew."""
        return self._changed.is_other_nodes

    def close(self) -> None:
        """Changes need not be noted any more."""
        self._cluster.stop_noting(self._changed)

    def _gather(self, pod: PlaceablePod) -> None:
        """The nodes that will do, side by side with what their scores are made of."""
        self._possible = [load for load, why in zip(self._loads, self._refusals, strict=True) if why is None]
        self._places = {load.offer.name: at for at, load in enumerate(self._possible)}
        self._own = [scores_of_its_own(pod, load) for load in self._possible]
        self._companies = [company(pod, load) for load in self._possible]
        self._pods = [load.tally.pods for load in self._possible]

    def _catch_up(self, pod: PlaceablePod) -> None:
        names, self._changed.names = self._changed.names, set()
        is_other = False
        for name in names:
            index = self._indexes[name]
            load = self._loads[index]
            why = refusal(pod, load)
            is_other = is_other or (why is None) != (self._refusals[index] is None)
            self._refusals[index] = why
            if why is None and not is_other:
                at = self._places[name]
                self._own[at] = scores_of_its_own(pod, load)
                self._companies[at] = company(pod, load)
                self._pods[at] = load.tally.pods
        if is_other:
            self._gather(pod)

    def best(self, pod: PlaceablePod) -> Placed | Unplaced:
        self._catch_up(pod)
        if not self._possible:
            found = zip(self._loads, self._refusals, strict=True)
            return Unplaced({load.offer.name: why for load, why in found if why is not None})
        if not self._is_plain:
            return place(pod, self._cluster)
        totals = self._own
        if pod.group:
            totals = list(map(add, totals, spread_scores(self._companies)))
        most = max(totals)
        # The first of the least loaded: nodes are in order of their names.
        ties = [index for index, total in enumerate(totals) if total == most]
        return Placed(self._possible[min(ties, key=self._pods.__getitem__)].offer.name)
