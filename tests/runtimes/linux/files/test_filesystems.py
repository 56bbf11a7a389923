"""The mount table, made up and real, and how full a filesystem is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jettison.errors import ObservationError
from jettison.runtimes.linux.files.filesystems import are_on_one_device, device, mount_of, read_filesystem, read_mounts

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")

Mount = Callable[..., Path]

needs_mkfs = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mkfs.ext4") is None or not Path("/dev/loop-control").exists(),
    reason="takes root, mkfs.ext4 and loop devices",
)


def test_every_field_is_found_whatever_is_in_it(fake_proc: Path) -> None:
    (fake_proc / "self" / "mountinfo").write_bytes(
        b"22 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw,errors=remount-ro\n"
        b"23 22 0:40 /sub\\040volume /mnt/a\\040b\\012c\\134d rw - btrfs /dev/sdb rw,subvol=/x\n"
        b"24 22 0:41 / /empty\\040source rw -  tmpfs  rw\n"
        b"25 22 0:42 / /no\xff\xfeutf8 rw - tmpfs  rw\n"
        b"garbage\n"
    )

    root, btrfs, odd = read_mounts(fake_proc)[:3]

    assert (root.mount_id, root.device, root.fstype, root.source) == (22, "8:1", "ext4", "/dev/sda1")
    assert "errors=remount-ro" in root.super_options
    assert (btrfs.root, btrfs.mount_point) == ("/sub volume", Path("/mnt/a b\nc\\d"))
    assert odd.mount_point == Path("/empty source")
    assert os.fsencode(read_mounts(fake_proc)[-1].mount_point) == b"/no\xff\xfeutf8"
    assert len(read_mounts(fake_proc)) == 4


def test_an_empty_source_does_not_shift_the_fields(fake_proc: Path) -> None:
    (fake_proc / "self" / "mountinfo").write_bytes(b"24 22 0:41 / /here rw - tmpfs  rw,size=4k\n")

    (mount,) = read_mounts(fake_proc)

    assert (mount.source, mount.super_options) == ("", frozenset({"rw", "size=4k"}))


def test_without_proc_there_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(ObservationError, match="is /proc mounted"):
        read_mounts(tmp_path)


def test_a_path_is_on_the_mount_that_its_device_says(tmp_path: Path) -> None:
    mount, proc = mount_of(tmp_path), mount_of(Path("/proc/self"))

    assert mount is not None
    assert proc is not None
    assert proc.fstype == "proc"
    if mount.fstype != "btrfs":  # there every subvolume has a number of its own
        number = tmp_path.stat().st_dev
        assert mount.device == f"{os.major(number)}:{os.minor(number)}"


def test_a_path_that_is_gone_is_on_no_mount(tmp_path: Path) -> None:
    assert mount_of(tmp_path / "nothing") is None


@needs_root
def test_a_mount_point_with_blanks_and_newlines_is_found_through_a_symbolic_link(tmp_path: Path) -> None:
    point = tmp_path / "a b\nc\\d"
    point.mkdir()
    (tmp_path / "link").symlink_to(point)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "odd source", point], check=True)
    try:
        mount = mount_of(tmp_path / "link")
    finally:
        subprocess.run(["umount", point], check=True)

    assert mount is not None
    assert (mount.mount_point, mount.fstype, mount.source) == (point, "tmpfs", "odd source")


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
