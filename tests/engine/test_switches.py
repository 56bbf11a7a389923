"""Each switch against the exact behaviour: off is the kubelet's answer, on the better one, and nothing else changes."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings

from jettison.engine.config.policy import KUBELET, Policy, Switches
from jettison.engine.node.decide import Decision, Evict, Nothing, Outcome, Reclaim, decide
from jettison.engine.node.facts import GraceCutShort
from jettison.engine.node.pressure import History, assess
from jettison.engine.node.signals import ROWS, Reclaimable, Resource, readings
from jettison.engine.node.snapshot import ContainerUsage, NodeStats, PodUsage, Snapshot
from tests.agent.test_agent import Stage
from tests.builders import GI, MI, filesystem, memory_used, node, pod, policy, snapshot
from tests.strategies import policies, snapshots

SWITCHES = [switch.name for switch in fields(Switches)]


def switched(wishes: Policy, name: str, is_on: bool) -> Policy:
    return replace(wishes, switches=Switches(**{name: is_on}))


def run(wishes: Policy, *views: Snapshot) -> Outcome:
    """The outcome of the last of these steps."""
    outcome = Outcome(History(), Nothing(""))
    for view in views:
        outcome = decide(wishes, outcome.history, view)
    return outcome


def evict(decision: Decision) -> Evict:
    assert isinstance(decision, Evict), decision
    return decision


# Hard thresholds before soft ones.

SOFT_MEMORY_HARD_PIDS = policy(
    {"pid.available": "5%"}, {"memory.available": "1Gi"}, grace="1s", evictionMaxPodGracePeriod=60
)
BOTH_LOW = node(memory=500 * MI, pids_left=100)


@pytest.mark.parametrize(
    ("is_on", "starved", "grace"), [(False, "memory.available<1Gi for 1s", 60), (True, "pid.available<5%", 1)]
)
def test_hard_before_soft(is_on: bool, starved: str, grace: int) -> None:
    """Upstream serves memory first even where it is soft; a node out of process ids cannot even start a shell."""
    wishes = switched(SOFT_MEMORY_HARD_PIDS, "hard_before_soft", is_on)
    views = [snapshot(at_s, BOTH_LOW, [pod("a")], {"a": memory_used(MI)}) for at_s in (0, 1)]
    # The hard one has been there since the first step and the soft one is met at the second.
    order = evict(run(wishes, *views).decision)
    assert (str(order.starved), order.evictions[0].grace_seconds) == (starved, grace)


@pytest.mark.parametrize("is_on", [False, True])
def test_hard_memory_still_goes_first(is_on: bool) -> None:
    """Of two hard ones memory is served first with and without the switch."""
    wishes = switched(policy({"pid.available": "5%", "memory.available": "1Gi"}), "hard_before_soft", is_on)
    assert str(evict(run(wishes, snapshot(0, BOTH_LOW, [pod("a")])).decision).starved) == "memory.available<1Gi"


# Inodes are ranked by inodes.


def _files(count: int) -> PodUsage:
    return PodUsage(containers=[ContainerUsage("c", None, 0, count, 0, 0)])


HEAVY = pod("heavy", ephemeral_storage="1Gi")
LIGHT = pod("light")


@pytest.mark.parametrize(("is_on", "victim"), [(False, "light"), (True, "heavy")])
def test_rank_inodes_by_inodes(is_on: bool, victim: str) -> None:
    """Upstream subtracts a request in bytes from a count of inodes, so the pod with 900,000 files goes last."""
    wishes = switched(policy({"nodefs.inodesFree": "5%"}), "rank_inodes_by_inodes", is_on)
    usages = {"heavy": _files(900_000), "light": _files(5)}
    view = snapshot(0, node(fs=filesystem(GI, inodes_free=100)), [HEAVY, LIGHT], usages)
    order = evict(run(wishes, view, view).decision)
    assert order.evictions[0].pod.name == victim


@pytest.mark.parametrize("is_on", [False, True])
def test_bytes_are_ranked_as_before(is_on: bool) -> None:
    """A request for storage is in bytes, and there the subtraction is right."""
    wishes = switched(policy({"nodefs.available": "10Gi"}), "rank_inodes_by_inodes", is_on)
    used = {
        name: PodUsage(containers=[ContainerUsage("c", None, size, 1, 0, 0)])
        for name, size in {"heavy": 2 * GI, "light": GI + 1}.items()
    }
    view = snapshot(0, node(fs=filesystem(GI)), [HEAVY, LIGHT], used)
    assert evict(run(wishes, view, view).decision).evictions[0].pod.name == "light"


# After a reclaim only the starved resource is looked at.


@pytest.mark.parametrize(
    ("name", "wishes", "before", "after", "off", "on"),
    [
        (
            "a soft memory threshold in its grace period",
            policy({"nodefs.available": "10Gi"}, {"memory.available": "1Gi"}, grace="10m"),
            node(memory=500 * MI, fs=filesystem(5 * GI)),
            node(memory=500 * MI, fs=filesystem(50 * GI)),
            Evict,
            Nothing,
        ),
        (
            "a minimum reclaim of memory that was never met",
            policy({"nodefs.available": "10Gi", "memory.available": "100Mi"}, reclaim={"memory.available": "400Mi"}),
            node(memory=300 * MI, fs=filesystem(5 * GI)),
            node(memory=300 * MI, fs=filesystem(50 * GI)),
            Evict,
            Nothing,
        ),
        (
            "inodes are low too, and a matter of the next step",
            policy({"nodefs.available": "10Gi", "nodefs.inodesFree": "5%"}),
            node(fs=filesystem(5 * GI, inodes_free=5)),
            node(fs=filesystem(50 * GI, inodes_free=5)),
            Evict,
            Nothing,
        ),
        (
            "another disk of the same resource was met and still is",
            policy({"nodefs.available": "10Gi", "imagefs.available": "10Gi"}),
            node(fs=filesystem(5 * GI), image_fs=filesystem(5 * GI)),
            node(fs=filesystem(50 * GI), image_fs=filesystem(5 * GI)),
            Evict,
            Evict,
        ),
        (
            "the starved one itself is within its minimum reclaim",
            policy({"nodefs.available": "10Gi"}, reclaim={"nodefs.available": "5Gi"}),
            node(fs=filesystem(5 * GI)),
            node(fs=filesystem(12 * GI)),
            Evict,
            Evict,
        ),
        (
            "everything is fine",
            policy({"nodefs.available": "10Gi", "memory.available": "100Mi"}),
            node(fs=filesystem(5 * GI)),
            node(fs=filesystem(50 * GI)),
            Nothing,
            Nothing,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_recheck_starved_only(
    name: str, wishes: Policy, before: NodeStats, after: NodeStats, off: type[Any], on: type[Any]
) -> None:
    """Upstream evicts for a disk that is fine again because something else is low."""
    views = [snapshot(0, before, [pod("a")]), snapshot(1, after, [pod("a")])]
    for is_on, expected in ((False, off), (True, on)):
        found = switched(wishes, "recheck_starved_only", is_on)
        first = run(found, views[0])
        assert isinstance(first.decision, Reclaim)
        assert first.decision.what == (Reclaimable.CONTAINERS, Reclaimable.IMAGES)
        assert isinstance(run(found, *views).decision, expected), (name, is_on)


# A hard eviction kills at once.


@pytest.mark.parametrize("is_on", [False, True])
def test_kill_hard_at_once(is_on: bool) -> None:
    """With the switch a hard eviction takes no two seconds; the order, its words and its recorded grace stay."""
    wishes = switched(policy({"memory.available": "1Gi"}), "kill_hard_at_once", is_on)
    order = evict(run(wishes, snapshot(0, BOTH_LOW, [pod("a")])).decision).evictions[0]
    assert (order.is_at_once, order.grace_seconds) == (is_on, 1)


@pytest.mark.parametrize("is_on", [False, True])
def test_a_soft_eviction_stays_gentle(is_on: bool) -> None:
    """A pod that has time gets it."""
    soft = policy({}, {"memory.available": "1Gi"}, grace="1s", evictionMaxPodGracePeriod=60)
    wishes = switched(soft, "kill_hard_at_once", is_on)
    views = [snapshot(at_s, BOTH_LOW, [pod("a")], {"a": memory_used(MI)}) for at_s in (0, 1)]
    assert not evict(run(wishes, *views).decision).evictions[0].is_at_once


# A grace period that the node would not survive ends early.

HARD_AND_FALLING = policy({"memory.available": "100Mi"})


@pytest.mark.parametrize("is_on", [False, True])
def test_cut_grace_short(is_on: bool) -> None:
    """A pod that does not hear SIGTERM takes 150 MiB a second: upstream leaves its end to the kernel's OOM killer."""
    stage = Stage(switched(HARD_AND_FALLING, "cut_grace_short", is_on))
    stage.runtime.lingering = {"uid-a"}
    stage.runtime.used = {"a": 900 * MI}
    for available in (98, 83, 68, 53, 38, 23):
        stage.runtime.available = available * MI
        stage.step(0.1)
    cut = [fact for fact in stage.facts.taken if isinstance(fact, GraceCutShort)]
    kills = [order.is_at_once for order in stage.runtime.evictions]
    assert kills == ([False, True] if is_on else [False])
    assert [(fact.pod.name, fact.after_ns, fact.grace_seconds) for fact in cut] == [("a", 10**8, 2)] * is_on
    assert [(fact.available, fact.fall_per_second) for fact in cut] == [(83 * MI, 150 * MI)] * is_on


