"""How the orphans of pods are reaped; and that no exit status is lost by it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jettison import events
from jettison.runtimes.host.processes import processes
from jettison.runtimes.host.processes.orphans import Orphans
from jettison.runtimes.linux.processes import read_process
from tests.runtimes.host.nodes import needs_root
from tests.runtimes.host.scenes import Scene, eviction, manifest, play, python, shell, until

pytestmark = needs_root

# Each child is an orphan at once: its parent is gone before it has said its number.
ORPHANS = """
import os, time
for _ in range({count}):
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            {before}
            os.write(1, b"%d\\n" % os.getpid())
            time.sleep({seconds})
        os._exit(0)
    os.waitpid(pid, 0)
time.sleep(60)
"""


async def orphans_of(scene: Scene, count: int = 100) -> list[int]:
    """Their numbers."""
    await until(lambda: scene.log().count("\n") == count)
    return [int(line) for line in scene.log().split()]


def left_of(tmp_path: Path, before: str, count: int) -> list[int]:
    """The orphans of a pod that hold a process id when the pod has been cleared away."""
    left: list[int] = []

    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(python(ORPHANS.format(count=count, before=before, seconds=60))))
        pids = await orphans_of(scene, count)
        parents = {process.parent for pid in pids if (process := read_process(pid)) is not None}
        assert parents == {os.getpid()}
        await scene.supervisor.evict(replace(eviction(scene.status().pod), is_at_once=True))
        await until(lambda: scene.supervisor.is_finished("uid-a"))
        left.extend(pid for pid in pids if read_process(pid) is not None)

    play(tmp_path, scenario)
    return left


@pytest.mark.parametrize("before", ["pass", "os.setsid()"])
def test_when_a_pod_is_cleared_away_its_dead_hold_no_process_id(tmp_path: Path, before: str) -> None:
    assert left_of(tmp_path, before, 100) == []


def test_orphans_that_end_while_their_pod_runs_are_asked_after(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.supervisor.start(manifest(python(ORPHANS.format(count=100, before="pass", seconds=0))))
        pids = await orphans_of(scene)
        await until(lambda: not any(read_process(pid) for pid in pids), seconds=30)
        assert scene.status().phase == "Running"

    play(tmp_path, scenario)


def test_a_dead_child_that_is_no_orphan_hides_none(tmp_path: Path) -> None:
    """`sleep 1 & exec jettison up` in a shell: the agent has a child of which it knows nothing, in its own session."""
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert left_of(tmp_path, "pass", 300) == []
        assert child.wait() == 0


def test_a_dead_child_that_is_held_and_never_asked_for_hides_none(tmp_path: Path) -> None:
    async def hold() -> None:
        processes.hold(child.pid, lambda _: None)

    with subprocess.Popen(["true"]) as child:
        try:
            asyncio.run(hold())
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            assert left_of(tmp_path, "pass", 100) == []
            assert child.wait() == 0
        finally:
            processes._AWAITED.discard(child.pid)


def test_containers_that_end_among_orphans_keep_their_exit_codes(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        storm = "for i in $(seq 30); do (true & setsid true &) ; done; exit 7"
        names = [f"c{number}" for number in range(8)]
        await scene.supervisor.start(manifest(*(shell(storm, name) for name in names), restartPolicy="Never"))
        await scene.phase("Failed")
        assert [fact.exit_code for fact in scene.said(events.ContainerFinished)] == [7] * 8

    play(tmp_path, scenario)


def test_what_others_of_this_process_wait_for_is_left_to_them() -> None:
    async def scenario() -> int:
        program = "import sys; sys.exit(5)"
        with subprocess.Popen([sys.executable, "-I", "-S", "-c", program]) as child:
            orphans = Orphans()
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                await orphans.reap()
                await asyncio.sleep(0.02)
            return child.wait()

    assert asyncio.run(scenario()) == 5
