"""Alarms of the memory controller and of files that change, rung by real processes."""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from jettison.errors import ObservationError
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import Limits
from jettison.runtimes.linux.cgroups.memcg_events import KernfsAlarm, OomAlarm, UsageAlarm, oom_kills, watch_oom
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, Hierarchy, discover
from tests.runtimes.linux.crowding import crowded

MakeCgroup = Callable[..., Cgroup]
Spawn = Callable[[str], "Popen[bytes]"]
Count = Callable[[], int]

MEMORY = discover().holding("memory")

live = pytest.mark.skipif(os.geteuid() != 0 or MEMORY is None, reason="real cgroups take root and a memory controller")
live_v1 = pytest.mark.skipif(
    os.geteuid() != 0 or MEMORY is None or MEMORY.is_unified,
    reason="threshold events take root and the memory controller of cgroup version 1",
)

# Each line of input is a number of bytes to take and touch, or a negative one to give everything back.
GROW = """
import sys, mmap
kept = []
for line in sys.stdin:
    if int(line) < 0:
        [m.close() for m in kept]; kept.clear()
    else:
        m = mmap.mmap(-1, int(line)); kept.append(m)
        for at in range(0, int(line), 4096): m[at] = 1
    print(flush=True)
"""

events_file = pytest.mark.skipif(
    os.geteuid() != 0 or discover().unified is None, reason="cgroup.events takes root and a unified hierarchy"
)


def tell(process: Popen[bytes], size: int) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"%d\n" % size)
    process.stdin.flush()
    process.stdout.readline()


def rings(alarm: UsageAlarm | OomAlarm, timeout: float = 2) -> bool:
    return bool(select.select([alarm], [], [], timeout)[0])


def memory_directory(cgroup: Cgroup) -> Path:
    directory = cgroup.directory("memory")
    assert directory is not None
    return directory


@live_v1
def test_crossing_rings_in_both_directions(make_cgroup: MakeCgroup, spawn: Spawn) -> None:
    cgroup = make_cgroup()
    process = spawn(GROW)
    cgroup.move(process.pid)
    alarm = UsageAlarm(memory_directory(cgroup), 24 << 20)

    tell(process, 16 << 20)
    assert not rings(alarm, timeout=0)
    assert alarm.consume() is False

    tell(process, 16 << 20)
    assert rings(alarm)
    assert alarm.consume() is True
    assert not rings(alarm, timeout=0)

    tell(process, -1)
    assert rings(alarm)
    alarm.close()
    alarm.close()


@live_v1
def test_an_event_loop_is_woken_before_much_more_is_used(make_cgroup: MakeCgroup, spawn: Spawn) -> None:
    """The kernel looks once in 128 pages, 512 KiB; the rest is our own way to the callback."""
    cgroup = make_cgroup()
    process = spawn(
        "import mmap, time\ninput()\nm = mmap.mmap(-1, 256 << 20)\n"
        "for at in range(0, 128 << 20, 4096):\n    m[at] = 1\n    if at % (1 << 20) == 0: time.sleep(0.005)\n"
    )
    cgroup.move(process.pid)
    threshold = 40 << 20
    alarm = UsageAlarm(memory_directory(cgroup), threshold)

    usage = asyncio.run(usage_when_woken(alarm, process, memory_directory(cgroup)))

    assert threshold - (1 << 20) < usage < threshold + (24 << 20)
    alarm.close()


async def usage_when_woken(alarm: UsageAlarm, process: Popen[bytes], directory: Path) -> int:
    loop = asyncio.get_running_loop()
    usage: asyncio.Future[int] = loop.create_future()

    def callback() -> None:
        if alarm.consume() and not usage.done():
            usage.set_result(int((directory / "memory.usage_in_bytes").read_text()))

    loop.add_reader(alarm.fileno(), callback)
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    try:
        return await asyncio.wait_for(usage, timeout=30)
    finally:
        loop.remove_reader(alarm.fileno())


@live_v1
def test_removing_the_cgroup_rings_once(make_cgroup: MakeCgroup) -> None:
    cgroup = make_cgroup()
    alarm = UsageAlarm(memory_directory(cgroup), 1 << 30)
    cgroup.remove()

    assert rings(alarm)
    assert alarm.consume() is True
    assert not rings(alarm, timeout=0.05)
    alarm.close()


@live_v1
def test_closing_gives_everything_back(make_cgroup: MakeCgroup, open_descriptors: Count) -> None:
    directory = memory_directory(make_cgroup())
    before = open_descriptors()
    alarms = [UsageAlarm(directory, size << 20) for size in range(1, 20)]
    held = open_descriptors()
    for alarm in alarms:
        alarm.close()

    assert (held, open_descriptors()) == (before + 19, before)


def test_where_there_is_no_such_event_nothing_is_armed(tmp_path: Path, open_descriptors: Count) -> None:
    (tmp_path / "memory.usage_in_bytes").write_text("1")
    before = open_descriptors()

    with pytest.raises(ObservationError, match=r"no event on .*memory.usage_in_bytes`: no such file"):
        UsageAlarm(tmp_path, 5)
    assert open_descriptors() == before


@live_v1
@pytest.mark.parametrize("free", [0, 1, 2])
def test_a_full_table_of_descriptors_is_no_crash(
    make_cgroup: MakeCgroup, mounts: CgroupMounts, open_descriptors: Count, free: int
) -> None:
    cgroup = make_cgroup()
    before = open_descriptors()

    with crowded(free):
        with pytest.raises(ObservationError, match=r"no event on .*memory.usage_in_bytes`: too many open files"):
            UsageAlarm(memory_directory(cgroup), 1 << 30)
        with pytest.raises(ObservationError, match=r"no event on .*memory.oom_control`: too many open files"):
            watch_oom(mounts, cgroup.name)
    assert open_descriptors() == before


