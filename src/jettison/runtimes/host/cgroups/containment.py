"""The better of two ways to keep pods, chosen once at the start: cgroups, or families of processes.

And whether pods can be ended in it: the kill path is walked once before it is needed, because a starving node is no
time to find out that it does not work. A process that ignores SIGTERM is started in a place of its own and killed the
way an eviction ends. That loads every line of the way, and a machine that would not let us kill says so at start-up.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jettison.clock import Clock
from jettison.engine.config.allocatable import MachineCapacity
from jettison.engine.config.policy import Policy
from jettison.engine.pods.oom_scores import GUARANTEED_SCORE
from jettison.engine.pods.pod import Pod
from jettison.errors import SignalError
from jettison.events import Emit
from jettison.runtimes.host.cgroups.cgroup_parent import CgroupParent, find_cgroup_parent
from jettison.runtimes.host.cgroups.families import Families
from jettison.runtimes.host.cgroups.kubepods import Kubepods, kubepods_limits
from jettison.runtimes.host.cgroups.oom import OomWatch
from jettison.runtimes.host.cgroups.places import Place, Places, ProcessGroups
from jettison.runtimes.host.measure.meter import CgroupMeter, Meter, ProcessMeter
from jettison.runtimes.host.processes.orders import Launch
from jettison.runtimes.host.processes.processes import spawn
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux import proc
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.runtimes.linux.processes import lowest_oom_score_adj
from jettison.runtimes.machine.alarms import Watched
from jettison.values import frozen

if TYPE_CHECKING:
    from jettison.runtimes.linux.systemd import SliceUnits

_PATIENCE = 5.0
_PAUSE = 0.01


@frozen
class Containment:
    """Where pods live, how they are measured, and where the kernel raises alarms about them."""

    places: Places
    meter: Meter
    watched: Watched
    # What this machine does not permit, one line each.
    lacks: tuple[str, ...]
    kubepods: Kubepods | None = None
    oom: OomWatch | None = None


@frozen
class Builder:
    """What both ways need."""

    settings: HostSettings
    policy: Policy
    machine: MachineCapacity
    host: proc.Machine
    clock: Clock
    emit: Emit
    # Told after the kernel has killed a process.
    ring: Callable[[], None]

    def build(self) -> Containment:
        """Cgroups if they can be had."""
        lowest = lowest_oom_score_adj()
        unspared = (
            f"no CAP_SYS_RESOURCE: no oom_score_adj below {lowest or 0}, so the kernel's OOM killer does not know what "
            "to spare"
        )
        lacks = (unspared,) if lowest is None or lowest > GUARANTEED_SCORE else ()
        cgroup_parent = find_cgroup_parent(self.settings)
        if isinstance(cgroup_parent, CgroupParent):
            return self._in_cgroups(cgroup_parent, lowest, lacks)
        why = (
            f"no cgroups ({cgroup_parent.reason}): pods are process groups without limits, measured through /proc; "
            "what the kernel kills goes unnoticed"
        )
        return self._in_families(lowest, (why, *lacks))

    def _in_cgroups(self, cgroup_parent: CgroupParent, lowest: int | None, lacks: tuple[str, ...]) -> Containment:
        oom = OomWatch(cgroup_parent.mounts, self.emit, self.ring)
        config = self.policy.config
        kubepods = Kubepods(
            cgroup_parent,
            oom,
            self.machine.memory,
            config.pod_pids_limit,
            lowest,
            kills_as_one=not config.single_process_oom_kill,
            slices=self._slices(cgroup_parent),
        )
        try:
            missing = kubepods.create(self.settings, self.machine, self.policy)
        except BaseException:
            cgroup_parent.claim.release()
            raise
        memory = cgroup_parent.mounts.holding("memory")
        if config.single_process_oom_kill is False and memory is not None and not memory.is_unified:
            # A kubelet would not even start.
            lacks = ("singleProcessOOMKill: false takes cgroup v2, here the kernel kills one process at a time", *lacks)
        meter = CgroupMeter(self.settings, kubepods, self.host, self.clock)
        return Containment(kubepods, meter, self._alarm_places(kubepods), (*missing, *lacks), kubepods, oom)

    def _slices(self, cgroup_parent: CgroupParent) -> SliceUnits | None:
        """To be told of them, where cgroups are systemd's."""
        memory = cgroup_parent.mounts.holding("memory")
        if not self.settings.uses_slices or memory is None:
            return None
        # Loaded only where it is needed.
        from jettison.runtimes.linux.systemd import SliceUnits, Systemd  # noqa: PLC0415

        return SliceUnits(self.emit, Systemd(self.clock), is_unified=memory.is_unified)

    def _in_families(self, lowest: int | None, lacks: tuple[str, ...]) -> Containment:
        limits = kubepods_limits(self.machine, self.policy)
        families = Families(f"{self.settings.state_dir}:{self.settings.node_name}")
        groups = ProcessGroups(families, self.machine.memory, lowest)
        meter = ProcessMeter(self.settings, groups, self.host, self.clock, limits.memory or self.machine.memory)
        return Containment(groups, meter, Watched(pressure=PROC / "pressure" / "memory"), lacks)

    def _alarm_places(self, kubepods: Kubepods) -> Watched:
        """Version 1 has alarms on usage; the root of all is watched too, though its own come 80 to 450 ms late."""
        memory = kubepods.mounts.holding("memory")
        is_whole_machine = self.settings.node_memory is None
        if memory is not None and not memory.is_unified:
            node = memory.mount_point if is_whole_machine else memory.mount_point / kubepods.node
            return Watched(node, memory.mount_point / kubepods.name)
        unified = kubepods.mounts.unified
        own: Path | None = None if unified is None else unified.mount_point / kubepods.node / "memory.pressure"
        return Watched(pressure=PROC / "pressure" / "memory" if is_whole_machine else own)


async def rehearse_kill(places: Places) -> None:
    """Raises SignalError when a pod could not be ended here. Cancelled, it leaves nothing behind."""
    pod = Pod("rehearsal", "jettison", uid=f"rehearsal-{os.getpid()}")
    outer, inner = places.of_pod(pod), places.of_container(pod, "main")
    try:
        outer.create()
        inner.create()
        command = ("/bin/sh", "-c", "trap '' TERM; sleep 60")
        launch = Launch(command, inner.environment, Path("/"))
        spawning = asyncio.ensure_future(spawn(launch, inner, lambda _pid, _start: None))
        try:
            process = await asyncio.shield(spawning)
        finally:
            # Cancelled before the child is in its cgroup, a kill would miss it.
            await asyncio.wait([spawning])
            if not spawning.cancelled():
                spawning.exception()
            inner.kill()
            left = await inner.empty(_PATIENCE)
        if left:
            raise SignalError(f"processes {sorted(left)} survive SIGKILL: pods could not be evicted here")
        await process.exited
    finally:
        for place in (inner, outer):
            place.unwatch()
        await _removed(outer)


async def _removed(place: Place) -> None:
    """With all below. A cgroup stays until what was killed in it is reaped, which takes a while on a busy machine."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            while not place.remove():
                await asyncio.sleep(_PAUSE)
