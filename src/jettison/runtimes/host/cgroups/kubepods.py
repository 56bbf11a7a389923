"""The cgroups of one node, laid out as the kubelet does it.

    <node>                          the node's memory and pids, when it is smaller than its machine
    └─ kubepods                     what pods may use together (spec §12)
       ├─ pod<uid>                  Guaranteed
       │  └─ container-<name>
       ├─ burstable
       │  └─ pod<uid> …
       └─ besteffort
          └─ pod<uid> …

A container's cgroup has a prefix because a container may be called `tasks`, which is a control file of version 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from jettison.engine.config.allocatable import MachineCapacity, cpu_shares, node_allocatable
from jettison.engine.config.policy import Policy
from jettison.engine.numbers.quantity import ZERO
from jettison.engine.pods.pod import CPU, MEMORY, Container, Pod, Qos, limits, requests
from jettison.errors import WriteError
from jettison.runtimes.host.cgroups.cgroup_parent import KUBEPODS, CgroupParent, node_names
from jettison.runtimes.host.cgroups.oom import FollowedCgroup, OomWatch
from jettison.runtimes.host.cgroups.places import CgroupPlace, OomScores, Place
from jettison.runtimes.host.settings import HostSettings, checked_uid
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import UNLIMITED, Limits
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, discover
from jettison.runtimes.linux.cgroups.names import CgroupNames

if TYPE_CHECKING:
    from jettison.runtimes.linux.systemd import SliceUnits

_POD = "pod"
_CONTAINER = "container-"
# No runtime calls a container so.
_NO_BOX = "no-container"
_QOS = {Qos.GUARANTEED: "", Qos.BURSTABLE: "burstable", Qos.BEST_EFFORT: "besteffort"}

_PERIOD_US = 100_000


class Kubepods:
    """Places made of cgroups. `oom` reports processes that are killed for want of memory in one of them."""

    def __init__(
        self,
        cgroup_parent: CgroupParent,
        oom: OomWatch,
        memory_capacity: int,
        most_pids_per_pod: int = -1,
        lowest_score: int | None = None,
        *,
        kills_as_one: bool = True,
        slices: SliceUnits | None = None,
    ) -> None:
        self._cgroup_parent = cgroup_parent
        # Where the cgroups are systemd's.
        self._slices = slices
        self._oom = oom
        self.mounts = cgroup_parent.mounts
        self.node = cgroup_parent.node
        self._names = cgroup_parent.names
        self.name = self._names.child(cgroup_parent.node, KUBEPODS)
        # Below this the kernel refuses; a pod that should be better protected gets the best there is.
        self._scores = OomScores(memory_capacity, lowest_score)
        self._most_pids_per_pod = most_pids_per_pod
        # A program of several processes rarely survives the loss of one, and then it hangs instead of being restarted.
        # None where the kernel cannot, which is with version 1.
        memory = self.mounts.holding("memory")
        self._kills_as_one = kills_as_one if memory is not None and memory.is_unified else None
        # Of the node and of its pods together.
        self._limits: dict[str, Limits] = {}

    def create(self, settings: HostSettings, machine: MachineCapacity, policy: Policy) -> tuple[str, ...]:
        """Make node, kubepods and the two QoS cgroups, with their limits; returns what cannot be limited here at all.

        A limit that is refused for the moment is not among it: `enforce` tells, and tries again.
        """
        self._limits = {
            self.node: Limits(memory=settings.node_memory, pids=settings.node_pids),
            self.name: kubepods_limits(machine, policy),
        }
        shares = {
            self._of_class(Qos.BURSTABLE): burstable_limits(()),
            self._of_class(Qos.BEST_EFFORT): best_effort_limits(),
        }
        everything = self._limits | shares
        for name in everything:
            Cgroup(self.mounts, name).create()
        missing, _ = self._limit(everything)
        if self._slices is not None:
            for name, allowed in everything.items():
                self._slices.hold(name, allowed)
        return tuple(f"no controller `{name}`: what it would limit is not limited" for name in sorted(missing))

    def enforce(self) -> tuple[str, ...]:
        """Set the limits of node and pods; returns which are refused, and why.

        The kernel refuses a limit below what is in use, which is what an agent finds that comes back to a full node.
        Evictions will change that.
        """
        _, refused = self._limit(self._limits)
        return refused

    def share(self, pods: Iterable[Pod]) -> None:
        """Weigh the Burstable pods against the others by what they ask for now."""
        name, allowed = self._of_class(Qos.BURSTABLE), burstable_limits(pods)
        Cgroup(self.mounts, name).limit(allowed)
        if self._slices is not None:
            self._slices.hold(name, allowed)

    def pod_cgroup(self, pod: Pod) -> str:
        """The name, whether or not it exists."""
        return self._names.child(self._parent(pod), f"{_POD}{checked_uid(pod.uid)}")

    def container_cgroup(self, pod: Pod, container: str) -> str:
        """The name, whether or not it exists."""
        return f"{self.pod_cgroup(pod)}/{_CONTAINER}{container}"

    def of_pod(self, pod: Pod) -> Place:
        """Holds no process of its own."""
        name = self.pod_cgroup(pod)
        allowed = pod_limits(pod, self._most_pids_per_pod)
        watcher = FollowedCgroup(self._oom, name, pod)
        return CgroupPlace(Cgroup(self.mounts, name), allowed, watcher=watcher, slices=self._slices)

    def of_container(self, pod: Pod, container: str) -> Place:
        """With the container's own limits and its oom_score_adj (spec §11)."""
        return self._place(pod, container, self.container_cgroup(pod, container))

    def of_box(self, pod: Pod, container: str, cgroup: str) -> Place:
        """Named by the runtime; with the limits that the runtime sets, too, but watched before it does."""
        return self._place(pod, container, f"{self.pod_cgroup(pod)}/{cgroup or _NO_BOX}")

    def _place(self, pod: Pod, container: str, name: str) -> Place:
        allowed, score = self.container_limits(pod, container)
        return CgroupPlace(Cgroup(self.mounts, name), allowed, score, FollowedCgroup(self._oom, name, pod, container))

    def container_limits(self, pod: Pod, container: str) -> tuple[Limits, int | None]:
        """As the kernel will take them."""
        named = (each for each in (*pod.containers, *pod.init_containers) if each.name == container)
        # An ephemeral one has no resources of its own.
        known = next(named, Container(container))
        allowed = replace(container_limits(known), is_killed_as_one=self._kills_as_one)
        return allowed, self._scores.of(pod, container)

    def found(self) -> Mapping[str, Place]:
        """By uid; a pod that is in two QoS cgroups at once is a mistake and comes out as one of them."""
        return {
            self._names.own(name).removeprefix(_POD): CgroupPlace(
                Cgroup(self.mounts, name), Limits(), slices=self._slices
            )
            for name in self._pods()
        }

    def remove(self) -> bool:
        """Let go of the node, and take away what is empty: with no pod left all that we made, else nothing."""
        try:
            if next(self._pods(), None) is not None or not Cgroup(self.mounts, self.name).remove():
                return False
            is_gone = self._cgroup_parent.leave()
            if self._slices is not None:
                self._drop_slices(self._slices)
            return is_gone
        finally:
            self._cgroup_parent.claim.release()
            if self._slices is not None:
                self._slices.close()

    def _drop_slices(self, slices: SliceUnits) -> None:
        """Of what is gone, the innermost first."""
        names = [self._of_class(Qos.BURSTABLE), self._of_class(Qos.BEST_EFFORT), self.name]
        names += [self.node, *map(str, PurePosixPath(self.node).parents)][:-1]
        for name in names:
            if not Cgroup(self.mounts, name).exists:
                slices.drop(name)

    def _limit(self, wanted: Mapping[str, Limits]) -> tuple[set[str], tuple[str, ...]]:
        """The controllers that are missing, and what was refused."""
        missing, refused = set[str](), list[str]()
        for name, allowed in wanted.items():
            try:
                missing.update(Cgroup(self.mounts, name).limit(allowed))
            except WriteError as failure:
                refused.append(str(failure))
        return missing, tuple(refused)

    def _parent(self, pod: Pod) -> str:
        # The reported class is a free text of the pod's document.
        return self._of_class(next((qos for qos in _QOS if qos == pod.qos), Qos.BEST_EFFORT))

    def _of_class(self, qos: Qos) -> str:
        return _of_class(self._names, self.name, qos)

    def _pods(self) -> Iterator[str]:
        return _pods(self.mounts, self._names, self.name)


