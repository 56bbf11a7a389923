"""A small real node for the tests of this folder: its cgroups, processes in them, and nothing left afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jettison.engine.config.policy import Policy
from jettison.events import Fact
from jettison.runtimes.host.cgroups.cgroup_parent import CgroupParent, find_cgroup_parent
from jettison.runtimes.host.cgroups.kubepods import Kubepods
from jettison.runtimes.host.cgroups.oom import OomWatch
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.measure.capacity import measure_capacity
from jettison.runtimes.host.pods.reports import ActiveContainer, ActivePod
from jettison.runtimes.host.processes.becoming import enter
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.mounts import CgroupVersion, discover
from jettison.runtimes.linux.proc import Machine
from jettison.runtimes.protocol import PodManifest
from tests.builders import MI, policy
from tests.builders import pod as make_pod
from tests.emptying import kill_until_empty
from tests.janitor import fresh_name

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make cgroups")
needs_memory_events = pytest.mark.skipif(
    discover().version is CgroupVersion.V2, reason="cgroup version 2 has no memory threshold events"
)

PLAIN = policy({"memory.available": "32Mi"}, guards_allocatable=True)


def settings(tmp_path: Path, **changes: object) -> HostSettings:
    """Of a node of 128 MiB with a name of its own."""
    values: dict[str, object] = {"node_memory": 128 * MI, **changes}
    name = fresh_name()
    node_dir = tmp_path / "node"
    node_dir.mkdir(exist_ok=True)
    return HostSettings(name, tmp_path / "state", node_dir, f"jettison-{name}", **values)  # type: ignore[arg-type]


class Node:
    """The cgroups of a node and what was told about them."""

    def __init__(self, settings: HostSettings, policy: Policy) -> None:
        cgroup_parent = find_cgroup_parent(settings)
        assert isinstance(cgroup_parent, CgroupParent), cgroup_parent
        self.settings = settings
        self.cgroup_parent = cgroup_parent
        self.facts: list[Fact] = []
        self.rings = 0
        self.host = Machine()
        capacity = measure_capacity(settings, self.host)
        self.oom = OomWatch(cgroup_parent.mounts, self.facts.append, self._ring)
        self.kubepods = Kubepods(cgroup_parent, self.oom, capacity.memory, policy.config.pod_pids_limit, lowest_score=0)
        self.missing = self.kubepods.create(settings, capacity, policy)

    def _ring(self) -> None:
        self.rings += 1

    def remove(self) -> None:
        """Kill what is left and take everything away."""
        top = Cgroup(self.cgroup_parent.mounts, self.cgroup_parent.node)
        assert not kill_until_empty(top, timeout=10)
        deadline = time.monotonic() + 10
        while not top.remove():
            assert time.monotonic() < deadline, f"cannot remove {top.name}"
            time.sleep(0.005)
        self.cgroup_parent.leave()
        self.cgroup_parent.claim.release()
        self.oom.close()
        self.host.close()


@contextmanager
def node(settings: HostSettings, policy: Policy = PLAIN) -> Iterator[Node]:
    """Makes the cgroups; removes them."""
    made = Node(settings, policy)
    try:
        yield made
    finally:
        made.remove()


@contextmanager
def running(place: Place, program: str) -> Iterator[int]:
    """Runs a Python program in a place, in at its door; afterwards kills what is in the place."""
    ready, parent_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(parent_end, 1)
            os.setsid()
            enter(place.door.entrances, place.door.oom_score_adj)
            environment = {"PATH": os.environ["PATH"], **place.environment}
            os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", program], environment)
        finally:
            os._exit(127)
    os.close(parent_end)
    place.lead(pid)
    try:
        assert os.read(ready, 1) == b"r", "the program did not say that it is ready"
        yield pid
    finally:
        os.close(ready)
        end(place)
        reap(pid)


def end(place: Place) -> None:
    """Kill until empty, without a loop."""
    deadline = time.monotonic() + 30
    while place.kill():
        assert time.monotonic() < deadline, f"{place.name} does not get empty"
        time.sleep(0.002)


def reap(pid: int) -> int:
    """Its exit code, as a shell would tell it; also when it was reaped before."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return 0


def python(program: str) -> str:
    """Says that it is ready, then does this, then sleeps."""
    return f"import os, sys, time\n{program}\nos.write(1, b'r')\ntime.sleep(60)\n"


SLEEPS = python("")


def active(place: Place, name: str, directory: Path, pid: int = 1) -> ActivePod:
    """A pod with one running container `c`, as supervision would hand it over."""
    for part in ("c", "logs"):
        (directory / part).mkdir(parents=True, exist_ok=True)
    container = ActiveContainer("c", place, pid, f"{directory}/c", f"{directory}/logs", is_running=True)
    return ActivePod(PodManifest(make_pod(name), {}), [container], [], str(directory))


def is_alive(pid: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill and reap."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def descriptors() -> int:
    """How many this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
