"""All that a cgroup has counted: made-up files of both versions, a real cgroup, and processes without one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jettison.errors import ObservationError
from jettison.runtimes.linux.cgroups.counters import (
    CounterReader,
    Counters,
    MemoryCounters,
    Stalls,
    SwapCounters,
    boot_time_ns,
)
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, Hierarchy, discover
from jettison.runtimes.linux.cgroups.usage import ROOT
from jettison.runtimes.linux.psi import Pressure, Stall

STAT_V1 = "cache 70\nrss 3\npgfault 1\ntotal_rss 400\ntotal_swap 16\ntotal_pgfault 20\ntotal_pgmajfault 2\n"
STAT_V1 += "total_inactive_file 30\n"
STAT_V2 = "anon 500\nfile 200\npgfault 21\npgmajfault 3\ninactive_file 150\n"
STALL = "some avg10=1.50 avg60=0.70 avg300=0.10 total=1234\nfull avg10=0.50 avg60=0.20 avg300=0.00 total=99\n"
PRESSURE = Pressure(Stall(1.5, 0.7, 0.1, 1234), Stall(0.5, 0.2, 0.0, 99))
MEMINFO = "MemTotal: 900 kB\nMemFree: 100 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\nHugePages_Total: 0\n"
PROC_STAT = "cpu  100 20 30 9000 50 6 4 2 0 0\ncpu0 1 2 3\nbtime 1700000000\nprocesses 5\n"


def fill(directory: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def v1(root: Path, *, is_hybrid: bool = False) -> CgroupMounts:
    trees = [Hierarchy(root / name, "/", frozenset({name}), is_unified=False) for name in ("memory", "cpuacct")]
    if is_hybrid:
        trees.append(Hierarchy(root / "unified", "/", frozenset(), is_unified=True))
    return CgroupMounts(tuple(trees))


def v2(root: Path) -> CgroupMounts:
    return CgroupMounts((Hierarchy(root, "/", frozenset({"memory", "cpu", "pids"}), is_unified=True),))


def test_version_1_counts_what_is_below(tmp_path: Path) -> None:
    """A pod's own cgroup holds no process: lines without `total_` would say that it uses nothing."""
    fill(
        tmp_path,
        {
            "memory/a/memory.stat": STAT_V1,
            "memory/a/memory.usage_in_bytes": "1030\n",
            "memory/a/memory.limit_in_bytes": "4096\n",
            "memory/a/memory.memsw.limit_in_bytes": "5120\n",
            "cpuacct/a/cpuacct.usage": "77\n",
            "unified/a/cpu.pressure": STALL,
            "unified/a/io.pressure": STALL.splitlines()[0],
        },
    )
    found = CounterReader(v1(tmp_path, is_hybrid=True)).cgroup("a")
    stalls = Stalls(cpu=PRESSURE, io=Pressure(PRESSURE.some, None))
    assert found == Counters(77, MemoryCounters(1030, 1000, 4096, 400, 20, 2), SwapCounters(16, 1024), stalls)
    assert CounterReader(v1(tmp_path)).cgroup("a") == found._replace(stalls=Stalls())


@pytest.mark.parametrize(("memory", "both"), [(str(2**63 - 4096), "5120"), ("4096", str(2**63 - 4096))])
def test_without_a_limit_there_is_none_of_swap(memory: str, both: str, tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            "memory/a/memory.stat": STAT_V1,
            "memory/a/memory.usage_in_bytes": "1030",
            "memory/a/memory.limit_in_bytes": memory,
            "memory/a/memory.memsw.limit_in_bytes": both,
        },
    )
    found = CounterReader(v1(tmp_path)).cgroup("a")
    assert found is not None
    assert found.swap == SwapCounters(16, None)


def test_version_2_has_its_own_words(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            "a/memory.stat": STAT_V2,
            "a/memory.current": "850\n",
            "a/memory.max": "max\n",
            "a/memory.swap.current": "12\n",
            "a/memory.swap.max": "64\n",
            "a/cpu.stat": "usage_usec 5\nuser_usec 3\n",
            "a/memory.pressure": STALL,
        },
    )
    found = CounterReader(v2(tmp_path)).cgroup("a")
    assert found == Counters(
        5000, MemoryCounters(850, 700, None, 500, 21, 3), SwapCounters(12, 64), Stalls(memory=PRESSURE)
    )
    assert CounterReader(v2(tmp_path)).cgroup("gone") is None


def test_the_root_is_the_machine(tmp_path: Path) -> None:
    """Its swap and its stalls are in /proc; its processor time too where no cgroup counts it."""
    proc = tmp_path / "proc"
    fill(proc, {"meminfo": MEMINFO, "stat": PROC_STAT, "pressure/io": STALL})
    fill(tmp_path / "cgroup", {"memory.stat": STAT_V2})
    found = CounterReader(v2(tmp_path / "cgroup"), proc).cgroup(ROOT)
    ticks = 100 + 20 + 30 + 6 + 4 + 2
    assert found == Counters(
        ticks * 10**9 // os.sysconf("SC_CLK_TCK"),
        MemoryCounters(700, 550, None, 500, 21, 3),
        SwapCounters(6 * 1024, 10 * 1024),
        Stalls(io=PRESSURE),
    )
    assert boot_time_ns(proc) == 1700000000 * 10**9


def test_processes_are_added_up(tmp_path: Path) -> None:
    """A name that looks like fields is none, and what is gone counts nothing."""
    tail = "S 1 1 1 0 -1 0 11 0 2 0 300 50 0 0 20 0 1 0 5 1000 7 0"
    fill(tmp_path, {"4/stat": f"4 (a) Z 1 (b) {tail}", "5/stat": f"5 (c) {tail}"})
    found = CounterReader(CgroupMounts(()), tmp_path).processes((4, 5, 6))
    page, tick = os.sysconf("SC_PAGE_SIZE"), 10**9 // os.sysconf("SC_CLK_TCK")
    assert found == Counters(700 * tick, MemoryCounters(14 * page, 14 * page, None, 14 * page, 26, 4))
    assert CounterReader(CgroupMounts(()), tmp_path).processes((6,)) is None


def test_what_is_no_number_is_told(tmp_path: Path) -> None:
    fill(tmp_path, {"a/memory.stat": "anon many\n", "a/memory.current": "8"})
    with pytest.raises(ObservationError, match="holds no number"):
        CounterReader(v2(tmp_path)).cgroup("a")


@pytest.mark.skipif(discover().holding("memory") is None, reason="takes a memory controller")
def test_this_machine_can_be_read() -> None:
    found = CounterReader(discover()).cgroup(ROOT)
    assert found is not None
    assert found.cpu_ns is not None
    assert found.memory is not None
    assert found.cpu_ns > 10**9
    assert 0 < found.memory.working_set <= found.memory.usage
    assert (found.memory.faults or 0) > (found.memory.major_faults or 0) >= 0
