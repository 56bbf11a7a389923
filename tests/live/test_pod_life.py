"""What pods get from `jettison up` as a whole, beside being guarded: their own limits, their deadlines, their rank."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from tests.live.node import LiveNode, pod

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups take root"),
    pytest.mark.timeout(300),
]

FEW = 777


def order(node: LiveNode) -> list[str]:
    """Which pods would go for memory."""
    memory = next(each for each in node.ask("/rank")["signals"] if each["signal"] == "memory.available")
    return [each["name"] for each in memory["order"]]


def test_limits_deadlines_and_ranks(tmp_path: Path) -> None:
    """One node for all three: a start takes a second.

    The agent raises its own limit on open files and its pods have the old one; a pod whose time is up fails; a pod in
    back-off is no candidate before one that uses memory.
    """
    flags = ["--node-memory", "256Mi", "--eviction-hard", "memory.available<64Mi"]
    # With the limits of this process.
    node = LiveNode(tmp_path, flags, starts_quickly=False)
    node.write(
        pod("files", ["sh", "-c", "ulimit -Sn; ulimit -Hn; exec sleep 600"]),
        pod("job", ["sleep", "600"], activeDeadlineSeconds=2),
        pod("looping", ["false"]),
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, hard))
    try:
        node.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        node.wait(lambda: node.verdicts() == {"job": "DeadlineExceeded"}, "the deadline")
        assert node.facts("deadline_exceeded")[0]["seconds"] == 2
        (log,) = (node.state / "node" / node.name / "files" / "logs").glob("default_files_*/main/0.log")
        assert log.read_text().split() == [str(FEW), str(hard)]
        assert node.process is not None
        own = Path(f"/proc/{node.process.pid}/limits").read_text()
        assert f"Max open files {hard} {hard} files" in " ".join(own.split())
        node.wait(lambda: node.facts("container_back_off"), "the back-off")
        node.wait(lambda: "job" not in order(node), "a look at the node after that")
        assert order(node) == ["files", "looping"]
    finally:
        node.stop()
