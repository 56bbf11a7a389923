"""Facts as Kubernetes Events: reasons and texts, and how many of them an object gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison import events
from jettison.agent.sinks.kubernetes_events import KubernetesEvents, event_document
from jettison.engine.node.event_correlation import Recorded
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.facts import ConditionChanged, PodsRanked, ReclaimAttempted
from jettison.engine.node.signals import Condition, Reclaimable, Resource, Signal
from jettison.engine.pods.pod import Pod
from jettison.engine.pods.preemption import preemption_of
from jettison.events import Fact
from tests.builders import container, pod

SECOND_NS = 10**9
NOON_NS = 1893456000 * SECOND_NS
WEB = replace(pod("web"), uid="u-1", init_containers=(container("setup"),))
EVICTION = Eviction(
    WEB, "The node was low on resource: memory. ", 1, "memory.available", {"starved_resource": "memory"}
)


def events_for(*facts: Fact) -> list[Recorded]:
    sink = KubernetesEvents("node1")
    for number, fact in enumerate(facts):
        sink.take(fact, NOON_NS + number)
    return sink.recorded()


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (
            ReclaimAttempted(Signal.MEMORY_AVAILABLE, Resource.MEMORY),
            "Warning Node/node1 EvictionThresholdMet: Attempting to reclaim memory",
        ),
        (
            events.EvictionStarted(EVICTION, 1),
            "Warning Pod/web Evicted: The node was low on resource: memory. ",
        ),
        (
            events.EvictionStarted(preemption_of(WEB), 1),
            "Warning Pod/web Preempting: Preempted in order to admit critical pod",
        ),
        (
            events.EvictionTimedOut(EVICTION),
            (
                "Warning Pod/web ExceededGracePeriod: "
                "Container runtime did not kill the pod within specified grace period."
            ),
        ),
        (
            events.PodRejected(WEB, "Evicted", "The node had condition: [DiskPressure]. "),
            "Warning Pod/web Evicted: The node had condition: [DiskPressure]. ",
        ),
        (events.ContainerStopping(WEB, "c"), "Normal Pod/web Killing: Stopping container c"),
        (events.ContainerStarted(WEB, "c", 0), "Normal Pod/web Started: Container started"),
        (
            events.ContainerFinished(WEB, "c", 128, "StartError", "cannot start `x`: no such file or directory"),
            "Warning Pod/web Failed: Error: cannot start `x`: no such file or directory",
        ),
        (
            events.ContainerBackOff(WEB, "c", 10),
            "Warning Pod/web BackOff: Back-off restarting failed container c in pod web_default(u-1)",
        ),
        (
            events.ProbeFailed(WEB, "c", "readiness", "connection refused"),
            "Warning Pod/web Unhealthy: Readiness probe failed: connection refused",
        ),
        (events.OutOfMemoryKill(None, "", 1), "Warning Node/node1 SystemOOM: System OOM encountered"),
        (
            events.OutOfMemoryKill(None, "", 1, "mysqld", 4711),
            "Warning Node/node1 SystemOOM: System OOM encountered, victim process: mysqld, pid: 4711",
        ),
        (
            events.DeadlineExceeded(WEB, 60),
            "Normal Pod/web DeadlineExceeded: Pod was active on the node longer than the specified deadline",
        ),
        (
            events.KillFailed(WEB, "", "too many open files"),
            "Warning Pod/web FailedKillPod: error killing pod: too many open files",
        ),
        (
            events.KillFailed(WEB, "c", "these processes do not die: 7"),
            "Warning Pod/web FailedKillPod: error killing pod: container c: these processes do not die: 7",
        ),
        (
            events.LimitsEnforced("jettison/n/kubepods"),
            "Normal Node/node1 NodeAllocatableEnforced: Updated Node Allocatable limit across pods",
        ),
        (
            events.LimitsRefused("jettison/n/kubepods", "device or resource busy"),
            (
                "Warning Node/node1 FailedNodeAllocatableEnforcement: Failed to update Node Allocatable Limits "
                '["jettison" "n" "kubepods"]: device or resource busy'
            ),
        ),
        (
            events.CollectionFailed(Reclaimable.CONTAINERS, "cannot remove `x`: busy"),
            "Warning Node/node1 ContainerGCFailed: cannot remove `x`: busy",
        ),
        (
            events.CollectionFailed(
                Reclaimable.IMAGES, "invalid capacity 0 on image filesystem", "InvalidDiskCapacity"
            ),
            "Warning Node/node1 InvalidDiskCapacity: invalid capacity 0 on image filesystem",
        ),
        (
            events.CollectionFailed(Reclaimable.IMAGES, "cannot list images"),
            "Warning Node/node1 ImageGCFailed: cannot list images",
        ),
        (
            ConditionChanged(Condition.MEMORY_PRESSURE, True),
            "Normal Node/node1 NodeHasInsufficientMemory: Node node1 status is now: NodeHasInsufficientMemory",
        ),
        (
            ConditionChanged(Condition.PID_PRESSURE, False),
            "Normal Node/node1 NodeHasSufficientPID: Node node1 status is now: NodeHasSufficientPID",
        ),
    ],
)
def test_what_kubernetes_says(fact: Fact, expected: str) -> None:
    (event,) = events_for(fact)

    assert f"{event.type} {event.subject.kind}/{event.subject.name} {event.reason}: {event.message}" == expected


@pytest.mark.parametrize(
    "fact",
    [
        events.OutOfMemoryKill(WEB, "c", 1),
        events.AlarmRaised("psi"),
        events.PodEvicted(EVICTION, 1),
        events.ContainerFinished(WEB, "c", 1, "Error"),
        PodsRanked(Signal.PID_AVAILABLE, 1, {}),
    ],
)
def test_most_facts_have_no_event(fact: Fact) -> None:
    assert events_for(fact) == []


def test_conditions_change_one_at_a_time() -> None:
    found = events_for(
        ConditionChanged(Condition.MEMORY_PRESSURE, True),
        ConditionChanged(Condition.DISK_PRESSURE, True),
        ConditionChanged(Condition.MEMORY_PRESSURE, False),
    )

    assert [event.reason for event in found] == [
        "NodeHasInsufficientMemory",
        "NodeHasDiskPressure",
        "NodeHasSufficientMemory",
    ]


def test_the_document_is_a_v1_event() -> None:
    (event,) = events_for(events.EvictionStarted(EVICTION, 1))

    assert event_document(event, "node1") == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"web.{NOON_NS:x}",
            "namespace": "default",
            "annotations": {"starved_resource": "memory"},
        },
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web", "uid": "u-1", "apiVersion": "v1"},
        "reason": "Evicted",
        "message": "The node was low on resource: memory. ",
        "source": {"component": "kubelet", "host": "node1"},
        "firstTimestamp": "2030-01-01T00:00:00Z",
        "lastTimestamp": "2030-01-01T00:00:00Z",
        "count": 1,
        "type": "Warning",
        "reportingComponent": "kubelet",
        "reportingInstance": "node1",
    }


def test_an_event_about_the_node_lives_in_the_default_namespace() -> None:
    sink = KubernetesEvents("node1")
    sink.take(ReclaimAttempted(Signal.PID_AVAILABLE, Resource.PIDS), NOON_NS)

    document = sink.document(sink.recorded()[0])

    assert document["metadata"]["namespace"] == "default"
    assert document["involvedObject"] == {"kind": "Node", "name": "node1", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("c", "spec.containers{c}"),
        ("setup", "spec.initContainers{setup}"),
        ("debugger", "spec.ephemeralContainers{debugger}"),
    ],
)
def test_an_event_about_a_container_says_which(name: str, path: str) -> None:
    (event,) = events_for(events.ContainerStarted(WEB, name, 0))

    assert event.subject.field_path == path


def test_the_same_event_counts_up() -> None:
    attempt = ReclaimAttempted(Signal.MEMORY_AVAILABLE, Resource.MEMORY)
    told: list[Recorded] = []
    sink = KubernetesEvents("node1", consumer=told.append)
    for second in range(3):
        sink.take(attempt, NOON_NS + second * SECOND_NS)

    (event,) = sink.recorded()
    assert (event.count, event.first_ns, event.last_ns) == (3, NOON_NS, NOON_NS + 2 * SECOND_NS)
    assert [each.count for each in told] == [1, 2, 3]
    assert {each.name for each in told} == {event.name}


def test_a_long_shortage_shows_few_events_and_goes_on_counting() -> None:
    """25 at once, then one for every five minutes; what is not shown is counted all the same."""
    told: list[Recorded] = []
    sink = KubernetesEvents("node1", consumer=told.append)
    for second in range(0, 1200, 10):
        sink.take(ReclaimAttempted(Signal.MEMORY_AVAILABLE, Resource.MEMORY), NOON_NS + second * SECOND_NS)

    assert len(told) == 25 + 3
    assert [each.count for each in told[:25]] == list(range(1, 26))
    assert [each.count for each in told[25:]] == [31, 61, 91]


def test_each_object_has_its_own_share() -> None:
    sink = KubernetesEvents("node1")
    for _ in range(30):
        sink.take(events.ContainerStopping(WEB, "c"), NOON_NS)
    sink.take(events.ContainerStopping(pod("other"), "c"), NOON_NS)

    assert [(event.subject.name, event.count) for event in sink.recorded()] == [("web", 25), ("other", 1)]


def failing(number: int, of: Pod = WEB) -> Fact:
    return events.ProbeFailed(of, "c", "liveness", f"answer {number}")


def test_many_different_messages_are_folded_into_one() -> None:
    found = events_for(*(failing(number) for number in range(15)))

    assert [event.message for event in found[:9]] == [f"Liveness probe failed: answer {n}" for n in range(9)]
    (folded,) = found[9:]
    assert folded.message == "(combined from similar events): Liveness probe failed: answer 14"
    assert folded.count == 6


def test_folding_ends_when_it_was_quiet_for_ten_minutes() -> None:
    sink = KubernetesEvents("node1")
    for number in range(12):
        sink.take(failing(number), NOON_NS)
    sink.take(failing(99), NOON_NS + 601 * SECOND_NS)

    assert sink.recorded()[-1].message == "Liveness probe failed: answer 99"


def test_only_the_newest_are_kept() -> None:
    sink = KubernetesEvents("node1", capacity=3)
    for number in range(5):
        sink.take(events.ContainerStopping(pod(f"p{number}"), "c"), NOON_NS + number)

    assert [event.subject.name for event in sink.recorded()] == ["p2", "p3", "p4"]


def test_events_of_one_instant_do_not_hide_each_other() -> None:
    sink = KubernetesEvents("node1")
    for name in ("a", "b"):
        sink.take(events.ContainerStopping(WEB, name), NOON_NS)

    assert len({event.name for event in sink.recorded()}) == 2


def test_a_thousand_objects_are_remembered_and_no_more() -> None:
    sink = KubernetesEvents("node1")
    for number in range(3000):
        sink.take(events.ContainerStopping(pod(f"p{number}"), "c"), NOON_NS)

    assert len(sink.recorded()) == 1000
    assert {len(kept) for kept in vars(sink._correlator).values()} == {1024}
