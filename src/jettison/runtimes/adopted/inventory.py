"""What runs here that others started: all sources together, as pods, with what must be spared marked as such."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from jettison import events
from jettison.errors import RuntimeFailure
from jettison.events import Emit
from jettison.runtimes.adopted.pods import AdoptedPod, adopt
from jettison.runtimes.adopted.rules import GuardRules
from jettison.runtimes.linux.cgroups import tree as cgroup_tree
from jettison.runtimes.linux.cgroups.mounts import Hierarchy, cgroup_of
from jettison.runtimes.workloads import AdoptedWorkload, WorkloadSource

_INIT = 1


class Inventory:
    """Refreshed by `look`; a source that does not answer keeps what it last told of, as long as that is there."""

    def __init__(
        self,
        sources: Sequence[WorkloadSource],
        rules: GuardRules,
        shipped: GuardRules,
        memory: Hierarchy,
        emit: Emit,
        within: str = "",
    ) -> None:
        self.pods: list[AdoptedPod] = []
        # Why a source did not answer at the last look; those that did are left out.
        self.lacks: dict[str, str] = {}
        self._sources = sources
        self._rules = rules
        self._shipped = shipped
        self._memory = memory
        self._emit = emit
        self._known: dict[str, Sequence[AdoptedWorkload]] = {}
        self._by_workload: dict[str, WorkloadSource] = {}
        # Where containers come and go, what was there at the last look, and what at the last two.
        self._parents: set[str] = {within} if within else set()
        self._last: set[str] = set()
        self._seen: set[str] = set()
        # What was said already, so that it is said once.
        self._said: set[tuple[str, str]] = set()

    async def look(self) -> bool:
        """Ask every source; whether other workloads run than before."""
        now = self._neighbours()
        # At the first look an engine may not have come to tell of it yet.
        self._seen, self._last = now & self._last, now
        # All at once, or one that takes its time would keep the news of the others back.
        asked = await asyncio.gather(*(self._ask(source) for source in self._sources))
        complaints = {each for found in asked for each in found}
        before = [each.pod.uid for each in self.pods]
        self.pods = self._adopted()
        complaints |= {("read labels", text) for pod in self.pods for text in pod.complaints}
        for what, why in sorted(complaints - self._said):
            self._emit(events.ActionFailed(what, why))
        self._said = complaints
        return before != [each.pod.uid for each in self.pods]

    async def _ask(self, source: WorkloadSource) -> Sequence[tuple[str, str]]:
        """Have what it tells known; what is to be complained about."""
        what = f"list what runs by {source.name}"
        try:
            self._known[source.name] = await source.running()
        except RuntimeFailure as failure:
            self.lacks[source.name] = str(failure)
            return [(what, f"{failure}; what it last told of counts")]
        self.lacks.pop(source.name, None)
        return [(what, each) for each in source.complaints]

    def use(self, rules: GuardRules) -> None:
        """From now on."""
        self._rules = rules
        self.pods = self._adopted()

    def has_strangers(self) -> bool:
        """Whether a cgroup has come beside those that are known, which no two looks have seen yet.

        A container that fills the memory as soon as it starts would otherwise cost an innocent one its life: what is
        not known cannot be chosen. To look at a cgroup takes 50 µs, to ask an engine 30 ms.
        """
        return self._neighbours() - self._seen != set()

    def _neighbours(self) -> set[str]:
        parents = {each.cgroup.rpartition("/")[0] for found in self._known.values() for each in found} | self._parents
        self._parents = parents
        found = set()
        for parent in filter(None, parents):
            top = self._memory.mount_point / parent
            # An empty one is none yet: a supervisor may make it long before it starts something in it.
            names = [name for name in cgroup_tree.children(top) if cgroup_tree.count_processes(top / name)]
            found |= {f"{parent}/{name}" for name in names}
        return found

    def source(self, workload: AdoptedWorkload) -> WorkloadSource:
        """Which told of it."""
        return self._by_workload[workload.id]

    def _adopted(self) -> list[AdoptedPod]:
        found: dict[str, AdoptedWorkload] = {}
        self._by_workload = {}
        # Containers first: an engine knows more about a cgroup than its path tells.
        for source in sorted(self._sources, key=lambda each: not each.is_engine):
            for workload in self._known.get(source.name, ()):
                is_there = (self._memory.mount_point / workload.cgroup).is_dir()
                if is_there and not any(_overlap(workload.cgroup, other.cgroup) for other in found.values()):
                    found[workload.id] = workload
                    self._by_workload[workload.id] = source
        needed = self._needed_cgroups()
        return [
            pod.spared() if any(_is_within(cgroup, each.cgroup) for each in pod.workloads for cgroup in needed) else pod
            for pod in adopt(list(found.values()), self._rules, self._shipped)
        ]

    def _needed_cgroups(self) -> list[str]:
        """Where process 1, this program and the container engines are: nothing that holds one of them is stopped."""
        engines = [each.pid for each in self._sources if each.pid is not None]
        found = (cgroup_of(pid, self._memory) for pid in (_INIT, os.getpid(), *engines))
        return [cgroup for cgroup in found if cgroup]


def _is_within(cgroup: str, other: str) -> bool:
    return cgroup == other or cgroup.startswith(f"{other}/")


def _overlap(one: str, other: str) -> bool:
    return _is_within(one, other) or _is_within(other, one)
