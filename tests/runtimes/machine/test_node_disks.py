"""Which filesystem is which, with real ones: every tmpfs is a device of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jettison.clock import SystemClock
from jettison.engine.node.snapshot import Disks
from jettison.errors import ObservationError
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.machine.node_disks import NodeDisks, StorageDirs

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a filesystem needs root")

Mount = Callable[[str, int], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    with ExitStack() as mounted:

        def make(name: str, size: int) -> Path:
            path = tmp_path / name
            path.mkdir()
            system_calls.mount_tmpfs(path, size)
            mounted.callback(system_calls.detach, path)
            return path

        yield make


@pytest.mark.parametrize(
    ("images", "layers", "disks", "is_split"),
    [
        ("node/below", "node/below", Disks.SHARED, False),
        ("other", "other", Disks.DEDICATED, False),
        ("other", "", Disks.DEDICATED, False),
        ("other/below", "node", Disks.SPLIT, True),
        ("other", "third", Disks.SPLIT, True),
        # Writable layers alone elsewhere: upstream counts it as shared.
        ("node", "other", Disks.SHARED, True),
        ("nowhere", "nowhere", Disks.SHARED, False),
    ],
)
def test_layouts(tmp_path: Path, mount: Mount, images: str, layers: str, disks: Disks, is_split: bool) -> None:
    sizes = {name: (number + 1) * 2**20 for number, name in enumerate(("node", "other", "third"))}
    for name, size in sizes.items():
        (mount(name, size) / "below").mkdir()
    found = NodeDisks(tmp_path / "node", SystemClock())
    named = StorageDirs(str(tmp_path / images), str(tmp_path / layers) if layers else "")
    found.places = found.find([named])
    assert (found.layout.disks, found.layout.is_split) == (disks, is_split)
    by_size = {size: name for name, size in sizes.items()}
    measured = [by_size[each.capacity or 0] for each in found.read() if each is not None]
    expected = ["node", images.partition("/")[0], (layers or images).partition("/")[0]]
    assert measured == (["node"] * 3 if images == "nowhere" else expected)


def test_of_several_runtimes_the_first_with_a_disk_of_its_own_counts(tmp_path: Path, mount: Mount) -> None:
    node, first, second = (mount(name, 2**20) for name in ("node", "first", "second"))
    found = NodeDisks(node, SystemClock()).find([StorageDirs(str(each), str(each)) for each in (node, first, second)])
    assert (found.images, found.layers) == (first, first)


def test_an_image_filesystem_that_goes_away_is_no_reading_and_no_failure(tmp_path: Path, mount: Mount) -> None:
    images = mount("images", 2**20)
    (images / "store").mkdir()
    found = NodeDisks(tmp_path, SystemClock())
    found.places = found.find([StorageDirs(str(images / "store"), "")])
    (images / "store").rmdir()
    node, of_images, of_layers = found.read()
    assert (node.capacity is None, of_images, of_layers) == (False, None, None)


def test_a_node_without_nodefs_cannot_be_measured(tmp_path: Path) -> None:
    with pytest.raises(ObservationError, match="nodefs"):
        NodeDisks(tmp_path / "gone", SystemClock()).read()
