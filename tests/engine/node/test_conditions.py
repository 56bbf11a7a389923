"""The pressure conditions as Node.status shows them (spec §10.1)."""

from __future__ import annotations

import pytest

from jettison.engine.node.conditions import NodeCondition, report
from jettison.engine.node.signals import Condition
from jettison.engine.node.wording import Event

READY = NodeCondition("Ready", "True", "KubeletReady", "", 1, 1)
ALL = frozenset(Condition)


@pytest.mark.parametrize(
    ("reported", "texts"),
    [
        (
            ALL,
            [
                ("True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
                ("True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
                ("True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
            ],
        ),
        (
            frozenset(),
            [
                ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ],
        ),
    ],
)
def test_the_three_conditions_in_words(reported: frozenset[Condition], texts: list[tuple[str, str, str]]) -> None:
    """A condition that the node never had starts as Unknown, so its first report is a change with an event."""
    conditions, events = report([READY], reported, 5, "n1")
    assert conditions[0] == READY
    assert [(each.status, each.reason, each.message) for each in conditions[1:]] == texts
    assert [each.transition_ns for each in conditions[1:]] == [5, 5, 5]
    assert len(events) == 3


def test_events_name_the_node_and_the_status() -> None:
    """Normal ones, even for pressure."""
    _, events = report([], frozenset({Condition.DISK_PRESSURE}), 5, "n1")
    assert events == [
        Event("Normal", reason, f"Node n1 status is now: {reason}")
        for reason in ("NodeHasSufficientMemory", "NodeHasDiskPressure", "NodeHasSufficientPID")
    ]


def test_an_unchanged_status_is_only_a_heartbeat() -> None:
    """Time of transition, reason and message stay; nothing is said."""
    before, _ = report([], ALL, 5, "n1")
    after, events = report(before, ALL, 9, "n1")
    assert events == []
    assert {(each.heartbeat_ns, each.transition_ns) for each in after} == {(9, 5)}


def test_a_change_of_one_leaves_the_others() -> None:
    """And the order of the list as it was."""
    before, _ = report([], ALL, 5, "n1")
    after, events = report([READY, *reversed(before)], ALL - {Condition.PID_PRESSURE}, 9, "n1")
    assert [each.type for each in after] == ["Ready", "PIDPressure", "DiskPressure", "MemoryPressure"]
    assert [each.transition_ns for each in after] == [1, 9, 5, 5]
    assert [event.reason for event in events] == ["NodeHasSufficientPID"]