@live
def test_a_kill_rings_and_is_counted(make_cgroup: MakeCgroup, spawn: Spawn, mounts: CgroupMounts) -> None:
    cgroup = make_cgroup()
    cgroup.limit(Limits(memory=32 << 20))
    alarm = watch_oom(mounts, cgroup.name)
    before = alarm.consume()
    process = spawn(GROW)
    cgroup.move(process.pid)
    tell(process, 64 << 20)

    assert rings(alarm)
    assert process.wait(30) == -9
    assert (before, alarm.consume(), oom_kills(mounts, cgroup.name)) == (0, 1, 1)
    alarm.close()
    alarm.close()


@live_v1
def test_a_limit_above_rings_below_and_the_kill_is_counted_at_the_victim(
    make_cgroup: MakeCgroup, spawn: Spawn, mounts: CgroupMounts
) -> None:
    pod = make_cgroup()
    pod.limit(Limits(memory=32 << 20))
    guilty, innocent = (Cgroup(mounts, f"{pod.name}/{name}") for name in ("guilty", "innocent"))
    guilty.create()
    innocent.create()
    alarms = [watch_oom(mounts, cgroup.name) for cgroup in (pod, guilty, innocent)]
    process = spawn(GROW)
    guilty.move(process.pid)
    tell(process, 64 << 20)
    process.wait(30)

    assert [rings(alarm) for alarm in alarms] == [True, True, True]
    assert [alarm.consume() for alarm in alarms] == [0, 1, 0]
    for alarm in alarms:
        alarm.close()


@live
def test_a_cgroup_that_is_gone_has_no_count(make_cgroup: MakeCgroup, mounts: CgroupMounts) -> None:
    cgroup = make_cgroup()
    alarm = watch_oom(mounts, cgroup.name)
    while not cgroup.remove():
        time.sleep(0.005)

    assert (alarm.consume(), oom_kills(mounts, cgroup.name)) == (None, None)
    alarm.close()
    with pytest.raises(ObservationError):
        watch_oom(mounts, cgroup.name)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("low 0\nhigh 0\nmax 312\noom 2\noom_kill 2\noom_group_kill 0\n", 2),
        # Killed together: the first victim is counted twice, or only once if it is gone by then.
        ("low 0\nhigh 0\nmax 312\noom 1\noom_kill 3\noom_group_kill 1\n", 2),
        ("low 0\nhigh 0\nmax 312\noom 1\noom_kill 1\noom_group_kill 1\n", 1),
        ("low 0\nmax 1\noom 5\noom_kill 4\n", 4),
        ("low 0\nmax 1\noom 5\n", None),
        ("", None),
    ],
)
def test_version_2_counts_in_its_events(tmp_path: Path, text: str, count: int | None) -> None:
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod/memory.events").write_text(text)
    mounts = CgroupMounts((Hierarchy(tmp_path, "/", frozenset({"memory"}), is_unified=True),))

    assert oom_kills(mounts, "pod") == count


def test_without_a_memory_controller_there_is_nothing_to_watch() -> None:
    assert oom_kills(CgroupMounts(()), "pod") is None
    with pytest.raises(ObservationError, match="memory controller is not mounted"):
        watch_oom(CgroupMounts(()), "pod")


def is_ringing(alarm: KernfsAlarm, timeout: float = 0) -> bool:
    return bool(select.select([alarm], [], [], timeout)[0])


@pytest.mark.parametrize("name", ["nothing", "ordinary"])
def test_what_can_never_ring_cannot_be_armed(tmp_path: Path, name: str, open_descriptors: Count) -> None:
    (tmp_path / "ordinary").write_text("")
    before = open_descriptors()

    with pytest.raises(ObservationError, match=f"no news from .*{name}"):
        KernfsAlarm(tmp_path / name)
    assert open_descriptors() == before


@events_file
@pytest.mark.parametrize("free", [0, 1])
def test_a_file_opened_with_a_full_table_of_descriptors_is_no_crash(
    make_cgroup: Callable[..., Cgroup], open_descriptors: Count, free: int
) -> None:
    directory = make_cgroup().unified_directory
    assert directory is not None
    before = open_descriptors()

    with crowded(free), pytest.raises(ObservationError, match=r"no news from .*cgroup.events`: too many open files"):
        KernfsAlarm(directory / "cgroup.events")
    assert open_descriptors() == before


@events_file
def test_it_rings_for_every_change_until_it_is_consumed(
    make_cgroup: Callable[..., Cgroup], spawn: Callable[[str], Popen[bytes]]
) -> None:
    cgroup = make_cgroup()
    directory = cgroup.unified_directory
    assert directory is not None
    alarm = KernfsAlarm(directory / "cgroup.events")
    process = spawn("input()")
    assert not is_ringing(alarm)

    cgroup.move(process.pid)
    assert is_ringing(alarm, timeout=30)
    assert is_ringing(alarm)
    assert b"populated 1" in (alarm.consume() or b"")
    assert not is_ringing(alarm)

    process.kill()
    assert is_ringing(alarm, timeout=30)
    assert b"populated 0" in (alarm.consume() or b"")

    process.wait()
    while not cgroup.remove():
        assert cgroup.exists
    assert alarm.consume() is None
    alarm.close()
    alarm.close()
