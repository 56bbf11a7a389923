"""Runs inside the guest: the kernel readers, the killing and the alarms of a cgroup v2 machine, one subject each."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jettison.clock import SystemClock
from jettison.engine.config.policy import Policy
from jettison.engine.node.snapshot import MemoryStats
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import Limits
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts
from jettison.runtimes.linux.cgroups.usage import ROOT, UsageReader
from jettison.runtimes.linux.proc import Machine
from jettison.runtimes.machine.alarms import MemoryAlarms, Wakeups, Watched
from jettison.runtimes.machine.outlook import MemoryPair
from jettison.runtimes.protocol import CLOSE_ALARM
from tests.emptying import kill_until_empty
from tests.live.guest_side import CGROUPS, MIB, counters, report, start_in

DISK = Path("/dev/nvme0n1")


def occupy(done: int) -> None:
    """16 MiB of its own, 8 MiB of page cache read once, four threads and 50 ms of processor time."""
    held = b"\1" * (16 * MIB)
    disk = os.open(DISK, os.O_RDONLY)  # stays open: a disk that no process has open has no cache
    os.posix_fadvise(disk, 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead of what is asked for
    for _ in range(8):
        os.read(disk, MIB)
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    while time.process_time() < 0.05:
        continue
    os.write(done, held[:1])
    time.sleep(600)


def readers(mounts: CgroupMounts) -> None:
    """One cgroup with known contents, then the root, then a cgroup that vanishes and comes back."""
    cgroup = Cgroup(mounts, "readers/one")
    cgroup.create()
    refused = cgroup.limit(Limits(memory=96 * MIB, cpu_shares=1024, cpu_quota_us=150_000, pids=20))
    directory = CGROUPS / cgroup.name
    written = {name: (directory / name).read_text().strip() for name in ("memory.max", "cpu.weight", "cpu.max")}
    ready, done = os.pipe()
    pid = start_in(directory, lambda: occupy(done))
    os.read(ready, 1)
    reader = UsageReader(mounts)
    memory = reader.memory(cgroup.name)
    assert memory is not None
    report(
        refused=refused,
        limits=written | {"pids.max": (directory / "pids.max").read_text().strip()},
        usage=[reader.memory_usage(cgroup.name), memory.usage, memory.inactive_file, memory.working_set],
        limit=reader.memory_limit(cgroup.name),
        tasks=reader.tasks(cgroup.name),
        cpu_ns=reader.cpu_ns(cgroup.name),
    )
    root(reader)
    survivors = kill_until_empty(cgroup, 20)
    os.waitpid(pid, 0)
    while not cgroup.remove():
        time.sleep(0.01)
    name = cgroup.name
    gone = [reader.memory(name), reader.memory_usage(name), reader.tasks(name), reader.cpu_ns(name)]
    cgroup.create()
    report(survivors=len(survivors), gone=gone, back=[reader.memory_usage(name), reader.tasks(name)])
    reader.close()


def root(reader: UsageReader) -> None:
    """The root has no memory.current, no memory.max and no pids.current."""
    memory, machine = reader.memory(ROOT), Machine()
    assert memory is not None
    stat = counters(CGROUPS / "memory.stat")
    found = machine.memory()
    report(
        root=[reader.memory_usage(ROOT), memory.usage, memory.inactive_file],
        root_stat=[stat["anon"], stat["file"], stat["inactive_file"]],
        root_limit=reader.memory_limit(ROOT),
        root_tasks=reader.tasks(ROOT),
        root_cpu_ns=reader.cpu_ns(ROOT),
        machine=[found.total, found.free, machine.tasks(), machine.most_tasks()],
    )
    machine.close()


def stubborn(inner: Path) -> None:
    """Deaf to SIGTERM, with a grandchild in a session of its own, and a child that sits frozen in a cgroup below."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        os.fork()
    elif os.fork() == 0:
        (inner / "cgroup.procs").write_text("0")
        (inner / "cgroup.freeze").write_text("1")
    time.sleep(600)


def killing(mounts: CgroupMounts) -> None:
    """A tree that a sweep by process ids would have to chase; what is opened meanwhile tells how it was ended.

    To be called last: an audit hook cannot be taken away again.
    """
    cgroup, inner = Cgroup(mounts, "doomed"), CGROUPS / "doomed" / "inner"
    cgroup.create()
    inner.mkdir()
    pid = start_in(inner.parent, lambda: stubborn(inner))
    while len(cgroup.processes()) < 4 or not counters(inner / "cgroup.events")["frozen"]:
        time.sleep(0.01)
    members = len(cgroup.processes())
    opened: list[str] = []
    sys.addaudithook(lambda event, values: opened.append(str(values[0])) if event == "open" else None)
    survivors = kill_until_empty(cgroup, 20)
    used = "cgroup.kill" in {Path(path).name for path in opened}
    _, status = os.waitpid(pid, 0)
    events = counters(inner.parent / "cgroup.events")
    while not cgroup.remove():
        time.sleep(0.01)
    report(
        tree=members,
        tree_survivors=len(survivors),
        tree_exit=os.waitstatus_to_exitcode(status),
        tree_populated=events["populated"],
        tree_by_kill=used,
    )


async def polling(mounts: CgroupMounts, policy: Policy, threshold: int) -> None:
    """128 MiB of headroom, then growth: when the memory was looked at, how near it was, and what rang."""
    cgroup, clock, reader = Cgroup(mounts, "polled"), SystemClock(), UsageReader(mounts)
    cgroup.create()
    capacity = threshold + 128 * MIB
    looks: list[tuple[float, int]] = []

    def measure() -> MemoryPair:
        memory = reader.memory(cgroup.name)
        assert memory is not None
        available = capacity - memory.working_set
        looks.append((time.monotonic(), available - threshold))
        return MemoryPair(MemoryStats(clock.now_ns(), available, memory.usage, memory.working_set), None)

    with ThreadPoolExecutor(1) as pool:
        wakeups = Wakeups(clock)
        alarms = MemoryAlarms(policy.thresholds, measure, wakeups, clock, pool, Watched(pressure=None))
        lacks = alarms.open()
        alarms.observed(measure())
        await asyncio.sleep(0.7)
        calm = len(looks)
        pid = start_in(CGROUPS / cgroup.name, grow)
        async with asyncio.timeout(20):
            alarm = await anext(alarm async for alarm in wakeups.alarms() if alarm.source != CLOSE_ALARM)
        await alarms.close()
    kill_until_empty(cgroup, 20)
    os.waitpid(pid, 0)
    report(poll_source=alarm.source, poll_lacks=lacks, calm_looks=looks[:calm], growing_looks=looks[calm:])


def grow() -> None:
    """96 MiB at once, then 1 MiB every 10 ms."""
    held = [b"\1" * (96 * MIB)]
    while True:
        held.append(b"\1" * MIB)
        time.sleep(0.01)
