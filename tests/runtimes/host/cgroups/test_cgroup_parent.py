from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from jettison.runtimes.host.cgroups.cgroup_parent import CgroupParent, NoGround, find_cgroup_parent
from tests.runtimes.host.nodes import needs_root, settings


def test_who_does_not_want_cgroups_gets_none(tmp_path: Path) -> None:
    assert find_cgroup_parent(settings(tmp_path, uses_cgroups=False)) == NoGround("the settings say not to")


def test_a_machine_without_cgroups_has_no_ground(tmp_path: Path) -> None:
    found = find_cgroup_parent(settings(tmp_path), root=tmp_path / "nothing")
    assert found == NoGround("the memory controller is not mounted")


@needs_root
def test_where_cgroups_cannot_be_made_the_reason_is_told(tmp_path: Path) -> None:
    # A name with a control file of every hierarchy above it: nothing can be made there, not even by root.
    found = find_cgroup_parent(replace(settings(tmp_path), cgroup_name="cgroup.procs/x"))
    assert isinstance(found, NoGround)
    assert "cannot create cgroup" in found.reason


@needs_root
def test_a_node_below_a_name_of_several_levels_takes_them_away_again(tmp_path: Path) -> None:
    own = settings(tmp_path)
    found = find_cgroup_parent(replace(own, cgroup_name=f"{own.cgroup_name}/a/b"))
    assert isinstance(found, CgroupParent)
    for tree in found.mounts.used:
        (tree.mount_point / found.node).rmdir()
    # Another node is beside ours: the way to it stays.
    other = found.mounts.used[0].mount_point / own.cgroup_name / "other"
    other.mkdir()
    found.leave()
    assert other.exists()
    other.rmdir()
    found.leave()
    assert not any((tree.mount_point / own.cgroup_name).exists() for tree in found.mounts.used)
    found.claim.release()


@needs_root
def test_what_somebody_else_made_below_a_node_keeps_it_in_place(tmp_path: Path) -> None:
    found = find_cgroup_parent(settings(tmp_path))
    assert isinstance(found, CgroupParent)
    foreign = found.mounts.used[0].mount_point / found.node / "foreign"
    foreign.mkdir()
    assert not found.leave()
    assert foreign.exists()
    foreign.rmdir()
    assert found.leave()
    found.claim.release()


def test_a_delegated_cgroup_of_version_2_is_used_and_its_processes_make_room(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    service = root / "system.slice/x.service"
    service.mkdir(parents=True)
    controllers = "memory pids cpu\n"
    for directory in (root, service.parent, service):
        (directory / "cgroup.controllers").write_text(controllers)
        (directory / "cgroup.subtree_control").write_text(controllers)
        (directory / "cgroup.procs").write_text("")
    (service / "cgroup.procs").write_text("7\n8\n")
    (service / "agent").mkdir()
    (service / "agent/cgroup.procs").write_text("")
    node = service / "jettison-x"
    node.mkdir()
    (node / "memory.max").write_text("max\n")
    (node / "cgroup.max.depth").write_text("max\n")
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/mountinfo").write_text(f"30 1 0:26 / {root} rw - cgroup2 cgroup2 rw\n")
    (proc / "self/cgroup").write_text("0::/system.slice/x.service\n")
    os.setxattr(service, "user.delegate", b"1")
    found = find_cgroup_parent(replace(settings(tmp_path), cgroup_name="jettison-x"), root, proc)
    assert isinstance(found, CgroupParent)
    assert (found.base, found.node) == ("system.slice/x.service", "system.slice/x.service/jettison-x")
    found.claim.release()
    assert (service / "agent/cgroup.procs").read_text() == "8"  # one write each, and each truncates an ordinary file
