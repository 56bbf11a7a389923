"""What cgroups use: made-up files of both versions, and a real process that takes memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from jettison.errors import ObservationError
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import Limits
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, Hierarchy, discover
from jettison.runtimes.linux.cgroups.usage import ROOT, Memory, UsageReader
from jettison.runtimes.linux.files.kernel_files import DescriptorBudget
from tests.emptying import kill_until_empty

Count = Callable[[], int]

MakeCgroup = Callable[..., Cgroup]
Spawn = Callable[[str], "Popen[bytes]"]

live = pytest.mark.skipif(
    os.geteuid() != 0 or discover().holding("memory") is None, reason="real cgroups take root and a memory controller"
)

STAT_V1 = "cache 70\ninactive_file 1\nhierarchical_memory_limit 9\ntotal_inactive_file 30\ntotal_active_file 2\n"
STAT_V2 = "anon 500\nfile 200\nkernel 9000\nworkingset_activate 3\ninactive_file 150\nactive_file 50\n"
# Takes as many bytes as each line of its input says, and really touches them.
GROW = "import sys\nkept = []\nfor line in sys.stdin:\n    kept.append(b'x' * int(line))\n    print(flush=True)\n"
# Four threads that wait, then work for the one that does not.
SPIN = """
import threading
input()
for _ in range(4):
    threading.Thread(target=input).start()
