"""Places where no cgroup can be made: every container is a family of processes."""

from __future__ import annotations

from collections.abc import Mapping

from jettison.engine.pods.oom_scores import oom_score_adjustments
from jettison.engine.pods.pod import Pod
from jettison.runtimes.host.cgroups.families import Families
from jettison.runtimes.host.cgroups.places import FamilyPlace, Place
from jettison.runtimes.host.settings import checked_uid

_POD = "pod"


class ProcessGroups:
    """The names are those of the cgroups that there would be, without QoS: there is nothing to be limited by class."""

    def __init__(self, families: Families, memory_capacity: int, lowest_score: int | None = None) -> None:
        self.families = families
        self._memory_capacity = memory_capacity
        self._lowest_score = lowest_score

    def pod_name(self, pod: Pod) -> str:
        """Its containers' names begin with it."""
        return f"{_POD}{checked_uid(pod.uid)}"

    def of_pod(self, pod: Pod) -> Place:
        """All of its containers' families."""
        return FamilyPlace(self.families, self.pod_name(pod))

    def of_container(self, pod: Pod, container: str) -> Place:
        """One family."""
        score = oom_score_adjustments(pod, self._memory_capacity).get(container)
        if score is not None and self._lowest_score is not None:
            score = max(score, self._lowest_score)
        return FamilyPlace(self.families, f"{self.pod_name(pod)}/{container}", score)

    def found(self) -> Mapping[str, Place]:
        """Those with a living process."""
        pods = {name.partition("/")[0] for name in self.families.census()}
        return {pod.removeprefix(_POD): FamilyPlace(self.families, pod) for pod in pods}
