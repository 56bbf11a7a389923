"""May this pod run on that node? Upstream's checks in upstream's order; the first that says no is the answer.

Left out of upstream's list are host ports, volumes, required spread and affinity between pods. Pressure and a node
that is not ready have no check of their own: the node lifecycle controller turns them into taints.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from jettison.engine.scheduling.nodes import NodeLoad, NodeOffer, NodeRoom, Tally
from jettison.engine.scheduling.placement import NO_SCHEDULE, Taint, bearing_toleration, first_untolerated
from jettison.engine.scheduling.pods import PlaceablePod, PodClaim

_CORDONED: Final = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


class NodeRefusal(NamedTuple):
    """Why not there. `is_final`: nor would it help if all other pods were gone."""

    reasons: tuple[str, ...]
    is_final: bool = True


_OTHER_NODE_NAMED: Final = NodeRefusal(("node(s) didn't satisfy plugin(s) [NodeAffinity]",))
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
    taint = first_untolerated(node.taints, pod.tolerations)
    if taint is not None:
        return NodeRefusal((f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}",))
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
