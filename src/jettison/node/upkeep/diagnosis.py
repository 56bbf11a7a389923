"""What this machine lets an agent of this user do, tried rather than guessed, and what to do about the rest.

Nothing is changed: a probe either asks the kernel whether it would, or arms an alarm and lets it go again.
"""

from __future__ import annotations

import os
import platform
import re
import resource
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from jettison.engine.pods.oom_scores import GUARANTEED_SCORE
from jettison.errors import ObservationError
from jettison.runtimes.linux.cgroups.memcg_events import UsageAlarm
from jettison.runtimes.linux.cgroups.mounts import (
    CGROUP_ROOT,
    CgroupMounts,
    CgroupVersion,
    Hierarchy,
    delegated_cgroup,
    discover,
)
from jettison.runtimes.linux.files.kernel_files import PROC
from jettison.runtimes.linux.processes import Capabilities, Capability, lowest_oom_score_adj, read_capabilities
from jettison.runtimes.linux.psi import PressureFile
from jettison.values import frozen

_LIMITED = ("cpu", "memory", "pids")
_ENOUGH_DESCRIPTORS = 4096
_STALL_US, _WINDOW_US = 100_000, 1_000_000
# The kernel that brought it. The root cgroup has no such file, so that it can be had is seen only from a version.
_CGROUP_KILL = (5, 14)
# Of a v1 alarm only whether it can be had is asked; this level is never reached.
_NEVER = 2**60

_WITH_CAPABILITY = "run it as root outside of a container; or add {} to the container, or to the systemd unit's"
_AMBIENT = f"{_WITH_CAPABILITY} AmbientCapabilities"


class State(StrEnum):
    """How a check came out; a note is neither good nor bad."""

    OK = "ok"
    DEGRADED = "degraded"
    NOTE = "note"


@frozen
class Check:
    """One thing that was looked at, what was found, and what to do about it where something can be done."""

    name: str
    state: State
    finding: str
    remedy: str = ""


@frozen
class AlarmSource:
    """What says that memory runs short, and how long after the crossing."""

    source: str
    latency: str
    # Of the pressure trigger; 0 where none is needed, None where none can be had.
    window_us: int | None = 0


