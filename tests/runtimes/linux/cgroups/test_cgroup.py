"""Cgroups by name: made-up hierarchies for the order of writes, real ones for everything the kernel has a say in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from jettison.errors import InputError, WriteError
from jettison.runtimes.linux.cgroups import tree as cgroup_tree
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import UNLIMITED, Limits
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, Hierarchy, discover

MakeCgroup = Callable[..., Cgroup]
Spawn = Callable[[str], "Popen[bytes]"]

live = pytest.mark.skipif(
    os.geteuid() != 0 or discover().holding("memory") is None, reason="real cgroups take root and a memory controller"
)

SLEEP = "import time; time.sleep(60)"


def fake_v2(root: Path, controllers: str = "cpu memory pids") -> CgroupMounts:
    (root / "cgroup.controllers").write_text(controllers)
    (root / "cgroup.subtree_control").write_text("")
    return CgroupMounts((Hierarchy(root, "/", frozenset(controllers.split()), is_unified=True),))


@pytest.mark.parametrize(
    "name", ["", "/", "/abs", "a//b", "a/", ".", "..", "a/../b", "a/./b", "a\0b", "a\nb", "ü" * 128, "x" * 256]
)
def test_names_that_could_mean_something_else_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="invalid cgroup name"):
        Cgroup(fake_v2(tmp_path), name)


def test_controllers_are_passed_on_by_every_ancestor_that_does_not_yet(tmp_path: Path) -> None:
    mounts = fake_v2(tmp_path)
    (tmp_path / "node").mkdir()
    (tmp_path / "node/cgroup.controllers").write_text("memory pids")
    (tmp_path / "node/cgroup.subtree_control").write_text("memory pids")

    Cgroup(mounts, "node/pod").create()

    # Each name is a write of its own; an ordinary file keeps the last one in front, and what was longer behind it.
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+pidsry"
    assert (tmp_path / "node/cgroup.subtree_control").read_text() == "memory pids"


def test_limits_of_controllers_that_are_missing_are_named(tmp_path: Path) -> None:
    mounts = fake_v2(tmp_path, "memory pids")
    cgroup = Cgroup(mounts, "pod")
    cgroup.create()
    (tmp_path / "pod/memory.max").write_text("")

    missing = cgroup.limit(Limits(memory=4096, cpu_shares=100, pids=7))

    assert missing == ("cpu", "pids")  # not mounted; mounted but not passed on to this cgroup
    assert (tmp_path / "pod/memory.max").read_text() == "4096"


def test_a_cgroup_that_does_not_exist_cannot_be_limited_or_entered(tmp_path: Path) -> None:
    cgroup = Cgroup(fake_v2(tmp_path), "pod")

    with pytest.raises(WriteError, match="does not exist"):
        cgroup.limit(Limits(memory=4096))
    with pytest.raises(WriteError, match="no such cgroup"):
        cgroup.move(os.getpid())


def test_a_cgroup_that_does_not_exist_is_empty_and_removed(tmp_path: Path) -> None:
    cgroup = Cgroup(fake_v2(tmp_path), "pod")

    assert not cgroup.exists
    assert cgroup.processes() == frozenset()
    assert cgroup.children() == frozenset()
    assert cgroup.remove()


@live
def test_a_cgroup_exists_in_every_hierarchy_until_it_is_removed(make_cgroup: MakeCgroup) -> None:
    cgroup = make_cgroup()
    cgroup.create()  # again, which changes nothing

    assert all(directory.is_dir() for directory in cgroup.directories)
    assert cgroup.remove()
    assert not cgroup.exists
    assert cgroup.remove()


@live
def test_the_kernel_takes_our_limits(make_cgroup: MakeCgroup) -> None:
    cgroup = make_cgroup()

    missing = cgroup.limit(Limits(memory=64 << 20, cpu_shares=512, cpu_quota_us=5, pids=33))

    memory, pids = cgroup.directory("memory"), cgroup.directory("pids")
    assert missing == ()
    assert memory is not None
    assert pids is not None
    files = [memory / name for name in ("memory.limit_in_bytes", "memory.max") if (memory / name).exists()]
    assert [int(file.read_text()) for file in files] == [64 << 20]
    assert (pids / "pids.max").read_text() == "33\n"

    cgroup.limit(Limits(memory=UNLIMITED, cpu_quota_us=UNLIMITED, pids=UNLIMITED))

    assert (pids / "pids.max").read_text() == "max\n"


@live
def test_processes_are_seen_at_once_when_they_come(make_cgroup: MakeCgroup, spawn: Spawn) -> None:
    """Version 1 goes on showing the old list to a reader that keeps the file open."""
    cgroup = make_cgroup()
    seen = []
    for _ in range(3):
        assert cgroup.move(spawn(SLEEP).pid)
        seen.append(len(cgroup.processes()))

    assert seen == [1, 2, 3]


@live
def test_a_process_that_is_gone_cannot_be_moved(make_cgroup: MakeCgroup, spawn: Spawn) -> None:
    process = spawn("")
    process.wait()

    assert make_cgroup().move(process.pid) is False


@live
def test_a_cgroup_with_a_process_below_is_not_removed(make_cgroup: MakeCgroup, spawn: Spawn) -> None:
    cgroup = make_cgroup()
    child = Cgroup(cgroup.mounts, f"{cgroup.name}/child")
    child.create()
    process = spawn(SLEEP)
    child.move(process.pid)

    assert cgroup.processes() == {process.pid}
    assert cgroup.children() == {child.name}
    assert cgroup.remove() is False

    process.kill()
    process.wait()
    while not cgroup.remove():
        assert cgroup.processes() <= {process.pid}


@live
@pytest.mark.parametrize("suffix", [" pod \\x ü\t*", "\udcff\udcfe", ";$(touch x)"])
def test_odd_bytes_in_names_are_only_bytes(make_cgroup: MakeCgroup, spawn: Spawn, suffix: str) -> None:
    cgroup = make_cgroup(suffix=suffix)
    process = spawn(SLEEP)

    assert cgroup.move(process.pid)
    assert cgroup.processes() == {process.pid}


@live
def test_a_name_that_is_a_control_file_is_refused_by_the_kernel(mounts: CgroupMounts) -> None:
    with pytest.raises(WriteError, match="file exists"):
        Cgroup(mounts, "cgroup.procs").create()
    assert Cgroup(mounts, "cgroup.procs").processes() == frozenset()


@live
def test_a_tree_deeper_than_a_path_is_long_can_be_listed_and_removed(make_cgroup: MakeCgroup, spawn: Spawn) -> None:
    cgroup = make_cgroup()
    process = spawn(SLEEP)
    place = os.open(cgroup.directories[-1], os.O_RDONLY)
    for _ in range(30):
        os.mkdir("x" * 200, dir_fd=place)
        below = os.open("x" * 200, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    entrance = os.open("cgroup.procs", os.O_WRONLY, dir_fd=place)
    os.write(entrance, b"%d" % process.pid)
    os.close(entrance)
    os.close(place)

    assert cgroup.processes() == {process.pid}
    assert cgroup.remove() is False

    process.kill()
    process.wait()
    while not cgroup.remove():
        assert cgroup.exists


@live
def test_a_cgroup_may_vanish_while_its_tree_is_walked(make_cgroup: MakeCgroup) -> None:
    cgroup = make_cgroup()
    directory = cgroup.directories[0]
    for name in ("a", "b", "c"):
        (directory / name / "below").mkdir(parents=True)
    walk = cgroup_tree.bottom_up(directory)
    next(walk)

    assert cgroup.remove()
    assert sum(1 for _ in walk) <= 2  # what was already open, nothing that is gone


@live
def test_an_entrance_takes_a_process_in_before_it_runs(make_cgroup: MakeCgroup, spawn: Spawn) -> None:
    cgroup = make_cgroup()
    paths = list(cgroup.entrances)
    process = spawn(
        f"for p in {paths!r}: open(p, 'w').write('0')\nprint('in', flush=True)\nimport time; time.sleep(60)"
    )

    assert process.stdout is not None
    assert process.stdout.readline() == b"in\n"
    assert cgroup.processes() == {process.pid}
