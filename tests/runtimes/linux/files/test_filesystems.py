"""How full a filesystem is: this machine's, and small ones that can be filled."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jettison.runtimes.linux.files.filesystems import are_on_one_device, device, read_filesystem

Mount = Callable[..., Path]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
needs_mkfs = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mkfs.ext4") is None or not Path("/dev/loop-control").exists(),
    reason="takes root, mkfs.ext4 and loop devices",
)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts something on a new directory, until the test is over."""
    with ExitStack() as mounted:

        def run(name: str, *arguments: str) -> Path:
            point = tmp_path / name
            point.mkdir()
            subprocess.run(["mount", *arguments, point], check=True)
            mounted.callback(lambda: subprocess.run(["umount", point], check=True))
            return point

        yield run


def test_the_numbers_are_those_of_df(tmp_path: Path) -> None:
    found = read_filesystem(tmp_path)
    df = subprocess.run(
        ["df", "--block-size=1", "--output=size,itotal", tmp_path], check=True, capture_output=True, text=True
    ).stdout.split()

    assert found is not None
    assert found.capacity == int(df[-2])
    assert (found.inodes or 0) == int(df[-1] if df[-1] != "-" else 0)
    assert found.used + found.available <= found.capacity


def test_a_filesystem_without_inodes_has_none_and_not_zero() -> None:
    found = read_filesystem(Path("/proc"))

    assert found is not None
    assert (found.inodes, found.inodes_free) == (None, None)


def test_a_path_that_is_gone_is_on_no_filesystem(tmp_path: Path) -> None:
    assert read_filesystem(tmp_path / "nothing") is None
    assert device(tmp_path / "nothing") is None
    assert are_on_one_device(tmp_path, tmp_path / "nothing") is None


def test_devices_of_paths_are_compared(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()

    assert are_on_one_device(tmp_path, tmp_path / "below") is True
    assert are_on_one_device(tmp_path, Path("/proc")) is False


@needs_root
def test_inodes_run_out(mount: Mount) -> None:
    point = mount("small", "-t", "tmpfs", "-o", "size=1m,nr_inodes=50", "none")
    before = read_filesystem(point)
    for number in range(before.inodes_free if before and before.inodes_free else 0):
        (point / str(number)).touch()
    with pytest.raises(OSError, match="No space left"):
        (point / "one-too-many").touch()
    after = read_filesystem(point)

    assert before is not None
    assert after is not None
    assert (before.inodes, before.inodes_free) == (50, 49)  # the root takes one
    assert (after.inodes, after.inodes_free) == (50, 0)
    assert after.available == before.available == 1 << 20


@needs_root
def test_bytes_run_out(mount: Mount) -> None:
    point = mount("small", "-t", "tmpfs", "-o", "size=1m", "none")
    with pytest.raises(OSError, match="No space left"):
        (point / "file").write_bytes(bytes(2 << 20))

    full = read_filesystem(point)

    assert full is not None
    assert (full.available, full.used, full.capacity) == (0, 1 << 20, 1 << 20)


@needs_mkfs
def test_blocks_reserved_for_root_are_neither_used_nor_available(tmp_path: Path, mount: Mount) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "20", "-N", "200", image], check=True)

    found = read_filesystem(mount("disk", "-o", "loop", str(image)))

    assert found is not None
    assert found.capacity - found.used - found.available > 5 << 20
    assert found.inodes is not None
    assert 100 < found.inodes < 300


@needs_root
def test_a_bind_mount_is_the_same_device(tmp_path: Path, mount: Mount) -> None:
    (tmp_path / "source").mkdir()
    bound = mount("bound", "--bind", str(tmp_path / "source"))
    other = mount("other", "-t", "tmpfs", "none")

    assert are_on_one_device(bound, tmp_path) is True
    assert are_on_one_device(other, tmp_path) is False
