"""May this pod start here? (spec §10.3, §10.4, §13.1, §16 examples 20, 51, 52 and 68)"""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.node.signals import Condition
from jettison.engine.numbers.quantity import parse
from jettison.engine.pods.admission import (
    ADMITTED,
    PRESSURE_TAINTS,
    Admission,
    Shortage,
    admit_under_pressure,
    shortages,
)
from jettison.engine.pods.pod import Container, Pod
from jettison.engine.scheduling.placement import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration
from tests.builders import pod, resources

MEMORY, DISK, PID = Condition.MEMORY_PRESSURE, Condition.DISK_PRESSURE, Condition.PID_PRESSURE
KEY = "node.kubernetes.io/memory-pressure"
BURSTABLE = pod(memory="1Mi")
STATIC = replace(pod(), is_static=True)


def tolerating(*tolerations: Toleration) -> Pod:
    return replace(pod(), tolerations=tolerations)


@pytest.mark.parametrize(
    ("found", "is_admitted"),
    [
        (pod(), False),
        (BURSTABLE, True),
        (replace(BURSTABLE, reported_qos="BestEffort"), False),
        (tolerating(Toleration(KEY, "Exists")), True),
        (tolerating(Toleration(operator="Exists")), True),
        (tolerating(Toleration(KEY, effect=NO_SCHEDULE)), True),
        (tolerating(Toleration(KEY, value="x")), False),
        (tolerating(Toleration(KEY, "Exists", effect=NO_EXECUTE)), False),
        (STATIC, True),
        (replace(pod(), priority=2_000_000_000), True),
    ],
)
def test_memory_pressure_alone_turns_best_effort_away(found: Pod, is_admitted: bool) -> None:
    """Unless it tolerates the taint or is critical; the class in status counts."""
    refusal = Admission(False, "Evicted", "The node had condition: [MemoryPressure]. ")
    assert admit_under_pressure(found, [MEMORY]) == (ADMITTED if is_admitted else refusal)


@pytest.mark.parametrize("conditions", [[DISK], [PID], [MEMORY, DISK], [DISK, MEMORY], [PID, DISK, MEMORY]])
def test_any_other_pressure_turns_every_pod_away(conditions: list[Condition]) -> None:
    """Even a pod that tolerates every taint; the message repeats the conditions in their order."""
    message = f"The node had condition: [{' '.join(conditions)}]. "
    for found in (BURSTABLE, tolerating(Toleration(operator="Exists"))):
        refusal = admit_under_pressure(found, conditions)
        assert refusal == Admission(False, "Evicted", message)
        assert refusal.status_message == f"Pod was rejected: {message}"
    assert admit_under_pressure(STATIC, conditions) == ADMITTED


def test_without_pressure_every_pod_may_come() -> None:
    """A transition period of zero therefore lets pods onto a starving node."""
    assert admit_under_pressure(pod(), []) == ADMITTED == Admission(True, "", "")


def test_conditions_become_taints() -> None:
    """None of them is NoExecute: pressure alone drives no pod away."""
    assert {taint.effect for taint in PRESSURE_TAINTS.values()} == {NO_SCHEDULE}
    assert PRESSURE_TAINTS[DISK] == Taint("node.kubernetes.io/disk-pressure", "", NO_SCHEDULE)


def test_a_shortage_in_words() -> None:
    """cpu in thousandths; what is missing is requested minus what is left."""
    shortage = Shortage("cpu", 500, 1800, 2000)
    assert shortage.missing == 300
    assert shortage.predicate == "Insufficient cpu"
    assert shortage.refusal == Admission(
        False, "OutOfcpu", "Node didn't have enough resource: cpu, requested: 500, used: 1800, capacity: 2000"
    )


NODE = {"pods": parse("3"), **resources(cpu="2", memory="1Gi", ephemeral_storage="1Gi")}


@pytest.mark.parametrize(
    ("incoming", "others", "missing"),
    [
        (pod(cpu="500m"), [pod("b", None, cpu="1800m")], ["cpu"]),
        (pod(cpu="200m"), [pod("b", None, cpu="1800m")], []),
        (pod(), [pod("b"), pod("c"), pod("d")], ["pods"]),
        (pod(), [pod("b"), pod("c")], []),
        (pod(memory="2Gi", cpu="3", ephemeral_storage="2Gi"), [], ["cpu", "memory", "ephemeral-storage"]),
        (pod(memory="1Gi"), [pod("b", None, memory="1")], ["memory"]),
        (replace(pod(), overhead=resources(memory="2Gi")), [], ["memory"]),
    ],
)
def test_what_keeps_a_pod_from_fitting(incoming: Pod, others: list[Pod], missing: list[str]) -> None:
    """The count of pods, then each resource, against what the others asked for."""
    assert [each.resource for each in shortages(incoming, others, NODE)] == missing


def test_one_pod_too_many() -> None:
    """Each pod counts as one."""
    others = [pod(name) for name in "bcd"]
    assert shortages(pod(), others, NODE) == [Shortage("pods", 1, 3, 3)]


def test_a_device_that_was_not_announced_cannot_be_short() -> None:
    """Requests of extended resources unknown to the node are dropped first."""
    wanting = Pod("a", containers=(Container("c", {"example.com/gpu": parse("1")}),))
    assert shortages(wanting, [], NODE) == []
    assert [each.resource for each in shortages(wanting, [], NODE | {"example.com/gpu": parse("0")})] == [
        "example.com/gpu"
    ]
