"""Images on a filesystem of their own: unused ones go before any pod, and pods go when images are in use."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jettison.runtimes.grpc.wire import Message
from tests.live import containerd as containerds
from tests.live.containerd import IMAGE, PAUSE, Containerd
from tests.live.cri_proxy import changed
from tests.live.node import LiveNode, pod
from tests.live.small_disks import small_disk

pytestmark = pytest.mark.timeout(300)

MI = 2**20
# containerd keeps what it imports and what it has unpacked: an image takes twice its size.
FILLER = 14 * MI
CALM = "trap 'exit 0' TERM; sleep 3600 & wait"


@pytest.fixture(scope="module")
def boxes(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    """A containerd whose root is a disk of 200 MB; that there can be one is known from the other."""
    home = tmp_path_factory.mktemp("i")
    with small_disk(home / "disk", 200, 20_000) as disk, containerds.running(home, disk / "root") as found:
        yield found


def boxed(name: str, program: str, **options: Any) -> dict[str, Any]:
    return pod(name, ["/bin/sh", "-c", program], container={"image": IMAGE}, **options)


def names(runtime: Containerd) -> set[str]:
    return {line for line in runtime.ctr("images", "ls", "-q").splitlines() if not line.startswith("sha256:")}


def filled(runtime: Containerd, *images: str) -> None:
    for each in images:
        runtime.load(f"docker.io/local/{each}:1", ["/bin/sh"], FILLER)


def stranger(runtime: Containerd, mebibytes: int) -> None:
    """A file of no pod takes room where the images are."""
    assert runtime.root is not None
    with (runtime.root.parent / "stranger").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, mebibytes * MI)


@pytest.fixture(autouse=True)
def _cleared(boxes: Containerd) -> Iterator[None]:
    yield
    assert boxes.root is not None
    (boxes.root.parent / "stranger").unlink(missing_ok=True)
    for each in names(boxes) - {IMAGE, PAUSE}:
        boxes.ctr("images", "rm", "--sync", each)


def node_of(tmp_path: Path, endpoint: str, nodefs: str = "1Mi", **hard: str) -> LiveNode:
    node = LiveNode(tmp_path, ["--cri-endpoint", endpoint, "--keep-image", "docker.io/local/kept:*"])
    node.config = {
        "evictionHard": {"nodefs.available": nodefs, **hard},
        "imageMinimumGCAge": "1ms",
        "imageGCHighThresholdPercent": 100,
        "evictionPressureTransitionPeriod": "1s",
    }
    return node


def counted(node: LiveNode, name: str) -> float:
    lines = node.metrics().decode().splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)), 0)


def test_unused_images_go_before_any_pod_and_then_the_pod_that_fills_the_disk(
    boxes: Containerd, tmp_path: Path
) -> None:
    """A dedicated image filesystem. The image of sandboxes, one in use and one kept by name stay; what the removal
    gave back is what the disk has gained; and with nothing left to remove the pod goes that writes the most.
    """
    filled(boxes, "kept", "one", "two")
    node = node_of(tmp_path, boxes.endpoint, **{"imagefs.available": "60Mi"})
    node.write(boxed("calm", CALM))
    node.start()
    try:
        node.wait(lambda: node.pids("calm"), "the pod to run")
        summary = node.ask("/stats/summary")["node"]
        assert summary["runtime"]["imageFs"]["capacityBytes"] < 200 * MI < summary["fs"]["capacityBytes"]
        stranger(boxes, 50)
        node.wait(lambda: node.facts("reclaim_sufficed"), "images to go")
        assert node.evicted() == []
        assert names(boxes) == {IMAGE, PAUSE, "docker.io/local/kept:1"}
        done = node.facts("reclaim_finished")[0]
        assert done["images"] == 2
        assert counted(node, "jettison_reclaimed_bytes_total") > 2 * FILLER
        assert {each["reason"] for each in node.facts("image_removed")} == {"space"}
        assert counted(node, 'kubelet_image_garbage_collected_total{reason="space"}') == 2
        node.wait(lambda: has_recovered(node), "the disk to recover")
        # What it writes before its start is known is measured at the next look: 60 MB take 30 ms.
        greedy = f"sleep 2; dd if=/dev/zero of=/data/x bs=1M count=60; {CALM}"
        node.write(boxed("greedy", greedy, restartPolicy="Never"))
        node.wait(lambda: "greedy" in node.verdicts(), "the pod that fills the disk to go")
        assert node.evicted() == ["greedy"]
        began = node.facts("eviction_started")[0]
        assert began["signal"] in ("imagefs.available", "containerfs.available")
        assert node.pids("calm")
        assert_shown(node, boxes)
        node.wait(lambda: has_recovered(node), "the disk to recover")
        # Its layer was deleted a moment after its end, and no second pod had to go for that.
        assert node.evicted() == ["greedy"]
    finally:
        node.stop()


def has_recovered(node: LiveNode) -> bool:
    return b'jettison_node_condition{condition="DiskPressure"} 0\n' in node.metrics()


def assert_shown(node: LiveNode, runtime: Containerd) -> None:
    """`jettison disks` tells which filesystem is which, and that a file of no pod is on that of the images."""
    program = str(Path(sys.executable).with_name("jettison"))
    # The node knows its runtime: without it which images are unused would be a note.
    where = ["--state-dir", str(node.state), "--node-name", node.name]
    done = subprocess.run(
        [program, "disks", "-o", "json", *where], capture_output=True, text=True, timeout=60, check=True
    )
    answer = json.loads(done.stdout)
    assert answer["warnings"] == answer["notes"] == []
    nodefs, imagefs = answer["filesystems"]
    assert (nodefs["roles"], imagefs["roles"]) == (["nodefs"], ["imagefs", "containerfs"])
    assert imagefs["mountPoint"] == str(runtime.root.parent if runtime.root is not None else "")
    assert {each["pod"] for each in imagefs["pods"]} >= {"default/calm"}
    assert imagefs["othersBytes"] >= 50 * MI
    assert imagefs["imagesBytes"] >= 2 * FILLER
    assert {each["threshold"] for each in imagefs["thresholds"]} == {
        "imagefs.available<60Mi",
        "containerfs.available<60Mi",
    }


def test_with_a_split_disk_images_go_for_the_disk_of_images_and_no_pod_does(boxes: Containerd, tmp_path: Path) -> None:
    """Writable layers are with the node, as CRI-O can have it, so no pod's end frees anything where the images are. An
    image that the runtime has pinned stays.
    """

    def split(answer: Message) -> None:
        answer["container_filesystems"] = [{"fs_id": {"mountpoint": str(tmp_path)}}]

    def pinned(answer: Message) -> None:
        for each in answer["images"]:
            each["pinned"] = "docker.io/local/pinned:1" in each["repo_tags"]

    def taciturn(answer: Message) -> None:
        # CRI promises no process id: the container is found by its cgroup.
        answer["info"] = {}

    changes = {"ImageFsInfo": split, "ListImages": pinned, "ContainerStatus": taciturn}
    with changed(tmp_path / "p.sock", boxes.socket, changes) as endpoint:
        filled(boxes, "pinned", "one", "two")
        node = node_of(tmp_path, endpoint, **{"imagefs.available": "60Mi"})
        node.write(boxed("calm", CALM))
        node.start()
        try:
            node.wait(lambda: node.pids("calm"), "the pod to run")
            stranger(boxes, 50)
            node.wait(lambda: node.facts("reclaim_sufficed"), "images to go")
            assert "docker.io/local/pinned:1" in names(boxes)
            assert node.evicted() == []
            summary = node.ask("/stats/summary")["node"]["runtime"]
            assert summary["containerFs"]["capacityBytes"] > 200 * MI > summary["imageFs"]["capacityBytes"]
            (record,) = [each for each in node.journal() if b'"reclaim"' in each.data][-1:]
            layout = json.loads(record.data)["looks"][0]["snapshot"]["layout"]
            assert layout == {"hasImageFs": True, "isSplit": True}
        finally:
            node.stop()


def test_a_disk_without_a_byte_and_without_an_inode_is_cleaned_up(boxes: Containerd, tmp_path: Path) -> None:
    """What is held is given up at once, the runtime can remove its images, and no pod has to go."""
    filled(boxes, "one", "two")
    node = node_of(tmp_path, boxes.endpoint, **{"imagefs.available": "20Mi"})
    node.flags = [*node.flags, "--ballast", "1Mi"]
    node.write(boxed("calm", CALM))
    node.start()
    try:
        node.wait(lambda: node.pids("calm"), "the pod to run")
        node.wait(lambda: len(node.facts("ballast_kept")) == 2, "the ballast")
        assert boxes.root is not None
        heap = boxes.root.parent / "heap"
        heap.mkdir()
        try:
            # All of it at once: an agent that sees it coming cleans up before.
            assert node.process is not None
            node.process.send_signal(signal.SIGSTOP)
            with (boxes.root.parent / "stranger").open("wb", buffering=0) as file:
                assert is_used_up(lambda _: file.write(bytes(MI)))
                assert is_used_up(lambda _: file.write(bytes(512)))
            assert is_used_up(lambda number: (heap / str(number)).touch())
            node.process.send_signal(signal.SIGCONT)
            node.wait(lambda: node.facts("reclaim_sufficed"), "images to go")
            assert len(node.facts("ballast_given_up")) == 1
            assert (node.evicted(), names(boxes)) == ([], {IMAGE, PAUSE})
        finally:
            shutil.rmtree(heap)
        (boxes.root.parent / "stranger").unlink()
        node.wait(lambda: len(node.facts("ballast_kept")) == 3, "the ballast again")
    finally:
        node.stop()
    assert list(boxes.root.parent.glob(".jettison-*")) == []


def is_used_up(step: Callable[[int], object]) -> bool:
    """Done again and again, until the disk takes no more."""
    for number in range(10**6):
        try:
            step(number)
        except OSError as error:
            return error.errno == errno.ENOSPC
    return False
