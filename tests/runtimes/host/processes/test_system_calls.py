"""Mounting, and the ends of other people's children."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jettison.errors import MountError
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.linux.files.filesystems import mount_of
from jettison.runtimes.linux.processes import read_process
from tests.runtimes.host.nodes import needs_root

pytestmark = needs_root


def test_mounting_and_detaching(tmp_path: Path) -> None:
    system_calls.mount_tmpfs(tmp_path, 2**20)
    try:
        found = mount_of(tmp_path)
        assert found is not None
        assert found.fstype == "tmpfs"
    finally:
        system_calls.detach(tmp_path)
    system_calls.detach(tmp_path)
    system_calls.detach(tmp_path / "missing")
    found = mount_of(tmp_path)
    assert found is not None
    assert found.mount_point != tmp_path


def test_what_cannot_be_mounted_is_told(tmp_path: Path) -> None:
    with pytest.raises(MountError, match=r"cannot mount tmpfs on .*missing`: no such file or directory"):
        system_calls.mount_tmpfs(tmp_path / "missing", None)


def test_without_the_right_to_mount_the_cause_says_so(tmp_path: Path) -> None:
    program = """
import os
from pathlib import Path
from jettison.errors import MountError
from jettison.runtimes.host.processes import system_calls
os.setuid(12345)
try:
    system_calls.mount_tmpfs(Path("/"), None)
except MountError as failure:
    assert isinstance(failure.__cause__, PermissionError), failure
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "refused\n", done.stderr


@pytest.mark.parametrize("status", [0, 3, 9])
def test_the_undead_tell_how_they_died(status: int) -> None:
    script = f"kill -{status} $$" if status == 9 else f"exit {status}"
    child = subprocess.Popen(["sh", "-c", script])
    descriptor = os.pidfd_open(child.pid)
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        found = read_process(child.pid)
        assert found is not None
        expected = status if status == 9 else status << 8
        assert system_calls.wait_status(descriptor, child.pid, found.start_ticks) == expected
        child.wait()
        # Reaped: only a new kernel still knows, and it must not be mistaken.
        assert system_calls.wait_status(descriptor, child.pid, found.start_ticks) in (expected, None)
    finally:
        os.close(descriptor)
        child.wait()


def test_of_the_living_nothing_is_known() -> None:
    child = subprocess.Popen(["sleep", "60"])
    descriptor = os.pidfd_open(child.pid)
    try:
        found = read_process(child.pid)
        assert found is not None
        assert system_calls.wait_status(descriptor, child.pid, found.start_ticks) is None
        assert system_calls.wait_status(descriptor, child.pid, found.start_ticks + 1) is None
    finally:
        os.close(descriptor)
        child.kill()
        child.wait()
