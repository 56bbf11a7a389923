"""Every rule of the table on values: what it finds, with the numbers, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from jettison.engine.budgets.budget import Budget
from jettison.engine.config.allocatable import MachineCapacity, node_allocatable
from jettison.engine.config.policy import Policy
from jettison.engine.foresight.trends import Fall
from jettison.engine.labels.selectors import MatchExpression, SelectorObject
from jettison.engine.lint.subjects import ConfiguredNode, Objects, PodGroup
from jettison.engine.lint.table import BY_NAME, RULES, RuleNeeds, check_node, check_objects
from jettison.engine.node.signals import Signal
from jettison.engine.numbers.quantity import binary
from tests.builders import GI, MI, SECOND_NS, SHARED

DEFAULTS = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
    "pid.available": "500",
}


def node(memory: int = 24 * GI, falls: Mapping[Signal, Fall] | None = None, **fields: Any) -> ConfiguredNode:
    """A node of 24Gi with the default thresholds, but for what is said."""
    policy = Policy.of({"evictionHard": DEFAULTS, **fields})
    allocatable = node_allocatable(MachineCapacity(8, memory, binary(100 * GI), pids=32768), policy)
    sizes = {
        Signal.MEMORY_AVAILABLE: memory,
        Signal.ALLOCATABLE_MEMORY_AVAILABLE: allocatable.enforced["memory"].value,
        Signal.NODEFS_AVAILABLE: 100 * GI,
        Signal.NODEFS_INODES_FREE: 10**6,
        Signal.IMAGEFS_AVAILABLE: 100 * GI,
        Signal.IMAGEFS_INODES_FREE: 10**6,
        Signal.PID_AVAILABLE: 32768,
    }
    return ConfiguredNode(policy, SHARED, sizes, allocatable, falls=falls or {})


def hard(**changed: str) -> dict[str, str]:
    return DEFAULTS | {name.replace("_", "."): amount for name, amount in changed.items()}


def soft(amount: str, grace: str = "1m", **more: Any) -> dict[str, Any]:
    return {
        "evictionSoft": {"memory.available": amount},
        "evictionSoftGracePeriod": {"memory.available": grace},
        "evictionMaxPodGracePeriod": 30,
        **more,
    }


# The founding example: 20Gi for the system, whose limit is enforced, and a threshold of 2Gi.
FOUNDING: dict[str, Any] = {
    "systemReserved": {"memory": "20Gi"},
    "systemReservedCgroup": "/system.slice",
    "enforceNodeAllocatable": ["pods", "system-reserved"],
    "evictionHard": hard(memory_available="2Gi"),
}
FALL = {Signal.MEMORY_AVAILABLE: Fall(300 * MI, 10 * SECOND_NS, 0)}

NODES: list[tuple[str, ConfiguredNode, str, str]] = [
    ("defaults-dropped", node(evictionHard={"memory.available": "1Gi"}), "evictionHard", "no threshold for nodefs.av"),
    (
        "ignored-setting",
        node(evictionMinimumReclaim={"pid.available": "5"}, evictionHard={"memory.available": "1Gi"}),
        "evictionMinimumReclaim.pid.available",
        "there is no threshold for this signal",
    ),
    ("pod-grace-period", node(**soft("1Gi") | {"evictionMaxPodGracePeriod": -1}), "evictionMaxPodGracePeriod", "1s"),
    (
        "threshold-out-of-reach",
        node(**FOUNDING),
        "systemReserved",
        "memory.available<2Gi of the node itself is not reached before: 24Gi of memory - 20Gi reserved - 2Gi kept free",
    ),
    (
        "threshold-out-of-reach",
        node(**soft("1Gi"), systemReserved={"memory": "4Gi"}),
        "evictionSoft.memory.available",
        "pods are held to 20Gi of 24Gi, so 4Gi stay free of them; the hard threshold comes first, unless the system",
    ),
    ("grace-below-tick", node(**soft("1Gi", "5s")), "evictionSoftGracePeriod.memory.available", "shorter than the 10s"),
    ("grace-below-tick", node(**soft("1Gi", "0s")), "evictionSoftGracePeriod.memory.available", "makes this a hard"),
    (
        "minimum-reclaim-above-capacity",
        node(evictionMinimumReclaim={"memory.available": "24Gi"}),
        "evictionMinimumReclaim.memory.available",
        "make 24.1Gi of the node's 24Gi",
    ),
    ("soft-not-above-hard", node(**soft("100Mi")), "evictionSoft.memory.available", "hard threshold of 100Mi"),
    ("soft-not-above-hard", node(**soft("0.1%")), "evictionSoft.memory.available", "hard threshold of 100Mi"),
    (
        "image-collection-collides",
        node(evictionHard=hard(imagefs_available="20%")),
        "evictionHard.imagefs.available",
        "15% free",
    ),
    (
        "image-collection-collides",
        node(evictionHard=hard(imagefs_available="16Gi")),
        "evictionHard.imagefs.available",
        "15% free",
    ),
    (
        "percentages-differ",
        node(evictionHard=hard(memory_available="10%"), kubeReserved={"memory": "6Gi"}),
        "evictionHard.memory.available",
        "is 2.4Gi of the node's 24Gi and 1.8Gi of the 18Gi that pods may use",
    ),
    ("growth-outruns-threshold", node(falls=FALL), "evictionHard.memory.available", "300Mi within 10.0 s"),
    ("over-reserved", node(systemReserved={"memory": "25Gi"}), "", "has a reservation of 25700Mi but capacity of 24Gi"),
    ("no-room-for-pods", node(systemReserved={"memory": "23.8Gi"}), "systemReserved", "less than 2%"),
    ("always-met", node(evictionHard=hard(memory_available="24Gi")), "evictionHard.memory.available", "always met"),
    (
        "missing-signal",
        node(evictionHard={"memory.available": "1Gi"}),
        "evictionHard",
        "no threshold guards pid.available",
    ),
    (
        "missing-signal",
        node(evictionHard={"pid.available": "5"}),
        "evictionHard",
        "no threshold guards memory.available",
    ),
]


def objections(node: ConfiguredNode) -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for rule, each in check_node(node):
        found.setdefault(rule.name, []).append((each.where, each.message, each.fix))
    return found


@pytest.mark.parametrize(("rule", "given", "where", "said"), NODES)
def test_a_rule_of_a_node_finds_it(rule: str, given: ConfiguredNode, where: str, said: str) -> None:
    found = objections(given).get(rule, [])
    assert any(place == where and said in message for place, message, _ in found), objections(given)


def test_good_settings_are_left_alone() -> None:
    """The defaults with a guard on process ids, a soft threshold above the hard one, and a small reservation."""
    good = node(**soft("1Gi"), systemReserved={"memory": "1Gi"}, evictionMinimumReclaim={"memory.available": "500Mi"})
    assert objections(good) == {}
    assert objections(node(falls={Signal.MEMORY_AVAILABLE: Fall(50 * MI, SECOND_NS, 0)})) == {}


def test_a_transition_period_of_nothing() -> None:
    policy = Policy.of({"evictionHard": DEFAULTS})
    config = replace(policy.config, eviction_pressure_transition_period=0)
    found = objections(replace(node(), policy=replace(policy, config=config)))
    assert [place for place, _, _ in found["no-condition"]] == ["evictionPressureTransitionPeriod"]


def test_without_the_copy_the_kernel_kills_first() -> None:
    """A kubelet that ignores evictions for the allocatable has no guard on the pods' own memory."""
    given = node(**FOUNDING)
    config = replace(given.config, allocatable_ignore_eviction=True)
    policy = Policy.of({"evictionHard": FOUNDING["evictionHard"]})
    own = tuple(each for each in policy.thresholds if each.signal is not Signal.ALLOCATABLE_MEMORY_AVAILABLE)
    layouts = {
        layout: replace(
            each, all=tuple(one for one in each.all if one.signal is not Signal.ALLOCATABLE_MEMORY_AVAILABLE)
        )
        for layout, each in given.policy.layouts.items()
    }
    changed = replace(given.policy, config=config, thresholds=own, layouts=layouts)
    ((where, said, fix),) = objections(replace(given, policy=changed))["threshold-out-of-reach"]
    assert where == "evictionHard.memory.available"
    assert "the kernel kills in the pods' cgroup before, unless the system itself uses more than 18Gi" in said
    assert fix == "set it above 20Gi, or reserve less"


