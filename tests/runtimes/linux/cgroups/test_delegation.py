"""Finding the subtree that systemd marked as ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.delegation import delegated_cgroup, own_cgroup
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, Hierarchy, discover

SERVICE = "system.slice/jettison.service"


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
