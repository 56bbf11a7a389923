"""The mount table, made up and real."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jettison.errors import ObservationError
from jettison.runtimes.linux.files.mounts import mount_of, read_mounts

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")


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
