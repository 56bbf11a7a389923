"""Ending one pod that others started, in the way of its kind, and through its cgroup when that does not help."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from jettison import events
from jettison.clock import Clock, Instant
from jettison.engine.node.evictions import Eviction, effective_grace, runtime_grace
from jettison.errors import ManifestError, ObservationError, PodGone, RuntimeFailure, WriteError
from jettison.events import Emit
from jettison.manifests.files.decoding import read_json
from jettison.manifests.files.plain_files import replace_file
from jettison.runtimes.adopted.cgroup_trees import signal_all, stop_unit
from jettison.runtimes.adopted.pods import AdoptedPod
from jettison.runtimes.adopted.rules import Stop
from jettison.runtimes.linux.cgroups import tree as cgroup_tree
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.kill import kill
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, Hierarchy
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.machine.order_records import OrderRecord
from jettison.runtimes.workloads import AdoptedWorkload, WorkloadSource
from jettison.values import frozen

_NANO = 10**9
# Between two looks whether all have ended, and between two complaints about what does not die.
_PAUSE, _COMPLAINT_PAUSE = 0.02, 2.0
# Seconds that an engine gets beyond the grace period to kill by itself and to note why.
_ENGINE_TIME = 1.0


@dataclass(slots=True)
class StoppingPod:
    """On its way out. Times are on the monotonic clock."""

    adopted: AdoptedPod
    order: Eviction
    ordered_ns: int
    began_ns: int
    until_ns: int
    stopped_ns: int | None = None
    is_told: bool = False
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def hurry(self, order: Eviction, now_ns: int) -> None:
        """The grace period only ever shrinks."""
        self.order, self.ordered_ns = order, now_ns
        self.until_ns = min(self.until_ns, now_ns + grace_ns(self.adopted, order))

    def join(self, found: AdoptedPod) -> None:
        """Its containers as they are known now: one that started a moment ago was not told of in time."""
        known = {each.id for each in self.adopted.workloads}
        new = tuple(each for each in found.workloads if each.id not in known)
        if new:
            self.adopted = replace(self.adopted, workloads=(*self.adopted.workloads, *new))


@frozen
class StopRecord:
    """A stop that is under way, for an agent that comes after this one. Times are those of the wall."""

    uid: str
    namespace: str
    name: str
    order: OrderRecord
    began_ns: Annotated[int, Meta(ge=0, le=2**62)]
    until_ns: Annotated[int, Meta(ge=0, le=2**62)]


_RECORDS = msgspec.json.Decoder(list[StopRecord])


def save(path: Path, stopping: Iterable[StoppingPod], now: Instant) -> None:
    """Before the first signal. Raises WriteError."""
    found = [
        StopRecord(
            each.adopted.pod.uid,
            each.adopted.pod.namespace,
            each.adopted.pod.name,
            OrderRecord.of(each.order),
            now.wall_ns - (now.monotonic_ns - each.began_ns),
            max(now.wall_ns + each.until_ns - now.monotonic_ns, 0),
        )
        for each in stopping
        if not each.is_told
    ]
    try:
        replace_file(path, msgspec.json.encode(found))
    except OSError as error:
        raise WriteError(f"cannot write `{path}`: {reason(error)}") from error


def load(path: Path) -> list[StopRecord]:
    """Raises ObservationError where there is something that cannot be read."""
    try:
        return read_json(path, _RECORDS)
    except FileNotFoundError:
        return []
    except (OSError, ManifestError) as error:
        raise ObservationError(f"cannot read `{path}`: {error}; stops that were under way are forgotten") from error


def grace_ns(adopted: AdoptedPod, order: Eviction) -> int:
    """From the order to SIGKILL."""
    if order.is_at_once:
        return 0
    grace = effective_grace(override=order.grace_seconds, pod_grace=adopted.pod.grace_seconds)
    return runtime_grace(grace) * _NANO


def living(memory: Hierarchy, adopted: AdoptedPod) -> int:
    """How many processes of the pod live: the one answer to whether it has ended.

    Not the number of the pids controller, which counts the dead until their parent has reaped them: an engine under
    load takes a while for that.
    """
    return sum(cgroup_tree.count_processes(memory.mount_point / each.cgroup) for each in adopted.workloads)


class Stopper:
    """Carries out stops. What it cannot do in the way of its kind it does through the cgroup, and says so."""

    def __init__(self, mounts: CgroupMounts, memory: Hierarchy, clock: Clock, emit: Emit) -> None:
        self._mounts = mounts
        self._memory = memory
        self._clock = clock
        self._emit = emit

    async def stop(
        self,
        stopping: StoppingPod,
        source: Callable[[AdoptedWorkload], WorkloadSource],
        ended: Callable[[StoppingPod], None],
    ) -> None:
        """`ended` is called as soon as no process of it is left; its engine may take a moment longer."""
        asking: list[asyncio.Task[None]] = []
        if not stopping.order.is_at_once:
            asking = [
                asyncio.create_task(self._ask(stopping, workload, source(workload)))
                for workload in stopping.adopted.workloads
            ]
        try:
            await self._see_it_through(stopping)
            stopping.stopped_ns = self._clock.monotonic_ns()
            ended(stopping)
            stopping.stopped.set()
            if asking:
                # The engine notes the end before it answers, and a request that is dropped may undo that.
                await asyncio.wait(asking, timeout=_ENGINE_TIME)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, stopping: StoppingPod, workload: AdoptedWorkload, source: WorkloadSource) -> None:
        seconds = -(-max(stopping.until_ns - self._clock.monotonic_ns(), 0) // _NANO)
        try:
            if stopping.adopted.way is Stop.UNIT:
                await stop_unit(workload)
            elif stopping.adopted.way is Stop.CONTAINER:
                await source.stop(workload, seconds)
            else:
                signal_all(self._memory, workload)
        except PodGone:
            return
        except RuntimeFailure as failure:
            self._emit(
                events.ActionFailed(f"stop {stopping.adopted.pod}, so its processes are signalled", str(failure))
            )
            try:
                signal_all(self._memory, workload)
            except PodGone:
                return
            except RuntimeFailure as another:
                self._emit(events.KillFailed(stopping.adopted.pod, workload.name, str(another)))

    async def _see_it_through(self, stopping: StoppingPod) -> None:
        own_time = 0 if stopping.adopted.way is Stop.CGROUP or stopping.order.is_at_once else _ENGINE_TIME
        killed_ns: int | None = None
        while living(self._memory, stopping.adopted):
            now_ns = self._clock.monotonic_ns()
            is_due = now_ns >= stopping.until_ns + round(own_time * _NANO)
            if is_due:
                complains = killed_ns is not None and now_ns - killed_ns >= _COMPLAINT_PAUSE * _NANO
                if complains:
                    self._emit(events.KillFailed(stopping.adopted.pod, "", "processes survive SIGKILL"))
                if killed_ns is None or complains:
                    killed_ns = now_ns
                for workload in stopping.adopted.workloads:
                    self._kill(stopping, workload)
            await asyncio.sleep(_PAUSE)

    def _kill(self, stopping: StoppingPod, workload: AdoptedWorkload) -> None:
        try:
            kill(Cgroup(self._trees_of(workload.cgroup), workload.cgroup))
        except RuntimeFailure as failure:
            self._emit(events.KillFailed(stopping.adopted.pod, workload.name, str(failure)))

    def _trees_of(self, name: str) -> CgroupMounts:
        """The hierarchies in which this name means these processes.

        With version 1 a process may be in another cgroup in each hierarchy, and only its memory is what we know it by:
        what else has the same name elsewhere must not be frozen or killed with it.
        """
        pids = set(cgroup_tree.processes(self._memory.mount_point / name))
        same = [
            tree
            for tree in self._mounts.used
            if tree is not self._memory and pids == set(cgroup_tree.processes(tree.mount_point / name))
        ]
        return CgroupMounts((self._memory, *same))