class Machine:
    """Read once; the checks are made from it."""

    def __init__(self, root: Path = CGROUP_ROOT, proc: Path = PROC) -> None:
        self.mounts: CgroupMounts = discover(root, proc)
        self.capabilities: Capabilities = read_capabilities(proc)
        self.memory: Hierarchy | None = self.mounts.holding("memory")
        self.delegated: str | None = delegated_cgroup(self.mounts, proc)
        self._proc = proc

    @property
    def may_use_cgroups(self) -> bool:
        """Whether pods can have some."""
        if self.memory is None:
            return False
        return all(os.access(tree.mount_point / (self.delegated or ""), os.W_OK) for tree in self.mounts.used)

    def checks(self) -> Iterator[Check]:
        """In the order in which one would mend them."""
        yield self._cgroups()
        yield from self._limits()
        yield self._alarm()
        yield self._killing()
        yield from self._oom_scores()
        yield from self._memory_volumes()
        yield from self._own_protection()

    def _cgroups(self) -> Check:
        version = self.mounts.version
        if version is None:
            return _degraded("cgroups", "none are mounted; pods are process groups without limits", "mount cgroup2")
        if self.memory is None:
            found = f"{_VERSIONS[version]}, without the memory controller; pods are process groups without limits"
            return _degraded("cgroups", found, "start the kernel with cgroup_enable=memory")
        if not self.may_use_cgroups:
            found = f"{_VERSIONS[version]}, and this user may not create any; pods are process groups without limits"
            remedy = "run it as root, or: systemd-run --user --scope -p Delegate=yes jettison up …"
            return _degraded("cgroups", found, remedy)
        where = f", in `{self.delegated}`, which systemd left to us" if self.delegated else ""
        return Check("cgroups", State.OK, f"{_VERSIONS[version]}{where}")

    def _limits(self) -> Iterator[Check]:
        missing = [name for name in _LIMITED if self.mounts.holding(name) is None]
        if self.may_use_cgroups and missing:
            found = f"no controller {', '.join(missing)}: what it would limit is not limited"
            yield _degraded("limits", found, "enable it in the kernel, or have the cgroup above pass it on")

    def _alarm(self) -> Check:
        alarm = self.alarm()
        found = f"{alarm.source}: {alarm.latency}"
        if alarm.window_us is None:
            return _degraded("alarm", found, "start the kernel with psi=1, for pressure alarms beside the polling")
        if alarm.window_us > _WINDOW_US:
            return _degraded("alarm", found, _AMBIENT.format("CAP_SYS_RESOURCE"))
        return Check("alarm", State.OK, found)

    def alarm(self) -> AlarmSource:
        """The best that can be had."""
        if self.may_use_cgroups and self.memory is not None and not self.memory.is_unified and self._has_usage_alarm():
            return AlarmSource("memory threshold events", "1 to 5 ms after the crossing at 200 MiB/s, within 512 KiB")
        polling = "every 20 ms to 10 s, the closer to a threshold the more often"
        window_us = self._window_us()
        if window_us is None:
            return AlarmSource("polling", polling, None)
        pressure = f"pressure is told after {window_us / 10**6:g} s of it, memory is polled {polling}"
        return AlarmSource("pressure and polling", pressure, window_us)

    def _has_usage_alarm(self) -> bool:
        assert self.memory is not None
        try:
            UsageAlarm(self.memory.mount_point / (self.delegated or ""), _NEVER).close()
        except ObservationError:
            return False
        return True

    def _window_us(self) -> int | None:
        try:
            trigger = PressureFile(self._proc / "pressure" / "memory").arm(_STALL_US, _WINDOW_US)
        except ObservationError:
            return None
        trigger.close()
        return trigger.window_us

    def _killing(self) -> Check:
        if not self.may_use_cgroups:
            found = "process by process: what leaves its session may outlive its pod"
            return _degraded("killing", found, "whatever helps against the lack of cgroups")
        if self.mounts.unified is not None and _kernel() >= _CGROUP_KILL:
            return Check("killing", State.OK, "a pod's processes all at once, with cgroup.kill")
        return Check("killing", State.OK, "a pod's processes are frozen and killed one by one")

    def _oom_scores(self) -> Iterator[Check]:
        lowest = lowest_oom_score_adj(self._proc)
        if lowest is not None and lowest <= GUARANTEED_SCORE:
            yield Check("oom", State.OK, "the kernel's OOM killer can be told what to spare")
            return
        found = f"no oom_score_adj below {lowest or 0}: the kernel's OOM killer cannot be told what to spare"
        yield _degraded("oom", found, _AMBIENT.format("CAP_SYS_RESOURCE"))

    def _memory_volumes(self) -> Iterator[Check]:
        if not self.capabilities.has(Capability.SYS_ADMIN):
            found = (
                "nothing can be mounted: volumes of processes are links in their directory, /tmp and the host's files "
            )
            found += "are shared, and what belongs in memory lies on the disk"
            yield _degraded("volumes", found, _AMBIENT.format("CAP_SYS_ADMIN"))

    def _own_protection(self) -> Iterator[Check]:
        soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        if soft != resource.RLIM_INFINITY and not self.capabilities.has(Capability.IPC_LOCK):
            found = "the agent cannot lock its memory, and may be swapped out when it is needed"
            yield _degraded("agent", found, "ulimit -l unlimited, or LimitMEMLOCK=infinity in its systemd unit")
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < _ENOUGH_DESCRIPTORS:
            found = f"at most {hard} open files, {_ENOUGH_DESCRIPTORS} are enough for a thousand pods"
            yield _degraded("agent", found, f"ulimit -n {_ENOUGH_DESCRIPTORS}, or LimitNOFILE= in its systemd unit")


def _kernel() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"[0-9]+", platform.release())[:2]))


_VERSIONS = {
    CgroupVersion.V1: "version 1",
    CgroupVersion.V2: "version 2",
    CgroupVersion.HYBRID: "version 1, and version 2 beside it",
}


def _degraded(name: str, finding: str, remedy: str) -> Check:
    return Check(name, State.DEGRADED, finding, remedy)
