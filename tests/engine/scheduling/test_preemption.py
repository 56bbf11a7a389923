"""Which pods go for which: the node, its victims, and what is said when there are none."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from jettison.engine.budgets.budget import Budget, BudgetStatus
from jettison.engine.labels.selectors import MatchExpression, SelectorObject
from jettison.engine.scheduling.choice import Unplaced, place
from jettison.engine.scheduling.nodes import ClusterLoad, NodeOffer, NodeRoom
from jettison.engine.scheduling.placement import NO_SCHEDULE, Taint
from jettison.engine.scheduling.pods import PlaceablePod, PodClaim
from jettison.engine.scheduling.preemption import NoPreemption, Preemption, preempt

ROOM = NodeRoom(cpu=4, pods=10)
WEB = SelectorObject({"app": "web"})


def pod(
    name: str,
    cpu: int = 0,
    priority: int = 0,
    node: str = "",
    *,
    started: int = 100,
    labels: dict[str, str] | None = None,
    may_preempt: bool = True,
    is_preempted: bool = False,
) -> PlaceablePod:
    return PlaceablePod(
        ("default", name),
        uid=name,
        priority=priority,
        claim=PodClaim(cpu, scored_cpu=cpu),
        node=node,
        labels=labels or {},
        started_ns=started,
        may_preempt=may_preempt,
        is_terminating=is_preempted,
        is_preempted=is_preempted,
    )


def cluster(*pods: PlaceablePod, nodes: Iterable[NodeOffer] = ()) -> ClusterLoad:
    made = ClusterLoad()
    for name in sorted({each.node for each in pods}):
        made.set_node(NodeOffer(name, room=ROOM))
    for offer in nodes:
        made.set_node(offer)
    for each in pods:
        made.put(each)
    return made


def budget(allowed: int, selector: SelectorObject | None = WEB, *granted: str, namespace: str = "default") -> Budget:
    status = BudgetStatus(disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(granted, 1))
    return Budget("b", namespace, selector=selector, status=status)


def chosen(incoming: PlaceablePod, nodes: ClusterLoad, *budgets: Budget) -> Preemption | NoPreemption:
    """What becomes of a pod that fits nowhere."""
    outcome = place(incoming, nodes)
    assert isinstance(outcome, Unplaced)
    return preempt(incoming, nodes, outcome.refusals, lambda name: [each for each in budgets if each.namespace == name])


def victims(found: Preemption | NoPreemption) -> tuple[str, list[str], int]:
    assert isinstance(found, Preemption), found
    return found.node, [each.key[1] for each in found.victims], found.violations


GUARDED = {"app": "web"}

CASES: list[tuple[str, PlaceablePod, ClusterLoad, tuple[Budget, ...], tuple[str, list[str], int]]] = [
    (
        "only as many as needed, the least important",
        pod("new", 2, 9),
        cluster(pod("a", 2, 3, "n"), pod("b", 1, 1, "n"), pod("c", 1, 2, "n")),
        (),
        ("n", ["c", "b"], 0),
    ),
    (
        "a small pod is spared even if it is less important than one that must go",
        pod("new", 3, 9),
        cluster(pod("big", 3, 5, "n"), pod("small", 1, 1, "n")),
        (),
        ("n", ["big"], 0),
    ),
    (
        "of equals the one that began last",
        pod("new", 2, 9),
        cluster(pod("old", 2, 1, "n", started=5), pod("young", 2, 1, "n", started=6)),
        (),
        ("n", ["young"], 0),
    ),
    (
        "those of equal priority stay",
        pod("new", 2, 9),
        cluster(pod("equal", 2, 9, "n"), pod("lower", 2, 8, "n")),
        (),
        ("n", ["lower"], 0),
    ),
    (
        "for a place alone",
        pod("new", 0, 9),
        cluster(*(pod(f"p{number}", 0, number, "n") for number in range(8)), pod("x", 0, 9, "n"), pod("y", 0, 9, "n")),
        (),
        ("n", ["p0"], 0),
    ),
    (
        "the guarded one is spared",
        pod("new", 2, 9),
        cluster(pod("guarded", 2, 1, "n", labels=GUARDED), pod("other", 2, 5, "n", labels={"app": "x"})),
        (budget(0),),
        ("n", ["other"], 0),
    ),
    (
        "unless no other can go",
        pod("new", 4, 9),
        cluster(pod("guarded", 2, 1, "n", labels=GUARDED), pod("other", 2, 5, "n", labels={"app": "x"})),
        (budget(0),),
        ("n", ["other", "guarded"], 1),
    ),
    (
        "a budget that has one to spare has one to spare",
        pod("new", 4, 9),
        cluster(pod("a", 2, 1, "n", labels=GUARDED), pod("b", 2, 1, "n", labels=GUARDED)),
        (budget(1),),
        ("n", ["a", "b"], 1),
    ),
    (
        "whose end was granted is not guarded",
        pod("new", 2, 9),
        cluster(pod("granted", 2, 1, "n", labels=GUARDED), pod("other", 2, 5, "n", labels={"app": "x"})),
        (budget(0, WEB, "granted"),),
        ("n", ["granted"], 0),
    ),
    (
        "an empty selector guards no pod, against what it does elsewhere",
        pod("new", 2, 9),
        cluster(pod("a", 2, 1, "n", labels=GUARDED), pod("b", 2, 5, "n")),
        (budget(0, SelectorObject()),),
        ("n", ["a"], 0),
    ),
    (
        "a pod without labels is not guarded",
        pod("new", 2, 9),
        cluster(pod("a", 2, 1, "n"), pod("b", 2, 5, "n", labels={"x": "y"})),
        (budget(0, SelectorObject({}, (MatchExpression("app", "DoesNotExist"),))),),
        ("n", ["a"], 0),
    ),
    (
        "a budget of another namespace, or one that cannot be read, guards no pod",
        pod("new", 2, 9),
        cluster(pod("a", 2, 1, "n", labels=GUARDED), pod("b", 2, 5, "n", labels=GUARDED)),
        (budget(0, WEB, namespace="elsewhere"), budget(0, SelectorObject({"app": "no label!"}))),
        ("n", ["a"], 0),
    ),
    (
        "the node where no budget is violated",
        pod("new", 4, 9),
        cluster(pod("a", 4, 1, "n1", labels=GUARDED), pod("b", 4, 8, "n2")),
        (budget(0),),
        ("n2", ["b"], 0),
    ),
    (
        "the node with the less important victims, however many",
        pod("new", 4, 9),
        cluster(pod("a", 4, 5, "n1"), pod("b", 2, 4, "n2"), pod("c", 2, 4, "n2")),
        (),
        ("n2", ["b", "c"], 0),
    ),
    (
        "the smaller sum of priorities, which fewer pods have",
        pod("new", 4, 9),
        cluster(pod("a", 2, 5, "n1"), pod("b", 2, -7, "n1"), pod("c", 4, 5, "n2")),
        (),
        ("n2", ["c"], 0),
    ),
    (
        "with the same number, the smaller sum",
        pod("new", 4, 9),
        cluster(pod("a", 2, 5, "n1"), pod("b", 2, 4, "n1"), pod("c", 2, 5, "n2"), pod("d", 2, 3, "n2")),
        (),
        ("n2", ["c", "d"], 0),
    ),
    (
        "where the most important victim began last",
        pod("new", 4, 9),
        cluster(pod("a", 4, 1, "n1", started=5), pod("b", 4, 1, "n2", started=7), pod("c", 4, 1, "n3", started=6)),
        (),
        ("n2", ["b"], 0),
    ),
    (
        "and else the first by name",
        pod("new", 4, 9),
        cluster(pod("a", 4, 1, "n2"), pod("b", 4, 1, "n1")),
        (),
        ("n1", ["b"], 0),
    ),
]


@pytest.mark.parametrize(("case", "incoming", "nodes", "budgets", "expected"), CASES, ids=[each[0] for each in CASES])
def test_which_pods_go(
    case: str,
    incoming: PlaceablePod,
    nodes: ClusterLoad,
    budgets: tuple[Budget, ...],
    expected: tuple[str, list[str], int],
) -> None:
    """The node, the victims from the most important on, and how many of them a budget wanted to keep."""
    assert victims(chosen(incoming, nodes, *budgets)) == expected


TAINTED = NodeOffer("tainted", taints=(Taint("bad", "", NO_SCHEDULE),), room=ROOM)

REFUSALS: list[tuple[str, PlaceablePod, ClusterLoad, str]] = [
    (
        "it may not",
        pod("new", 4, 9, may_preempt=False),
        cluster(pod("a", 4, 1, "n")),
        "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.",
    ),
    (
        "no pod is less important, and a taint stays",
        pod("new", 4, 1),
        cluster(pod("a", 4, 1, "n"), nodes=(TAINTED,)),
        (
            "no new claims to deallocate, preemption: 0/2 nodes are available: "
            "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
        ),
    ),
    (
        "no node is large enough",
        pod("new", 5, 9),
        cluster(pod("a", 4, 1, "n")),
        "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    ),
    (
        "the more important pods leave too little",
        pod("new", 4, 9),
        cluster(pod("a", 2, 10, "n"), pod("b", 2, 1, "n")),
        "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Insufficient cpu.",
    ),
]


@pytest.mark.parametrize(("case", "incoming", "nodes", "message"), REFUSALS, ids=[each[0] for each in REFUSALS])
def test_why_no_pod_goes(case: str, incoming: PlaceablePod, nodes: ClusterLoad, message: str) -> None:
    """Kubernetes' words."""
    found = chosen(incoming, nodes)
    assert isinstance(found, NoPreemption)
    assert found.message == message


