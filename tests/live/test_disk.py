"""Real disk and inode pressure: nodefs is a small filesystem of its own, mounted from a file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.node import LiveNode, pod
from tests.live.small_disks import small_disk

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="mounting a filesystem needs root"),
    pytest.mark.timeout(300),
]

MakeNode = Callable[..., LiveNode]

SLEEP = "sleep 3600"


@pytest.fixture
def nodefs(tmp_path: Path) -> Iterator[Path]:
    """64 MB of ext4 with 2,000 inodes and nothing reserved."""
    with small_disk(tmp_path / "nodefs", 64, 2000) as mount:
        yield mount


@pytest.fixture
def make_node(tmp_path: Path, nodefs: Path) -> Iterator[MakeNode]:
    """Nodes whose files lie on the small filesystem."""
    nodes: list[LiveNode] = []

    def make(**config: Any) -> LiveNode:
        directory = tmp_path / "node"
        directory.mkdir()
        node = LiveNode(directory, ["--node-memory", "512Mi", "--node-dir", str(nodefs)], config=config)
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.stop()


def shell(name: str, script: str, **spec: Any) -> dict[str, Any]:
    """A pod that runs a shell script; its working directory is its own writable one."""
    return pod(name, ["/bin/sh", "-c", script], **spec)


def write(mebibytes: int, path: str = "data") -> str:
    """Shell code that fills a file."""
    return f"dd if=/dev/zero of={path} bs=1M count={mebibytes} 2>/dev/null"


def test_dead_containers_are_enough(make_node: MakeNode) -> None:
    """A pod that has ended left 15 MB behind: when another needs them they are collected, and no pod has to go."""
    node = make_node(evictionHard={"nodefs.available": "30Mi"})
    node.write(shell("done", write(15), restartPolicy="Never"))
    node.start()
    node.wait(lambda: node.facts("container_finished"), "the pod to end", seconds=60)
    node.write(shell("alive", f"{write(15)}; {SLEEP}"))
    node.wait(lambda: node.facts("reclaim_sufficed"), "the reclaim", seconds=60)
    assert not node.evicted()
    assert node.pids("alive")
    assert sum(each["containers"] for each in node.facts("reclaim_finished")) >= 1


def test_a_pod_must_go_when_nothing_can_be_freed(make_node: MakeNode) -> None:
    """The one that wrote the most is evicted; the message names the starved resource."""
    node = make_node(evictionHard={"nodefs.available": "30Mi"})
    node.write(shell("writer", f"{write(40)}; {SLEEP}"), shell("small", f"{write(2)}; {SLEEP}"))
    node.start()
    node.wait(lambda: "writer" in node.verdicts(), "the writer to go", seconds=60)
    assert node.evicted() == ["writer"]
    assert node.pids("small")
    began = node.facts("eviction_started")[0]
    assert began["signal"] in ("nodefs.available", "imagefs.available", "containerfs.available")
    assert "low on resource: ephemeral-storage" in began["message"]


def test_what_a_pod_writes_to_the_hosts_files_is_its_own_when_they_are_private(
    make_node: MakeNode, nodefs: Path, tmp_path: Path
) -> None:
    """It goes with all that it wrote, and its neighbour stays, and so does what it wrote into a hostPath.

    Its probes see what it sees, and nothing of that is out of its own sight.
    """
    node = make_node(evictionHard={"nodefs.available": "25Mi"})
    node.flags = [*node.flags, "--host-files", "private"]
    (tmp_path / "shared").mkdir()
    script = (
        f"echo mine > /opt/jettison-mine; echo kept > /shared/file; find {nodefs} > /dev/null 2> /shared/wrong;"
        f" until [ -s /shared/probed ]; do sleep 0.05; done; {write(30, '/opt/jettison-data')}; {SLEEP}"
    )
    probe = {"exec": {"command": ["cp", "/opt/jettison-mine", "/shared/probed"]}, "periodSeconds": 1}
    node.write(
        shell(
            "writer",
            script,
            volumes=[{"name": "shared", "hostPath": {"path": str(tmp_path / "shared")}}],
            container={"volumeMounts": [{"name": "shared", "mountPath": "/shared"}], "readinessProbe": probe},
        ),
        shell("small", f"{write(4)}; {SLEEP}", container={"resources": {"requests": {"ephemeral-storage": "5Mi"}}}),
    )
    node.start()
    node.wait(lambda: "writer" in node.verdicts(), "the writer to go", seconds=60)
    node.wait(lambda: shutil.disk_usage(nodefs).free > 45 * 2**20, "its files to go")
    assert node.evicted() == ["writer"]
    assert node.pids("small")
    shared = {path.name: path.read_text() for path in (tmp_path / "shared").iterdir()}
    assert shared == {"file": "kept\n", "wrong": "", "probed": "mine\n"}
    assert not any(Path(f"/opt/jettison-{name}").exists() for name in ("mine", "data"))


def test_inodes_run_out(make_node: MakeNode) -> None:
    """1,500 small files starve the filesystem of inodes, long before its bytes are used up."""
    node = make_node(evictionHard={"nodefs.inodesFree": "800"})
    many = f"i=0; while [ $i -lt 1500 ]; do : > f$i; i=$((i+1)); done; {SLEEP}"
    node.write(shell("many", many), shell("few", SLEEP))
    node.start()
    node.wait(lambda: "many" in node.verdicts(), "the pod with many files to go", seconds=60)
    assert node.evicted()[0] == "many"
    assert "low on resource: inodes" in node.facts("eviction_started")[0]["message"]


@pytest.mark.parametrize(
    ("spec", "signal", "says"),
    [
        (
            {
                "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "5Mi"}}],
                "container": {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]},
            },
            "emptydirfs.limit",
            'Usage of EmptyDir volume "scratch" exceeds the limit "5Mi". ',
        ),
        (
            {"container": {"resources": {"limits": {"ephemeral-storage": "5Mi"}}}},
            "ephemeralpodfs.limit",
            "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ",
        ),
    ],
)
def test_storage_limits(make_node: MakeNode, spec: dict[str, Any], signal: str, says: str) -> None:
    """A pod that holds more than its limit goes, though the disk is far from full; its neighbour stays."""
    node = make_node(evictionHard={"nodefs.available": "1Mi"})
    path = "scratch/data" if "volumes" in spec else "data"
    node.write(shell("over", f"{write(9, path)}; {SLEEP}", **spec), shell("within", f"{write(9)}; {SLEEP}"))
    node.start()
    node.wait(lambda: "over" in node.verdicts(), "the pod over its limit to go", seconds=60)
    assert [(each["signal"], each["message"]) for each in node.facts("eviction_started")] == [(signal, says)]
    assert node.pids("within")


def test_a_container_over_its_own_limit(make_node: MakeNode) -> None:
    """The pod as a whole is within its limits, one container is not."""
    limited = {"resources": {"limits": {"ephemeral-storage": "4Mi"}}}
    roomy = {"limits": {"ephemeral-storage": "40Mi"}}
    second = {"name": "second", "command": ["/bin/sh", "-c", SLEEP], "resources": roomy}
    over = shell("over", f"{write(9)}; {SLEEP}", container=limited)
    over["spec"]["containers"].append(second)
    node = make_node(evictionHard={"nodefs.available": "1Mi"})
    node.write(over)
    node.start()
    node.wait(lambda: "over" in node.verdicts(), "the pod to go", seconds=60)
    assert node.facts("eviction_started")[0]["message"] == (
        'Container main exceeded its local ephemeral storage limit "4Mi". '
    )