def has_pods(settings: HostSettings) -> bool:
    """Whether a process lives in a pod of the node, in cgroups of the kind that the settings ask for."""
    mounts = discover()
    names, _, node = node_names(settings, mounts)
    return settings.uses_cgroups and any(
        Cgroup(mounts, name).processes() for name in _pods(mounts, names, names.child(node, KUBEPODS))
    )


def _of_class(names: CgroupNames, kubepods: str, qos: Qos) -> str:
    return names.child(kubepods, _QOS[qos]) if _QOS[qos] else kubepods


def _pods(mounts: CgroupMounts, names: CgroupNames, kubepods: str) -> Iterator[str]:
    for qos in _QOS:
        for name in sorted(Cgroup(mounts, _of_class(names, kubepods, qos)).children()):
            if names.own(name).startswith(_POD):
                yield name


def kubepods_limits(machine: MachineCapacity, policy: Policy) -> Limits:
    """What all pods together may use: without what is reserved if that is enforced, else everything there is."""
    found = node_allocatable(machine, policy)
    is_enforced = policy.config.cgroups_per_qos and "pods" in policy.config.enforce_node_allocatable
    amounts = found.enforced if is_enforced else found.measured
    pids = amounts.get("pid")
    return Limits(
        memory=amounts[MEMORY].value,
        cpu_shares=cpu_shares(amounts[CPU].milli),
        pids=None if pids is None else pids.value,
    )


