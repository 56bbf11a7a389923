"""Which dead containers, sandboxes and log directories go (spec §7.4).

A plan, not a conversation: for counting, removals are taken to have succeeded, as upstream does. Containers are
removed from oldest to newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from jettison.values import frozen

if TYPE_CHECKING:
    from jettison.engine.config.policy import ContainerCollection


@frozen
class DeadContainer:
    """A container that does not run. One in an unknown state is killed before it is removed, and stays if it lives."""

    id: str
    pod_uid: str
    name: str
    created_ns: int
    is_unknown: bool = False


@frozen
class Sandbox:
    """What holds a pod's containers together; active while it is ready or still owns a container."""

    id: str
    pod_uid: str
    created_ns: int
    is_active: bool = False


@frozen
class PodState:
    """What the pod's worker says. The defaults are those of an unknown pod."""

    # Evicted, or deleted and terminated: nothing of it is needed any more.
    is_content_removable: bool = True
    # Terminated, though perhaps not deleted: what a starved disk takes as well.
    is_runtime_removable: bool = True


UNKNOWN_POD = PodState()


def plan_containers(
    containers: Iterable[DeadContainer],
    policy: ContainerCollection,
    now_ns: int,
    pods: Mapping[str, PodState],
    *,
    is_starved: bool = False,
    are_sources_ready: bool = True,
) -> list[DeadContainer]:
    """The containers to remove, in order. `is_starved` is the collection that a starved disk asks for."""
    old = (each for each in containers if now_ns - each.created_ns >= policy.minimum_age_ns)
    groups = _grouped(old)
    removed: list[DeadContainer] = []
    if are_sources_ready:
        for key in list(groups):
            if _is_removable(pods.get(key[0], UNKNOWN_POD), is_starved=is_starved):
                removed += _oldest_first(groups.pop(key))
    if policy.per_container >= 0:
        _keep_newest(groups, policy.per_container, removed)
    if 0 <= policy.total < _count(groups):
        _keep_newest(groups, max(1, policy.total // len(groups)), removed)
        left = _oldest_first(each for group in groups.values() for each in group)
        removed += left[: max(0, len(left) - policy.total)]
    return removed


def plan_sandboxes(
    sandboxes: Iterable[Sandbox],
    pods: Mapping[str, PodState],
    *,
    is_starved: bool = False,
    are_sources_ready: bool = True,
) -> list[Sandbox]:
    """The sandboxes to stop and remove. A pod that lives keeps its newest one; age plays no part."""
    removed: list[Sandbox] = []
    by_pod = sorted(sandboxes, key=lambda each: (each.pod_uid, each.created_ns, each.id))
    for uid, group in groupby(by_pod, key=lambda each: each.pod_uid):
        own = list(group)
        keeps_none = are_sources_ready and _is_removable(pods.get(uid, UNKNOWN_POD), is_starved=is_starved)
        removed += [each for each in (own if keeps_none else own[:-1]) if not each.is_active]
    return removed


def plan_log_directories(
    names: Iterable[str], pods: Mapping[str, PodState], *, are_sources_ready: bool = True
) -> list[str]:
    """Directories of logs whose pod needs them no longer; the uid is what follows the last underscore."""
    if not are_sources_ready:
        return []
    return sorted(name for name in names if pods.get(name.rpartition("_")[2], UNKNOWN_POD).is_content_removable)


def _is_removable(pod: PodState, *, is_starved: bool) -> bool:
    return pod.is_content_removable or (is_starved and pod.is_runtime_removable)


def _grouped(containers: Iterable[DeadContainer]) -> dict[tuple[str, str], list[DeadContainer]]:
    groups: dict[tuple[str, str], list[DeadContainer]] = {}
    for each in containers:
        groups.setdefault((each.pod_uid, each.name), []).append(each)
    return dict(sorted(groups.items()))


def _oldest_first(containers: Iterable[DeadContainer]) -> list[DeadContainer]:
    return sorted(containers, key=lambda each: (each.created_ns, each.id))


def _keep_newest(groups: dict[tuple[str, str], list[DeadContainer]], count: int, removed: list[DeadContainer]) -> None:
    for key, group in list(groups.items()):
        ordered = _oldest_first(group)
        surplus_count = max(0, len(ordered) - count)
        removed += ordered[:surplus_count]
        groups[key] = ordered[surplus_count:]
        if not groups[key]:
            del groups[key]


def _count(groups: Mapping[tuple[str, str], Sequence[DeadContainer]]) -> int:
    return sum(len(group) for group in groups.values())