print(flush=True)
sum(range(5_000_000))
print(flush=True)
"""


def fill(directory: Path, **files: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name.replace("__", ".")).write_text(content)


def v1(root: Path) -> CgroupMounts:
    for controller in ("memory", "pids", "cpuacct"):
        (root / controller).mkdir()
    return CgroupMounts(
        tuple(
            Hierarchy(root / name, "/", frozenset({name}), is_unified=False) for name in ("memory", "pids", "cpuacct")
        )
    )


def v2(root: Path) -> CgroupMounts:
    return CgroupMounts((Hierarchy(root, "/", frozenset({"memory", "pids", "cpu"}), is_unified=True),))


def grow(process: Popen[bytes], size: int) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"%d\n" % size)
    process.stdin.flush()
    process.stdout.readline()


def test_version_1(tmp_path: Path) -> None:
    reader = UsageReader(v1(tmp_path))
    fill(
        tmp_path / "memory/pod",
        memory__usage_in_bytes="100\n",
        memory__stat=STAT_V1,
        memory__limit_in_bytes="4096\n",
    )
    fill(tmp_path / "pids/pod", pids__current="7\n")
    fill(tmp_path / "cpuacct/pod", cpuacct__usage="123456789\n")

    assert reader.memory_usage("pod") == 100
    assert reader.memory("pod") == Memory(100, 30)
    assert Memory(100, 30).working_set == 70
    assert (reader.memory_limit("pod"), reader.tasks("pod"), reader.cpu_ns("pod")) == (4096, 7, 123456789)
    reader.close()


def test_version_2(tmp_path: Path) -> None:
    reader = UsageReader(v2(tmp_path))
    fill(
        tmp_path / "pod",
        memory__current="1000\n",
        memory__stat=STAT_V2,
        memory__max="4096\n",
        pids__current="7\n",
        cpu__stat="usage_usec 42\nuser_usec 1\n",
    )

    assert reader.memory_usage("pod") == 1000
    assert reader.memory("pod") == Memory(1000, 150)
    assert (reader.memory_limit("pod"), reader.tasks("pod"), reader.cpu_ns("pod")) == (4096, 7, 42_000)
    reader.close()


def test_the_root_of_version_2_is_the_sum_of_anonymous_memory_and_files(tmp_path: Path) -> None:
    fill(tmp_path, memory__stat=STAT_V2, cpu__stat="usage_usec 1\n")
    reader = UsageReader(v2(tmp_path))

    assert reader.memory(ROOT) == Memory(700, 150)
    assert reader.memory_usage(ROOT) == 700
    assert (reader.memory_limit(ROOT), reader.tasks(ROOT)) == (None, None)
    reader.close()


def test_the_root_of_version_1_has_a_usage_of_its_own(tmp_path: Path) -> None:
    mounts = v1(tmp_path)
    fill(
        tmp_path / "memory",
        memory__usage_in_bytes="100\n",
        memory__stat=STAT_V1,
        memory__limit_in_bytes="9223372036854771712\n",
    )
    reader = UsageReader(mounts)

    assert reader.memory(ROOT) == Memory(100, 30)
    assert reader.memory_limit(ROOT) is None
    reader.close()


@pytest.mark.parametrize(("limit", "expected"), [("max\n", None), (f"{2**62}", 2**62), (f"{2**62 + 1}", None)])
def test_limits_beyond_two_to_the_62_mean_none(tmp_path: Path, limit: str, expected: int | None) -> None:
    fill(tmp_path / "pod", memory__max=limit)

    assert UsageReader(v2(tmp_path)).memory_limit("pod") == expected


def test_without_the_line_the_working_set_is_the_usage(tmp_path: Path) -> None:
    fill(tmp_path / "pod", memory__current="1000\n", memory__stat="anon 1\ninactive_anon 5\nxinactive_file 9\n")

    memory = UsageReader(v2(tmp_path)).memory("pod")

    assert memory == Memory(1000, None)
    assert memory is not None
    assert memory.working_set == 1000


def test_a_working_set_is_never_negative() -> None:
    assert Memory(10, 11).working_set == 0


def test_a_missing_controller_and_a_missing_cgroup_are_none_and_never_zero(tmp_path: Path) -> None:
    reader = UsageReader(CgroupMounts(()))

    assert [reader.memory("x"), reader.memory_usage("x"), reader.memory_limit("x")] == [None] * 3
    assert [reader.tasks("x"), reader.cpu_ns("x")] == [None] * 2
    assert UsageReader(v2(tmp_path)).memory("gone") is None


@pytest.mark.parametrize("content", ["", "many\n", "1 2\n"])
def test_nonsense_is_an_error_that_names_the_cgroup(tmp_path: Path, content: str) -> None:
    fill(tmp_path / "pod", memory__current=content, memory__stat=STAT_V2)

    with pytest.raises(ObservationError, match="`pod` reports"):
        UsageReader(v2(tmp_path)).memory("pod")


def test_a_statistic_cut_short_is_an_error_and_not_a_smaller_number(tmp_path: Path) -> None:
    fill(tmp_path / "pod", memory__current="1000\n", memory__stat="anon 1\ninactive_file 12")

    with pytest.raises(ObservationError, match="inactive_file"):
        UsageReader(v2(tmp_path)).memory("pod")


@live
def test_memory_that_a_process_touches_is_its_cgroups(
    make_cgroup: MakeCgroup, spawn: Spawn, mounts: CgroupMounts
) -> None:
    cgroup, reader = make_cgroup(), UsageReader(mounts)
    process = spawn(GROW)
    cgroup.move(process.pid)
    before = reader.memory(cgroup.name)
    grow(process, 32 << 20)
    after = reader.memory(cgroup.name)

    assert before is not None
    assert after is not None
    # A page of before may have been given back.
    assert 31 << 20 <= after.working_set - before.working_set < 40 << 20
    assert reader.memory_usage(cgroup.name) == pytest.approx(after.usage, abs=1 << 20)
    reader.close()


@live
def test_page_cache_of_a_file_is_usage_but_not_working_set(
    make_cgroup: MakeCgroup, spawn: Spawn, mounts: CgroupMounts, tmp_path: Path
) -> None:
    cgroup, reader = make_cgroup(), UsageReader(mounts)
    process = spawn(f"input()\nopen({str(tmp_path / 'f')!r}, 'wb').write(bytes(16 << 20))\nprint(flush=True)\ninput()")
    cgroup.move(process.pid)
    grow(process, 0)
    memory = reader.memory(cgroup.name)

    assert memory is not None
    assert memory.inactive_file is not None
    assert memory.inactive_file > 15 << 20
    assert memory.working_set == memory.usage - memory.inactive_file
    reader.close()


@live
def test_threads_count_as_tasks_and_time_as_nanoseconds(
    make_cgroup: MakeCgroup, spawn: Spawn, mounts: CgroupMounts
) -> None:
    cgroup, reader = make_cgroup(), UsageReader(mounts)
    process = spawn(SPIN)
    cgroup.move(process.pid)
    first = reader.cpu_ns(cgroup.name)
    grow(process, 0)
    tasks = reader.tasks(cgroup.name)
    assert process.stdout is not None
    process.stdout.readline()
    second = reader.cpu_ns(cgroup.name)

    assert tasks == 5
    assert first is not None
    assert second is not None
    assert 10_000_000 < second - first < 20_000_000_000
    reader.close()


@live
def test_a_limit_is_read_back_and_root_has_memory(make_cgroup: MakeCgroup, mounts: CgroupMounts) -> None:
    cgroup, reader = make_cgroup(), UsageReader(mounts)
    before = reader.memory_limit(cgroup.name)
    cgroup.limit(Limits(memory=64 << 20))
    machine = reader.memory(ROOT)

    assert (before, reader.memory_limit(cgroup.name)) == (None, 64 << 20)
    assert machine is not None
    assert machine.working_set > 1 << 20
    assert reader.tasks(ROOT) is None
    reader.close()


@live
def test_a_cgroup_of_the_same_name_is_read_anew(make_cgroup: MakeCgroup, spawn: Spawn, mounts: CgroupMounts) -> None:
    """The old descriptors answer ENODEV from then on; they must be replaced."""
    cgroup, reader = make_cgroup(), UsageReader(mounts)
    process = spawn(GROW)
    cgroup.move(process.pid)
    grow(process, 8 << 20)
    first = reader.memory_usage(cgroup.name)
    kill_until_empty(cgroup, timeout=30)
    while not cgroup.remove():
        time.sleep(0.005)
    gone = [reader.memory_usage(cgroup.name), reader.tasks(cgroup.name)]
    cgroup.create()

    assert first is not None
    assert first > 8 << 20
    assert gone == [None, None]
    assert reader.memory_usage(cgroup.name) is not None
    assert reader.tasks(cgroup.name) == 0
    reader.close()


@live
def test_vanished_cgroups_leave_no_descriptor_behind(
    make_cgroup: MakeCgroup, mounts: CgroupMounts, open_descriptors: Count
) -> None:
    before = open_descriptors()
    budget = DescriptorBudget(100)
    reader = UsageReader(mounts, budget)
    cgroups = [make_cgroup() for _ in range(5)]
    for cgroup in cgroups:
        reader.memory(cgroup.name)
        reader.tasks(cgroup.name)
        reader.cpu_ns(cgroup.name)
    kept = open_descriptors()
    for cgroup in cgroups:
        assert cgroup.remove()
        assert reader.memory(cgroup.name) is None

    assert kept == before + 20
    assert open_descriptors() == before
    assert budget.left == 100
