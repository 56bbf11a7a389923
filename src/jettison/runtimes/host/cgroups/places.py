"""Where the processes of a container live, so that they can be counted, limited and ended as one.

A *place* is a cgroup or, where none can be made, a family of processes: all that descend from what was started there,
share its session, or carry the mark that was put into its environment. Supervision knows only the protocol.

The way in is a `Door`: a new process goes through before it becomes its program (`processes.becoming`), when it cannot
yet have children that would be left outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from jettison.engine.pods.oom_scores import oom_score, oom_score_adjustments
from jettison.engine.pods.pod import Pod
from jettison.errors import StartError
from jettison.runtimes.host.cgroups.families import Families
from jettison.runtimes.host.settings import checked_uid
from jettison.runtimes.linux.cgroups import kill as cgroup_kill
from jettison.runtimes.linux.cgroups import memcg_events
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import Limits
from jettison.runtimes.linux.files import kernel_files

if TYPE_CHECKING:
    from jettison.runtimes.linux.systemd import SliceUnits

# Between two looks whether all are dead: most are within 1 ms, a process of 400 MB takes 25.
_FIRST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.02

_POD_PREFIX = "pod"

Kill = Callable[[], Awaitable[frozenset[int]]]


class Door(NamedTuple):
    """Files into which a new process writes to move itself in, and how much the kernel's OOM killer is to like it."""

    entrances: tuple[str, ...]
    oom_score_adj: int | None


class Place(Protocol):
    """Where processes live: a pod's, with its containers' inside, or one container's."""

    @property
    def name(self) -> str:
        """The same after a restart of the agent."""

    @property
    def environment(self) -> Mapping[str, str]:
        """To be added to the environment of what is started here."""

    @property
    def is_the_kernels(self) -> bool:
        """Whether all that is known of it the kernel keeps, so that any thread may make, empty and remove it."""

    @property
    def exists(self) -> bool:
        """Whether there is still something to be removed."""

    def create(self) -> None:
        """Make it, with its limits. Harmless when it is there."""

    def watch(self) -> None:
        """Something is about to run in it that the kernel could kill. May be said more than once."""

    def tell_kill(self) -> None:
        """A container died here of a kill by the kernel: say so, unless that was said."""

    def unwatch(self) -> None:
        """It is about to be removed: the last chance to look what the kernel has killed in it."""

    @property
    def door(self) -> Door:
        """The way in, for the next process."""

    def lead(self, pid: int, *, is_copy: bool = False) -> None:
        """Tell which process was started here, or is found to run here: a cgroup knows by itself, a family does not.

        `is_copy`: it has not become its program yet. To be said again when it has.
        """

    def processes(self) -> frozenset[int]:
        """All that live here or below; zombies do not."""

    def unreaped(self) -> int:
        """How many process ids are taken by the dead, once no process lives here; 0 where they are not counted."""

    def oom_kills(self) -> int | None:
        """How many processes the kernel has killed here for want of memory; None where they are not counted."""

    def kill(self) -> frozenset[int]:
        """SIGKILL to all at once; returns those still there right afterwards. Does not wait."""

    async def empty(self, timeout: float, kill: Kill | None = None) -> frozenset[int]:
        """Kill until no process is left; returns those that remain after `timeout` seconds, normally none.

        `kill` is its own in a thread, for a caller whose loop must not wait for the kernel.
        """

    def remove(self) -> bool:
        """Take it away, with everything below. False while the kernel holds on to it: try again a little later."""


class Places(Protocol):
    """Hands out the places of a node. Making one of these costs nothing and touches nothing."""

    def of_pod(self, pod: Pod) -> Place:
        """Create it before its containers'; removing it removes theirs."""

    def of_container(self, pod: Pod, container: str) -> Place:
        """The same for every run of the container: remove it and create it anew in between."""

    def of_box(self, pod: Pod, container: str, cgroup: str) -> Place:
        """Where a container runtime puts a container, by the name that it gives its cgroup inside the pod's.

        Without a name it is one in which nothing ever is. Raises StartError without cgroups.
        """

    def container_limits(self, pod: Pod, container: str) -> tuple[Limits, int | None]:
        """What a container may use, and its oom_score_adj."""

    def found(self) -> Mapping[str, Place]:
        """The places of pods that exist on this machine, by uid: what belongs to no record belongs to no pod."""


