"""Where a pod goes: each check with its words, each score against the others, and ties."""

from __future__ import annotations

import pytest

from jettison.engine.labels.requirements import Operator, Requirement
from jettison.engine.pods.pod import Pod, PodResources
from jettison.engine.scheduling.choice import (
    NO_NODES,
    ZONE_LABEL,
    NodeRefusal,
    Placed,
    Unplaced,
    fit_error,
    place,
    refusal,
    unsuitability,
)
from jettison.engine.scheduling.nodes import ClusterLoad, NodeLoad, NodeOffer, NodeRoom
from jettison.engine.scheduling.placement import (
    NAME_FIELD,
    NO_EXECUTE,
    NO_SCHEDULE,
    NOWHERE,
    PREFER_NO_SCHEDULE,
    NodeAffinity,
    NodeTerm,
    Preference,
    Taint,
    Toleration,
)
from jettison.engine.scheduling.pods import PlaceablePod, PodClaim, claim_of
from tests.builders import GI, MI, container, resources, sidecar

ROOM = NodeRoom(cpu=4000, memory=8 * GI, storage=GI, pods=10, others={"example.com/gpu": 2})
SSD = NodeTerm((Requirement("disk", Operator.IN, ("ssd",)),))


def pinned_to(*names: str) -> NodeAffinity:
    return NodeAffinity(
        required=tuple(NodeTerm((), (Requirement(NAME_FIELD, Operator.IN, (each,)),)) for each in names)
    )


def claim(cpu: int = 0, memory: int = 0, **more: int) -> PodClaim:
    """Scores take it for what it asks."""
    return PodClaim(cpu, memory, more.pop("storage", 0), tuple(more.items()), cpu, memory)


def pod(name: str = "p", asks: PodClaim | None = None, **fields: object) -> PlaceablePod:
    return PlaceablePod(("default", name), uid=name, claim=asks or PodClaim(), **fields)  # type: ignore[arg-type]


def cluster(*offers: NodeOffer, pods: tuple[PlaceablePod, ...] = ()) -> ClusterLoad:
    made = ClusterLoad()
    for offer in offers:
        made.set_node(offer)
    for each in pods:
        made.put(each)
    return made


CORDON = Toleration("node.kubernetes.io/unschedulable", "Exists", "", NO_SCHEDULE)
BAD = Taint("bad", "very", NO_SCHEDULE)

REFUSALS: list[tuple[str, PlaceablePod, NodeOffer, str | None]] = [
    ("nothing in the way", pod(), NodeOffer("n", room=ROOM), None),
    ("cordoned", pod(), NodeOffer("n", is_cordoned=True, room=ROOM), "node(s) were unschedulable"),
    ("cordoned, tolerated", pod(tolerations=(CORDON,)), NodeOffer("n", is_cordoned=True, room=ROOM), None),
    ("bound elsewhere", pod(node="m"), NodeOffer("n", room=ROOM), "node(s) didn't match the requested node name"),
    ("tainted", pod(), NodeOffer("n", taints=(BAD,), room=ROOM), "node(s) had untolerated taint(s)"),
    (
        "tainted without a value",
        pod(),
        NodeOffer("n", taints=(Taint("out", "", NO_EXECUTE),), room=ROOM),
        "node(s) had untolerated taint(s)",
    ),
    ("tolerated", pod(tolerations=(Toleration("bad", "Exists"),)), NodeOffer("n", taints=(BAD,), room=ROOM), None),
    ("only a wish", pod(), NodeOffer("n", taints=(Taint("bad", "", PREFER_NO_SCHEDULE),), room=ROOM), None),
    (
        "another label",
        pod(affinity=NodeAffinity((("disk", "ssd"),))),
        NodeOffer("n", {"disk": "hdd"}, room=ROOM),
        "node(s) didn't match Pod's node affinity/selector",
    ),
    ("the label", pod(affinity=NodeAffinity((("disk", "ssd"),))), NodeOffer("n", {"disk": "ssd"}, room=ROOM), None),
    (
        "no alternative",
        pod(affinity=NOWHERE),
        NodeOffer("n", room=ROOM),
        "node(s) didn't match Pod's node affinity/selector",
    ),
    (
        "an empty alternative",
        pod(affinity=NodeAffinity(required=(NodeTerm(),))),
        NodeOffer("n", room=ROOM),
        "node(s) didn't match Pod's node affinity/selector",
    ),
    ("one alternative", pod(affinity=NodeAffinity(required=(NodeTerm(), SSD))), NodeOffer("n", {"disk": "ssd"}), None),
    (
        "named is another",
        pod(affinity=pinned_to("m", "o")),
        NodeOffer("n", taints=(BAD,), room=ROOM),
        "node(s) didn't satisfy plugin(s) [NodeAffinity]",
    ),
    ("named", pod(affinity=pinned_to("m", "n")), NodeOffer("n", room=ROOM), None),
    (
        "a cordon comes before a taint, a taint before the affinity",
        pod(affinity=NOWHERE),
        NodeOffer("n", taints=(BAD,), is_cordoned=True, room=ROOM),
        "node(s) were unschedulable",
    ),
    (
        "a taint comes before the affinity",
        pod(affinity=NOWHERE),
        NodeOffer("n", taints=(BAD,), room=ROOM),
        "node(s) had untolerated taint(s)",
    ),
]


