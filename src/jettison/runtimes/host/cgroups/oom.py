"""When the kernel's OOM killer was faster than us: which container paid, and how many processes.

On version 1 a cgroup's alarm rings when it or a cgroup above it hit a limit, before the kill, and the kill is counted
where the victim lived; so every container has an alarm, and its count is looked at again some milliseconds later. When
the machine as a whole runs out nothing rings on version 1: then `sweep`, which watches the machine's own count, finds
the container; a victim outside of pods is named by the kernel's log. Counts only grow, so nothing is reported twice and
nothing is lost as long as the count is read before the cgroup is removed. A container runtime removes the cgroup of a
dead container at once; it has noted the kill itself, and its word counts where the count was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jettison.engine.pods.pod import Pod
from jettison.errors import ObservationError
from jettison.events import Emit, OutOfMemoryKill
from jettison.runtimes.linux.cgroups import memcg_events
from jettison.runtimes.linux.cgroups.memcg_events import OomAlarm
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts
from jettison.runtimes.linux.files.kernel_files import PROC, DescriptorBudget, KeptFile
from jettison.runtimes.linux.kernel_log import KMSG, KernelLog
from jettison.values import frozen

# After an alarm the kill follows within a few milliseconds, unless the kernel has to reclaim first.
_LOOK_AGAIN = (0.002, 0.02, 0.2)


@dataclass(slots=True)
class _Followed:
    pod: Pod
    container: str
    alarm: OomAlarm | None
    kills: int
    is_told: bool = False


class OomWatch:
    """All containers of a node. `ring` is called after a fact was emitted: memory has become free, or is short."""

    def __init__(
        self, mounts: CgroupMounts, emit: Emit, ring: Callable[[], None], proc: Path = PROC, kmsg: Path = KMSG
    ) -> None:
        self._mounts = mounts
        self._emit = emit
        self._ring = ring
        self._followed: dict[str, _Followed] = {}
        self._vmstat = KeptFile(proc / "vmstat", DescriptorBudget(allowed=1))
        self._swept = self._machine_kills()
        self._log = KernelLog(kmsg)

    def follow(self, cgroup: str, pod: Pod, container: str) -> None:
        """Watch the container's cgroup; what was killed in it before is not reported."""
        if cgroup in self._followed:
            return
        try:
            alarm = memcg_events.watch_oom(self._mounts, cgroup)
        except ObservationError:
            alarm = None  # gone already, or a kernel without this alarm: the sweep counts
        kills = memcg_events.oom_kills(self._mounts, cgroup) or 0
        self._followed[cgroup] = _Followed(pod, container, alarm, kills)
        if alarm is not None:
            asyncio.get_running_loop().add_reader(alarm.fileno(), self._on_alarm, cgroup)

    def leave(self, cgroup: str) -> None:
        """The cgroup and all below are about to go: look a last time."""
        below = f"{cgroup}/"
        for name in tuple(self._followed):
            if name == cgroup or name.startswith(below):
                self._look(name)
                self._close(self._followed.pop(name))

    def missed(self, cgroup: str, pod: Pod, container: str) -> None:
        """The container died of a kill; its runtime may have removed the cgroup, and the count with it, by now."""
        self._look(cgroup)
        followed = self._followed.get(cgroup)
        if followed is None or not followed.is_told:
            self._tell(pod, container, 1)
            if followed is not None:
                followed.is_told = True

    def sweep(self) -> None:
        """Look at all, about 12 µs each, if a process was killed on this machine since the last time."""
        kills = self._machine_kills()
        if kills is None or kills != self._swept:
            self._swept = kills
            for cgroup in tuple(self._followed):
                self._look(cgroup)
            for kill in self._log.system_kills():
                if not self._is_ours(kill.cgroup):
                    self._emit(OutOfMemoryKill(None, "", 1, kill.process, kill.pid))

    def close(self) -> None:
        """Watch nothing any more."""
        self._vmstat.close()
        self._log.close()
        while self._followed:
            self._close(self._followed.popitem()[1])

    def _on_alarm(self, cgroup: str) -> None:
        followed = self._followed.get(cgroup)
        if followed is None or followed.alarm is None:
            return
        if followed.alarm.consume() is None:
            self._close(followed)  # the cgroup is gone, and a dead alarm would ring without an end
            return
        self._look(cgroup)
        loop = asyncio.get_running_loop()
        for delay in _LOOK_AGAIN:
            loop.call_later(delay, self._look, cgroup)

    def _look(self, cgroup: str) -> None:
        followed = self._followed.get(cgroup)
        if followed is None:
            return
        kills = memcg_events.oom_kills(self._mounts, cgroup)
        if kills is None or kills <= followed.kills:
            return
        fresh, followed.kills, followed.is_told = kills - followed.kills, kills, True
        self._tell(followed.pod, followed.container, fresh)

    def _tell(self, pod: Pod, container: str, kills: int) -> None:
        self._emit(OutOfMemoryKill(pod, container, kills))
        self._ring()

    def _is_ours(self, cgroup: str) -> bool:
        """Whether the victim lived in a container here, whose own count tells of it."""
        name = cgroup.strip("/")
        return any(name == each or name.startswith(f"{each}/") for each in self._followed)

    def _machine_kills(self) -> int | None:
        """None on kernels before 4.13, which do not count."""
        data = self._vmstat.read() or b""
        start = data.find(b"\noom_kill ")
        return None if start < 0 else int(data[start + 10 :].split(None, 1)[0])

    def _close(self, followed: _Followed) -> None:
        if followed.alarm is not None:
            asyncio.get_running_loop().remove_reader(followed.alarm.fileno())
            followed.alarm.close()
            followed.alarm = None


@frozen
class FollowedCgroup:
    """The cgroup of a container or, without a name, of a pod: watched from its creation to its removal."""

    watch: OomWatch
    cgroup: str
    pod: Pod
    container: str | None = None

    def begin(self) -> None:
        """The cgroup exists. A pod's own holds no process that could be killed."""
        if self.container is not None:
            self.watch.follow(self.cgroup, self.pod, self.container)

    def missed(self) -> None:
        """The container died of a kill, which may have been too quick for us."""
        if self.container is not None:
            self.watch.missed(self.cgroup, self.pod, self.container)

    def end(self) -> None:
        """The cgroup is about to be removed, with what is below."""
        self.watch.leave(self.cgroup)
