"""Which hierarchies a machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, CgroupVersion, discover

V1 = """\
30 1 0:26 / {root}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 1 0:27 / {root}/memory rw - cgroup cgroup rw,memory
32 1 0:28 / {root}/pids rw - cgroup cgroup rw,pids
33 1 0:29 / {root}/systemd rw - cgroup systemd rw,xattr,name=systemd
"""
UNIFIED = "34 1 0:30 / {root}/unified rw - cgroup2 cgroup2 rw\n"
V2 = "34 1 0:30 / {root} rw - cgroup2 cgroup2 rw,nsdelegate\n"


def machine(tmp_path: Path, fake_proc: Path, table: str, controllers: str = "") -> CgroupMounts:
    root = tmp_path / "cgroup"
    for directory in (root, root / "unified"):
        directory.mkdir(exist_ok=True)
        (directory / "cgroup.controllers").write_text(controllers)
    (fake_proc / "self/mountinfo").write_text(table.format(root=root))
    return discover(root, fake_proc)


def test_version_1_has_a_hierarchy_for_each_controller_or_pair(tmp_path: Path, fake_proc: Path) -> None:
    mounts = machine(tmp_path, fake_proc, V1)

    memory, cpu, accounting = (mounts.holding(name) for name in ("memory", "cpu", "cpuacct"))

    assert mounts.version is CgroupVersion.V1
    assert mounts.unified is None
    assert memory is not None
    assert not memory.is_unified
    assert cpu is accounting
    assert mounts.holding("freezer") is None
    assert [tree.mount_point.name for tree in mounts.used] == ["cpu,cpuacct", "memory", "pids"]


def test_version_2_holds_what_its_root_offers(tmp_path: Path, fake_proc: Path) -> None:
    mounts = machine(tmp_path, fake_proc, V2, "cpuset cpu io memory hugetlb pids rdma\n")

    assert mounts.version is CgroupVersion.V2
    assert mounts.holding("memory") is mounts.unified is mounts.used[0]
    assert mounts.unified is not None
    assert mounts.unified.controllers == {"cpu", "memory", "pids"}


def test_a_hybrid_machine_uses_both(tmp_path: Path, fake_proc: Path) -> None:
    mounts = machine(tmp_path, fake_proc, V1 + UNIFIED, "hugetlb\n")

    memory = mounts.holding("memory")

    assert mounts.version is CgroupVersion.HYBRID
    assert memory is not None
    assert not memory.is_unified
    assert mounts.unified in mounts.used


def test_a_hybrid_machine_may_have_memory_in_version_2(tmp_path: Path, fake_proc: Path) -> None:
    mounts = machine(tmp_path, fake_proc, V1.replace("rw,memory", "rw,blkio") + UNIFIED, "memory\n")

    assert mounts.holding("memory") is mounts.unified


def test_nothing_mounted_is_no_error(tmp_path: Path, fake_proc: Path) -> None:
    mounts = machine(tmp_path, fake_proc, "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")

    assert (mounts.version, mounts.used, mounts.holding("memory")) == (None, (), None)


def test_mounts_elsewhere_belong_to_others_and_later_ones_hide_earlier_ones(tmp_path: Path, fake_proc: Path) -> None:
    mounts = machine(
        tmp_path,
        fake_proc,
        "30 1 0:26 / /var/lib/another/sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        "31 1 0:27 / {root}/memory rw - cgroup cgroup rw,blkio\n"
        "32 1 0:28 /docker/1 {root}/memory rw - cgroup cgroup rw,memory\n",
    )

    (memory,) = mounts.hierarchies

    assert (memory.controllers, memory.mount_root) == (frozenset({"memory"}), "/docker/1")


@pytest.mark.skipif(not Path("/sys/fs/cgroup").is_dir(), reason="no cgroups on this machine")
def test_this_machine_has_a_memory_controller_where_we_say(mounts: CgroupMounts) -> None:
    memory = mounts.holding("memory")

    assert mounts.version is not None
    assert memory is not None
    assert (memory.mount_point / "memory.stat").is_file()
