"""What there is to measure on a node when a client asks for everything: its cgroups, or the processes of families."""

from __future__ import annotations

import os
from collections.abc import Iterable

from jettison.runtimes.host.cgroups.families import Census
from jettison.runtimes.host.cgroups.kubepods import Kubepods
from jettison.runtimes.host.pods.reports import ActiveContainer, ActivePod
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux.cgroups.mounts import Hierarchy, cgroup_of
from jettison.runtimes.linux.cgroups.usage import ROOT
from jettison.runtimes.protocol import PodStatus
from jettison.runtimes.stats import KUBELET, PODS, RUNTIME, NodeSubject, PodSubject, StatsSubject

_INIT = 1


def node_subject(
    settings: HostSettings,
    kubepods: Kubepods | None,
    active: Iterable[ActivePod],
    statuses: Iterable[PodStatus],
    runtime_pid: int,
    census: Census,
) -> NodeSubject:
    """All of it. `runtime_pid` is the container runtime's, 0 where there is none; `census` counts without cgroups.

    It is taken before, because families belong to the event loop and this is measured in a thread. There the pods are
    put together, too: for 110 of them that is a millisecond.
    """
    known = {status.pod.uid: status for status in statuses}
    is_part = settings.node_memory is not None and kubepods is not None
    memory = None if kubepods is None else kubepods.mounts.holding("memory")
    system = {KUBELET: _daemon(os.getpid(), f"{settings.node_cgroup}-agent", memory)}
    if kubepods is not None:
        system[PODS] = StatsSubject(kubepods.name)
    if runtime_pid > _INIT:
        system[RUNTIME] = _daemon(runtime_pid, "", memory)
    return NodeSubject(
        StatsSubject(kubepods.node if is_part and kubepods is not None else ROOT),
        system,
        (_pod(each, kubepods, known.get(each.manifest.pod.uid), census) for each in active),
    )


def _daemon(pid: int, own: str, memory: Hierarchy | None) -> StatsSubject:
    """Its cgroup where that is its own: the one that we made, or a service of systemd. Else the process alone, because
    a cgroup that it was started in may hold anything.
    """
    cgroup = None if memory is None else cgroup_of(pid, memory)
    if cgroup and (cgroup == own or cgroup.endswith(".service")):
        return StatsSubject(cgroup)
    return StatsSubject(None, (pid,))


def _pod(each: ActivePod, kubepods: Kubepods | None, status: PodStatus | None, census: Census) -> PodSubject:
    pod = each.manifest.pod
    starts = {} if status is None else {part.name: part.started_ns for part in status.containers}
    running = [container for container in each.containers if container.is_running]
    started_ns = None if status is None else status.started_ns
    if kubepods is None:
        whole = StatsSubject(None, tuple(pid for part in running for pid in _family(part, census)), started_ns)
    else:
        whole = StatsSubject(kubepods.pod_cgroup(pod), started_ns=started_ns)
    return PodSubject(
        pod.uid,
        whole,
        {part.name: _container(part, kubepods, starts.get(part.name), census) for part in running},
        next((part.pid for part in running if part.pid), 0),
        {volume.name: volume.path for volume in each.volumes if volume.is_memory},
    )


def _container(
    container: ActiveContainer, kubepods: Kubepods | None, started_ns: int | None, census: Census
) -> StatsSubject:
    if kubepods is None:
        return StatsSubject(None, _family(container, census), started_ns)
    return StatsSubject(container.place.name, started_ns=started_ns)


def _family(container: ActiveContainer, census: Census) -> tuple[int, ...]:
    return tuple(process.pid for process in census.get(container.place.name, ()))
