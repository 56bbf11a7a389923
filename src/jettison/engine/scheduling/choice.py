"""Where should this pod run? Nodes that refuse it are out; of the others the best score wins.

A node is asked with upstream's checks in upstream's order, and the first that says no is the answer. Left out of
upstream's list are host ports, volumes, required spread and affinity between pods. Pressure and a node that is not
ready have no check of their own: the node lifecycle controller turns them into taints.

Of equally good nodes upstream takes one at random. Here it is the one with the fewest pods, then the first by name:
one of upstream's possible answers, and always the same. The scores are upstream's with upstream's weights, each from 0
to 100:

    3  taints that the pod would rather not meet (PreferNoSchedule)
    2  the pod's preferred node affinity
    2  spread: few pods of the same ReplicaSet or StatefulSet on the node, and in its zone
    1  the least allocated node, by cpu and memory
    1  cpu and memory allocated evenly

Simplified against upstream: the spread goes by the controller of a pod rather than by its selector, which is the same
unless two controllers share pods; in a zone only the pods on possible nodes are counted; every node is its own host,
labelled so or not; what a pod wishes about its spread or about other pods, and where an image is at hand, counts for
nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from jettison.engine.scheduling.nodes import ClusterLoad, NodeLoad, NodeOffer, NodeRoom, Tally
from jettison.engine.scheduling.placement import (
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    Taint,
    bearing_toleration,
    first_untolerated,
)
from jettison.engine.scheduling.pods import PlaceablePod, PodClaim
from jettison.values import frozen

_CORDONED: Final = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)

NO_NODES: Final = "no nodes available to schedule pods"

BEST: Final = 100
ZONE_LABEL: Final = "topology.kubernetes.io/zone"

_TAINT_WEIGHT: Final = 3
_LIKING_WEIGHT: Final = 2
_SPREAD_WEIGHT: Final = 2

_HOST_SKEW: Final = 3
_ZONE_SKEW: Final = 5


Company = tuple[int, str | None]


class NodeRefusal(NamedTuple):
    """Why not there. `is_final`: nor would it help if all other pods were gone."""

    reasons: tuple[str, ...]
    is_final: bool = True


_OTHER_NODE_NAMED: Final = NodeRefusal(("node(s) didn't satisfy plugin(s) [NodeAffinity]",))
_TAINTED: Final = NodeRefusal(("node(s) had untolerated taint(s)",))
_UNSCHEDULABLE: Final = NodeRefusal(("node(s) were unschedulable",))
_OTHER_NODE_BOUND: Final = NodeRefusal(("node(s) didn't match the requested node name",))
_AFFINITY: Final = NodeRefusal(("node(s) didn't match Pod's node affinity/selector",))


def refusal(pod: PlaceablePod, load: NodeLoad) -> NodeRefusal | None:
    """What keeps the pod off the node as it is; None if nothing does."""
    return unsuitability(pod, load.offer) or shortage(pod.claim, load.tally_for(pod), load.offer.room)


def unsuitability(pod: PlaceablePod, node: NodeOffer) -> NodeRefusal | None:
    """What keeps the pod off the node whatever other pods are there; a DaemonSet asks no more than that."""
    pinned = pod.affinity.pinned() if pod.affinity.required else None
    if pinned is not None and node.name not in pinned:
        return _OTHER_NODE_NAMED
    if node.is_cordoned and bearing_toleration(_CORDONED, pod.tolerations) is None:
        return _UNSCHEDULABLE
    if pod.node and pod.node != node.name:
        return _OTHER_NODE_BOUND
    if first_untolerated(node.taints, pod.tolerations) is not None:
        return _TAINTED
    return None if pod.affinity.admits(node.labels, node.name) else _AFFINITY


def shortage(claim: PodClaim, taken: Tally, room: NodeRoom) -> NodeRefusal | None:
    """All that there is too little of. It is final where the pod asks for more than the whole node has.

    What is not asked for cannot be short, however much others have taken; a place for a pod always is asked for.
    """
    reasons = ["Too many pods"] if taken.pods + 1 > room.pods else []
    is_final = False
    if not claim.is_empty:
        for name, asked, used, whole in _compared(claim, taken, room):
            if asked > 0 and asked > whole - used:
                reasons.append(f"Insufficient {name}")
                is_final = is_final or asked > whole
    return NodeRefusal(tuple(reasons), is_final) if reasons else None


def _compared(claim: PodClaim, taken: Tally, room: NodeRoom) -> list[tuple[str, int, int, int]]:
    compared = [
        ("cpu", claim.cpu, taken.cpu, room.cpu),
        ("memory", claim.memory, taken.memory, room.memory),
        ("ephemeral-storage", claim.storage, taken.storage, room.storage),
    ]
    for name, asked in claim.others:
        compared.append((name, asked, taken.others.get(name, 0), room.others.get(name, 0)))
    return compared


@frozen
class Placed:
    """On this node."""

    node: str


@frozen
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


def scores(pod: PlaceablePod, loads: Sequence[NodeLoad]) -> list[int]:
    """One for each node, all weights included."""
    totals = [0] * len(loads)
    for judge in _JUDGES:
        for index, score in enumerate(judge(pod, loads)):
            totals[index] += score
    return totals


def _tainted(pod: PlaceablePod, loads: Sequence[NodeLoad]) -> list[int]:
    counts = [unwelcome_taints(pod, load.offer) for load in loads]
    most = max(counts)
    return [_TAINT_WEIGHT * (BEST - BEST * count // most) for count in counts] if most else []


def unwelcome_taints(pod: PlaceablePod, node: NodeOffer) -> int:
    """How many taints of the node the pod would rather not meet."""
    wishes = (taint for taint in node.taints if taint.effect == PREFER_NO_SCHEDULE)
    return sum(bearing_toleration(taint, pod.tolerations) is None for taint in wishes)


def _liked(pod: PlaceablePod, loads: Sequence[NodeLoad]) -> list[int]:
    if not pod.affinity.preferred:
        return []
    likings = [pod.affinity.liking(load.offer.labels, load.offer.name) for load in loads]
    most = max(likings)
    return [_LIKING_WEIGHT * (BEST * liking // most) for liking in likings] if most else []


def _spread(pod: PlaceablePod, loads: Sequence[NodeLoad]) -> list[int]:
    if not pod.group:
        return []
    companies = [company(pod, load) for load in loads]
    found = spread_scores(Counter(companies))
    return [found[each] for each in companies]


def company(pod: PlaceablePod, load: NodeLoad) -> Company:
    """How many pods of its group the pod would meet on the node, and the node's zone."""
    return load.groups.get(pod.group, 0), load.offer.labels.get(ZONE_LABEL)


