"""A fork bomb inside a pod: the node runs out of process ids, the pod is ended, and nothing of it is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.live.node import LiveNode, pod, python

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a limit on processes needs the pids controller"),
    pytest.mark.timeout(300),
]

MARK = f"jettison-fork-bomb-{os.getpid()}"

# Forks as fast as it can, in sessions of their own, ignoring SIGTERM; every process carries the mark in its name.
BOMB = f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        time.sleep(0.01)
# {MARK}
"""


def survivors() -> list[int]:
    """Processes whose command line has the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if MARK.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue  # ended while we looked
    return found


def test_a_fork_bomb_is_ended_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    """pid.available falls below its threshold; the pod with the most processes goes, all of them."""
    node = LiveNode(
        tmp_path,
        ["--node-memory", "1Gi", "--node-pids", "300"],
        config={"evictionHard": {"pid.available": "60"}, "podPidsLimit": 260},
    )
    node.write(pod("bomb", python(BOMB)), pod("calm", python("import time; time.sleep(3600)")))
    node.start()
    try:
        node.wait(lambda: "bomb" in node.verdicts(), "the bomb to go", seconds=60)
        node.wait(lambda: not survivors(), "its processes to end", seconds=60)
        assert node.evicted() == ["bomb"]
        assert node.pids("calm")
        assert "low on resource: pids" in node.facts("eviction_started")[0]["message"]
    finally:
        node.stop()
    assert not survivors()
