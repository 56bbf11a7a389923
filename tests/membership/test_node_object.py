"""A node's conditions, from those that the API has to those that it should have."""

from __future__ import annotations

from jettison.engine.node.signals import Condition
from jettison.engine.node.wording import NodeCondition
from jettison.membership.node_object import (
    RUNTIME_UNHEALTHY,
    NodeImage,
    conditions_of,
    listed_images,
    next_conditions,
    with_runtime,
)

NONE: frozenset[Condition] = frozenset()


def by_type(conditions: list[NodeCondition]) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in conditions}


def test_a_new_node_tells_of_everything() -> None:
    conditions, said = next_conditions([], NONE, None, 5, "n1")
    assert by_type(conditions) == {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
        "Ready": ("True", "KubeletReady"),
    }
    assert [event.reason for event in said][-1] == "NodeReady"
    assert all(each.transition_ns == each.heartbeat_ns == 5 for each in conditions)


def test_an_unchanged_node_only_beats() -> None:
    before, _ = next_conditions([], NONE, None, 5, "n1")
    after, said = next_conditions(before, NONE, None, 9, "n1")
    assert not said
    assert {(each.heartbeat_ns, each.transition_ns) for each in after} == {(9, 5)}


def test_a_node_that_is_not_guarded_is_not_ready() -> None:
    before, _ = next_conditions([], NONE, None, 5, "n1")
    after, said = next_conditions(before, NONE, "the node was last looked at 40 s ago", 9, "n1")
    assert by_type(after)["Ready"] == ("False", "KubeletNotReady")
    assert [event.message for event in said] == ["Node n1 status is now: NodeNotReady"]


def test_pressure_does_not_make_a_node_unready() -> None:
    conditions, _ = next_conditions([], frozenset({Condition.MEMORY_PRESSURE}), None, 5, "n1")
    assert by_type(conditions)["MemoryPressure"] == ("True", "KubeletHasInsufficientMemory")
    assert by_type(conditions)["Ready"][0] == "True"


def test_a_container_runtime_that_does_not_answer_is_a_condition_of_its_own() -> None:
    """The node stays ready: what runs goes on running. A node without a runtime says nothing of it, unless it did."""
    before, _ = next_conditions([], NONE, None, 5, "n1")
    assert with_runtime(before, None, 5) == before
    well = with_runtime(before, "", 5)
    assert by_type(well)[RUNTIME_UNHEALTHY] == ("False", "ContainerRuntimeIsHealthy")
    ill = with_runtime(well, "no answer within 5 s", 9)
    assert by_type(ill) == by_type(well) | {RUNTIME_UNHEALTHY: ("True", "ContainerRuntimeNotAnswering")}
    assert (ill[-1].message, ill[-1].transition_ns) == ("no answer within 5 s", 9)
    again = with_runtime(ill, "no answer within 5 s", 11)
    assert (again[-1].heartbeat_ns, again[-1].transition_ns) == (11, 9)
    assert by_type(with_runtime(ill, None, 12))[RUNTIME_UNHEALTHY][0] == "False"


def test_conditions_are_read_as_the_api_has_them() -> None:
    """Also with a time that cannot be parsed."""
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastHeartbeatTime": "yesterday"}
    assert conditions_of({"status": {"conditions": [lost]}}) == [NodeCondition("Ready", "Unknown", "NodeStatusUnknown")]
    assert conditions_of(None) == []


def test_the_largest_images_are_listed_first_and_so_many() -> None:
    """Five names of each; of two that are as large, the one with the later id."""
    images = [
        NodeImage("a", ("one",), 10),
        NodeImage("b", tuple("abcdef"), 30),
        NodeImage("c", ("three",), 10),
    ]
    assert listed_images(images, 2) == [
        {"names": ["a", "b", "c", "d", "e"], "sizeBytes": 30},
        {"names": ["three"], "sizeBytes": 10},
    ]
    assert len(listed_images(images, -1)) == 3
    assert listed_images(images, 0) == []
