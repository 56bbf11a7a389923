"""Project quotas, mostly their absence: the kernel of an ordinary machine has none to offer."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from pathlib import Path

import pytest

from jettison.runtimes.linux.files.disk_usage import DiskUsage
from jettison.runtimes.linux.files.project_quota import NoQuota, project_usage

_GET, _SET = 0x801C581F, 0x401C5820
_INHERIT = 0x200


def _give_project(directory: Path, project: int) -> bool:
    """As an administrator does with `chattr -p`; False where the filesystem has no project ids."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        flags, *sizes = struct.unpack("=IIIII8x", fcntl.ioctl(fd, _GET, bytes(28)))
        fcntl.ioctl(fd, _SET, struct.pack("=IIIII8x", flags | _INHERIT, sizes[0], sizes[1], project, sizes[3]))
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def test_a_directory_without_project_is_not_counted(tmp_path: Path) -> None:
    usage = project_usage(tmp_path)

    assert isinstance(usage, NoQuota)
    assert usage.reason.startswith(("the directory has no project id", "the filesystem counts no projects: "))


def test_a_directory_that_is_gone_has_no_usage(tmp_path: Path) -> None:
    assert project_usage(tmp_path / "nothing") is None


def test_a_link_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    assert project_usage(tmp_path / "link") is None


def test_a_project_is_counted_or_the_reason_is_given(tmp_path: Path) -> None:
    """On a filesystem with project quotas the count must be right, elsewhere the words must be there."""
    has_project = _give_project(tmp_path, 4_000_000_001)
    (tmp_path / "file").write_bytes(bytes(100_000))
    usage = project_usage(tmp_path)

    if has_project and isinstance(usage, DiskUsage):
        assert usage.size >= 100_000
        assert usage.inodes >= 2
    else:
        assert isinstance(usage, NoQuota)
        assert usage.reason


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
@pytest.mark.parametrize("fstype", ["tmpfs", "ramfs"])
def test_filesystems_in_memory_have_no_projects(tmp_path: Path, fstype: str) -> None:
    subprocess.run(["mount", "-t", fstype, "none", tmp_path], check=True)
    try:
        usage = project_usage(tmp_path)
    finally:
        subprocess.run(["umount", tmp_path], check=True)

    assert isinstance(usage, NoQuota)


def test_a_filesystem_that_never_heard_of_projects_says_so() -> None:
    assert isinstance(project_usage(Path("/proc")), NoQuota)
