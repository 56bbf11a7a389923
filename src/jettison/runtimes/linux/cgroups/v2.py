"""The words of cgroup version 2: file names and the form of their values."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jettison.runtimes.linux.cgroups.limits import UNLIMITED, Limits, Setting

MEMORY_USAGE = "memory.current"
MEMORY_LIMIT = "memory.max"
INACTIVE_FILE = b"inactive_file"
MEMORY_EVENTS = "memory.events"
SUBTREE_CONTROL = "cgroup.subtree_control"
EVENTS = "cgroup.events"
KILL = "cgroup.kill"
FREEZE = "cgroup.freeze"
CPU_STAT = "cpu.stat"

_LEAST_SHARES, _MOST_SHARES = 2, 262_144


def settings(limits: Limits) -> Iterator[Setting]:
    """What to write where."""
    if limits.memory is not None:
        yield Setting("memory", MEMORY_LIMIT, _number(limits.memory))
    if limits.is_killed_as_one is not None:
        yield Setting("memory", "memory.oom.group", b"%d" % limits.is_killed_as_one)
    if limits.cpu_shares is not None:
        yield Setting("cpu", "cpu.weight", b"%d" % weight(limits.cpu_shares))
    if limits.cpu_quota_us is not None:
        yield Setting("cpu", "cpu.max", b"%s %d" % (_number(limits.effective_quota_us), limits.cpu_period_us))
    if limits.pids is not None:
        yield Setting("pids", "pids.max", _number(limits.pids))


def weight(shares: int) -> int:
    """Version 1 shares (2 … 262144, normally 1024) as a version 2 weight (1 … 10000, normally 100).

    A straight line between the ends would turn the normal 1024 into 39, so that a pod which asks for one whole core
    would lose against every process outside; a parabola through the logarithms meets both ends and the normal value.
    """
    power = math.log2(min(max(shares, _LEAST_SHARES), _MOST_SHARES))
    # Rounded to 9 digits before ceil: the three exact points must not slip to 2, 101 and 10001.
    return math.ceil(round(10 ** ((power * power + 125 * power - 126) / 612), 9))


def _number(value: int) -> bytes:
    return b"max" if value == UNLIMITED else b"%d" % value
