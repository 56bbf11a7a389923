"""Changes that spare a pod, or make it the victim: each does what it says, and a smaller one does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jettison.engine.config.policy import Policy
from jettison.engine.foresight.cases import Case, play
from jettison.engine.foresight.counterfactuals import Counterfactual, dooming, sparing
from jettison.engine.foresight.levers import Unit, What
from jettison.engine.node.pressure import History
from jettison.engine.node.snapshot import ContainerUsage, MemoryStats, PodUsage, Snapshot, VolumeUsage
from jettison.engine.numbers.quantity import parse
from jettison.engine.pods.pod import Container, Pod, Volume
from tests.builders import GI, MI, SECOND_NS, filesystem, memory_used, node, pod, policy, snapshot
from tests.strategies import policies, snapshots

LEAK, WEB, BIG = pod("leak"), pod("web", memory="64Mi"), pod("big", 1000, memory="128Mi")
USED = {"leak": memory_used(300 * MI), "web": memory_used(100 * MI), "big": memory_used(900 * MI)}
MEMORY = Case(
    policy({"memory.available": "100Mi"}),
    History(),
    snapshot(0, node(memory=90 * MI, capacity=4 * GI), [LEAK, WEB, BIG], USED),
)


def found(changes: list[Counterfactual]) -> dict[str, tuple[int, int, list[str]]]:
    """By what is changed: the present value, the one that was found, and the pods that go then."""
    return {
        each.lever.what.value: (each.lever.now, each.least, [pod.name for pod in each.choice.pods]) for each in changes
    }


def check(case: Case, uid: str, change: Counterfactual, *, spares: bool) -> None:
    """The change does it, in both forms, and one step less does not."""
    lever, way = change.lever, 1 if change.is_upwards else -1

    def is_so(value: int) -> bool:
        choice = play(lever.apply(value))
        return choice.spares(uid) if spares else choice.takes_surely(uid)

    for value in (change.least, change.suggested):
        assert is_so(value), (change, value)
        assert play(lever.apply(value)).takes(uid) is not spares
    assert not is_so(change.least - way), change
    assert abs(change.suggested - lever.now) >= abs(change.least - lever.now)


def test_each_number_that_spares_a_pod_is_found() -> None:
    """The leak is 300Mi over a request of nothing, web 36Mi over its own; the node lacks 10Mi."""
    changes = sparing(MEMORY, LEAK)

    assert found(changes) == {
        # With as large an excess as web's chance decides, so it must be less than that.
        "request": (0, 264 * MI + 1, ["web"]),
        "priority": (0, 1, ["web"]),
        # A node that has 10Mi more is not starved at all.
        "usage": (300 * MI, 290 * MI, []),
        "threshold": (100 * MI, 90 * MI, []),
    }
    for each in changes:
        check(MEMORY, "leak", each, spares=True)


def test_each_number_that_dooms_a_pod_is_found() -> None:
    """web needs 264Mi more usage, which the node does not have, or a lower priority."""
    assert set(found(dooming(MEMORY, WEB))) == {"priority"}
    # The most important pod uses most.
    changes = dooming(MEMORY, BIG)
    assert found(changes) == {"priority": (1000, 0, ["big"])}
    for each in changes:
        check(MEMORY, "big", each, spares=False)


def test_without_pressure_a_higher_threshold_or_more_usage_takes_the_first_pod() -> None:
    calm = replace(MEMORY, snapshot=snapshot(0, node(memory=200 * MI, capacity=4 * GI), [LEAK, WEB, BIG], USED))

    changes = dooming(calm, LEAK)

    assert found(changes) == {
        "usage": (300 * MI, 400 * MI + 1, ["leak"]),
        "threshold": (100 * MI, 200 * MI + 1, ["leak"]),
    }
    assert play(calm).why == "no resources are starved"


def test_where_the_roundest_amount_is_impossible_a_finer_one_is_named() -> None:
    """22Gi is 100Mi more than the pod can get, so it is the next multiple of 64Mi and no number of bytes."""
    calm = replace(
        MEMORY, snapshot=snapshot(0, node(memory=22 * GI - 400 * MI, capacity=24 * GI), [LEAK], {"leak": USED["leak"]})
    )

    (usage,) = (each for each in dooming(calm, LEAK) if each.lever.what is What.USAGE)

    assert usage.suggested == 22 * GI - 192 * MI
    check(calm, LEAK.uid, usage, spares=False)


def test_a_critical_pod_has_no_change_that_dooms_it() -> None:
    assert dooming(MEMORY, replace(BIG, priority=2 * 10**9)) == []


def test_the_clock_of_a_soft_threshold_does_not_start_anew() -> None:
    """Otherwise every change of a soft threshold, however small, would spare the pod."""
    soft = policy(soft={"memory.available": "500Mi"}, grace="60s")
    history = History(first_observed={soft.thresholds[0]: 0})
    case = Case(soft, history, snapshot(90, node(memory=90 * MI, capacity=4 * GI), [LEAK, WEB], USED))

    changes = {each.lever.what: each for each in sparing(case, LEAK)}

    assert changes[What.THRESHOLD].least == 90 * MI
    assert changes[What.GRACE].least == 91
    assert changes[What.GRACE].lever.unit is Unit.SECONDS


def test_minimum_reclaim_is_a_number_as_well() -> None:
    """The threshold is no longer crossed, but was met and is not resolved."""
    wanted = policy({"memory.available": "100Mi"}, reclaim={"memory.available": "200Mi"})
    history = History(first_observed={wanted.thresholds[0]: 0}, met=wanted.thresholds)
    case = Case(wanted, history, snapshot(9, node(memory=250 * MI, capacity=4 * GI), [LEAK], USED))

    changes = {each.lever.what: each for each in sparing(case, LEAK)}

    assert changes[What.RECLAIM].least == 150 * MI
    check(case, "leak", changes[What.RECLAIM], spares=True)


def test_what_is_reserved_for_the_system_can_be_given_to_the_pods() -> None:
    wanted = policy({"memory.available": "100Mi"}, guards_allocatable=True, systemReserved={"memory": "2Gi"})
    stats = node(memory=2 * GI, capacity=4 * GI)._replace(
        pods_memory=MemoryStats(None, 60 * MI, 2 * GI - 60 * MI, 2 * GI - 60 * MI), has_pods_container=True
    )
    case = Case(wanted, History(), snapshot(0, stats, [LEAK, WEB], USED))

    changes = {each.lever.what: each for each in sparing(case, LEAK)}

    assert changes[What.RESERVED].least == 2 * GI - 40 * MI
    assert changes[What.THRESHOLD].least == 60 * MI
    assert changes[What.THRESHOLD].lever.subject == "evictionHard.memory.available"


def test_a_percentage_stays_one() -> None:
    case = replace(MEMORY, policy=policy({"memory.available": "10%"}))

    change = next(each for each in sparing(case, LEAK) if each.lever.what is What.THRESHOLD)

    # 90Mi of 4Gi are 2.197 %.
    assert (change.lever.unit, change.lever.now, change.least) == (Unit.HUNDREDTHS, 1000, 219)


def test_after_a_reclaim_the_second_look_counts() -> None:
    """Images are removed first; that was enough for all but a threshold above what is free afterwards."""
    full, freed = node(fs=filesystem(5 * GI), image_fs=filesystem(5 * GI)), node(fs=filesystem(9 * GI))
    pods, usages = [pod("a")], {"a": PodUsage(containers=[ContainerUsage("c", rootfs_bytes=GI)])}
    case = Case(policy({"nodefs.available": "10%"}), History(True), snapshot(0, full, pods, usages))
    case = replace(case, after=replace(case.snapshot, node=freed))

    change = next(each for each in sparing(case, pods[0]) if each.lever.what is What.THRESHOLD)

    # A 32-bit 9% is a little more than 9%.
    assert change.least == 899
    assert play(change.lever.apply(899)).reclaim


def test_a_limit_that_was_broken_is_the_number() -> None:
    """The pod's own limits are looked at whatever the node's state."""
    volume = Volume("scratch", is_local=True, size_limit=parse("1Gi"))
    holder = pod("a", volumes=[volume])
    usages = {"a": PodUsage(volumes=[VolumeUsage("scratch", 3 * GI)])}
    case = Case(policy(), History(), snapshot(0, node(), [holder], usages))

    changes = sparing(case, holder)

    assert found(changes) == {"limit": (GI, 3 * GI, []), "usage": (3 * GI, GI, [])}
    for each in changes:
        check(case, "a", each, spares=True)


@pytest.mark.parametrize("name", ["ephemeral", "container"])
def test_limits_of_containers_and_pods_are_found_as_well(name: str) -> None:
    limits = {"ephemeral-storage": parse("1Gi")}
    holder = Pod("a", uid="a", containers=(Container("c", limits=limits),))
    held = {
        "ephemeral": PodUsage(ephemeral_storage_bytes=2 * GI),
        "container": PodUsage(containers=[ContainerUsage("c", rootfs_bytes=GI, logs_bytes=GI)]),
    }
    case = Case(policy(), History(), snapshot(0, node(), [holder], {"a": held[name]}))

    assert found(sparing(case, holder)) == {"limit": (GI, 2 * GI, []), "usage": (2 * GI, GI, [])}


def test_a_pod_on_its_way_out_is_passed_over() -> None:
    case = replace(MEMORY, going=frozenset({"leak"}))

    assert play(case).takes("web")
    assert found(sparing(case, WEB))["priority"] == (0, 1000, ["big"])


def test_what_chance_would_decide_is_no_change() -> None:
    """`a` and `b` differ in their names alone; Kubernetes evicts any of them."""
    twins = [pod("a"), pod("b")]
    usages = {"a": memory_used(99 * MI), "b": memory_used(99 * MI)}
    case = replace(MEMORY, snapshot=snapshot(0, node(memory=90 * MI, capacity=4 * GI), twins, usages))

    assert play(case).takes("a")
    assert found(sparing(case, twins[0]))["usage"] == (99 * MI, 99 * MI - 1, ["b"])
    assert found(dooming(case, twins[1]))["usage"] == (99 * MI, 99 * MI + 1, ["b"])


@settings(max_examples=60)
@given(policies(), snapshots(), st.integers(0, 10**6))
def test_every_change_is_true(wanted: Policy, seen: Snapshot, later_s: int) -> None:
    """In any world: what is found is what the engine answers, for the pods that go and for those that do not."""
    seen = replace(seen, now_ns=seen.now_ns + later_s * SECOND_NS)
    case = Case(wanted, History(), seen)
    choice = play(case)
    for each in list(seen.pods)[:3]:
        goes = choice.takes(each.uid)
        assert not (dooming if goes else sparing)(case, each)
        for change in (sparing if goes else dooming)(case, each):
            check(case, each.uid, change, spares=goes)
