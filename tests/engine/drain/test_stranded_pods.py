"""Which pods of a drained node have nowhere to go, and that thousands of nodes are asked once per kind of pod."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jettison.engine.drain.plan import stranded_pods
from jettison.engine.labels.requirements import Operator, Requirement
from jettison.engine.scheduling.nodes import NodeOffer
from jettison.engine.scheduling.placement import (
    NAME_FIELD,
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    NodeAffinity,
    NodeTerm,
    Taint,
    Toleration,
)
from jettison.engine.scheduling.pods import PlaceablePod

HERE = NodeOffer("n1")
SSD = NodeAffinity(selector=(("disk", "ssd"),))
PINNED = NodeAffinity(required=(NodeTerm(names=(Requirement(NAME_FIELD, Operator.IN, ("n1",)),)),))
BEARS_CORDONS = (Toleration("node.kubernetes.io/unschedulable", "Exists"),)


def pod(
    name: str = "a", tolerations: tuple[Toleration, ...] = (), affinity: NodeAffinity | None = None
) -> PlaceablePod:
    return PlaceablePod(("default", name), tolerations=tolerations, affinity=affinity or NodeAffinity(), node="n1")


@pytest.mark.parametrize(
    ("found", "nodes", "drained", "is_stranded"),
    [
        (pod(), [HERE], ["n1"], True),
        (pod(), [HERE, NodeOffer("n2")], ["n1"], False),
        (pod(), [HERE, NodeOffer("n2")], ["n1", "n2"], True),
        (pod(), [HERE, NodeOffer("n2", is_cordoned=True)], ["n1"], True),
        (pod(), [HERE, NodeOffer("n2", taints=(Taint("gpu", "yes", NO_SCHEDULE),))], ["n1"], True),
        (pod(), [HERE, NodeOffer("n2", taints=(Taint("gpu", "yes", NO_EXECUTE),))], ["n1"], True),
        (pod(), [HERE, NodeOffer("n2", taints=(Taint("gpu", "yes", PREFER_NO_SCHEDULE),))], ["n1"], False),
        (
            pod(tolerations=(Toleration("gpu", "Exists"),)),
            [HERE, NodeOffer("n2", taints=(Taint("gpu", "yes", NO_SCHEDULE),))],
            ["n1"],
            False,
        ),
        (pod(affinity=SSD), [HERE, NodeOffer("n2")], ["n1"], True),
        (pod(affinity=SSD), [HERE, NodeOffer("n2", {"disk": "ssd"})], ["n1"], False),
        (pod(affinity=PINNED), [HERE, NodeOffer("n2")], ["n1"], True),
        # A pod that tolerates a cordon comes back to the very node that is being emptied.
        (pod(tolerations=BEARS_CORDONS), [HERE], ["n1"], False),
        (pod(), [], ["n1"], True),
    ],
)
def test_a_replacement_needs_a_node(
    found: PlaceablePod, nodes: list[NodeOffer], drained: list[str], is_stranded: bool
) -> None:
    assert stranded_pods([found], nodes, drained) == ({"default/a"} if is_stranded else set())


def test_each_pod_is_judged_by_its_own_wishes() -> None:
    pods = [pod("a"), pod("b", affinity=SSD), pod("c"), pod("d", affinity=SSD)]
    assert stranded_pods(pods, [NodeOffer("n2")], ["n1"]) == {"default/b", "default/d"}


def test_replicas_are_asked_about_once() -> None:
    class Counting(dict[str, str]):
        asked = 0

        def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
            self.asked += 1
            return super().get(key, default)

    labels = Counting()

    def replicas() -> Iterator[PlaceablePod]:
        return (pod(str(index), affinity=SSD) for index in range(100))

    assert len(stranded_pods(replicas(), [NodeOffer("n2", labels)], ["n1"])) == 100
    assert labels.asked == 1
