"""Making room for a critical pod (spec §13, §16 examples 62 to 70)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.pods.admission import Shortage
from jettison.engine.pods.pod import Pod, Qos
from jettison.engine.pods.preemption import (
    MissingResource,
    Recovery,
    handle_admission_failure,
    is_preemptable,
    preemption_of,
    victims,
)
from tests.builders import MI, container, pod

CRITICAL = replace(pod("critical"), priority=2_000_000_000)


def burstable(size: int, name: str = "") -> Pod:
    return pod(name or f"b{size}", None, memory=f"{size}Mi")


def guaranteed(size: int) -> Pod:
    return replace(burstable(size, f"g{size}"), reported_qos=Qos.GUARANTEED)


def chosen(running: list[Pod], *requirements: MissingResource) -> list[str]:
    found = victims(CRITICAL, running, requirements)
    assert found.refusal is None
    return [each.name for each in found.pods]


def memory(size: int) -> MissingResource:
    return MissingResource("memory", size * MI)


@pytest.mark.parametrize(
    ("need", "running", "names"),
    [
        (150, [burstable(300), burstable(200), burstable(100), pod("be")], ["b200"]),
        (150, [burstable(100), burstable(80), burstable(60)], ["b100", "b60"]),
        (250, [burstable(100), guaranteed(200), guaranteed(400)], ["b100", "g200"]),
        (50, [guaranteed(100), burstable(100)], ["b100"]),
        (0, [burstable(100)], []),
    ],
)
def test_the_fewest_then_the_smallest(need: int, running: list[Pod], names: list[str]) -> None:
    """Guaranteed pods are spared as far as possible and killed last; then the closest fit, then the smaller pod."""
    assert chosen(running, memory(need)) == names


def test_several_resources_at_once() -> None:
    """The pod that covers both is closest."""
    running = [
        pod("cpu", None, cpu="900m", memory="10Mi"),
        pod("memory", None, cpu="10m", memory="900Mi"),
        pod("both", None, cpu="500m", memory="500Mi"),
    ]
    assert chosen(running, MissingResource("cpu", 500), memory(500)) == ["both"]


def test_closeness_is_the_sum_of_squares() -> None:
    """Short of 0.8 of one resource is closer (0.64) than short of 0.6 and 0.55 of two (0.66)."""
    running = [
        pod("two", None, cpu="400m", memory="45Mi"),
        pod("one", None, cpu="200m", memory="100Mi"),
        pod("none", None, cpu="400m"),
    ]
    assert chosen(running, memory(100), MissingResource("cpu", 1000)) == ["one", "none", "two"]


def test_the_last_of_identical_pods_goes() -> None:
    """And only a count of pods can be freed by those that ask for nothing."""
    running = [pod("be1"), pod("be2"), burstable(10, "bu")]
    assert chosen(running, MissingResource("pods", 1)) == ["be2"]


def test_taking_a_pod_moves_the_last_one_into_its_place() -> None:
    """Among identical pods the last of the pool goes: p4, but p3 once p4 has moved to where p2 was."""
    running = [burstable(10, f"p{number}") for number in (1, 2, 3, 4)]
    assert chosen(running, memory(20)) == ["p4", "p3"]
    uneven = [burstable(10, "p1"), burstable(40, "p2"), burstable(10, "p3"), burstable(10, "p4")]
    assert chosen(uneven, memory(60)) == ["p2", "p3", "p4"]


def test_evicting_no_pod_helps() -> None:
    """What would remain after all pods are gone is said in the error, each with a comma behind it."""
    found = victims(CRITICAL, [pod("be1"), burstable(10)], [memory(20), MissingResource("cpu", 5)])
    assert found.refusal == (
        "no set of running pods found to reclaim resources: [(res: memory, q: 10485760), (res: cpu, q: 5), ]"
    )
    recovery = handle_admission_failure(CRITICAL, [], [Shortage("memory", 1, 1, 1)])
    assert recovery.error == (
        "preemption: error finding a set of pods to preempt: "
        "no set of running pods found to reclaim resources: [(res: memory, q: 1), ]"
    )


def test_a_request_that_overflows_takes_instead_of_giving() -> None:
    """In thousandths 16Ei of cpu come out as -1000 upstream, and Burstable pods are counted before Guaranteed ones."""
    huge, small = pod("huge", None, cpu="16Ei"), replace(pod("small", None, cpu="100m"), reported_qos=Qos.GUARANTEED)
    found = victims(CRITICAL, [small, huge], [MissingResource("cpu", 50)])
    assert found.refusal == "no set of running pods found to reclaim resources: [(res: cpu, q: 950), ]"
    found = victims(CRITICAL, [pod("b", None, cpu="100m"), huge], [MissingResource("cpu", 50)])
    assert [each.name for each in found.pods] == ["b"]


@pytest.mark.parametrize(
    ("incoming", "running", "can_be"),
    [
        (None, None, False),
        (2_000_000_000, None, True),
        (2_000_000_000, 5, True),
        (2_000_001_000, 2_000_000_000, True),
        (2_000_001_000, 2_000_001_000, False),
        (2_000_000_000, 2_000_001_000, False),
        (10, 5, True),
        (10, None, False),
    ],
)
def test_which_pods_give_way(incoming: int | None, running: int | None, can_be: bool) -> None:
    """Any pod that is not critical, and lower priorities where both have one; never an equal."""
    assert is_preemptable(pod("in", incoming), pod("out", running)) is can_be


def test_equal_priorities_are_left_alone() -> None:
    """Of two critical pods the one below the incoming goes, though the other is the closer fit."""
    incoming = pod("in", 2_000_001_000)
    running = [pod("below", 2_000_000_000, memory="200Mi"), pod("equal", 2_000_001_000, memory="100Mi")]
    assert [each.name for each in victims(incoming, running, [memory(100)]).pods] == ["below"]


def test_the_order_for_a_victim() -> None:
    """Its own termination period, and a condition that says what ended it."""
    order = preemption_of(replace(pod("v"), generation=7))
    assert (order.reason, order.grace_seconds, order.annotations) == ("Preempting", None, None)
    assert order.message == "Preempted in order to admit critical pod"
    assert order.condition is not None
    assert order.condition.message == "Pod was preempted by Kubelet to accommodate a critical pod."
    assert (order.condition.reason, order.condition.observed_generation) == ("TerminationByKubelet", 7)


SHORT = [Shortage("cpu", 500, 1800, 2000), Shortage("memory", 10, 5, 10)]


@pytest.mark.parametrize(
    ("incoming", "others", "recovery"),
    [
        (pod("plain"), ["NodeName"], Recovery(remaining=("Insufficient cpu", "Insufficient memory", "NodeName"))),
        (CRITICAL, ["NodeName"], Recovery(remaining=("NodeName",))),
    ],
)
def test_when_no_pod_is_ended(incoming: Pod, others: list[str], recovery: Recovery) -> None:
    """A pod that is not critical gets no room made; where something else is in the way, room would not help."""
    assert handle_admission_failure(incoming, [burstable(100)], SHORT, others) == recovery


def test_a_recovery_carries_the_orders() -> None:
    """Missing 300 thousandths of a cpu and 5 bytes: one pod frees both."""
    running = [Pod("v", uid="v", containers=(container("c", None, cpu="300m", memory="5"),))]
    recovery = handle_admission_failure(CRITICAL, running, SHORT)
    assert recovery == Recovery((preemption_of(running[0], SHORT[0].resource),))
