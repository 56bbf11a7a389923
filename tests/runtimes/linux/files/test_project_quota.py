"""Project quotas, mostly their absence: the kernel of an ordinary machine has none to offer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jettison.errors import WriteError
from jettison.runtimes.linux.files.disk_usage import DiskUsage
from jettison.runtimes.linux.files.project_quota import NoQuota, assign_project, project_usage


def test_a_directory_without_project_is_not_counted(tmp_path: Path) -> None:
    usage = project_usage(tmp_path)

    assert isinstance(usage, NoQuota)
    assert usage.reason.startswith(("the directory has no project id", "the filesystem counts no projects: "))


def test_a_directory_that_is_gone_has_no_usage(tmp_path: Path) -> None:
    assert project_usage(tmp_path / "nothing") is None
    with pytest.raises(WriteError, match=r"cannot give .*nothing` the project id `7`"):
        assign_project(tmp_path / "nothing", 7)


def test_a_link_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    assert project_usage(tmp_path / "link") is None


def test_a_project_is_counted_or_the_reason_is_given(tmp_path: Path) -> None:
    """On a filesystem with project quotas the count must be right, elsewhere the words must be there."""
    refused = assign_project(tmp_path, 4_000_000_001)
    (tmp_path / "file").write_bytes(bytes(100_000))
    usage = project_usage(tmp_path)

    if refused is None and isinstance(usage, DiskUsage):
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
        refused, usage = assign_project(tmp_path, 7), project_usage(tmp_path)
    finally:
        subprocess.run(["umount", tmp_path], check=True)

    assert isinstance(refused, NoQuota)
    assert isinstance(usage, NoQuota)


def test_a_filesystem_that_never_heard_of_projects_says_so() -> None:
    assert isinstance(project_usage(Path("/proc")), NoQuota)
