"""The baseline: a process that reads the same numbers every 100 ms and sends SIGKILL."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness.trial import Grower, Reaction, TrialFailed, trial
from jettison.runtimes.linux.cgroups import kill as cgroup_kill
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts
from jettison.runtimes.linux.cgroups.usage import UsageReader

PERIOD = 0.1
_PATIENCE = 10.0


class Poller:
    """Has one cgroup, in which a process grows at a time."""

    def __init__(self, cgroup: Cgroup, usage: Path) -> None:
        self._cgroup = cgroup
        self._usage = usage
        self._reader = UsageReader(cgroup.mounts)

    def run(self, grower: Grower, scratch: Path, headroom_mib: int, most_mib: int) -> Reaction:
        """One process, which may grow by the headroom. The first look comes at a random moment."""
        with trial(grower, scratch, self._usage, most_mib) as each:
            process = subprocess.Popen(each.arguments)
            try:
                each.await_start(_PATIENCE)
                self._cgroup.move(process.pid)
                working_set, inactive = self._look()
                most = working_set + (headroom_mib << 20)
                each.go()
                time.sleep(random.uniform(0, PERIOD))
                sent_ns = self._kill_above(most, process.pid)
                return each.reaction(most + inactive, each.await_death(_PATIENCE), sent_ns)
            finally:
                process.kill()
                process.wait()

    def close(self) -> None:
        """Nothing of it is left."""
        self._reader.close()
        deadline = time.monotonic() + _PATIENCE
        while not self._cgroup.remove() and time.monotonic() < deadline:
            cgroup_kill.kill(self._cgroup)
            time.sleep(0.01)

    def _kill_above(self, most: int, pid: int) -> int:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if self._look()[0] >= most:
                sent_ns = time.monotonic_ns()
                os.kill(pid, signal.SIGKILL)
                return sent_ns
            time.sleep(PERIOD)
        raise TrialFailed("it did not grow as it should")

    def _look(self) -> tuple[int, int]:
        memory = self._reader.memory(self._cgroup.name)
        if memory is None:
            raise TrialFailed("its cgroup is gone")
        return memory.working_set, memory.inactive_file or 0


@contextmanager
def polling(mounts: CgroupMounts, usage_file: str) -> Iterator[Poller]:
    """With a cgroup of its own, which is gone afterwards."""
    cgroup = Cgroup(mounts, f"jettison-bench-{os.getpid()}")
    directory = cgroup.directory("memory")
    assert directory is not None
    cgroup.create()
    poller = Poller(cgroup, directory / usage_file)
    try:
        yield poller
    finally:
        poller.close()
