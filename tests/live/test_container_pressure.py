"""Every kind of shortage on containers: memory by priority, room for a critical pod, process ids, disk, inodes, limits.

Two nodes on one containerd, each with one scenario after the other. Soft thresholds and a runtime that dies or hangs
meanwhile are in `test_containers.py`, the disks of images in `test_image_disks.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.containerd import IMAGE, Containerd
from tests.live.node import LiveNode, pod
from tests.live.small_disks import small_disk

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups, containers and filesystems need root"),
    pytest.mark.timeout(300),
]

CALM = "trap 'exit 0' TERM; sleep 3600 & wait"
CRITICAL = 2_000_001_000


def boxed(name: str, program: str, *, memory: str = "", **spec: Any) -> dict[str, Any]:
    """A container in which a shell runs the program; `memory` is its request."""
    requests = {"resources": {"requests": {"memory": memory}}} if memory else {}
    container = {"image": IMAGE, **requests, **spec.pop("container", {})}
    return pod(name, ["/bin/sh", "-c", program], container=container, **spec)


def holding(mebibytes: int) -> str:
    """Memory that is kept: `tail` keeps what has no end of line."""
    return f"(head -c {mebibytes << 20} /dev/zero; sleep 3600) | tail"


def reported(node: LiveNode, condition: str) -> bool:
    """Whether the node has said that it has this condition."""
    return any(each["condition"] == condition and each["is_true"] for each in node.facts("condition_changed"))


@pytest.fixture
def node(containerd: Containerd, tmp_path: Path) -> Iterator[LiveNode]:
    """256Mi and 300 process ids."""
    flags = ["--node-memory", "256Mi", "--node-pids", "300", "--cri-endpoint", containerd.endpoint]
    config = {
        "evictionHard": {"memory.available": "60Mi", "pid.available": "120"},
        "evictionPressureTransitionPeriod": "1s",
    }
    found = LiveNode(tmp_path, flags, config=config)
    found.start()
    try:
        yield found
    finally:
        found.stop()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/jettison/{found.name}"))


def test_a_critical_pod_gets_room_and_shortages_take_the_right_pod(node: LiveNode) -> None:
    node.write(boxed("ordinary", CALM, memory="150Mi"), boxed("calm", CALM, memory="20Mi", priority=5000))
    node.wait(lambda: node.pids("ordinary") and node.pids("calm"), "both pods")
    # There are 196Mi for pods: the critical one fits when the ordinary one has gone.
    node.write(boxed("critical", CALM, memory="150Mi", priority=CRITICAL))
    node.wait(lambda: node.pids("critical"), "the critical pod")
    assert node.verdicts() == {"ordinary": "Preempting"}
    assert node.pids("calm")
    (node.manifests / "critical.json").unlink()
    node.wait(lambda: not node.pids("critical"), "its end")

    # The lower priority goes first, though the other one uses more; both are above their requests.
    node.write(boxed("cheap", holding(70), priority=0), boxed("dear", holding(130), priority=1000))
    node.wait(lambda: "cheap" in node.verdicts(), "the cheap pod to go")
    assert node.evicted()[1:] == ["cheap"]
    assert reported(node, "MemoryPressure")
    assert "low on resource: memory" in node.facts("eviction_started")[-1]["message"]
    assert node.pids("dear")
    (node.manifests / "dear.json").unlink()
    node.wait(lambda: not node.pids("dear"), "room")

    gone = b'jettison_node_condition{condition="MemoryPressure"} 0\n'
    node.wait(lambda: gone in node.metrics(), "the pressure to be over")
    node.write(boxed("bomb", "trap '' TERM; while :; do sleep 3600 & done"))
    node.wait(lambda: "bomb" in node.verdicts(), "the bomb to go")
    assert node.evicted()[-1] == "bomb"
    assert reported(node, "PIDPressure")
    assert "low on resource: pids" in node.facts("eviction_started")[-1]["message"]
    assert node.pids("calm")
    assert not node.facts("out_of_memory_kill")


def scratch(**limits: Any) -> dict[str, Any]:
    """An emptyDir, which lies on the filesystem of the node."""
    return {
        "volumes": [{"name": "scratch", "emptyDir": limits}],
        "container": {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]},
    }


def test_a_full_disk_takes_the_right_pod(containerd: Containerd, tmp_path: Path) -> None:
    """Limits of local storage first, for which the disk need not be full; then inodes, then bytes."""
    with small_disk(tmp_path / "nodefs", 64, 2000) as nodefs:
        home = tmp_path / "node"
        home.mkdir()
        config = {
            "evictionHard": {"nodefs.available": "30Mi", "nodefs.inodesFree": "800"},
            "evictionPressureTransitionPeriod": "1s",
        }
        flags = ["--node-dir", str(nodefs), "--cri-endpoint", containerd.endpoint]
        node = LiveNode(home, flags, config=config)
        wrote = "dd if=/dev/zero of={} bs=1M count={} 2>/dev/null; " + CALM
        layer = {"resources": {"limits": {"ephemeral-storage": "4Mi"}}}
        node.write(
            boxed("small", wrote.format("/scratch/x", 2), **scratch()),
            boxed("volume", wrote.format("/scratch/x", 9), **scratch(sizeLimit="5Mi")),
            boxed("layer", wrote.format("/data/x", 9), container=layer),
        )
        node.start()
        try:
            node.wait(lambda: {"volume", "layer"} <= node.verdicts().keys(), "both over their limits to go")
            signals = {each["pod"]: each["signal"] for each in node.facts("eviction_started")}
            assert signals == {"default/volume": "emptydirfs.limit", "default/layer": "ephemeralpodfs.limit"}
            assert not reported(node, "DiskPressure")

            many = "i=0; while [ $i -lt 1500 ]; do : > /scratch/$i; i=$((i+1)); done; " + CALM
            node.write(boxed("many", many, **scratch()))
            node.wait(lambda: "many" in node.verdicts(), "the pod with many files to go")
            assert "low on resource: inodes" in node.facts("eviction_started")[-1]["message"]
            assert reported(node, "DiskPressure")

            gone = b'jettison_node_condition{condition="DiskPressure"} 0\n'
            node.wait(lambda: gone in node.metrics(), "the pressure to be over")
            node.write(boxed("writer", "sleep 2; " + wrote.format("/scratch/x", 40), **scratch()))
            node.wait(lambda: "writer" in node.verdicts(), "the writer to go")
            assert "low on resource: ephemeral-storage" in node.facts("eviction_started")[-1]["message"]
            assert node.evicted()[2:] == ["many", "writer"]
            assert node.pids("small")
        finally:
            node.stop()
