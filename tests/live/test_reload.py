"""SIGHUP: every command that stays goes on, and a node takes over what can change while it runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.node import HOLD, LiveNode, pod, python
from tests.live.served import serving

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups with limits need root"),
    pytest.mark.timeout(300),
]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    config = {"evictionHard": {"memory.available": "32Mi"}}
    found = LiveNode(tmp_path, ["--node-memory", "256Mi"], config=config, starts_quickly=False)
    yield found
    found.stop()


def _hang_up(node: LiveNode, **config: Any) -> None:
    document = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **config}
    (node.directory / "kubelet.json").write_text(json.dumps(document))
    assert node.process is not None
    node.process.send_signal(signal.SIGHUP)


def test_a_node_takes_over_what_has_changed_and_says_so(node: LiveNode) -> None:
    """A threshold above what is available now is met at once, without a restart."""
    node.write(pod("large", python(HOLD.format(mebibytes=100))))
    node.start()
    node.wait(lambda: node.pids("large"), "the pod")
    node.wait(lambda: node.ask("/configz"), "the agent")
    _hang_up(node, evictionHard={"memory.available": "12MB"})
    node.wait(lambda: node.facts("reload_failed"), "the complaint")
    assert "evictionHard.memory.available" in node.facts("reload_failed")[0]["why"]
    assert node.ask("/configz")["kubeletconfig"]["evictionHard"]["memory.available"] == "32Mi"

    _hang_up(node, evictionHard={"memory.available": "200Mi"}, maxPods=20, evictionPressureTransitionPeriod="10s")
    node.wait(lambda: node.verdicts().get("large") == "Evicted", "the pod to go")
    node.wait(lambda: node.facts("reloaded"), "the last word")
    changed = {(each["key"], each["old"], each["new"]) for each in node.facts("setting_changed")}
    assert changed == {
        ("evictionHard.memory.available", "32Mi", "200Mi"),
        ("evictionPressureTransitionPeriod", "5m0s", "10s"),
    }
    assert [(each["key"], each["new"]) for each in node.facts("restart_needed")] == [("maxPods", "20")]
    assert (node.facts("reloaded")[0]["changed"], node.facts("reloaded")[0]["unchanged"]) == (2, 1)
    assert node.ask("/configz")["kubeletconfig"]["evictionHard"]["memory.available"] == "200Mi"


def test_where_it_is_ignored_at_the_start_it_stays_ignored(node: LiveNode) -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        node.start()
    finally:
        signal.signal(signal.SIGHUP, before)
    node.wait(lambda: node.ask("/configz"), "the agent")
    assert node.process is not None
    ignored = int(_status(node.process.pid, "SigIgn"), 16)
    assert ignored & (1 << (signal.SIGHUP - 1))


def test_hangups_from_the_first_moment_on_end_nothing(node: LiveNode) -> None:
    node.start()
    assert node.process is not None
    # Python itself takes some 20 ms until it can be told anything.
    node.wait(lambda: int(_status(node.process.pid, "SigCgt"), 16) & 1, "a handler")  # type: ignore[union-attr]
    while not node.ask("/configz"):
        node.process.send_signal(signal.SIGHUP)
        time.sleep(0.01)
        assert node.process.poll() is None, node.log.read_text()


def _status(pid: int, field: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{field}:"))


def test_a_server_and_its_controllers_go_on(tmp_path: Path) -> None:
    with serving(tmp_path / "state", "--controllers=*") as server:
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
        for pid in (server.process.pid, *map(int, children)):
            os.kill(pid, signal.SIGHUP)
        kubeconfig = str(tmp_path / "state" / "controllers.kubeconfig")
        command = [sys.executable, "-m", "jettison", "controllers", "--kubeconfig", kubeconfig]
        with (tmp_path / "log").open("w") as log:
            beside = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert beside.stdout is not None
        try:
            assert beside.stdout.readline().startswith("running against ")
            beside.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 30
            while '"reloaded"' not in (tmp_path / "log").read_text() and time.monotonic() < deadline:
                time.sleep(0.05)
            assert '"reloaded"' in (tmp_path / "log").read_text()
            assert beside.poll() is None
        finally:
            beside.terminate()
            beside.wait(30)
            beside.stdout.close()
        assert server.call("GET", "/api/v1/namespaces/default")[0] == 200
        assert all(Path(f"/proc/{pid}").exists() for pid in children)
