"""What an evicted pod is told, word for word (spec §9.4, §16 examples 46 to 48), and conditions in Node.status."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.node.evictions import Eviction
from jettison.engine.node.facts import Fact, NothingToEvict, ReclaimAttempted, ReclaimSufficed
from jettison.engine.node.signals import Condition, Resource, Signal
from jettison.engine.node.snapshot import ContainerUsage, PodUsage, Reading
from jettison.engine.node.wording import (
    Event,
    NodeCondition,
    PressureWording,
    event_of,
    eviction_event,
    report_conditions,
)
from jettison.engine.numbers.quantity import Quantity, parse
from jettison.engine.pods.pod import Pod, PodResources
from tests.builders import GI, MI, container, pod, resources, sidecar, threshold

WEB = Pod(
    "web",
    generation=4,
    containers=(container("c", memory="100Mi"), container("d", memory="64Mi")),
    init_containers=(sidecar("sc"),),
)
WEB_USAGE = PodUsage(
    330 * MI,
    containers=[
        ContainerUsage("c", 250 * MI),
        ContainerUsage("d", 64 * MI),
        ContainerUsage("sc", 16777217),
        ContainerUsage("debugger", GI),
        ContainerUsage("c2", None),
    ],
)
SENTENCES = (
    "Container c was using 250Mi, request is 100Mi, has larger consumption of memory. "
    "Container sc was using 16777217, request is 0, has larger consumption of memory. "
)

READY = NodeCondition("Ready", "True", "KubeletReady", "", 1, 1)
ALL = frozenset(Condition)


def worded(
    found: Pod, usage: PodUsage | None, signal: Signal, amount: Quantity, available: int, capacity: int = 0
) -> Eviction:
    return PressureWording(signal, amount, Reading(available, capacity, None)).eviction(found, usage, 1)


def test_memory_names_every_container_over_its_request() -> None:
    """Sidecars are among them, ephemeral containers are not, and to use exactly the request is fine."""
    order = worded(WEB, WEB_USAGE, Signal.MEMORY_AVAILABLE, parse("100Mi"), 99 * MI)
    opening = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 99Mi. "
    assert order.message == opening + SENTENCES
    assert order.annotations == {
        "offending_containers": "c,sc",
        "offending_containers_usage": "250Mi,16777217",
        "starved_resource": "memory",
    }
    assert (order.signal, order.grace_seconds, order.reason) == ("memory.available", 1, "Evicted")
    assert order.condition is not None
    assert (order.condition.type, order.condition.status) == ("DisruptionTarget", "True")
    assert (order.condition.message, order.condition.observed_generation) == (order.message, 4)


def test_a_pod_with_a_memory_request_of_its_own_is_named_first() -> None:
    """Even where it uses less than that."""
    whole = replace(WEB, resources=PodResources(resources(memory="512Mi")))
    order = worded(whole, WEB_USAGE, Signal.ALLOCATABLE_MEMORY_AVAILABLE, parse("100Mi"), 99 * MI)
    assert order.message == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 99Mi. "
        "Pod web was using 330Mi, request is 512Mi, has larger consumption of memory. " + SENTENCES
    )
    assert order.annotations is not None
    assert order.annotations["offending_pod"] == "web"
    assert order.annotations["offending_pod_usage"] == "330Mi"


@pytest.mark.parametrize(
    ("own", "usage"),
    [
        (PodResources(resources(cpu="1")), WEB_USAGE),
        (PodResources(limits=resources(memory="1Gi")), WEB_USAGE),
        (PodResources(resources(memory="1Gi")), WEB_USAGE._replace(working_set=None)),
        (PodResources(), WEB_USAGE),
    ],
)
def test_when_the_pod_itself_is_not_named(own: PodResources, usage: PodUsage) -> None:
    """It needs a memory request of its own and a measured working set."""
    order = worded(replace(WEB, resources=own), usage, Signal.MEMORY_AVAILABLE, parse("1Gi"), 0)
    assert "Pod web" not in order.message
    assert order.annotations is not None
    assert "offending_pod" not in order.annotations


def test_disk_counts_writable_layer_and_logs() -> None:
    """Only where both are known; the threshold of a percentage prints with its odd bytes."""
    amount = threshold(Signal.NODEFS_AVAILABLE, "10%").quantity(100 * GI)
    known = ContainerUsage("c", None, rootfs_bytes=2 * GI, logs_bytes=4096)
    half = ContainerUsage("c", None, rootfs_bytes=2 * GI)
    asking = pod("a", None, ephemeral_storage="1Gi")
    order = worded(asking, PodUsage(containers=[known, half]), Signal.NODEFS_AVAILABLE, amount, 3221225477)
    assert order.message == (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 10737418400, available: 3221225477. "
        "Container c was using 2097156Ki, request is 1Gi, has larger consumption of ephemeral-storage. "
    )


@pytest.mark.parametrize(
    ("signal", "capacity", "available", "message"),
    [
        (Signal.PID_AVAILABLE, 32768, 1200, "pids. Threshold quantity: 1638, available: 1200. "),
        (Signal.NODEFS_INODES_FREE, 6553600, 200000, "inodes. Threshold quantity: 320Ki, available: 200k. "),
    ],
)
def test_counts_name_no_container(signal: Signal, capacity: int, available: int, message: str) -> None:
    """They are not measured per container; a percentage prints in powers of two all the same."""
    amount = threshold(signal, "5%").quantity(capacity)
    order = worded(WEB, WEB_USAGE, signal, amount, available, capacity)
    assert order.message == f"The node was low on resource: {message}"
    assert order.annotations is not None
    assert order.annotations["offending_containers"] == order.annotations["offending_containers_usage"] == ""


def test_a_pod_without_statistics_gets_empty_annotations() -> None:
    """Which is not the same as none: its event is an annotated one."""
    order = worded(WEB, None, Signal.MEMORY_AVAILABLE, parse("1Gi"), 5)
    assert order.annotations == {}
    assert order.message.endswith("available: 5. ")
    assert eviction_event(order) == Event("Warning", "Evicted", order.message, WEB, ())


def test_the_event_of_an_eviction_for_a_limit_is_a_plain_one() -> None:
    """No annotations at all."""
    order = Eviction(WEB, "too much. ", 1, "emptydirfs.limit")
    assert eviction_event(order) == Event("Warning", "Evicted", "too much. ", WEB, None)


@pytest.mark.parametrize(
    ("fact", "event"),
    [
        (
            ReclaimAttempted(Signal.NODEFS_INODES_FREE, Resource.INODES),
            Event("Warning", "EvictionThresholdMet", "Attempting to reclaim inodes"),
        ),
        (ReclaimSufficed(Signal.NODEFS_INODES_FREE, Resource.INODES), None),
        (NothingToEvict(Signal.PID_AVAILABLE, "why"), None),
    ],
)
def test_the_events_of_facts(fact: Fact, event: Event | None) -> None:
    """Kubernetes records one for the attempt and none for its result."""
    assert event_of(fact) == event


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
    conditions, events = report_conditions([READY], reported, 5, "n1")
    assert conditions[0] == READY
    assert [(each.status, each.reason, each.message) for each in conditions[1:]] == texts
    assert [each.transition_ns for each in conditions[1:]] == [5, 5, 5]
    assert len(events) == 3


def test_events_name_the_node_and_the_status() -> None:
    """Normal ones, even for pressure."""
    _, events = report_conditions([], frozenset({Condition.DISK_PRESSURE}), 5, "n1")
    assert events == [
        Event("Normal", reason, f"Node n1 status is now: {reason}")
        for reason in ("NodeHasSufficientMemory", "NodeHasDiskPressure", "NodeHasSufficientPID")
    ]


def test_an_unchanged_status_is_only_a_heartbeat() -> None:
    """Time of transition, reason and message stay; nothing is said."""
    before, _ = report_conditions([], ALL, 5, "n1")
    after, events = report_conditions(before, ALL, 9, "n1")
    assert events == []
    assert {(each.heartbeat_ns, each.transition_ns) for each in after} == {(9, 5)}


def test_a_change_of_one_leaves_the_others() -> None:
    """And the order of the list as it was."""
    before, _ = report_conditions([], ALL, 5, "n1")
    after, events = report_conditions([READY, *reversed(before)], ALL - {Condition.PID_PRESSURE}, 9, "n1")
    assert [each.type for each in after] == ["Ready", "PIDPressure", "DiskPressure", "MemoryPressure"]
    assert [each.transition_ns for each in after] == [1, 9, 5, 5]
    assert [event.reason for event in events] == ["NodeHasSufficientPID"]


def test_of_two_conditions_of_one_type_the_last_is_reported() -> None:
    """Upstream looks through all of the list and keeps what it met last."""
    stale = NodeCondition("PIDPressure", "Unknown", "old", "old", 1, 1)
    before, _ = report_conditions([], ALL, 5, "n1")
    after, events = report_conditions([stale, *before], ALL, 9, "n1")
    assert after[0] == stale
    assert [(each.heartbeat_ns, each.transition_ns) for each in after[1:]] == [(9, 5)] * 3
    assert events == []
