"""What holds for every cluster: no node is overfilled, and no pod goes that need not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.budgets.budget import Budget, BudgetStatus
from jettison.engine.labels.selectors import SelectorObject
from jettison.engine.scheduling.choice import ZONE_LABEL, Placed, Unplaced, place, refusal
from jettison.engine.scheduling.nodes import ClusterLoad, NodeOffer, NodeRoom, Tally
from jettison.engine.scheduling.placement import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration
from jettison.engine.scheduling.pods import PlaceablePod, PodClaim
from jettison.engine.scheduling.preemption import Preemption, preempt
from jettison.engine.scheduling.shortlists import Shortlists

APPS = ("a", "b", "c")
DEVICE = "example.com/gpu"


def _nodes(chance: Random) -> list[NodeOffer]:
    taints = ((), (Taint("x", "", NO_SCHEDULE),), (Taint("x", "", PREFER_NO_SCHEDULE),))
    return [
        NodeOffer(
            f"n{number}",
            labels=chance.choice(({}, {ZONE_LABEL: "east"}, {ZONE_LABEL: "west"}, {ZONE_LABEL: ""})),
            taints=chance.choice(taints),
            is_cordoned=chance.random() < 0.1,
            room=NodeRoom(chance.randint(0, 12), chance.randint(0, 12), 0, chance.randint(0, 8), {DEVICE: 2}),
        )
        for number in range(chance.randint(0, 5))
    ]


def _pod(chance: Random, number: int) -> PlaceablePod:
    cpu, memory = chance.randint(0, 5), chance.randint(0, 5)
    devices = ((DEVICE, chance.randint(1, 2)),) if chance.random() < 0.2 else ()
    return PlaceablePod(
        ("default", f"p{number}"),
        uid=f"p{number}",
        priority=chance.randint(-2, 3),
        claim=PodClaim(cpu, memory, 0, devices, cpu or 1, memory or 1),
        tolerations=(Toleration("x", "Exists"),) if chance.random() < 0.5 else (),
        labels={"app": chance.choice(APPS)},
        group=chance.choice(("", *APPS)),
        started_ns=chance.randint(0, 3),
    )


def _budgets(chance: Random) -> list[Budget]:
    return [
        Budget(
            app,
            selector=SelectorObject({"app": app}),
            status=BudgetStatus(disruptions_allowed=chance.randint(0, 2)),
        )
        for app in APPS
        if chance.random() < 0.7
    ]


def _filled(chance: Random) -> tuple[ClusterLoad, list[PlaceablePod]]:
    """As many pods as come, some of which leave again; and those that did not fit."""
    cluster, left = ClusterLoad(), []
    for offer in _nodes(chance):
        cluster.set_node(offer)
    placed: list[PlaceablePod] = []
    for number in range(chance.randint(0, 40)):
        pod = _pod(chance, number)
        outcome = place(pod, cluster)
        if isinstance(outcome, Placed):
            placed.append(replace(pod, node=outcome.node))
            cluster.put(placed[-1])
        else:
            left.append(pod)
        if placed and chance.random() < 0.3:
            assert cluster.remove(placed.pop(chance.randrange(len(placed))).key)
    return cluster, left


def _counted(cluster: ClusterLoad) -> None:
    """The sums that are kept are those that one gets by adding up, and no node is beyond what it has."""
    for load in cluster.loads:
        tally = Tally()
        for pod in load.pods.values():
            tally.add(pod.claim)
        kept = {name: value for name, value in load.tally.others.items() if value}
        assert (tally.cpu, tally.memory, tally.pods) == (load.tally.cpu, load.tally.memory, load.tally.pods)
        assert tally.others == kept
        room = load.offer.room
        assert tally.cpu <= room.cpu
        assert tally.memory <= room.memory
        assert tally.pods <= room.pods
        assert tally.others.get(DEVICE, 0) <= room.others[DEVICE]


chances = st.integers(0, 2**32).map(Random)


@given(chances)
def test_no_node_is_ever_overfilled(chance: Random) -> None:
    """Whatever pods come and go."""
    cluster, left = _filled(chance)
    _counted(cluster)
    for pod in left:
        outcome = place(pod, cluster)
        if isinstance(outcome, Placed):
            load = cluster.load(outcome.node)
            assert load is not None
            assert refusal(pod, load) is None


@given(chances)
def test_the_choice_does_not_depend_on_the_order_of_nodes(chance: Random) -> None:
    """Nor on when they were heard of."""
    nodes, pods = _nodes(chance), [_pod(chance, number) for number in range(20)]
    choices = []
    for offers in (nodes, list(reversed(nodes))):
        cluster = ClusterLoad()
        for offer in offers:
            cluster.set_node(offer)
        taken = []
        for pod in pods:
            outcome = place(pod, cluster)
            if isinstance(outcome, Placed):
                cluster.put(replace(pod, node=outcome.node))
                taken.append(outcome.node)
            else:
                taken.append("")
        choices.append(taken)
    assert choices[0] == choices[1]


@given(chances)
def test_only_the_less_important_go_and_none_too_many(chance: Random) -> None:
    """The pod fits when they are gone, and would not if any one of them stayed."""
    cluster, left = _filled(chance)
    budgets = _budgets(chance)
    for pod in left:
        outcome = place(pod, cluster)
        if not isinstance(outcome, Unplaced):
            continue
        found = preempt(pod, cluster, outcome.refusals, lambda _: budgets)
        if not isinstance(found, Preemption):
            assert found.message.startswith("no new claims to deallocate, preemption: 0/")
            continue
        load = cluster.load(found.node)
        assert load is not None
        assert found.victims
        assert all(each.priority < pod.priority for each in found.victims)
        for each in found.victims:
            cluster.remove(each.key)
        assert refusal(pod, load) is None
        for each in found.victims:
            cluster.put(each)
            assert refusal(pod, load) is not None
            cluster.remove(each.key)
        for each in found.victims:
            cluster.put(each)
        _counted(cluster)


@given(chances)
def test_no_budget_is_violated_on_a_node_where_it_need_not_be(chance: Random) -> None:
    """If the pods that no budget keeps would do on some node, then no node is chosen where one would not."""
    cluster, left = _filled(chance)
    budgets = _budgets(chance)
    unguarded = {app for app in APPS if app not in {each.name for each in budgets}}
    for pod in left:
        outcome = place(pod, cluster)
        if not isinstance(outcome, Unplaced):
            continue
        found = preempt(pod, cluster, outcome.refusals, lambda _: budgets)
        if isinstance(found, Preemption) and found.violations:
            for load in cluster.loads:
                free = [
                    each
                    for each in load.pods.values()
                    if each.priority < pod.priority and each.labels["app"] in unguarded
                ]
                for each in free:
                    cluster.remove(each.key)
                assert refusal(pod, load) is not None
                for each in free:
                    cluster.put(each)


@given(st.randoms(use_true_random=False))
def test_a_shortlist_gives_the_answer_that_asking_every_node_gives(chance: Random) -> None:
    """Pods of few kinds come, go and wait for others, and nodes come, go and change, in any order."""
    cluster = ClusterLoad()
    shortlists = Shortlists(cluster)
    kinds = [_pod(chance, number) for number in range(3)]
    for number in range(40):
        pod = replace(chance.choice(kinds), key=("default", f"p{number}"), uid=f"p{number}")
        outcome = shortlists.place(pod)
        assert outcome == place(pod, cluster)
        match chance.randint(0, 9):
            case 0:
                for offer in _nodes(chance):
                    cluster.set_node(offer)
            case 1:
                cluster.drop_node(f"n{chance.randint(0, 4)}")
            case 2:
                cluster.remove(("default", f"p{chance.randint(0, 40)}"))
            case 3:
                cluster.nominate(replace(pod, priority=3), f"n{chance.randint(0, 4)}")
            case 4:
                cluster.withdraw(("default", f"p{chance.randint(0, 40)}"))
            case _ if isinstance(outcome, Placed):
                cluster.put(replace(pod, node=outcome.node))