async def _empty(place: Place, timeout: float, kill: Kill | None) -> frozenset[int]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    pause = _FIRST_PAUSE
    while survivors := place.kill() if kill is None else await kill():
        if loop.time() >= deadline:
            return survivors
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
    return frozenset()


class Watcher(Protocol):
    """Wants to know while a cgroup can be watched."""

    def begin(self) -> None:
        """It exists. May be said more than once."""

    def missed(self) -> None:
        """A container died in it of a kill, which may not have been seen."""

    def end(self) -> None:
        """It is about to be removed: the last chance to look."""


class CgroupPlace:
    """A cgroup. Nothing gets out of it, whatever it forks."""

    __slots__ = ("_limits", "_oom_score_adj", "_slices", "_watcher", "cgroup")

    environment: Mapping[str, str] = {}
    is_the_kernels = True

    def __init__(
        self,
        cgroup: Cgroup,
        limits: Limits,
        oom_score_adj: int | None = None,
        watcher: Watcher | None = None,
        slices: SliceUnits | None = None,
    ) -> None:
        self.cgroup = cgroup
        self._limits = limits
        self._oom_score_adj = oom_score_adj
        self._watcher = watcher
        # Where it is a slice of systemd.
        self._slices = slices

    @property
    def name(self) -> str:
        """The cgroup's, from the root of the hierarchies."""
        return self.cgroup.name

    @property
    def exists(self) -> bool:
        """In any hierarchy."""
        return self.cgroup.exists

    def create(self) -> None:
        """A controller that this machine lacks was named once at the start and is passed over here."""
        self.cgroup.create()
        self.cgroup.limit(self._limits)
        if self._slices is not None:
            self._slices.hold(self.name, self._limits)

    def watch(self) -> None:
        """Its count of kills, and the alarm for that."""
        if self._watcher is not None:
            self._watcher.begin()

    def tell_kill(self) -> None:
        """As a fact."""
        if self._watcher is not None:
            self._watcher.missed()

    def unwatch(self) -> None:
        """Containers are watched from their first process on."""
        if self._watcher is not None:
            self._watcher.end()

    @property
    def door(self) -> Door:
        """One file to write to in each hierarchy."""
        return Door(self.cgroup.entrances, self._oom_score_adj)

    def lead(self, pid: int, *, is_copy: bool = False) -> None:  # noqa: ARG002
        """The kernel keeps the list; but from now on there is something that it could kill."""
        self.watch()

    def processes(self) -> frozenset[int]:
        """In any hierarchy."""
        return self.cgroup.processes()

    def unreaped(self) -> int:
        """By the pids controller, which counts a process until it is reaped."""
        directory = self.cgroup.directory("pids")
        return 0 if directory is None else int(kernel_files.read(directory / "pids.current") or 0)

    def oom_kills(self) -> int | None:
        """Since it was made."""
        return memcg_events.oom_kills(self.cgroup.mounts, self.cgroup.name)

    def kill(self) -> frozenset[int]:
        """By cgroup.kill where there is one, else frozen and swept."""
        return cgroup_kill.kill(self.cgroup)

    async def empty(self, timeout: float, kill: Kill | None = None) -> frozenset[int]:
        """Nothing survives this but what sits in an uninterruptible sleep."""
        return await _empty(self, timeout, kill)

    def remove(self) -> bool:
        """All levels, all hierarchies. systemd comes first: it looks for the cgroups of what it stops."""
        return (self._slices is None or self._slices.drop(self.name)) and self.cgroup.remove()


