"""All that a cgroup, or a process without one, has counted: for a client that asks, not for the guarding loop.

What an eviction depends on is in `usage`, with files that stay open. Here files are opened, read whole and closed,
which takes ten times as long: 0.2 ms for a cgroup with its stalls.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from jettison.errors import ObservationError
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts
from jettison.runtimes.linux.cgroups.usage import LARGEST_LIMIT, ROOT, UsageReader
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import PROC, DescriptorBudget
from jettison.runtimes.linux.psi import Pressure, PressureFile

_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Of /proc/stat: user, nice, system, then idle and iowait, which are not work, then irq, softirq and steal.
_BUSY = (0, 1, 2, 5, 6, 7)
# Of /proc/PID/stat, counted from the field after the program's name.
_MINOR, _MAJOR, _USER, _SYSTEM, _RESIDENT = 7, 9, 11, 12, 21


class MemoryCounters(NamedTuple):
    """Bytes, and page faults since the beginning. `limit` is None without one."""

    usage: int
    working_set: int
    limit: int | None = None
    rss: int | None = None
    faults: int | None = None
    major_faults: int | None = None


class SwapCounters(NamedTuple):
    """Bytes; `limit` is None without one."""

    usage: int
    limit: int | None = None


class Stalls(NamedTuple):
    """None where the kernel does not measure it."""

    cpu: Pressure | None = None
    memory: Pressure | None = None
    io: Pressure | None = None


class Counters(NamedTuple):
    """What could not be read is None."""

    cpu_ns: int | None = None
    memory: MemoryCounters | None = None
    swap: SwapCounters | None = None
    stalls: Stalls = Stalls()


class CounterReader:
    """Reads any cgroup by its name, `ROOT` being the whole machine; or processes by their numbers."""

    def __init__(self, mounts: CgroupMounts, proc: Path = PROC) -> None:
        self._proc = proc
        # None of its files stays open: a question comes every 15 s at best.
        self._usage = UsageReader(mounts, DescriptorBudget(0))
        memory, unified = mounts.holding("memory"), mounts.unified
        self._memory = None if memory is None else memory.mount_point
        self._unified = None if unified is None else unified.mount_point
        self._is_version_2 = memory is not None and memory.is_unified

    def cgroup(self, name: str, *, has_stalls: bool = True) -> Counters | None:
        """None when there is no such cgroup."""
        data = self._usage.memory_stat(name)
        memory, stat = (None, {}) if data is None else (self._usage.memory_by(name, data), _numbers(data, b" "))
        cpu_ns = self._usage.cpu_ns(name)
        if name == ROOT and cpu_ns is None:
            cpu_ns = self._machine_cpu_ns()
        if memory is None and cpu_ns is None:
            return None
        counted = None
        if memory is not None:
            prefix = b"" if self._is_version_2 else b"total_"
            counted = MemoryCounters(
                memory.usage,
                memory.working_set,
                None if name == ROOT else self._usage.memory_limit(name),
                stat.get(b"anon" if self._is_version_2 else b"total_rss"),
                # On version 1 the lines without the prefix leave out what is below, which is all that a pod has.
                stat.get(prefix + b"pgfault"),
                stat.get(prefix + b"pgmajfault"),
            )
        return Counters(cpu_ns, counted, self._swap(name, stat), self.stalls(name) if has_stalls else Stalls())

    def processes(self, pids: Iterable[int]) -> Counters | None:
        """Their sum; None when there is none of them. What a process used that has ended is not in it."""
        ticks = resident = minor = major = count = 0
        for pid in pids:
            data = kernel_files.read(self._proc / str(pid) / "stat")
            fields = data[data.rfind(b")") + 2 :].split() if data else ()
            if len(fields) <= _RESIDENT:
                continue
            count += 1
            ticks += int(fields[_USER]) + int(fields[_SYSTEM])
            resident += int(fields[_RESIDENT]) * _PAGE
            minor, major = minor + int(fields[_MINOR]), major + int(fields[_MAJOR])
        if not count:
            return None
        # As the kernel counts for a cgroup: all faults, the major ones among them.
        return Counters(ticks * _TICK_NS, MemoryCounters(resident, resident, None, resident, minor + major, major))

    def _swap(self, name: str, stat: dict[bytes, int]) -> SwapCounters | None:
        if name == ROOT:
            info = _numbers((kernel_files.read(self._proc / "meminfo") or b"").replace(b" kB", b""), b":")
            total, free = info.get(b"SwapTotal"), info.get(b"SwapFree")
            return None if total is None or free is None else SwapCounters((total - free) * 1024, total * 1024)
        if self._memory is None:
            return None
        directory = self._memory / name
        if self._is_version_2:
            used = kernel_files.read_number(directory / "memory.swap.current")
            return None if used is None else SwapCounters(used, kernel_files.read_number(directory / "memory.swap.max"))
        used = stat.get(b"total_swap")
        if used is None:
            return None
        # Version 1 limits memory and swap together.
        both = kernel_files.read_number(directory / "memory.memsw.limit_in_bytes")
        memory = self._usage.memory_limit(name)
        is_limited = both is not None and both <= LARGEST_LIMIT and memory is not None
        return SwapCounters(used, max((both or 0) - (memory or 0), 0) if is_limited else None)

    def stalls(self, name: str) -> Stalls:
        """Of the machine, or of a cgroup of the unified hierarchy, which needs no controller for it."""
        if name == ROOT:
            paths = [self._proc / "pressure" / kind for kind in ("cpu", "memory", "io")]
        elif self._unified is None:
            return Stalls()
        else:
            paths = [self._unified / name / f"{kind}.pressure" for kind in ("cpu", "memory", "io")]
        return Stalls(*(PressureFile(path).read() for path in paths))

    def _machine_cpu_ns(self) -> int | None:
        """Where no cgroup counts it."""
        data = kernel_files.read(self._proc / "stat") or b""
        line = data[: data.find(b"\n")].split()
        if len(line) <= _BUSY[-1] + 1 or line[0] != b"cpu":
            return None
        return sum(int(line[1 + each]) for each in _BUSY) * _TICK_NS


def boot_time_ns(proc: Path = PROC) -> int | None:
    """When the machine was booted, by its present wall clock and to the second."""
    data = b"\n" + (kernel_files.read(proc / "stat") or b"")
    start = data.find(b"\nbtime ")
    return None if start < 0 else int(data[start + 7 :].split(None, 1)[0]) * 10**9


def _numbers(data: bytes, separator: bytes) -> dict[bytes, int]:
    found = {}
    for line in data.splitlines():
        key, _, value = line.partition(separator)
        try:
            found[key] = int(value)
        except ValueError:
            raise ObservationError(f"{line[:60]!r} holds no number after its name") from None
    return found
