"""Volumes as containers find them."""

from __future__ import annotations

import os
import socket
from pathlib import Path, PurePosixPath

import pytest

from jettison.errors import MountError
from jettison.runtimes.host.specs.volumes import MountSpec, VolumeSpec
from jettison.runtimes.host.volumes import volumes
from jettison.runtimes.host.volumes.removal import remove_directory
from jettison.runtimes.host.volumes.volumes import Volume
from jettison.runtimes.linux.files.filesystems import mount_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")


def mount(volume: str, path: str, sub_path: str = "") -> MountSpec:
    return MountSpec(volume, PurePosixPath(path), PurePosixPath(sub_path))


def test_an_empty_dir_is_shared_and_survives_being_prepared_again(tmp_path: Path) -> None:
    (volume,) = volumes.prepare(tmp_path / "volumes", [VolumeSpec("v")])
    assert volume == Volume("v", tmp_path / "volumes" / "v")
    assert volume.path.stat().st_mode & 0o7777 == 0o777
    (volume.path / "file").write_text("kept")
    volumes.prepare(tmp_path / "volumes", [VolumeSpec("v")])
    assert (volume.path / "file").read_text() == "kept"


@needs_root
def test_memory_is_a_tmpfs_of_its_size_and_is_mounted_once(tmp_path: Path) -> None:
    spec = VolumeSpec("v", is_memory=True, size_limit=2**20)
    try:
        for _ in range(2):
            (volume,) = volumes.prepare(tmp_path, [spec])
            assert volume.is_memory
        found = mount_of(volume.path)
        assert found is not None
        assert found.fstype == "tmpfs"
        assert os.statvfs(volume.path).f_blocks * os.statvfs(volume.path).f_frsize == 2**20
        assert volume.path.stat().st_mode & 0o7777 == 0o777
    finally:
        remove_directory(tmp_path, tmp_path / "v")
    assert not (tmp_path / "v").exists()


def test_a_container_sees_its_volumes_at_their_mount_paths(tmp_path: Path) -> None:
    found = {each.name: each for each in volumes.prepare(tmp_path / "v", [VolumeSpec("a"), VolumeSpec("b-c")])}
    writable = tmp_path / "w"
    writable.mkdir()
    wanted = [mount("a", "data"), mount("b-c", "var/lib/x", "deep/er")]
    for _ in range(2):
        volumes.link(writable, wanted, found)
    (writable / "data" / "file").write_text("1")
    (writable / "var" / "lib" / "x" / "file").write_text("2")
    assert (tmp_path / "v" / "a" / "file").read_text() == "1"
    assert (tmp_path / "v" / "b-c" / "deep" / "er" / "file").read_text() == "2"
    assert volumes.variable("b-c") == "JETTISON_VOLUME_B_C"


def test_no_link_in_a_volume_leads_us_out_of_it(tmp_path: Path) -> None:
    """An earlier run may have left one, and the agent is root."""
    (volume,) = volumes.prepare(tmp_path / "v", [VolumeSpec("a")])
    outside, writable = tmp_path / "outside", tmp_path / "w"
    outside.mkdir()
    writable.mkdir()
    (volume.path / "trap").symlink_to(outside)
    for wanted in ([mount("a", "data", "trap/made")], [mount("a", "data"), mount("a", "data/trap/made", "x")]):
        with pytest.raises(MountError, match="cannot mount volume `a` on `/data"):
            volumes.link(writable, wanted, {"a": volume})
    assert list(outside.iterdir()) == []


def test_a_mount_below_another_one_lies_in_that_volume(tmp_path: Path) -> None:
    found = {each.name: each for each in volumes.prepare(tmp_path / "v", [VolumeSpec("a"), VolumeSpec("b")])}
    writable = tmp_path / "w"
    writable.mkdir()
    for _ in range(2):
        volumes.link(writable, [mount("a", "data", "s"), mount("b", "data/x/y")], found)
    (writable / "data" / "x" / "y" / "file").write_text("1")
    assert (tmp_path / "v" / "b" / "file").read_text() == "1"
    assert (tmp_path / "v" / "a" / "s" / "x" / "y").is_symlink()


def test_a_mount_path_that_is_taken_is_an_error(tmp_path: Path) -> None:
    (volume,) = volumes.prepare(tmp_path / "v", [VolumeSpec("a")])
    (tmp_path / "data").write_text("a file")
    with pytest.raises(MountError, match="cannot mount volume `a` on `/data`: file exists"):
        volumes.link(tmp_path, [mount("a", "data")], {"a": volume})


def host(path: Path, kind: str) -> list[VolumeSpec]:
    return [VolumeSpec("h", host_path=str(path), host_path_type=kind)]


def test_host_paths_are_made_where_that_is_wanted(tmp_path: Path) -> None:
    (volume,) = volumes.prepare(tmp_path / "v", host(tmp_path / "d" / "e", "DirectoryOrCreate"))
    assert volume == Volume("h", tmp_path / "d" / "e", is_host=True)
    volumes.check_host_paths(host(tmp_path / "d" / "e", "DirectoryOrCreate"))
    assert volume.path.is_dir()
    volumes.check_host_paths(host(tmp_path / "f", "FileOrCreate"))
    assert (tmp_path / "f").is_file()
    assert not (tmp_path / "v").exists()


KINDS = {
    "Directory": "directory",
    "File": "file",
    "Socket": "socket file",
    "CharDevice": "character device",
    "BlockDevice": "block device",
}


@pytest.mark.parametrize("kind", KINDS)
def test_host_paths_must_be_what_their_type_says(tmp_path: Path, kind: str) -> None:
    """In the words of Kubernetes, which are the same for a path that is not there."""
    with pytest.raises(MountError, match=f"cannot set up volume `h`: hostPath .* is not a {KINDS[kind]}$"):
        volumes.check_host_paths(host(tmp_path / "missing", kind))
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    paths = {"Directory": tmp_path / "dir", "File": tmp_path / "file", "Socket": tmp_path / "socket"}
    wrong = paths["File"] if kind == "Directory" else paths["Directory"]
    with pytest.raises(MountError, match=f"hostPath type check failed: {wrong} is not a {KINDS[kind]}$"):
        volumes.check_host_paths(host(wrong, kind))
    if kind in paths:
        volumes.check_host_paths(host(paths[kind], kind))


@pytest.mark.parametrize(("kind", "name"), [("FileOrCreate", "file"), ("DirectoryOrCreate", "directory")])
def test_a_pipe_in_the_place_of_a_host_path_is_not_waited_for(tmp_path: Path, kind: str, name: str) -> None:
    """It held up the set-up of all other pods."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MountError, match=f"hostPath type check failed: {tmp_path / 'pipe'} is not a {name}$"):
        volumes.check_host_paths(host(tmp_path / "pipe", kind))


def test_a_host_path_without_a_type_need_not_exist(tmp_path: Path) -> None:
    volumes.check_host_paths(host(tmp_path / "missing", ""))
    assert volumes.prepare(tmp_path, host(tmp_path / "missing", ""))


def test_a_pod_cannot_have_its_volume_made_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "v").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MountError, match="is a symbolic link"):
        volumes.prepare(tmp_path, [VolumeSpec("v")])
    assert (tmp_path / "elsewhere").stat().st_mode & 0o7777 == 0o700
