"""Which dead containers, sandboxes and logs go (spec §7.4, §16 examples 37 and 38)."""

from __future__ import annotations

import pytest

from jettison.engine.config.policy import ContainerCollection
from jettison.engine.node.dead_containers import (
    DeadContainer,
    PodState,
    Sandbox,
    plan_containers,
    plan_log_directories,
    plan_sandboxes,
)
from tests.builders import SECOND_NS

NOW = 10**4 * SECOND_NS
RUNNING = PodState(is_content_removable=False, is_runtime_removable=False)
TERMINATED = PodState(is_content_removable=False, is_runtime_removable=True)
EVICTED = PodState(is_content_removable=True, is_runtime_removable=True)


def dead(name: str, created_s: int, pod: str = "p") -> DeadContainer:
    """Named `web-1000` for a container `web` of that time."""
    return DeadContainer(f"{name}-{created_s}", pod, name, created_s * SECOND_NS)


def planned(
    containers: list[DeadContainer],
    state: PodState = RUNNING,
    policy: ContainerCollection | None = None,
    *,
    is_starved: bool = False,
    are_sources_ready: bool = True,
) -> list[str]:
    pods = {each.pod_uid: state for each in containers}
    found = plan_containers(
        containers,
        policy or ContainerCollection(),
        NOW,
        pods,
        is_starved=is_starved,
        are_sources_ready=are_sources_ready,
    )
    return [each.id for each in found]


THREE = [dead("web", 1010), dead("web", 1000), dead("web", 1005)]
ALL_THREE = ["web-1000", "web-1005", "web-1010"]


@pytest.mark.parametrize(
    ("state", "is_starved", "are_sources_ready", "removed"),
    [
        (RUNNING, False, True, ALL_THREE[:2]),
        (RUNNING, True, True, ALL_THREE[:2]),
        (EVICTED, False, True, ALL_THREE),
        (EVICTED, False, False, ALL_THREE[:2]),
        (TERMINATED, False, True, ALL_THREE[:2]),
        (TERMINATED, True, True, ALL_THREE),
    ],
)
def test_what_remains_of_a_pod(state: PodState, is_starved: bool, are_sources_ready: bool, removed: list[str]) -> None:
    """One per name, nothing of an evicted pod, and of a terminated one only as long as the disk is not starved."""
    assert planned(THREE, state, is_starved=is_starved, are_sources_ready=are_sources_ready) == removed


@pytest.mark.parametrize(
    ("per_container", "total", "removed"),
    [
        (-1, -1, []),
        (0, -1, ["a-1", "a-2", "a-3", "b-4"]),
        (2, -1, ["a-1"]),
        (-1, 3, ["a-1", "a-2"]),
        (-1, 2, ["a-1", "a-2"]),
        (-1, 1, ["a-1", "a-2", "a-3"]),
        (-1, 0, ["a-1", "a-2", "a-3", "b-4"]),
    ],
)
def test_how_many_are_kept(per_container: int, total: int, removed: list[str]) -> None:
    """Per name first, then a fair share of the total for each name, then the oldest of all."""
    containers = [dead("a", 1), dead("a", 2), dead("a", 3), dead("b", 4)]
    assert planned(containers, RUNNING, ContainerCollection(0, per_container, total)) == removed


def test_young_containers_are_left_alone() -> None:
    """Even those of an evicted pod; the age is that of creation."""
    policy = ContainerCollection(minimum_age_ns=100 * SECOND_NS)
    young, old = dead("a", 9901), dead("a", 9900)
    assert planned([young, old], EVICTED, policy) == ["a-9900"]


def test_unknown_pods_are_gone() -> None:
    """Once all sources have reported; before that it is unknown."""
    assert plan_containers(THREE, ContainerCollection(), NOW, {}) == sorted(THREE, key=lambda each: each.created_ns)


def sandboxes(*active: bool) -> list[Sandbox]:
    return [Sandbox(f"s{number}", "p", number, is_active) for number, is_active in enumerate(active)]


@pytest.mark.parametrize(
    ("active", "state", "is_starved", "removed"),
    [
        ((False, False, False), RUNNING, False, ["s0", "s1"]),
        ((False, True, False), RUNNING, False, ["s0"]),
        ((False, False, True), RUNNING, False, ["s0", "s1"]),
        ((False, False, True), EVICTED, False, ["s0", "s1"]),
        ((False, False, False), EVICTED, False, ["s0", "s1", "s2"]),
        ((False,), TERMINATED, False, []),
        ((False,), TERMINATED, True, ["s0"]),
    ],
)
def test_sandboxes(active: tuple[bool, ...], state: PodState, is_starved: bool, removed: list[str]) -> None:
    """A pod that lives keeps its newest one; an active one is never touched."""
    found = plan_sandboxes(sandboxes(*active), {"p": state}, is_starved=is_starved)
    assert [each.id for each in found] == removed


def test_sandboxes_before_sources_are_ready() -> None:
    """It is not yet known whether the pod is gone, so its newest one stays."""
    found = plan_sandboxes(sandboxes(False, False), {}, are_sources_ready=False)
    assert [each.id for each in found] == ["s0"]


def test_log_directories_go_with_their_pod() -> None:
    """The uid follows the last underscore; namespaces and names have none, but the code does not rely on it."""
    names = ["ns_web_p1", "ns_db_p2", "n_s_x_p3", "stray"]
    states = {"p1": RUNNING, "p2": EVICTED, "p3": TERMINATED}
    assert plan_log_directories(names, states) == ["ns_db_p2", "stray"]
    assert plan_log_directories(names, states, are_sources_ready=False) == []
