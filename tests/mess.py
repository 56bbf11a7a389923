"""A test that makes all that a test can leave behind, and then waits to be interrupted: for `test_janitor.py` alone.

Its name keeps it out of the suite.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.mounts import discover
from tests.janitor import RUN_VARIABLE, fresh_name

READY_VARIABLE = "JETTISON_TEST_READY"
SLEEP = "/bin/sleep"


def can_loop() -> bool:
    return os.geteuid() == 0 and shutil.which("mkfs.ext4") is not None and Path("/dev/loop-control").exists()


def kinds() -> set[str]:
    """What can be left on this machine by this user."""
    as_root = {"cgroup", "mount"} if os.geteuid() == 0 else set()
    return {"process"} | as_root | ({"loop device"} if can_loop() else set())


def test_makes_a_mess(tmp_path: Path) -> None:
    own_session = subprocess.Popen([SLEEP, "600"], start_new_session=True)
    like_a_pod = subprocess.Popen([SLEEP, "601"], env={"HOME": str(tmp_path)}, start_new_session=True)
    # An orphan: its parent has gone, and no lineage leads to it.
    subprocess.run([sys.executable, "-c", f"import subprocess; subprocess.Popen(['{SLEEP}', '602'])"], check=True)
    assert own_session.poll() is like_a_pod.poll() is None
    if os.geteuid() == 0:
        inner = Cgroup(discover(), f"jettison-{fresh_name()}/inner")
        inner.create()
        assert inner.move(subprocess.Popen([SLEEP, "603"], env={}, start_new_session=True).pid)
        (tmp_path / "mount").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path / "mount"], check=True)
    if can_loop():
        image = tmp_path / "image"
        with image.open("wb") as file:
            file.truncate(4 << 20)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        (tmp_path / "disk").mkdir()
        subprocess.run(["mount", "-o", "loop", image, tmp_path / "disk"], check=True)
    (tmp_path / "ready").write_text(os.environ[RUN_VARIABLE])
    (tmp_path / "ready").rename(os.environ[READY_VARIABLE])
    time.sleep(600)


def test_leaves_a_process() -> None:
    left = subprocess.Popen([SLEEP, "604"])
    assert left.poll() is None
    left.returncode = 0  # else Python complains that the process still runs
