"""The words of cgroup version 1: file names and the form of their values."""

from __future__ import annotations

from collections.abc import Iterator

from jettison.runtimes.linux.cgroups.limits import UNLIMITED, Limits, Setting

MEMORY_USAGE = "memory.usage_in_bytes"
MEMORY_LIMIT = "memory.limit_in_bytes"
# Without the prefix the line counts this cgroup alone, and a pod's own cgroup holds no process.
INACTIVE_FILE = b"total_inactive_file"
OOM_CONTROL = "memory.oom_control"
EVENT_CONTROL = "cgroup.event_control"
FREEZER_STATE = "freezer.state"
CPU_USAGE_NS = "cpuacct.usage"


def settings(limits: Limits) -> Iterator[Setting]:
    """What to write where, in the order in which the kernel accepts it: a quota is checked against the period."""
    if limits.memory is not None:
        yield Setting("memory", MEMORY_LIMIT, b"%d" % limits.memory)  # -1 is the kernel's own word for unlimited
    if limits.cpu_shares is not None:
        yield Setting("cpu", "cpu.shares", b"%d" % limits.cpu_shares)
    if limits.cpu_quota_us is not None:
        yield Setting("cpu", "cpu.cfs_period_us", b"%d" % limits.cpu_period_us)
        yield Setting("cpu", "cpu.cfs_quota_us", b"%d" % limits.effective_quota_us)
    if limits.pids is not None:
        yield Setting("pids", "pids.max", b"max" if limits.pids == UNLIMITED else b"%d" % limits.pids)
