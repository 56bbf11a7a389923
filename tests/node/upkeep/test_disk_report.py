"""What fills the disks of a node, on real filesystems of a known size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jettison.clock import SystemClock
from jettison.engine.node.signals import Part
from jettison.engine.node.snapshot import ContainerUsage, PodUsage, VolumeUsage
from jettison.errors import ObservationError
from jettison.node.upkeep.disk_report import DiskFill, PodOnDisk, report_disks
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.machine.node_disks import NodeDisks, StorageDirs
from tests.builders import MI, policy

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a filesystem needs root")


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Path]:
    """16 MiB for images alone, with a store as containerd has it."""
    path = tmp_path / "images"
    path.mkdir()
    system_calls.mount_tmpfs(path, 16 * MI)
    (path / "store" / "io.containerd.snapshotter.v1.overlayfs").mkdir(parents=True)
    yield path
    system_calls.detach(path)


def pod_on_disk(name: str, layers: int, *, is_safe: bool = False) -> PodOnDisk:
    usage = PodUsage(
        containers=[ContainerUsage("c", rootfs_bytes=layers, logs_bytes=10)], volumes=[VolumeUsage("v", used_bytes=20)]
    )
    return PodOnDisk(name, usage, is_safe, is_boxed=True)


def report(tmp_path: Path, images: Path, line: str, *pods: PodOnDisk, unused: int | None = 0) -> list[DiskFill]:
    node = tmp_path / "node"
    (node / "logs").mkdir(parents=True, exist_ok=True)
    store = images / "store" / "io.containerd.snapshotter.v1.overlayfs"
    places = NodeDisks(node, SystemClock()).find([StorageDirs(str(store), "")])
    return report_disks(places, policy({"imagefs.available": line}), list(pods), node / "logs", unused)


def test_what_is_on_which_filesystem(tmp_path: Path, images: Path) -> None:
    """All of the store is images, but for the pods' layers; logs and volumes are with the node."""
    (images / "store" / "content").write_bytes(bytes(4 * MI))
    (images / "stranger").write_bytes(bytes(3 * MI))
    nodefs, imagefs = report(tmp_path, images, "1Mi", pod_on_disk("a", MI))
    assert (nodefs.roles, imagefs.roles) == (("nodefs",), ("imagefs", "containerfs"))
    assert (dict(nodefs.parts), dict(imagefs.parts)) == ({Part.LOGS: 10, Part.VOLUMES: 20}, {Part.ROOTFS: MI})
    assert dict(imagefs.pods) == {"a": MI}
    assert 3 * MI <= imagefs.images < 3 * MI + 64 * 1024
    assert 3 * MI <= imagefs.others < 3 * MI + 64 * 1024
    assert [str(each.threshold) for each in imagefs.levels] == ["imagefs.available<1Mi", "containerfs.available<1Mi"]
    assert imagefs.hopeless is None


@pytest.mark.parametrize(
    ("layers", "is_safe", "unused", "is_lost"),
    [
        (8 * MI, False, 0, False),
        (8 * MI, True, 0, True),
        (0, False, 8 * MI, False),
        (0, False, None, True),
        (MI, False, MI, True),
    ],
)
def test_when_no_eviction_can_help(
    tmp_path: Path, images: Path, layers: int, is_safe: bool, unused: int | None, is_lost: bool
) -> None:
    """6 MiB must come free; what a critical pod holds does not count, and what is not known neither."""
    (images / "stranger").write_bytes(bytes(12 * MI))
    own = pod_on_disk("a", layers, is_safe=is_safe)
    _, imagefs = report(tmp_path, images, "10Mi", own, unused=unused)
    assert (imagefs.hopeless is not None) is is_lost


def test_a_filesystem_that_is_gone_is_said(tmp_path: Path) -> None:
    places = NodeDisks(tmp_path / "gone", SystemClock()).places
    with pytest.raises(ObservationError, match="nodefs"):
        report_disks(places, None, [], tmp_path / "logs")
