"""Real cgroups and real processes for the tests of this folder, and nothing left of them afterwards."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, discover
from tests.emptying import kill_until_empty
from tests.janitor import fresh_name

MakeCgroup = Callable[..., Cgroup]
Spawn = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def mounts() -> CgroupMounts:
    """The hierarchies of this machine."""
    return discover()


@pytest.fixture
def make_cgroup(mounts: CgroupMounts) -> Iterator[MakeCgroup]:
    """Makes cgroups with names of their own; afterwards kills what is inside and removes them."""
    made: list[Cgroup] = []

    def make(wanted: CgroupMounts = mounts, suffix: str = "") -> Cgroup:
        cgroup = Cgroup(wanted, f"jettison-{fresh_name()}{suffix}")
        made.append(Cgroup(mounts, cgroup.name))
        cgroup.create()
        return cgroup

    yield make
    for cgroup in made:
        kill_until_empty(cgroup, timeout=30)
        deadline = time.monotonic() + 30
        while not cgroup.remove():
            assert time.monotonic() < deadline, f"cannot remove {cgroup.name}"
            time.sleep(0.005)


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Runs a Python program with pipes for its input and output; afterwards kills and reaps it."""
    started: list[subprocess.Popen[bytes]] = []

    def run(program: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def open_descriptors() -> Callable[[], int]:
    """Counts the descriptors of this process, so that a test can see one leak."""
    return lambda: sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
def fake_proc(tmp_path: Path) -> Path:
    """An empty `/proc` with a `self` in it."""
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    return proc
