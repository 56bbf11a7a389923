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

from jettison.engine.config.allocatable import MachineCapacity
from jettison.engine.config.policy import Policy
from jettison.engine.pods.oom_scores import oom_score_adjustments
from jettison.engine.pods.pod import Pod, Qos
from jettison.errors import WriteError
from jettison.runtimes.host.cgroups import pod_limits
from jettison.runtimes.host.cgroups.cgroup_parent import CgroupParent
from jettison.runtimes.host.cgroups.claim import KUBEPODS
from jettison.runtimes.host.cgroups.places import CgroupPlace, Place
from jettison.runtimes.host.notice.oom import OomWatch, Tenancy
from jettison.runtimes.host.settings import HostSettings, checked_uid
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import Limits

_POD = "pod"
_CONTAINER = "container-"
_QOS = {Qos.GUARANTEED: "", Qos.BURSTABLE: "/burstable", Qos.BEST_EFFORT: "/besteffort"}


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
    ) -> None:
        self._cgroup_parent = cgroup_parent
        self._oom = oom
        self.mounts = cgroup_parent.mounts
        self.node = cgroup_parent.node
        self.name = f"{cgroup_parent.node}/{KUBEPODS}"
        self._memory_capacity = memory_capacity
        self._most_pids_per_pod = most_pids_per_pod
        # Below this the kernel refuses; a pod that should be better protected gets the best there is.
        self._lowest_score = lowest_score
        # A program of several processes rarely survives the loss of one, and then it hangs instead of being restarted.
        self._kills_as_one = kills_as_one
        # Of the node and of its pods together.
        self._limits: dict[str, Limits] = {}

    def create(self, settings: HostSettings, machine: MachineCapacity, policy: Policy) -> tuple[str, ...]:
        """Make node, kubepods and the two QoS cgroups, with their limits; returns what cannot be limited here at all.

        A limit that is refused for the moment is not among it: `enforce` tells, and tries again.
        """
        self._limits = {
            self.node: Limits(memory=settings.node_memory, pids=settings.node_pids),
            self.name: pod_limits.kubepods_limits(machine, policy),
        }
        shares = {
            f"{self.name}/burstable": pod_limits.burstable_limits(()),
            f"{self.name}/besteffort": pod_limits.best_effort_limits(),
        }
        everything = self._limits | shares
        for name in everything:
            Cgroup(self.mounts, name).create()
        missing, _ = self._limit(everything)
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
        Cgroup(self.mounts, f"{self.name}/burstable").limit(pod_limits.burstable_limits(pods))

    def pod_cgroup(self, pod: Pod) -> str:
        """The name, whether or not it exists."""
        return f"{self._parent(pod)}/{_POD}{checked_uid(pod.uid)}"

    def container_cgroup(self, pod: Pod, container: str) -> str:
        """The name, whether or not it exists."""
        return f"{self.pod_cgroup(pod)}/{_CONTAINER}{container}"

    def of_pod(self, pod: Pod) -> Place:
        """Holds no process of its own."""
        name = self.pod_cgroup(pod)
        limits = pod_limits.pod_limits(pod, self._most_pids_per_pod)
        return CgroupPlace(Cgroup(self.mounts, name), limits, watcher=Tenancy(self._oom, name, pod))

    def of_container(self, pod: Pod, container: str) -> Place:
        """With the container's own limits and its oom_score_adj (spec §11)."""
        known = next((each for each in (*pod.containers, *pod.init_containers) if each.name == container), None)
        limits = replace(
            Limits() if known is None else pod_limits.container_limits(known), is_killed_as_one=self._kills_as_one
        )
        score = oom_score_adjustments(pod, self._memory_capacity).get(container)
        if score is not None and self._lowest_score is not None:
            score = max(score, self._lowest_score)
        name = self.container_cgroup(pod, container)
        return CgroupPlace(Cgroup(self.mounts, name), limits, score, Tenancy(self._oom, name, pod, container))

    def found(self) -> Mapping[str, Place]:
        """By uid; a pod that is in two QoS cgroups at once is a mistake and comes out as one of them."""
        return {
            name.rpartition("/")[2].removeprefix(_POD): CgroupPlace(Cgroup(self.mounts, name), Limits())
            for name in self._pods()
        }

    def remove(self) -> bool:
        """Let go of the node, and take away what is empty: with no pod left all that we made, else nothing."""
        try:
            if next(self._pods(), None) is not None or not Cgroup(self.mounts, self.name).remove():
                return False
            return self._cgroup_parent.leave()
        finally:
            self._cgroup_parent.claim.release()

    def _limit(self, wanted: Mapping[str, Limits]) -> tuple[set[str], tuple[str, ...]]:
        """The controllers that are missing, and what was refused."""
        missing, refused = set[str](), list[str]()
        for name, limits in wanted.items():
            try:
                missing.update(Cgroup(self.mounts, name).limit(limits))
            except WriteError as failure:
                refused.append(str(failure))
        return missing, tuple(refused)

    def _parent(self, pod: Pod) -> str:
        # The reported class is a free text of the pod's document.
        return self.name + next((part for qos, part in _QOS.items() if qos == pod.qos), _QOS[Qos.BEST_EFFORT])

    def _pods(self) -> Iterator[str]:
        for part in _QOS.values():
            for name in sorted(Cgroup(self.mounts, self.name + part).children()):
                if name.rpartition("/")[2].startswith(_POD):
                    yield name