def burstable_limits(pods: Iterable[Pod]) -> Limits:
    """Burstable pods share processor time with the Guaranteed ones by what they asked for together."""
    milli = sum(requests(pod).get(CPU, ZERO).milli for pod in pods if pod.qos == Qos.BURSTABLE)
    return Limits(cpu_shares=cpu_shares(milli))


def best_effort_limits() -> Limits:
    """They get what is left over."""
    return Limits(cpu_shares=cpu_shares(0))


def pod_limits(pod: Pod, most_pids: int) -> Limits:
    """A pod is capped as a whole only when each of its containers is, or when the pod itself says so."""
    capped = limits(pod)
    return Limits(
        memory=capped[MEMORY].value if _is_capped(pod, MEMORY) else UNLIMITED,
        cpu_shares=cpu_shares(0 if pod.qos == Qos.BEST_EFFORT else requests(pod).get(CPU, ZERO).milli),
        cpu_quota_us=_quota(capped[CPU].milli) if _is_capped(pod, CPU) else UNLIMITED,
        pids=most_pids if most_pids > 0 else UNLIMITED,
    )


def container_limits(container: Container) -> Limits:
    """A container that names only a limit has asked for that much."""
    memory, cpu = container.limits.get(MEMORY, ZERO), container.limits.get(CPU, ZERO)
    return Limits(
        memory=memory.value if memory.sign > 0 else UNLIMITED,
        cpu_shares=cpu_shares(container.requests.get(CPU, cpu).milli),
        cpu_quota_us=_quota(cpu.milli) if cpu.sign > 0 else UNLIMITED,
    )


def _is_capped(pod: Pod, resource: str) -> bool:
    if pod.resources is not None and pod.resources.limits.get(resource, ZERO).sign > 0:
        return True
    containers = (*pod.containers, *pod.init_containers)
    return bool(containers) and all(each.limits.get(resource, ZERO).sign > 0 for each in containers)


def _quota(milli: int) -> int:
    return milli * _PERIOD_US // 1000