def group(name: str = "web", replicas: int | None = 3, kind: str = "Deployment", **more: Any) -> PodGroup:
    return PodGroup(kind, "shop", name, more.pop("labels", {"app": name}), replicas, **{"has_priority": False, **more})


def budget(name: str = "b", app: str = "web", **numbers: Any) -> Budget:
    return Budget(name, "shop", selector=SelectorObject({"app": app}), **numbers)


OBJECTS: list[tuple[str, Objects, str, str]] = [
    ("daemonset-without-priority", Objects([group("log", None, "DaemonSet")]), "DaemonSet shop/log", "no priority"),
    ("budget-matches-nothing", Objects([group()], [budget(app="wbe")]), "PodDisruptionBudget shop/b", "selects no pod"),
    (
        "budget-matches-nothing",
        Objects([replace(group(), namespace="other")], [budget()]),
        "PodDisruptionBudget shop/b",
        "",
    ),
    (
        "budgets-overlap",
        Objects([group()], [budget(max_unavailable=1), budget("c", max_unavailable=1)]),
        "PodDisruptionBudget shop/b",
        "Deployment shop/web as well as budget shop/c",
    ),
    (
        "budget-never-satisfied",
        Objects([group()], [budget(min_available=4)]),
        "PodDisruptionBudget shop/b",
        "wants 4 healthy pods, and there are 3 in all",
    ),
    ("budget-blocks-drain", Objects([group()], [budget(min_available=3)]), "PodDisruptionBudget shop/b", "all 3 pods"),
    (
        "budget-blocks-drain",
        Objects([group()], [budget(min_available="90%")]),
        "PodDisruptionBudget shop/b",
        "all 3 pods",
    ),
    (
        "budget-blocks-drain",
        Objects([group()], [budget(max_unavailable=0)]),
        "PodDisruptionBudget shop/b",
        "all 3 pods",
    ),
    (
        "budget-blocks-drain",
        Objects([group("log", None, "DaemonSet", has_priority=True)], [budget(app="log", max_unavailable=0)]),
        "PodDisruptionBudget shop/b",
        "maxUnavailable: 0 wants all pods",
    ),
    (
        "single-replica-budget",
        Objects([group(replicas=1)], [budget(min_available=1)]),
        "PodDisruptionBudget shop/b",
        "the only pod of Deployment shop/web",
    ),
    ("invalid-budget", Objects([], [budget(min_available="half")]), "PodDisruptionBudget shop/b", "not a percentage"),
    (
        "invalid-budget",
        Objects([], [Budget("b", "shop", selector=SelectorObject({}, (MatchExpression("a", "Near", ()),)))]),
        "PodDisruptionBudget shop/b",
        "Near",
    ),
]


