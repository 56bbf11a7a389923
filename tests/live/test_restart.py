"""Evictions that outlive the agent that began them, clocks that are set, and grace that a node would not survive."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders import sharing
from tests.live.node import GROW, HOLD, LiveNode, pod, python

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups with limits need root"),
    pytest.mark.timeout(300),
]

# 0 is the record of the decision. Killed before: the pod's own record, the signal, the record of the signal, that of
# the end, and what comes after that.
DEEDS = (1, 2, 3, 8, 9)

# Told to end, it gives back most of what it has, and takes its time.
YIELDS = """
import os, signal, sys, time
held, rest = bytearray(b"x") * (72 << 20), bytearray(b"x") * (40 << 20)
def end(*_):
    global held
    held = None
    open("shared/flag", "w").close()
    time.sleep(0.7)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
while True: time.sleep(0.01)
"""

# Then it uses more than the other, and would be the next one.
WAITS = """
import os, time
while not os.path.exists("shared/flag"): time.sleep(0.01)
held = bytearray(b"x") * (62 << 20)
time.sleep(3600)
"""


@contextmanager
def stopping(nodes: Sequence[LiveNode]) -> Iterator[None]:
    """Leaves no pod and no agent behind; all of them are told before any is waited for."""
    try:
        yield
    finally:
        for node in nodes:
            for path in node.manifests.iterdir():
                path.unlink()
        for node in nodes:
            node.stop()


def test_an_agent_may_be_killed_at_every_deed_of_an_eviction(tmp_path: Path) -> None:
    """One victim, one record of its end, and of its beginning, wherever SIGKILL came; five nodes at once."""
    nodes = []
    for number in DEEDS:
        directory = tmp_path / str(number)
        directory.mkdir()
        node = LiveNode(directory, ["--node-memory", "176Mi"], config={"evictionHard": {"memory.available": "64Mi"}})
        node.fault = f"die={number}"
        node.write(sharing(pod("victim", python(YIELDS), terminationGracePeriodSeconds=10), directory))
        node.write(sharing(pod("next", python(WAITS)), directory))
        nodes.append(node)
    with stopping(nodes):
        for node in nodes:
            node.start()
        for node in nodes:
            assert node.process is not None
            assert node.process.wait(60) == -9, node.log.read_text()[-3000:]
            node.fault = ""
            node.start()
        for node in nodes:
            _await_one_eviction(node)


def _await_one_eviction(node: LiveNode) -> None:
    node.wait(lambda: node.verdicts().get("victim") == "Evicted", "the eviction", seconds=60)
    node.wait(lambda: any(each.event == "pod_cleaned_up" for each in node.journal()), "the end on record")
    assert node.pids("next"), node.log.read_text()[-3000:]
    said = Counter((each.event, each.pods[0][1]) for each in node.journal() if each.pods and each.event)
    assert [said[name, "victim"] for name in ("eviction_started", "pod_evicted", "pod_cleaned_up")] == [1, 1, 1]
    assert said["pod_evicted", "next"] == 0


def test_a_soft_threshold_does_not_follow_the_wall_clock(tmp_path: Path) -> None:
    """It wants 3 s, and an hour more or less on the clock is none of them; also when the agent is killed meanwhile."""
    soft = {"evictionSoft": {"memory.available": "64Mi"}, "evictionSoftGracePeriod": {"memory.available": "3s"}}
    config = {**soft, "evictionHard": {"memory.available": "1Mi"}, "evictionMaxPodGracePeriod": 1}
    nodes: dict[int, LiveNode] = {}
    for jump in (3600, -3600):
        directory = tmp_path / str(jump)
        directory.mkdir()
        (directory / "wall").write_text("0")
        node = nodes[jump] = LiveNode(directory, ["--node-memory", "128Mi"], config=config)
        node.fault = f"wall={directory / 'wall'}"
        node.write(pod("holds", python(HOLD.format(mebibytes=80)), activeDeadlineSeconds=600))
    with stopping(list(nodes.values())):
        for node in nodes.values():
            node.start()
        for jump, node in nodes.items():
            node.wait(lambda node=node: node.facts("threshold_crossed"), "the crossing")  # type: ignore[misc]
            (node.directory / "wall").write_text(str(jump))
            node.wait((node.state / "node" / node.name / "history.json").exists, "the history")
            node.kill()
            (node.directory / "wall").write_text(str(-jump))
            node.start()
        for jump, node in nodes.items():
            node.wait(node.evicted, "the eviction", seconds=60)
            # By the agent's wall clock, which was right at the crossing and is behind by the jump now.
            took = node.told_at("eviction_started") + jump - node.told_at("threshold_crossed", 0)
            assert 2.9 < took < 1800
            assert not node.facts("deadline_exceeded")
            # What is told is told by the wall clock all the same.
            assert abs(node.journal()[-1].time_ns / 10**9 - time.time() + jump) < 60


def test_a_pod_that_does_not_hear_is_killed_before_the_kernel_does_it(tmp_path: Path) -> None:
    """At 150 MiB a second, with half a minute of grace: the node looks again, and says why it did not wait."""
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + GROW.format(pause=0.005)
    soft = {"evictionSoft": {"memory.available": "250Mi"}, "evictionSoftGracePeriod": {"memory.available": "100ms"}}
    config = {**soft, "evictionHard": {"memory.available": "1Mi"}, "evictionMaxPodGracePeriod": 30}
    node = LiveNode(tmp_path, ["--node-memory", "512Mi", "--profile", "improved"], config=config)
    node.write(pod("deaf", python(deaf), terminationGracePeriodSeconds=30))
    with stopping([node]):
        node.start()
        node.wait(lambda: node.verdicts().get("deaf") == "Evicted", "the eviction")
        node.wait(lambda: any(each.event == "pod_evicted" for each in node.journal()), "its end on record")
        assert not node.facts("out_of_memory_kill")
        (cut,) = (each.values for each in node.journal() if each.event == "grace_cut_short")
        assert (cut["pod"], cut["grace_seconds"]) == ("default/deaf", 30)
        assert 0 < cut["after_ns"] < 10 * 10**9
        (line,) = (each for each in node.why("deaf") if each.strip().startswith("hurried"))
        assert "of its 30 s: " in line
        assert "were left of memory.available and fell by" in line


def test_damage_to_any_file_stops_no_agent_and_no_pod(tmp_path: Path) -> None:
    """Every file that an agent has written is garbage, and some are no files any more: the next one goes on."""
    node = LiveNode(tmp_path, ["--node-memory", "128Mi"])
    node.write(pod("runs", python(HOLD.format(mebibytes=5))))
    state = node.state / "node" / node.name
    with stopping([node]):
        node.start()
        node.wait(lambda: node.pids("runs") and node.ask("/rank"), "the pod")
        (pid,) = node.pids("runs")
        node.kill()
        for path in [each for each in state.rglob("*") if each.is_file() and "files" not in each.parts]:
            path.write_bytes(os.urandom(200))
        (state / "history.json").unlink(missing_ok=True)
        os.mkfifo(state / "history.json")
        (state / "history.json.new").mkdir()
        (state / "node.json.new").mkdir()
        os.mkfifo(state / "journal" / "0000000009.journal")
        node.log.write_text("")
        node.start()
        node.wait(lambda: node.ask("/rank"), "the next agent")
        node.wait(lambda: node.pids("runs"), "the pod to be recognised")
        assert node.pids("runs") == [pid]
        said = " ".join(each["why"] for each in node.facts("action_failed"))
        for name in ("history.json", "0000000001.journal", "0000000009.journal", ".json.broken"):
            assert name in said
        assert not node.facts("container_started")
