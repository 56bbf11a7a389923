"""Where a node may make its cgroups; two agents, one cgroup; and cgroups that another program made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from jettison.errors import InputError
from jettison.runtimes.host.cgroups.cgroup_parent import CgroupParent, NoGround, claim, find_cgroup_parent
from jettison.runtimes.host.cgroups.places import CgroupPlace
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import Limits
from jettison.runtimes.linux.cgroups.mounts import discover
from tests.builders import pod
from tests.janitor import fresh_name
from tests.runtimes.host.nodes import PLAIN, SLEEPS, Node, is_alive, needs_root, node, running, settings

pytestmark = needs_root

HOLDS = """
import sys, time
from jettison.runtimes.host.cgroups.cgroup_parent import claim
from jettison.runtimes.linux.cgroups.mounts import discover
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
held = claim(Cgroup(discover(), sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""
# The user nobody locks all of these directories that it can open.
LOCKS = """
import fcntl, os, pathlib, sys, time
os.setuid(65534)
kept = []
for directory in map(pathlib.Path, sys.argv[1:]):
    for path in (directory, *directory.iterdir()):
        if os.access(path, os.R_OK):
            kept.append(os.open(path, os.O_RDONLY))
            fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
print(len(kept), flush=True)
time.sleep(60)
"""


def test_without_a_wish_for_cgroups_there_are_none(tmp_path: Path) -> None:
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
def test_what_another_program_made_below_a_node_keeps_it_in_place(tmp_path: Path) -> None:
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


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    cgroup = Cgroup(discover(), f"jettison-{fresh_name()}")
    yield cgroup
    assert cgroup.remove()


@contextmanager
def holder(name: str, *around: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has claimed the cgroup."""
    command = [*around, sys.executable, "-c", HOLDS, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("around", [(), ("unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc")])
def test_a_second_agent_is_refused_until_the_first_is_dead(cgroup: Cgroup, around: tuple[str, ...]) -> None:
    with holder(cgroup.name, *around) as process:
        with pytest.raises(InputError, match=f"cgroup `{cgroup.name}` is in use by another agent that runs"):
            claim(cgroup)
        process.kill()
        process.wait()
        claim(cgroup).release()
    claim(cgroup).release()


def test_a_second_agent_with_records_of_its_own_leaves_the_pods_of_the_first_alone(tmp_path: Path) -> None:
    own = settings(tmp_path)
    with node(own) as made:
        place = CgroupPlace(Cgroup(made.cgroup_parent.mounts, made.kubepods.pod_cgroup(pod())), Limits())
        place.create()
        with running(place, SLEEPS) as pid:
            with pytest.raises(InputError, match="in use by another agent"):
                Node(replace(own, state_dir=tmp_path / "other"), PLAIN)
            assert is_alive(pid)


def test_a_user_that_may_only_read_a_node_cannot_keep_its_agent_out(cgroup: Cgroup) -> None:
    """A pod of another user would wait for the lock, and have it as soon as the agent dies."""
    claim(cgroup).release()
    command = [sys.executable, "-I", "-S", "-c", LOCKS, *map(str, cgroup.directories)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert int(process.stdout.readline()) > 0
            claim(cgroup).release()
        finally:
            process.kill()


def test_a_cgroup_with_others_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    own = settings(tmp_path)
    foreign = Cgroup(discover(), own.cgroup_name)
    child = Cgroup(foreign.mounts, f"{own.cgroup_name}/child")
    child.create()
    with pytest.raises(InputError, match=f"cgroup `{own.cgroup_name}` cannot be a node's, there is a cgroup `child`"):
        find_cgroup_parent(own)
    assert child.exists
    assert child.remove()
    with running(CgroupPlace(foreign, Limits()), SLEEPS) as pid:
        with pytest.raises(InputError, match=f"there is a process `{pid}` in it: allowed is"):
            find_cgroup_parent(own)
        assert is_alive(pid)
    assert foreign.remove()


def test_an_empty_cgroup_of_another_owner_can_be_used_and_stays(tmp_path: Path) -> None:
    own = settings(tmp_path)
    lent = Cgroup(discover(), own.cgroup_name)
    lent.create()
    made = Node(own, PLAIN)
    assert made.kubepods.remove()
    assert all(directory.is_dir() for directory in lent.directories)
    assert lent.children() == frozenset()
    assert lent.remove()


def test_what_a_dead_agent_has_left_is_ours(tmp_path: Path) -> None:
    own = settings(tmp_path)
    Node(own, PLAIN).cgroup_parent.claim.release()
    again = Node(own, PLAIN)
    assert again.kubepods.remove()
    assert not Cgroup(discover(), own.cgroup_name).exists


def test_what_others_made_in_a_node_meanwhile_is_theirs(tmp_path: Path) -> None:
    with node(settings(tmp_path)) as made:
        theirs = Cgroup(made.cgroup_parent.mounts, f"{made.cgroup_parent.node}/theirs")
        theirs.create()
        assert not made.kubepods.remove()
        assert theirs.exists
