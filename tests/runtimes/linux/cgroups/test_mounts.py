"""Which hierarchies a machine has, and which cgroup systemd left to us."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jettison.errors import InputError
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.mounts import (
    CgroupMounts,
    CgroupVersion,
    Hierarchy,
    delegated_cgroup,
    discover,
    own_cgroup,
)

V1 = """\
30 1 0:26 / {root}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 1 0:27 / {root}/memory rw - cgroup cgroup rw,memory
32 1 0:28 / {root}/pids rw - cgroup cgroup rw,pids
33 1 0:29 / {root}/systemd rw - cgroup systemd rw,xattr,name=systemd
"""
UNIFIED = "34 1 0:30 / {root}/unified rw - cgroup2 cgroup2 rw\n"
V2 = "34 1 0:30 / {root} rw - cgroup2 cgroup2 rw,nsdelegate\n"

SERVICE = "system.slice/jettison.service"


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
def test_a_node_within_a_cgroup_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods/cgroup.procs").touch()
    tree = Hierarchy(tmp_path, "/", frozenset({"memory"}), is_unified=False)

    tree.check_within("pods")
    with pytest.raises(InputError, match="--within `pod`: there is no such cgroup below"):
        tree.check_within("pod")


def test_this_machine_has_a_memory_controller_where_we_say(mounts: CgroupMounts) -> None:
    memory = mounts.holding("memory")

    assert mounts.version is not None
    assert memory is not None
    assert (memory.mount_point / "memory.stat").is_file()


@pytest.fixture
def tree(tmp_path: Path) -> Hierarchy:
    """A version 2 hierarchy with our process two levels below what may be delegated."""
    inner = tmp_path / "cgroup" / SERVICE / "agent"
    inner.mkdir(parents=True)
    for directory in (inner, inner.parent):
        (directory / "cgroup.procs").write_text("")
    return Hierarchy(tmp_path / "cgroup", "/", frozenset({"memory"}), is_unified=True)


def mark(path: Path, value: bytes = b"1") -> None:
    try:
        os.setxattr(path, "user.delegate", value)
    except OSError as error:
        pytest.skip(f"no extended attributes here: {error}")


def test_the_marked_ancestor_is_ours(tree: Hierarchy, fake_proc: Path) -> None:
    (fake_proc / "self/cgroup").write_text(f"0::/{SERVICE}/agent\n")
    mark(tree.mount_point / SERVICE)

    assert delegated_cgroup(CgroupMounts((tree,)), fake_proc) == SERVICE


def test_the_innermost_mark_counts(tree: Hierarchy, fake_proc: Path) -> None:
    (fake_proc / "self/cgroup").write_text(f"0::/{SERVICE}/agent\n")
    mark(tree.mount_point / SERVICE)
    mark(tree.mount_point / SERVICE / "agent")

    assert delegated_cgroup(CgroupMounts((tree,)), fake_proc) == f"{SERVICE}/agent"


@pytest.mark.parametrize(
    "line", ["0::/\n", f"0::/{SERVICE}/agent\n", "0::/gone/away\n", "1:name=systemd:/x\n", "", "x"]
)
def test_without_a_mark_nothing_is_ours(tree: Hierarchy, fake_proc: Path, line: str) -> None:
    (fake_proc / "self/cgroup").write_text(line)
    mark(tree.mount_point / SERVICE, b"0")

    assert delegated_cgroup(CgroupMounts((tree,)), fake_proc) is None


def test_version_1_is_marked_in_systemds_own_hierarchy(tree: Hierarchy, fake_proc: Path) -> None:
    systemd = Hierarchy(tree.mount_point, "/", frozenset(), is_unified=False, is_systemd=True)
    (fake_proc / "self/cgroup").write_text(f"4:memory:/elsewhere\n1:name=systemd:/{SERVICE}\n0::/\n")
    mark(tree.mount_point / SERVICE)

    assert delegated_cgroup(CgroupMounts((systemd,)), fake_proc) == SERVICE


@pytest.mark.parametrize(
    ("line", "name"),
    [("0::/docker/1\n", ""), ("0::/docker/1/a:b c\n", "a:b c"), ("0::/docker/12\n", None), ("0::/../x\n", None)],
)
def test_names_are_relative_to_what_is_mounted(fake_proc: Path, line: str, name: str | None) -> None:
    (fake_proc / "self/cgroup").write_text(line)
    tree = Hierarchy(Path("/nowhere"), "/docker/1", frozenset(), is_unified=True)

    assert own_cgroup(tree, fake_proc) == name


def test_a_controller_of_version_1_is_found_in_its_line(fake_proc: Path) -> None:
    (fake_proc / "self/cgroup").write_text("5:cpu,cpuacct:/a\n4:memory:/b\n0::/c\n")
    tree = Hierarchy(Path("/nowhere"), "/", frozenset({"cpuacct", "cpu"}), is_unified=False)

    assert own_cgroup(tree, fake_proc) == "a"


@pytest.mark.skipif(
    os.geteuid() != 0 or discover().unified is None, reason="a real mark takes root and a unified hierarchy"
)
def test_a_mark_on_a_real_cgroup_is_seen(
    make_cgroup: Callable[..., Cgroup], mounts: CgroupMounts, fake_proc: Path
) -> None:
    cgroup = make_cgroup()
    directory = cgroup.unified_directory
    assert directory is not None
    (fake_proc / "self/cgroup").write_text(f"0::/{cgroup.name}\n")
    before = delegated_cgroup(mounts, fake_proc)
    mark(directory)

    assert (before, delegated_cgroup(mounts, fake_proc)) == (None, cgroup.name)