class FamilyPlace:
    """No cgroup: a name for the processes that can be traced back to what was started here.

    A daemon that forks twice, takes a session of its own *and* empties its environment gets away. Nothing is limited.
    """

    is_the_kernels = False

    def __init__(self, families: Families, name: str, oom_score_adj: int | None = None) -> None:
        self.name = name
        self._families = families
        self._oom_score_adj = oom_score_adj

    @property
    def environment(self) -> Mapping[str, str]:
        """The mark by which a child is known that lost its parents."""
        return self._families.mark(self.name)

    @property
    def exists(self) -> bool:
        """As long as a process lives here."""
        return bool(self.processes())

    def create(self) -> None:
        """There is nothing to be made."""

    def watch(self) -> None:
        """What the kernel kills goes unnoticed."""

    def tell_kill(self) -> None:
        """No container runtime has containers here."""

    def unwatch(self) -> None:
        """There was no watch."""

    @property
    def door(self) -> Door:
        """Nowhere in particular: to a session of its own."""
        return Door((), self._oom_score_adj)

    def lead(self, pid: int, *, is_copy: bool = False) -> None:
        """Remember the ancestor."""
        self._families.lead(self.name, pid, is_copy=is_copy)

    def processes(self) -> frozenset[int]:
        """Reads all of /proc, at about 20 µs for each process of the machine."""
        return frozenset(process.pid for process in self._families.members(self.name))

    def unreaped(self) -> int:
        """A dead process can no longer be traced."""
        return 0

    def oom_kills(self) -> int | None:
        """The kernel counts them for cgroups only."""
        return None

    def kill(self) -> frozenset[int]:
        """Stopped first, so that no process forks meanwhile."""
        return self._families.kill(self.name)

    async def empty(self, timeout: float, kill: Kill | None = None) -> frozenset[int]:
        """Nothing survives this but what cannot be traced."""
        return await _empty(self, timeout, kill)

    def remove(self) -> bool:
        """Nothing is left behind once all are dead."""
        if self.exists:
            return False
        self._families.forget(self.name)
        return True


class OomScores:
    """oom_score_adj of containers, as far as the kernel lets us go down."""

    __slots__ = ("_capacity", "_last", "_lowest")

    def __init__(self, memory_capacity: int, lowest: int | None) -> None:
        self._capacity = memory_capacity
        self._lowest = lowest
        # Of the pod that was asked for last: a pod of 32 containers asks 32 times in a row.
        self._last: tuple[Pod, dict[str, int]] | None = None

    def of(self, pod: Pod, container: str) -> int:
        """Also of a container that was added to the pod later."""
        if self._last is None or self._last[0] is not pod:
            self._last = pod, oom_score_adjustments(pod, self._capacity)
        score = self._last[1].get(container)
        if score is None:
            score = oom_score(pod, container, self._capacity)
        return score if self._lowest is None else max(score, self._lowest)


class ProcessGroups:
    """The names are those of the cgroups that there would be, without QoS: there is nothing to be limited by class."""

    def __init__(self, families: Families, memory_capacity: int, lowest_score: int | None = None) -> None:
        self.families = families
        self._scores = OomScores(memory_capacity, lowest_score)

    def pod_name(self, pod: Pod) -> str:
        """Its containers' names begin with it."""
        return f"{_POD_PREFIX}{checked_uid(pod.uid)}"

    def of_pod(self, pod: Pod) -> Place:
        """All of its containers' families."""
        return FamilyPlace(self.families, self.pod_name(pod))

    def of_box(self, pod: Pod, container: str, cgroup: str) -> Place:  # noqa: ARG002
        """A container runtime starts processes in cgroups, and there are none."""
        raise StartError(f"container `{container}`: a container runtime needs cgroups, this node has none")

    def container_limits(self, pod: Pod, container: str) -> tuple[Limits, int | None]:
        """Nothing is limited."""
        return Limits(), self._scores.of(pod, container)

    def of_container(self, pod: Pod, container: str) -> Place:
        """One family."""
        _, score = self.container_limits(pod, container)
        return FamilyPlace(self.families, f"{self.pod_name(pod)}/{container}", score)

    def found(self) -> Mapping[str, Place]:
        """Those with a living process."""
        pods = {name.partition("/")[0] for name in self.families.census()}
        return {pod.removeprefix(_POD_PREFIX): FamilyPlace(self.families, pod) for pod in pods}
