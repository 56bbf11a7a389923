"""What cgroups use, read cheaply enough for every look.

A thousand pods are read in some milliseconds because nothing is done twice: files stay open, and of each only the
wanted line is looked at (splitting all of memory.stat doubles the time). What remains is the kernel's own time, four
fifths of which is memory.stat. Hence two questions about memory: `memory_usage` is one number from one cheap file;
`memory` adds the inactive page cache and belongs where an answer depends on it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jettison.errors import ObservationError
from jettison.runtimes.linux.cgroups.limits import CgroupV1, CgroupV2
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, Hierarchy
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import DescriptorBudget, KeptFiles
from jettison.values import frozen

ROOT: Final = ""

LARGEST_LIMIT: Final = 2**62
"""Larger than this means "no limit"; version 1 writes it as 2^63 rounded down to a page."""

# Where a controller that is not mounted is looked for: nothing is ever below a file, so it reads like one that is gone.
_NOWHERE = Path("/dev/null")


@frozen
class Memory:
    """Bytes charged to a cgroup and everything below, and how many of them are page cache that was not used lately."""

    usage: int
    inactive_file: int | None

    @property
    def working_set(self) -> int:
        """All but the cache that could go unnoticed: what eviction means by usage."""
        return self.usage if self.inactive_file is None else max(self.usage - self.inactive_file, 0)


class UsageReader:
    """Reads any cgroup by its name, `ROOT` being the whole machine. None is a cgroup, or a controller, that is gone."""

    def __init__(self, mounts: CgroupMounts, budget: DescriptorBudget | None = None) -> None:
        budget = DescriptorBudget() if budget is None else budget
        memory, tasks = mounts.holding("memory"), mounts.holding("pids")
        self._memory_words = CgroupV2 if memory is not None and memory.is_unified else CgroupV1
        self._inactive_file = b"\n" + self._memory_words.INACTIVE_FILE + b" "
        self._memory = _NOWHERE if memory is None else memory.mount_point
        self._usage = _kept(self._memory, self._memory_words.MEMORY_USAGE, budget)
        self._stat = _kept(self._memory, "memory.stat", budget)
        self._tasks = _kept(_NOWHERE if tasks is None else tasks.mount_point, "pids.current", budget)
        accounting = mounts.holding("cpuacct")
        self._counts_cpu_in_ns = accounting is not None
        if accounting is not None:
            self._cpu = _kept(accounting.mount_point, CgroupV1.CPU_USAGE_NS, budget)
        else:
            unified = _NOWHERE if mounts.unified is None else mounts.unified.mount_point
            self._cpu = _kept(unified, CgroupV2.CPU_STAT, budget)

    def memory_usage(self, name: str) -> int | None:
        """Bytes charged, cache included."""
        data = self._usage.read(name)
        if data is None:
            memory = self.memory(name)
            return None if memory is None else memory.usage
        return _number(data, name)

    def memory(self, name: str) -> Memory | None:
        """Usage together with the cache in it: about seven times the price of `memory_usage`."""
        stat = self.memory_stat(name)
        return None if stat is None else self.memory_by(name, stat)

    def memory_stat(self, name: str) -> bytes | None:
        """All lines of memory.stat."""
        stat = self._stat.read(name)
        if stat is None:
            self.forget(name)
        return stat

    def memory_by(self, name: str, stat: bytes) -> Memory | None:
        """The same with a memory.stat that was read just before: that brings the counters up to date that a root's
        usage is made of.
        """
        usage = self._usage.read(name)
        inactive = _value(stat, self._inactive_file)
        if usage is not None:
            return Memory(_number(usage, name), inactive)
        # Only the root of version 2 has no usage of its own; the kubelet adds these two since 1.32. Slab, page tables
        # and kernel stacks are in neither, so a node seems to have more memory available than it has.
        anonymous, cached = _value(b"\n" + stat, b"\nanon "), _value(stat, b"\nfile ")
        return None if anonymous is None or cached is None else Memory(anonymous + cached, inactive)

    def memory_limit(self, name: str) -> int | None:
        """None without limit; the root never has one, its capacity is the machine's."""
        return _limit(self._memory / name / self._memory_words.MEMORY_LIMIT)

    def tasks(self, name: str) -> int | None:
        """Processes and all their threads, as the pids limit counts them. The root has no such count."""
        data = self._tasks.read(name)
        return None if data is None else _number(data, name)

    def cpu_ns(self, name: str) -> int | None:
        """Processor time used since the cgroup was made."""
        data = self._cpu.read(name)
        if data is None:
            return None
        if self._counts_cpu_in_ns:
            return _number(data, name)
        used_us = _value(b"\n" + data, b"\nusage_usec ")
        return None if used_us is None else used_us * 1000

    def forget(self, name: str) -> None:
        """Close what is open for a cgroup; done by itself when its memory files are gone."""
        for kept in self._all:
            kept.forget(name)

    def forget_tree(self, name: str) -> None:
        """Close what is open for a cgroup and for all below it."""
        below = f"{name}/"
        for kept in self._names():
            if kept == name or kept.startswith(below):
                self.forget(kept)

    def close(self) -> None:
        """Close everything."""
        for name in self._names():
            self.forget(name)

    @property
    def _all(self) -> tuple[KeptFiles, ...]:
        return self._usage, self._stat, self._tasks, self._cpu

    def _names(self) -> frozenset[str]:
        return frozenset().union(*(kept.names() for kept in self._all))


def _kept(root: Path, file: str, budget: DescriptorBudget) -> KeptFiles:
    """One file of one controller, of every cgroup that was asked for."""
    return KeptFiles(f"{root}/", f"/{file}", budget)


def _number(data: bytes, name: str) -> int:
    try:
        return int(data)
    except ValueError:
        raise ObservationError(f"cgroup `{name}` reports {data[:40]!r}, not a number") from None


def _value(stat: bytes, key: bytes) -> int | None:
    start = stat.find(key)
    if start < 0:
        return None
    start += len(key)
    try:
        return int(stat[start : stat.index(b"\n", start)])
    except ValueError:
        raise ObservationError(f"{stat[start : start + 40]!r} is not the number after {key.strip()!r}") from None


def memory_limit(tree: Hierarchy, name: str) -> int | None:
    """Of a cgroup that is looked at once; None without limit, and when it is gone."""
    return _limit(tree.mount_point / name / (CgroupV2 if tree.is_unified else CgroupV1).MEMORY_LIMIT)


def _limit(path: Path) -> int | None:
    limit = kernel_files.read_number(path)
    return None if limit is None or limit > LARGEST_LIMIT else limit