@pytest.mark.parametrize(("case", "asking", "node", "expected"), REFUSALS, ids=[each[0] for each in REFUSALS])
def test_what_keeps_a_pod_off_an_empty_node(
    case: str, asking: PlaceablePod, node: NodeOffer, expected: str | None
) -> None:
    """Kubernetes' words; and that no pod's end would help."""
    found = unsuitability(asking, node)
    assert found == (None if expected is None else NodeRefusal((expected,), is_final=True))


SHORTAGES: list[tuple[PodClaim, PodClaim, tuple[str, ...], bool]] = [
    (claim(4000), claim(), (), False),
    (claim(4001), claim(), ("Insufficient cpu",), True),
    (claim(2001), claim(2000), ("Insufficient cpu",), False),
    (claim(1, 1), claim(4000, 8 * GI), ("Insufficient cpu", "Insufficient memory"), False),
    (claim(1, 9 * GI), claim(4000), ("Insufficient cpu", "Insufficient memory"), True),
    (claim(), claim(5000, 9 * GI), (), False),
    (claim(memory=1), claim(5000), (), False),
    (claim(storage=GI + 1), claim(), ("Insufficient ephemeral-storage",), True),
    (claim(**{"example.com/gpu": 2}), claim(**{"example.com/gpu": 1}), ("Insufficient example.com/gpu",), False),
    (claim(**{"example.com/fpga": 1}), claim(), ("Insufficient example.com/fpga",), True),
]


@pytest.mark.parametrize(("asks", "taken", "reasons", "is_final"), SHORTAGES)
def test_what_is_short(asks: PodClaim, taken: PodClaim, reasons: tuple[str, ...], is_final: bool) -> None:
    """All resources at once; final where the whole node would not be enough. What is not asked for is not short."""
    load = NodeLoad(NodeOffer("n", room=ROOM))
    load.put(pod("other", taken))
    assert refusal(pod("p", asks), load) == (NodeRefusal(reasons, is_final) if reasons else None)


def test_a_node_holds_so_many_pods() -> None:
    """Also of pods that ask for nothing; and it is said before what else is short."""
    load = NodeLoad(NodeOffer("n", room=NodeRoom(cpu=100, pods=1)))
    load.put(pod("other", claim(100)))
    assert refusal(pod(), load) == NodeRefusal(("Too many pods",), is_final=False)
    assert refusal(pod("p", claim(50)), load) == NodeRefusal(("Too many pods", "Insufficient cpu"), is_final=False)


def test_a_place_that_was_made_is_taken_for_the_less_important() -> None:
    """For equals too, but not for a more important pod, nor for the one it was made for."""
    waiting = pod("waiting", claim(3000), priority=5)
    nodes = cluster(NodeOffer("n", room=ROOM))
    nodes.nominate(waiting, "n")
    load = nodes.load("n")
    assert load is not None
    for priority, fits in ((4, False), (5, False), (6, True)):
        assert (refusal(pod("p", claim(2000), priority=priority), load) is None) is fits
    assert refusal(waiting, load) is None
    nodes.withdraw(waiting.key)
    assert refusal(pod("p", claim(2000)), load) is None


