"""Where should this pod run? Nodes that refuse it are out; of the others the best score wins.

Of equally good nodes upstream takes one at random. Here it is the one with the fewest pods, then the first by name:
one of upstream's possible answers, and always the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from jettison.engine.scheduling.filters import NodeRefusal, refusal
from jettison.engine.scheduling.nodes import ClusterLoad, NodeLoad
from jettison.engine.scheduling.pods import PlaceablePod
from jettison.engine.scheduling.scores import scores

NO_NODES: Final = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class Placed:
    """On this node."""

    node: str


@dataclass(frozen=True, slots=True)
class Unplaced:
    """On none of them, and why not, by node."""

    refusals: Mapping[str, NodeRefusal]

    @property
    def message(self) -> str:
        """As Kubernetes says it in the pod's condition and event."""
        return fit_error(self.refusals.values()) if self.refusals else NO_NODES


def place(pod: PlaceablePod, cluster: ClusterLoad) -> Placed | Unplaced:
    """The node for the pod. One that was made free for it is taken if it will do, whatever others would score."""
    made_free = cluster.load(cluster.nomination_of(pod.key))
    if made_free is not None and refusal(pod, made_free) is None:
        return Placed(made_free.offer.name)
    refusals: dict[str, NodeRefusal] = {}
    possible: list[NodeLoad] = []
    for load in cluster.loads:
        why = refusal(pod, load)
        if why is None:
            possible.append(load)
        else:
            refusals[load.offer.name] = why
    return Placed(_best(pod, possible)) if possible else Unplaced(refusals)


def fit_error(refusals: Iterable[NodeRefusal]) -> str:
    """How many nodes said what. Sorted as texts, as upstream does it: `10 …` comes before `2 …`."""
    counts: dict[str, int] = {}
    total = 0
    for each in refusals:
        total += 1
        for reason in each.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{total} nodes are available: {listed}."


def _best(pod: PlaceablePod, possible: list[NodeLoad]) -> str:
    if len(possible) == 1:
        return possible[0].offer.name
    judged = zip(scores(pod, possible), possible, strict=True)
    _, best = min(judged, key=lambda each: (-each[0], each[1].tally.pods, each[1].offer.name))
    return best.offer.name