def spread_scores(companies: Mapping[Company, int]) -> dict[Company, int]:
    """The system's default constraints: a skew of 3 between hosts, and of 5 between zones. The weight is included.

    Of a thousand nodes few differ here, so it is told how many nodes there are of each kind.
    """
    zones: dict[str, int] = {}
    for (count, zone), times in companies.items():
        # Nodes without a zone are one zone together, which counts as one of them and crowds none.
        zones[zone or ""] = zones.get(zone or "", 0) + count * times
    host_weight, zone_weight = math.log(sum(companies.values()) + 2), math.log(len(zones) + 2)
    crowds = {}
    for count, zone in companies:
        crowd = count * host_weight + _HOST_SKEW - 1
        if zone is not None:
            crowd += zones[zone] * zone_weight + _ZONE_SKEW - 1
        crowds[count, zone] = math.floor(crowd + 0.5)
    least, most = min(crowds.values()), max(crowds.values())
    return {each: _SPREAD_WEIGHT * (BEST * (most + least - crowd) // most) for each, crowd in crowds.items()}


def _own(pod: PlaceablePod, loads: Sequence[NodeLoad]) -> list[int]:
    return [scores_of_its_own(pod, load) for load in loads]


def scores_of_its_own(pod: PlaceablePod, load: NodeLoad) -> int:
    """The sum of those scores that depend on no other node."""
    return _least_allocated(pod, load) + _balanced(pod, load)


def _least_allocated(pod: PlaceablePod, load: NodeLoad) -> int:
    room, tally, claim = load.offer.room, load.tally, pod.claim
    free = [
        BEST * (whole - taken) // whole if taken <= whole else 0
        for taken, whole in (
            (tally.scored_cpu + claim.scored_cpu, room.cpu),
            (tally.scored_memory + claim.scored_memory, room.memory),
        )
        if whole > 0
    ]
    return sum(free) // len(free) if free else 0


def _balanced(pod: PlaceablePod, load: NodeLoad) -> int:
    """How much better the node is balanced with the pod than without it: 75 of 100 where that is the same.

    Not for pods that ask for neither: the most lopsided node would stay so whatever they do.
    """
    claim, room, tally = pod.claim, load.offer.room, load.tally
    if not claim.cpu and not claim.memory:
        return 0
    gain = _balance(tally.cpu + claim.cpu, tally.memory + claim.memory, room) - _balance(tally.cpu, tally.memory, room)
    return BEST // 2 + (BEST // 2 + gain) // 2


def _balance(cpu: int, memory: int, room: NodeRoom) -> int:
    """The nearer the shares of both that are taken, the better."""
    deviation = 0.0
    if room.cpu > 0 and room.memory > 0:
        deviation = abs(min(cpu / room.cpu, 1.0) - min(memory / room.memory, 1.0)) / 2
    return int((1 - deviation) * BEST)


_Judge = Callable[[PlaceablePod, Sequence[NodeLoad]], Sequence[int]]
# No scores at all: they are the same for all nodes. Weights are included.
_JUDGES: Final[tuple[_Judge, ...]] = (_tainted, _liked, _spread, _own)