def objected(objects: Objects) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for rule, each in check_objects(objects):
        found.setdefault(rule.name, []).append((each.where, each.message))
    return found


@pytest.mark.parametrize(("rule", "given", "where", "said"), OBJECTS)
def test_a_rule_of_objects_finds_it(rule: str, given: Objects, where: str, said: str) -> None:
    found = objected(given)
    assert set(found) == {rule}
    assert any(place == where and said in message for place, message in found[rule])


@pytest.mark.parametrize(
    "given",
    [
        Objects([group()], [budget(max_unavailable=1)]),
        Objects([group()], [budget(min_available="50%")]),
        Objects([group(replicas=0)], [budget(max_unavailable=1)]),
        # How many pods there are is not known.
        Objects([group(replicas=None)], [budget(min_available=2)]),
        Objects([group("log", None, "DaemonSet", has_priority=True)]),
        Objects([group("log", None, "DaemonSet")], has_default_priority=True),
        # A ReplicaSet of a Deployment is counted there.
        Objects(
            [group(), group("web-1", 3, "ReplicaSet", labels={"app": "web"}, is_owned=True)], [budget(min_available=2)]
        ),
    ],
)
def test_good_objects_are_left_alone(given: Objects) -> None:
    assert objected(given) == {}


def test_the_table_is_whole() -> None:
    """Names are unique, a rule has one function at most, and every rule with one was seen to find something."""
    assert len(BY_NAME) == len(RULES)
    seen = {row[0] for row in NODES} | {row[0] for row in OBJECTS}
    with_function = {rule.name for rule in RULES if rule.of_node or rule.of_objects}
    # Those about files are seen in the tests of `lint` and `config check`, one in a test of its own.
    assert with_function - seen == {"odd-file", "unheeded-setting", "unread-setting", "never-met", "no-condition"}
    assert all((rule.of_objects is not None) <= (rule.needs is RuleNeeds.OBJECTS) for rule in RULES)
