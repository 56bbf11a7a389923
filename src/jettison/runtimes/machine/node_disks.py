"""Which filesystem is which: nodefs, imagefs and containerfs, told apart by their devices (spec §3.2).

A container runtime names the directories of its images and of its writable layers. Where they are on the node's own
device all three are one filesystem; on a device of their own imagefs is dedicated; with only the images elsewhere it is
split. Without a runtime, and until it has answered, the node has one filesystem.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from jettison.clock import Clock
from jettison.engine.node.snapshot import FsStats, Layout
from jettison.errors import ObservationError
from jettison.runtimes.linux.files.filesystems import device, read_filesystem
from jettison.values import frozen

ONE_FILESYSTEM = Layout(has_image_fs=False, is_split=False)
"""Images, writable layers and the node share it. Their readings exist all the same, as with a kubelet."""


# Of the kernel's paths, with the NUL at the end.
_LONGEST_PATH = 4096


class StorageDirs(NamedTuple):
    """Where a container runtime keeps images, and what containers write over them."""

    images: str
    layers: str


def told_path(text: str) -> str:
    """A path as another program names it; empty for what is none, with which the kernel is not even asked."""
    return text if text.startswith("/") and "\0" not in text and len(text) < _LONGEST_PATH else ""


@frozen
class DiskPlaces:
    """A directory on each of the three filesystems."""

    node: Path
    images: Path
    layers: Path
    layout: Layout = ONE_FILESYSTEM
    # As the runtime names its directories, also where they are with the node; None where there is no runtime.
    named: StorageDirs | None = None

    def are_as(self, others: DiskPlaces) -> bool:
        """Whether the same filesystems are meant."""
        return replace(self, named=None) == replace(others, named=None)


class NodeDisks:
    """Read at every look: one system call for each filesystem that is another."""

    def __init__(self, node_dir: Path, clock: Clock) -> None:
        self._clock = clock
        self.places = DiskPlaces(node_dir, node_dir, node_dir)

    @property
    def layout(self) -> Layout:
        """As it was last found."""
        return self.places.layout

    def find(self, named: Iterable[StorageDirs]) -> DiskPlaces:
        """Where these directories are. Of several runtimes the first counts whose images are not with the node.

        May wait for a disk. Raises ObservationError. A directory that is not there says nothing.
        """
        node = self.places.node
        own = device(node)
        found = DiskPlaces(node, node, node)
        for each in named:
            images, layers = Path(each.images), Path(each.layers or each.images)
            where = device(images), device(layers)
            if own is None or None in where:
                continue
            if where == (own, own):
                found = found if found.named is not None else DiskPlaces(node, node, node, named=each)
                continue
            found = DiskPlaces(
                node,
                node if where[0] == own else images,
                node if where[1] == own else layers,
                Layout(has_image_fs=where[0] != own, is_split=where[0] != where[1]),
                each,
            )
            if where[0] != own:
                break
        return found

    def read(self) -> tuple[FsStats, FsStats | None, FsStats | None]:
        """nodefs, imagefs and containerfs. One of the latter that is gone is None.

        Raises ObservationError where nodefs is gone, or one of them cannot be read.
        """
        places = self.places
        node = read_stats(places.node, self._clock)
        if node is None:
            raise ObservationError(f"cannot measure nodefs: `{places.node}` is gone")
        images = node if places.images is places.node else read_stats(places.images, self._clock)
        if places.layers is places.node:
            return node, images, node
        is_with_images = not places.layout.is_split
        return node, images, images if is_with_images else read_stats(places.layers, self._clock)


def read_stats(path: Path, clock: Clock) -> FsStats | None:
    """The filesystem that holds the path; None when it is gone. Raises ObservationError."""
    found = read_filesystem(path)
    if found is None:
        return None
    inodes_used = None if found.inodes is None or found.inodes_free is None else found.inodes - found.inodes_free
    return FsStats(
        clock.steady_ns(),
        found.available,
        found.capacity,
        found.used,
        found.inodes_free,
        found.inodes,
        inodes_used,
    )