def test_no_other_pod_goes_while_some_are_going() -> None:
    """Unless they went for another pod, or the node has become impossible meanwhile."""
    going = pod("going", 2, 1, "n", is_preempted=True)
    nodes = cluster(going, pod("other", 2, 1, "n"))
    incoming = pod("new", 2, 9)
    nodes.nominate(incoming, "n")
    waiting = chosen(incoming, nodes)
    assert isinstance(waiting, NoPreemption)
    assert (
        waiting.message
        == "no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node."
    )
    assert waiting.keeps_nomination
    nodes.set_node(NodeOffer("m", room=ROOM))
    nodes.put(pod("there", 4, 1, "m"))
    nodes.set_node(NodeOffer("n", taints=(Taint("bad", "", NO_SCHEDULE),), room=ROOM))
    assert victims(chosen(incoming, nodes)) == ("m", ["there"], 0)


def test_two_pods_that_need_the_same_room_do_not_end_the_same_pods() -> None:
    """The first is nominated, so that the second finds its place taken and looks for another."""
    nodes = cluster(pod("a", 2, 1, "n"), pod("b", 2, 2, "n"))
    first, second = pod("first", 2, 9), pod("second", 2, 9)
    found = chosen(first, nodes)
    assert victims(found) == ("n", ["a"], 0)
    nodes.nominate(first, "n")
    assert victims(chosen(second, nodes)) == ("n", ["b", "a"], 0)
    nodes.remove(("default", "a"))
    assert victims(chosen(second, nodes)) == ("n", ["b"], 0)
