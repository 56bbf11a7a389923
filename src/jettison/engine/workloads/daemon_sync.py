"""What a DaemonSet does next: per node which pods to make and to delete, and which old pods an update may replace.

Where upstream walks over a map in random order, here the order of the nodes given decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jettison.engine.workloads.daemon_placement import NOT_HERE, Placement


@dataclass(frozen=True, slots=True)
class DaemonPod:
    """A pod that runs on, or is meant for, one node. `created` sorts as text."""

    uid: str
    name: str = ""
    created: str = ""
    phase: str = ""
    is_scheduled: bool = True
    is_terminating: bool = False
    is_ready: bool = False
    is_available: bool = False
    is_updated: bool = True


class Needs(NamedTuple):
    """What one node needs. Ended pods are deleted apart, for a node that rejects its pod must not be hurried."""

    creates: bool = False
    surplus: tuple[DaemonPod, ...] = ()
    ended: tuple[DaemonPod, ...] = ()


class Update(NamedTuple):
    """What a rolling update may do now."""

    create_on: tuple[str, ...] = ()
    delete: tuple[DaemonPod, ...] = ()


class Counts(NamedTuple):
    """The numbers of a status."""

    desired: int = 0
    current: int = 0
    misscheduled: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0


def is_of_interest(pod: DaemonPod) -> bool:
    """One that has ended and is being deleted waits only for a finalizer: its node may get the next one."""
    return not (pod.is_terminating and pod.phase in ("Failed", "Succeeded"))


def needs_of(placement: Placement, pods: Sequence[DaemonPod], *, surges: bool) -> Needs:
    """One node. A pod that is terminating still holds the place of the next one, unless the set surges."""
    if placement.should_run and not pods:
        return Needs(creates=True)
    staying = [pod for pod in pods if not pod.is_terminating]
    if not placement.may_stay:
        return Needs(surplus=tuple(staying))
    ended = tuple(pod for pod in staying if pod.phase in ("Failed", "Succeeded"))
    running = sorted((pod for pod in staying if pod not in ended), key=_seniority)
    if not surges:
        return Needs(surplus=tuple(running[1:]), ended=ended)
    if len(running) <= 1:
        return Needs(creates=not running and placement.should_run, ended=ended)
    return Needs(surplus=tuple(_surplus_of_surge(running)), ended=ended)


def _surplus_of_surge(running: Sequence[DaemonPod]) -> Iterator[DaemonPod]:
    """One new and one old pod may be there together, while the old one is Ready and the new one not yet available."""
    new = next((pod for pod in running if pod.is_updated), None)
    old = next((pod for pod in running if not pod.is_updated), None)
    yield from (pod for pod in running if pod is not new and pod is not old)
    if new is not None and old is not None and (not old.is_ready or new.is_available):
        yield old


def counts_of(placements: Mapping[str, Placement], pods: Mapping[str, Sequence[DaemonPod]]) -> Counts:
    """Of several pods on a node the eldest counts."""
    counts = Counts()
    for node, placement in placements.items():
        found = sorted(pods.get(node, ()), key=_seniority)
        if not placement.should_run:
            counts = counts._replace(misscheduled=counts.misscheduled + bool(found))
            continue
        pod = found[0] if found else None
        is_ready = pod is not None and pod.is_ready
        counts = Counts(
            counts.desired + 1,
            counts.current + (pod is not None),
            counts.misscheduled,
            counts.ready + is_ready,
            counts.updated + (pod is not None and pod.is_updated),
            counts.available + (pod is not None and is_ready and pod.is_available),
        )
    return counts


def update_in_place(pods: Mapping[str, Sequence[DaemonPod]], max_unavailable: int) -> Update:
    """Without surge: delete old pods, as many as may be unavailable; an old pod that already is goes in any case.

    `pods` has an entry, be it an empty one, for every node that should run a pod.
    """
    unavailable = 0
    broken: list[DaemonPod] = []
    candidates: list[DaemonPod] = []
    for found in pods.values():
        new, old = _split(found)
        if len(new) + len(old) != 1:
            unavailable += 1  # none, or too many: the regular care for the node comes first
        elif new:
            unavailable += not new[0].is_available
        elif not old[0].is_available:
            broken.append(old[0])
            unavailable += 1
        else:
            candidates.append(old[0])
    return Update(delete=(*broken, *candidates[: max(max_unavailable - unavailable, 0)]))


def update_with_surge(
    pods: Mapping[str, Sequence[DaemonPod]], placements: Mapping[str, Placement], max_surge: int, desired: int
) -> Update:
    """Make new pods beside the old ones, at most `max_surge` at a time, and delete an old one when its heir serves.

    Where the set no longer belongs, the old pod stays until as many as desired are available elsewhere.
    """
    surge = available = 0
    create: list[str] = []
    candidates: list[str] = []
    delete: list[DaemonPod] = []
    leaving: list[DaemonPod] = []
    for node, found in pods.items():
        new, old = _split(found)
        if len(new) > 1 or len(old) > 1:
            surge += 1
            continue
        available += any(pod.is_available for pod in (old or new))
        if not old:
            continue
        should_run = placements.get(node, NOT_HERE).should_run
        if new and new[0].is_available:
            delete.append(old[0])
        elif new:
            surge += 1
        elif not should_run:
            (leaving if old[0].is_available else delete).append(old[0])
        else:
            (candidates if old[0].is_available else create).append(node)
    delete += leaving[: max(available - desired, 0)]
    return Update((*create, *candidates[: max(max_surge - surge, 0)]), tuple(delete))


def _split(pods: Iterable[DaemonPod]) -> tuple[list[DaemonPod], list[DaemonPod]]:
    """Up to date and old, without those that are going."""
    staying = [pod for pod in pods if not pod.is_terminating]
    return [pod for pod in staying if pod.is_updated], [pod for pod in staying if not pod.is_updated]


def _seniority(pod: DaemonPod) -> tuple[bool, str, str]:
    """Who has a node comes before who waits for one, then the elder."""
    return not pod.is_scheduled, pod.created, pod.name
