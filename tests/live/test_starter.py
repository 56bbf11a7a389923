"""The process from which a real agent's containers are forked: what it shares with the agent, and that it may be killed
at any time.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from operator import attrgetter
from pathlib import Path

import pytest

from jettison.runtimes.linux.processes import read_processes
from tests.builders import sharing
from tests.live.node import LiveNode, pod

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups, priorities and scores take root"),
    pytest.mark.timeout(300),
]

RUNS_COMMANDS = {"readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}


def starters(node: LiveNode) -> list[int]:
    """Those of the node's agent, the oldest first. What is being started has the same name for a moment."""
    assert node.process is not None
    own = [each for each in read_processes() if each.parent == node.process.pid and not each.is_zombie]
    own.sort(key=attrgetter("start_ticks"))
    return [each.pid for each in own if _read(each.pid, "comm") == "jettison-start\n"]


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""  # it has ended


def test_it_has_the_protection_of_the_agent_and_containers_have_none_of_it(tmp_path: Path) -> None:
    node = LiveNode(tmp_path, starts_quickly=False)
    node.write(pod("a", ["sleep", "3600"], container=RUNS_COMMANDS))
    node.start()
    try:
        node.wait(lambda: node.pids("a") and starters(node), "the pod and what has started it")
        assert node.process is not None
        agent, (starter, *_), (main,) = node.process.pid, starters(node), node.pids("a")
        assert _read(starter, "oom_score_adj") == _read(agent, "oom_score_adj")
        assert _read(main, "oom_score_adj") == "1000\n"
        memory = [line for line in _read(agent, "cgroup").splitlines() if ":memory:" in line]
        assert all(line in _read(starter, "cgroup") for line in memory)
        assert not any(line in _read(main, "cgroup") for line in memory)
        # Neither the priority of the agent nor its locked memory.
        for pid in (starter, main):
            assert os.sched_getscheduler(pid) == os.SCHED_OTHER
            assert "VmLck:\t       0 kB" in _read(pid, "status")
        assert set(os.listdir(f"/proc/{main}/fd")) == {"0", "1", "2"}  # noqa: PTH208
    finally:
        node.stop()
    assert not Path(f"/proc/{starter}").exists()


def test_kills_of_it_cost_no_container_and_start_none_twice(tmp_path: Path) -> None:
    """While pods start, one after the other, and commands run in them."""
    node = LiveNode(tmp_path)
    names = [f"p{number}" for number in range(12)]
    node.start()
    node.wait(lambda: node.facts("agent_started"), "the agent")
    chance, killed = random.Random(1), 0
    try:
        for name in names:
            command = ["sh", "-c", f"echo $$$$ >> shared/{name}; exec sleep 3600"]
            node.write(sharing(pod(name, command, container=RUNS_COMMANDS), tmp_path))
            deadline = time.monotonic() + chance.uniform(0.2, 1.5)
            while time.monotonic() < deadline:
                for pid in starters(node):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
                time.sleep(chance.uniform(0.0, 0.05))
        node.wait(lambda: all(node.pids(name) for name in names), "all pods to run")
        assert killed > 5
        # Whatever failed to start was tried again; what runs was started once, and is on record.
        for name in names:
            node.wait(lambda path=tmp_path / name: path.exists(), "the pod's mark")  # type: ignore[misc]
            lines = (tmp_path / name).read_text().split()
            assert [int(lines[-1])] == node.pids(name)
            assert not [pid for pid in lines[:-1] if Path(f"/proc/{pid}").exists()]
    finally:
        node.stop()