def test_the_message_counts_and_sorts_as_texts() -> None:
    """`10 …` comes before `2 …`, for that is how Go sorts them."""
    full, other = NodeRefusal(("Too many pods", "Insufficient cpu")), NodeRefusal(("node(s) were unschedulable",))
    refusals = [*[other] * 10, *[full] * 2]
    assert fit_error(refusals) == (
        "0/12 nodes are available: 10 node(s) were unschedulable, 2 Insufficient cpu, 2 Too many pods."
    )
    assert Unplaced({}).message == NO_NODES


WISH = Taint("wish", "", PREFER_NO_SCHEDULE)
LIKES_SSD = NodeAffinity(preferred=(Preference(10, SSD), Preference(1, NodeTerm(SSD.labels))))
SET = "uid-of-the-set"

CHOICES: list[tuple[str, PlaceablePod, ClusterLoad, str]] = [
    (
        "the emptier one",
        pod("p", claim(100, MI)),
        cluster(NodeOffer("a", room=ROOM), NodeOffer("b", room=ROOM), pods=(pod("x", claim(1000, GI), node="a"),)),
        "b",
    ),
    (
        "by what is taken, not by how many take it",
        pod("p", claim(100, 200 * MI)),
        cluster(
            NodeOffer("a", room=ROOM),
            NodeOffer("b", room=ROOM),
            pods=(
                pod("x", claim(1000, 2 * GI), node="a"),
                pod("y", claim(10, 20 * MI), node="b"),
                pod("z", claim(10, 20 * MI), node="b"),
            ),
        ),
        "b",
    ),
    (
        "pods that ask for nothing are not taken for nothing",
        pod(),
        cluster(
            NodeOffer("a", room=ROOM),
            NodeOffer("b", room=ROOM),
            pods=(pod("x", PodClaim(scored_cpu=100, scored_memory=200 * MI), node="a"),),
        ),
        "b",
    ),
    ("the first of equals", pod(), cluster(NodeOffer("b", room=ROOM), NodeOffer("a", room=ROOM)), "a"),
    (
        "of equals the one with fewer pods",
        pod(),
        cluster(NodeOffer("a", room=ROOM), NodeOffer("b", room=ROOM), pods=(pod("x", node="a"),)),
        "b",
    ),
    (
        "a node without a wish against it",
        pod(),
        cluster(NodeOffer("a", taints=(WISH,), room=ROOM), NodeOffer("b", room=ROOM)),
        "b",
    ),
    (
        "the wish weighs more than an empty node",
        pod("p", claim(100)),
        cluster(
            NodeOffer("a", taints=(WISH,), room=ROOM),
            NodeOffer("b", room=ROOM),
            pods=(pod("x", claim(3000, 6 * GI), node="b"),),
        ),
        "b",
    ),
    (
        "what it likes",
        pod(affinity=LIKES_SSD),
        cluster(NodeOffer("a", room=ROOM), NodeOffer("b", {"disk": "ssd"}, room=ROOM)),
        "b",
    ),
    (
        "a lopsided node that stays as it is, for it has more room",
        pod("p", claim(10, MI)),
        cluster(
            NodeOffer("a", room=ROOM),
            NodeOffer("b", room=ROOM),
            pods=(pod("x", claim(0, 6 * GI), node="a"), pod("y", claim(2000, 4 * GI), node="b")),
        ),
        "a",
    ),
    (
        "apart from its likes",
        pod("p", claim(100, MI), group=SET),
        cluster(
            NodeOffer("a", room=ROOM),
            NodeOffer("b", room=ROOM),
            pods=(pod("x", claim(100, MI), group=SET, node="a"), pod("y", claim(500, GI), node="b")),
        ),
        "b",
    ),
    (
        "pods that are going do not count",
        pod("p", claim(100, MI), group=SET),
        cluster(
            NodeOffer("a", room=ROOM),
            NodeOffer("b", room=ROOM),
            pods=(pod("x", group=SET, node="a", is_terminating=True), pod("y", claim(500, GI), node="b")),
        ),
        "a",
    ),
    (
        "another zone",
        pod("p", claim(100, MI), group=SET),
        cluster(
            NodeOffer("a", {ZONE_LABEL: "z1"}, room=ROOM),
            NodeOffer("b", {ZONE_LABEL: "z1"}, room=ROOM),
            NodeOffer("c", {ZONE_LABEL: "z2"}, room=ROOM),
            pods=(pod("x", claim(100, MI), group=SET, node="a"), pod("y", claim(200, 2 * MI), node="c")),
        ),
        "c",
    ),
    (
        "cpu and memory in balance",
        pod("p", claim(2000, 0)),
        cluster(
            NodeOffer("a", room=NodeRoom(4000, 4000, 0, 10)),
            NodeOffer("b", room=NodeRoom(4000, 4000, 0, 10)),
            pods=(pod("x", claim(1000, 0), node="a"), pod("y", claim(0, 1000), node="b")),
        ),
        "b",
    ),
]