# Nothing else changes.


def _applies(name: str, wishes: Policy, view: Snapshot) -> bool:
    """Whether a first step over `view` is one that the switch is about."""
    found = readings(view.node)
    thresholds = wishes.layouts[view.layout].first
    starved = assess(thresholds, History(), found, view.now_ns, wishes.transition_ns).starved
    resources = {ROWS[each.signal].resource for each in starved}
    if name == "hard_before_soft":
        soft_memory = any(not each.is_hard and ROWS[each.signal].resource is Resource.MEMORY for each in starved)
        return soft_memory and resources != {Resource.MEMORY}
    if name == "kill_hard_at_once":
        return any(each.is_hard for each in starved)
    return name == "rank_inodes_by_inodes" and Resource.INODES in resources


@pytest.mark.parametrize("name", SWITCHES)
def test_nothing_else_changes(name: str) -> None:
    """Whatever the switch is not about is decided, remembered and said exactly as upstream does."""
    compared = 0

    @given(policies(KUBELET), snapshots())
    @settings(max_examples=60)
    def compare(wishes: Policy, view: Snapshot) -> None:
        nonlocal compared
        off, on = (decide(switched(wishes, name, is_on), History(), view) for is_on in (False, True))
        assert replace(on.history, reclaiming=None) == replace(off.history, reclaiming=None)
        if not _applies(name, wishes, view):
            compared += 1
            assert on.facts == off.facts
            assert _plain(on.decision) == _plain(off.decision)

    compare()
    assert compared > 20


def _plain(decision: Decision) -> object:
    """A ranking says by which rule it was made, which is the one thing that may differ."""
    if isinstance(decision, Reclaim):
        return decision.what, decision.starved, decision.reading, _plain(decision.otherwise)
    if isinstance(decision, Evict):
        return list(decision.evictions), decision.at_most_one, decision.starved, decision.reading
    return decision


def test_every_switch_is_off_by_default() -> None:
    """Faithful first."""
    assert Switches() == KUBELET
    assert policy({"memory.available": "1Gi"}).switches == KUBELET
    assert SWITCHES == [
        "hard_before_soft",
        "rank_inodes_by_inodes",
        "recheck_starved_only",
        "kill_hard_at_once",
        "cut_grace_short",
    ]
