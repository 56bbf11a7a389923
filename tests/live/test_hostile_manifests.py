"""Nothing that a manifest says keeps the agent from its node: measured on a real agent, from outside."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jettison.agent.http.client import fetch
from tests.live.hostile_manifests import fuzzed, hostile
from tests.live.node import LiveNode, pod
from tests.runtimes.host.nodes import needs_root

pytestmark = needs_root

# Before there were bounds one file of 784 bytes took 2 GB, and no question was answered until it was read. Seconds: a
# busy machine adds to them.
LONGEST_ANSWER = 10.0
MOST_GROWTH_KIB = 24 * 1024


class Watcher:
    """Asks the agent for its health without a pause; it answers from the loop that guards the node."""

    def __init__(self, socket: Path) -> None:
        self.slowest = 0.0
        self.count = 0
        self._socket = socket
        self._is_over = False
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def close(self) -> None:
        self._is_over = True
        self._thread.join()

    def _ask(self) -> None:
        while not self._is_over:
            started = time.monotonic()
            assert fetch(self._socket, "/healthz", timeout=30).body == b"ok\n"
            self.slowest = max(self.slowest, time.monotonic() - started)
            self.count += 1
            time.sleep(0.005)


@pytest.fixture
def node() -> Iterator[LiveNode]:
    directory = Path(tempfile.mkdtemp(prefix="jettison-hostile-"))
    directory.chmod(0o755)
    made = LiveNode(directory)
    made.start()
    made.write(pod("good", ["sleep", "3600"]))
    made.wait(lambda: made.pids("good"), "a pod that is right")
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(directory)


def resident_kib(node: LiveNode) -> int:
    """The most that the agent ever had."""
    assert node.process is not None
    lines = Path(f"/proc/{node.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def test_hostile_manifests_cost_neither_time_nor_memory(node: LiveNode) -> None:
    before = resident_kib(node)
    files = [*hostile(), *fuzzed(seed=9, count=25)]
    watcher = Watcher(node.state / "node" / node.name / "agent.sock")
    try:
        for name, text in files:
            (node.manifests / f"{name}.new").write_text(text)
            (node.manifests / f"{name}.new").rename(node.manifests / name)
        node.write(pod("later", ["sleep", "3600"]))
        node.wait(lambda: node.pids("later"), "a pod that came with them", seconds=90)
        told = {str(each["what"]) for each in node.facts("action_failed")}
        assert {what for what in told if "deep.yaml" in what or "laughs.yaml" in what}
    finally:
        watcher.close()
    assert watcher.count > 50
    assert watcher.slowest < LONGEST_ANSWER
    assert resident_kib(node) - before < MOST_GROWTH_KIB
    assert node.pids("good")
    assert "Traceback" not in node.log.read_text()
    waiting = {item["metadata"]["name"]: item for item in node.ask("/pods")["items"]}
    state = waiting["expansion"]["status"]["containerStatuses"][0]["state"]["waiting"]
    assert "env `A5`: 1000003 bytes after expansion, at most 131071 can be passed" in state["message"]
