"""The words for each key that can decide an order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.cli.policy.ranking_report import why_before_next, why_critical, why_here
from jettison.engine.node.ranking import Ranking, rank
from jettison.engine.node.signals import ROWS, Signal
from jettison.engine.node.snapshot import ContainerUsage, PodUsage
from jettison.engine.pods.pod import Pod
from tests.builders import GI, MI, SHARED, SPLIT, container, memory_used, pod

MEMORY, PIDS, INODES = Signal.MEMORY_AVAILABLE, Signal.PID_AVAILABLE, Signal.NODEFS_INODES_FREE


def reasons(ranking: Ranking) -> list[tuple[str, str, str | None]]:
    """Name, why here, why before the next."""
    resource = ROWS[ranking.signal].resource
    return [(each.pod.name, why_here(each, resource), why_before_next(ranking, each.position)) for each in ranking]


def test_every_key_of_the_memory_order_is_named() -> None:
    pods = [
        pod("new"),
        pod("greedy", memory="1Gi"),
        pod("less-greedy", memory="1Gi"),
        pod("important", 7, memory="1Gi"),
        pod("modest", memory="1Gi"),
        pod("exact", 7, memory="1Gi"),
        pod("exact-twin", 7, memory="1Gi"),
    ]
    used = {"greedy": 3 * GI, "less-greedy": 2 * GI, "important": 2 * GI, "modest": MI}
    usages = {name: memory_used(amount) for name, amount in used.items()}
    usages |= {"exact": memory_used(GI), "exact-twin": memory_used(GI)}

    assert reasons(rank(MEMORY, pods, usages, SHARED)) == [
        ("new", "no statistics, such pods go first", "no statistics, the next has some"),
        ("greedy", "2Gi above its request of 1Gi", "larger excess (+2Gi > +1Gi)"),
        ("less-greedy", "1Gi above its request of 1Gi", "lower priority (0 < 7)"),
        ("important", "1Gi above its request of 1Gi", "above its request, the next is not"),
        ("modest", "1023Mi below its request of 1Gi", "lower priority (0 < 7)"),
        (
            "exact",
            "uses exactly its request of 1Gi",
            "equal keys; Kubernetes leaves this to chance, here the name decides",
        ),
        ("exact-twin", "uses exactly its request of 1Gi", None),
    ]


def test_a_pod_that_requests_nothing_is_said_so() -> None:
    assert reasons(rank(MEMORY, [pod("a")], {"a": memory_used(MI)}, SHARED)) == [
        ("a", "requests nothing, uses 1Mi", None)
    ]


def test_amounts_that_look_alike_are_told_apart() -> None:
    usages = {"a": memory_used(GI + 2), "b": memory_used(GI + 1)}

    (first, _) = reasons(rank(MEMORY, [pod("a"), pod("b")], usages, SHARED))

    assert first[2] == "larger excess (1.0Gi (1073741826) > 1.0Gi (1073741825))"


def test_process_ids_go_by_priority_first() -> None:
    pods = [pod("busy", 9), pod("calm"), pod("calmer"), pod("new")]
    usages = {name: PodUsage(processes=count) for name, count in (("busy", 900), ("calm", 3), ("calmer", 2))}

    assert reasons(rank(PIDS, pods, usages, SHARED)) == [
        ("new", "no statistics", "no statistics, the next has some"),
        ("calm", "runs 3 processes", "more processes (3 > 2)"),
        ("calmer", "runs 2 processes", "lower priority (0 < 9)"),
        ("busy", "runs 900 processes", None),
    ]


def test_inodes_are_compared_as_kubernetes_compares_them() -> None:
    pods = [pod("a", ephemeral_storage="1Ki"), pod("b"), pod("none")]
    usages = {
        "a": PodUsage(containers=[ContainerUsage("c", rootfs_inodes=1000)]),
        "b": PodUsage(containers=[ContainerUsage("c", rootfs_inodes=8)]),
        "none": PodUsage(),
    }

    assert reasons(rank(INODES, pods, usages, SHARED)) == [
        ("b", "uses 8 inodes", "larger excess (+8 > -24)"),
        ("a", "uses 1000 inodes", "uses inodes, the next none"),
        ("none", "uses 0 inodes", None),
    ]


def test_where_nothing_is_measured_requests_decide() -> None:
    pods = [pod("big", ephemeral_storage="2Gi"), pod("small", ephemeral_storage="1Gi")]
    usages = {"big": PodUsage(), "small": PodUsage()}

    assert reasons(rank(Signal.IMAGEFS_AVAILABLE, pods, usages, SPLIT)) == [
        ("small", "1Gi below its request of 1Gi", "larger excess (-1Gi > -2Gi)"),
        ("big", "2Gi below its request of 2Gi", None),
    ]


@pytest.mark.parametrize(
    ("protected", "why"),
    [
        (replace(pod("a"), is_static=True), "static pod"),
        (replace(pod("a"), is_mirror=True), "static pod"),
        (Pod("a", priority=2_000_000_000, containers=(container(),)), "critical priority"),
    ],
)
def test_a_critical_pod_has_a_reason(protected: Pod, why: str) -> None:
    assert protected.is_critical
    assert why_critical(protected) == why