@pytest.mark.parametrize(("case", "asking", "nodes", "expected"), CHOICES, ids=[each[0] for each in CHOICES])
def test_the_best_node(case: str, asking: PlaceablePod, nodes: ClusterLoad, expected: str) -> None:
    """One difference at a time, and which of two counts more."""
    assert place(asking, nodes) == Placed(expected)


def test_a_place_that_was_made_is_taken_whatever_is_better() -> None:
    """Others went for it."""
    nodes = cluster(NodeOffer("a", room=ROOM), NodeOffer("b", room=ROOM), pods=(pod("x", claim(1000), node="b"),))
    asking = pod("p", claim(1000))
    nodes.nominate(asking, "b")
    assert place(asking, nodes) == Placed("b")
    nodes.put(pod("y", claim(3000), node="b"))
    assert place(asking, nodes) == Placed("a")


def test_pods_of_an_unknown_node_count_once_it_is_known() -> None:
    """Pods and nodes are told of apart. A node that is gone takes no pod, and its pods come back with it."""
    nodes = cluster(pods=(pod("x", claim(4000), node="n"),))
    asking = pod("p", claim(1))
    assert place(asking, nodes) == Unplaced({})
    nodes.set_node(NodeOffer("n", room=ROOM))
    assert isinstance(place(asking, nodes), Unplaced)
    nodes.drop_node("n")
    assert place(asking, nodes) == Unplaced({})
    assert nodes.remove(("default", "x"))
    assert not nodes.remove(("default", "x"))
    nodes.set_node(NodeOffer("n", room=ROOM))
    assert place(asking, nodes) == Placed("n")


CLAIMS: list[tuple[Pod, PodClaim]] = [
    (Pod("p"), PodClaim()),
    (Pod("p", containers=(container(),)), PodClaim(scored_cpu=100, scored_memory=200 * MI)),
    (Pod("p", containers=(container("a"), container("b"))), PodClaim(scored_cpu=200, scored_memory=400 * MI)),
    (
        Pod("p", containers=(container("c", None, cpu="1500m", memory="0"),)),
        PodClaim(1500, 0, 0, (), 1500, 0),
    ),
    (
        Pod("p", containers=(container("c", None, cpu="1"),), init_containers=(sidecar("s", None, cpu="2"),)),
        PodClaim(3000, 0, 0, (), 3000, 400 * MI),
    ),
    (
        Pod("p", containers=(container("c", None, ephemeral_storage="1Gi"),), overhead=resources(cpu="250m")),
        PodClaim(250, 0, GI, (), 350, 200 * MI),
    ),
    (
        Pod("p", containers=(container("c"),), resources=PodResources(resources(cpu="3"))),
        PodClaim(3000, 0, 0, (), 3000, 200 * MI),
    ),
    (
        Pod("p", containers=(container("c", None, **{"example.com/gpu": "2", "strange": "7"}),)),
        PodClaim(0, 0, 0, (("example.com/gpu", 2),), 100, 200 * MI),
    ),
]


@pytest.mark.parametrize(("asking", "expected"), CLAIMS)
def test_what_a_pod_takes(asking: Pod, expected: PodClaim) -> None:
    """Each container without a request scores as 100m and 200Mi; a request of zero is one."""
    assert claim_of(asking) == expected
