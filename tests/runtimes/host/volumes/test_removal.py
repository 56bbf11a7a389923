"""Directories go, whatever was made of them, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jettison.errors import RemovalError
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.host.volumes import removal
from jettison.runtimes.host.volumes.removal import remove_directory
from jettison.runtimes.linux.files.filesystems import Mount, read_mounts
from tests.runtimes.host.nodes import descriptors

OTHER_USER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")


def test_an_ordinary_tree(tmp_path: Path) -> None:
    top = tmp_path / "pod"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").write_text("x")
    (top / "a" / "\n\xff ").write_text("x")
    (top / "c").mkdir(mode=0)
    os.mkfifo(top / "pipe")
    remove_directory(tmp_path, top)
    assert not top.exists()


def test_what_is_gone_is_gone(tmp_path: Path) -> None:
    remove_directory(tmp_path, tmp_path / "never")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    top = tmp_path / "pod"
    top.mkdir()
    (top / "inside").symlink_to(precious)
    (tmp_path / "outside").symlink_to(precious)
    remove_directory(tmp_path, top)
    remove_directory(tmp_path, tmp_path / "outside")
    assert (precious / "file").exists()
    assert not (tmp_path / "outside").is_symlink()


def test_a_tree_deeper_than_a_path_is_long(tmp_path: Path) -> None:
    top = tmp_path / "pod"
    program = f"""
import os
os.mkdir({str(top)!r})
os.chdir({str(top)!r})
for _ in range(3000):
    os.mkdir("deep")
    os.chdir("deep")
    open("file", "w").close()
"""
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)
    before = descriptors()
    remove_directory(tmp_path, top)
    assert not top.exists()
    assert descriptors() == before


@needs_root
def test_what_a_pod_mounted_is_detached_and_not_emptied(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    top = tmp_path / "pod"
    for name in ("bind", "memory"):
        (top / name).mkdir(parents=True)
    subprocess.run(["mount", "--bind", precious, top / "bind"], check=True)
    system_calls.mount_tmpfs(top / "memory", 2**20)
    (top / "memory" / "file").write_text("x")
    system_calls.mount_tmpfs(top / "bind", None)  # one on top of the other
    remove_directory(tmp_path, top)
    assert not top.exists()
    assert (precious / "file").exists()
    assert not [mount for mount in read_mounts() if mount.mount_point.is_relative_to(tmp_path)]


@needs_root
def test_a_link_that_leads_out_has_nothing_detached_or_removed(tmp_path: Path) -> None:
    """A pod that may write where its directory lies puts a link in the place of one that is to be removed."""
    precious, pods = tmp_path / "precious", tmp_path / "pods"
    for path in (precious / "volumes" / "deep", precious / "memory", pods):
        path.mkdir(parents=True)
    system_calls.mount_tmpfs(precious / "memory", 2**20)
    try:
        (pods / "uid").symlink_to(precious)
        remove_directory(pods, pods / "uid" / "volumes")
        remove_directory(pods, pods / "uid")
        assert (precious / "volumes" / "deep").is_dir()
        assert (precious / "memory").is_mount()
        assert list(pods.iterdir()) == []
    finally:
        subprocess.run(["umount", precious / "memory"], check=False)


@needs_root
def test_what_is_mounted_meanwhile_is_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount of the same device has the same number, so only the kernel tells that it is one."""
    precious, top = tmp_path / "precious", tmp_path / "pod"
    for path in (precious / "deep", top / "bind"):
        path.mkdir(parents=True)
    (precious / "file").write_text("x")

    def read_then_mount() -> tuple[Mount, ...]:
        found = read_mounts()
        subprocess.run(["mount", "--bind", precious, top / "bind"], check=True)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(removal, "read_mounts", read_then_mount)
        with pytest.raises(RemovalError, match="cross-device link"):
            remove_directory(tmp_path, top)
    assert sorted(path.name for path in precious.iterdir()) == ["deep", "file"]
    remove_directory(tmp_path, top)
    assert not top.exists()
    assert sorted(path.name for path in precious.iterdir()) == ["deep", "file"]


@needs_root
def test_what_a_user_has_forbidden_itself_to_change_goes(tmp_path: Path) -> None:
    """Without root: caches of modules are read-only on purpose."""
    base = tmp_path / "base"
    for path in (base / "pod" / "read-only" / "below", base / "pod" / "shut" / "below"):
        path.mkdir(parents=True)
        (path / "file").write_text("x")
    for path, mode in ((base / "pod" / "read-only", 0o555), (base / "pod" / "shut", 0), (base / "pod", 0o500)):
        path.chmod(mode)
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.lchown(path, OTHER_USER, OTHER_USER)
    child = os.fork()
    if child == 0:
        # The directories above are root's.
        os.chdir(base)
        os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
        try:
            remove_directory(Path(), Path("pod"))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert list(base.iterdir()) == []


@needs_root
def test_a_file_that_cannot_be_removed_is_an_error_and_can_be_tried_again(tmp_path: Path) -> None:
    top = tmp_path / "pod"
    top.mkdir()
    (top / "file").write_text("x")
    if subprocess.run(["chattr", "+i", top / "file"], capture_output=True, check=False).returncode:
        pytest.skip("this filesystem has no immutable files")
    with pytest.raises(RemovalError, match=r"cannot remove .*: operation not permitted"):
        remove_directory(tmp_path, top)
    subprocess.run(["chattr", "-i", top / "file"], check=True)
    remove_directory(tmp_path, top)
    assert not top.exists()
