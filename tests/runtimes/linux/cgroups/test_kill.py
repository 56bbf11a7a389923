"""Nothing survives. On this machine's hierarchies as they are, and on version 1 as if there were nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.kill import kill
from jettison.runtimes.linux.cgroups.limits import Limits
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, discover
from tests.emptying import kill_until_empty

MakeCgroup = Callable[..., Cgroup]
Spawn = Callable[[str], "Popen[bytes]"]

MACHINE = discover()
V1_ONLY = CgroupMounts(tuple(tree for tree in MACHINE.hierarchies if not tree.is_unified))
NO_FREEZER = CgroupMounts(tuple(tree for tree in V1_ONLY.hierarchies if "freezer" not in tree.controllers))
UNIFIED_ONLY = CgroupMounts(tuple(tree for tree in MACHINE.hierarchies if tree.is_unified))

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or MACHINE.holding("pids") is None, reason="real cgroups take root and the pids controller"
)
needs_v1 = pytest.mark.skipif(V1_ONLY.holding("freezer") is None, reason="needs the freezer of cgroup version 1")

EVERYWHERE = pytest.mark.parametrize(
    "mounts",
    [
        pytest.param(MACHINE, id="as-mounted"),
        pytest.param(V1_ONLY, id="v1", marks=needs_v1),
        pytest.param(NO_FREEZER, id="v1-without-freezer", marks=needs_v1),
    ],
)

# Each process gives itself 20 s, in case the test that should end it cannot.
FORK_BOMB = """
import os, signal
input()
while True:
    try:
        if os.fork() == 0:
            signal.alarm(20)
    except OSError:
        pass
"""
DOUBLE_FORK = """
import os, signal, time
input()
for _ in range(2):
    if os.fork():
        time.sleep(0.2)
        os._exit(0)
    os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.alarm(20)
print(os.getpid(), flush=True)
while True:
    time.sleep(1)
"""


def start(process: Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


@EVERYWHERE
def test_a_fork_bomb_is_ended(make_cgroup: MakeCgroup, spawn: Spawn, mounts: CgroupMounts) -> None:
    cgroup = make_cgroup(mounts)
    cgroup.limit(Limits(pids=60))
    bomb = spawn(FORK_BOMB)
    cgroup.move(bomb.pid)
    start(bomb)
    deadline = time.monotonic() + 30
    while len(cgroup.processes()) < 50:
        assert time.monotonic() < deadline

    survivors = kill_until_empty(cgroup, timeout=30)

    assert survivors == frozenset()
    assert cgroup.processes() == frozenset()
    assert bomb.wait(30) == -9


@EVERYWHERE
def test_a_daemon_in_a_session_of_its_own_is_ended(make_cgroup: MakeCgroup, spawn: Spawn, mounts: CgroupMounts) -> None:
    cgroup = make_cgroup(mounts)
    process = spawn(DOUBLE_FORK)
    cgroup.move(process.pid)
    start(process)
    assert process.stdout is not None
    daemon = int(process.stdout.readline())
    process.wait(30)
    assert daemon in cgroup.processes()

    assert kill_until_empty(cgroup, timeout=30) == frozenset()

    assert daemon not in cgroup.processes()


@needs_v1
@pytest.mark.parametrize("mounts", [pytest.param(MACHINE, id="as-mounted"), pytest.param(V1_ONLY, id="v1")])
def test_what_froze_itself_below_is_thawed_and_dies(
    make_cgroup: MakeCgroup, spawn: Spawn, mounts: CgroupMounts
) -> None:
    cgroup = make_cgroup(mounts)
    child = Cgroup(mounts, f"{cgroup.name}/frozen")
    child.create()
    process = spawn("import time; time.sleep(60)")
    child.move(process.pid)
    freezer = child.directory("freezer")
    assert freezer is not None
    (freezer / "freezer.state").write_text("FROZEN")
    process.kill()
    time.sleep(0.05)
    assert process.poll() is None  # the premise: a frozen process does not die of SIGKILL

    survivors = kill_until_empty(cgroup, timeout=30)

    if survivors:  # what is not thawed cannot be reaped either, and the fixtures would wait without end
        (freezer / "freezer.state").write_text("THAWED")
    assert survivors == frozenset()
    assert process.wait(30) == -9


@needs_v1
def test_a_process_in_only_one_hierarchy_is_not_missed(make_cgroup: MakeCgroup, spawn: Spawn) -> None:
    """One write reaches the member of the unified hierarchy; the stray must be swept in the same call."""
    cgroup = make_cgroup(MACHINE)
    member, stray = spawn("import time; time.sleep(60)"), spawn("import time; time.sleep(60)")
    cgroup.move(member.pid)
    pids = cgroup.directory("pids")
    assert pids is not None
    (pids / "cgroup.procs").write_text(str(stray.pid))

    kill(cgroup)

    assert [member.wait(30), stray.wait(30)] == [-9, -9]


@pytest.mark.skipif(UNIFIED_ONLY.unified is None, reason="needs a unified hierarchy")
def test_the_unified_hierarchy_kills_in_one_write(make_cgroup: MakeCgroup, spawn: Spawn) -> None:
    cgroup = make_cgroup(UNIFIED_ONLY)
    processes = [spawn("import time; time.sleep(60)") for _ in range(5)]
    for process in processes:
        cgroup.move(process.pid)

    kill(cgroup)

    assert [process.wait(30) for process in processes] == [-9] * 5


def test_others_are_left_alone(make_cgroup: MakeCgroup, spawn: Spawn) -> None:
    inside, outside = make_cgroup(), make_cgroup()
    neighbour, victim = spawn("import time; time.sleep(60)"), spawn("import time; time.sleep(60)")
    outside.move(neighbour.pid)
    inside.move(victim.pid)

    kill_until_empty(inside, timeout=30)

    assert victim.wait(30) == -9
    assert outside.processes() == {neighbour.pid}
    assert neighbour.poll() is None


def test_nothing_to_kill_is_done_at_once() -> None:
    assert kill_until_empty(Cgroup(MACHINE, "jettison-test-never-made"), timeout=0) == frozenset()


@needs_v1
def test_afterwards_a_freezer_is_open_again(make_cgroup: MakeCgroup, spawn: Spawn) -> None:
    cgroup = make_cgroup(V1_ONLY)
    cgroup.move(spawn("import time; time.sleep(60)").pid)
    kill_until_empty(cgroup, timeout=30)
    freezer = cgroup.directory("freezer")

    assert freezer is not None
    assert Path(freezer / "freezer.state").read_text() == "THAWED\n"
