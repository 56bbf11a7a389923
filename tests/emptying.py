"""Emptying a cgroup of a test: what is left behind would disturb the next one."""

from __future__ import annotations

import time

from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.kill import kill


def kill_until_empty(cgroup: Cgroup, timeout: float) -> frozenset[int]:
    """Kill until no process is left, sleeping in between; returns what remains after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    pause = 0.0005
    while survivors := kill(cgroup):
        if time.monotonic() >= deadline:
            return survivors
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return frozenset()
