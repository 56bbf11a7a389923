"""What a cgroup may use, in terms that both cgroup versions can express, and the words of each version for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from jettison.values import frozen

UNLIMITED = -1

# Below this the kernel answers EINVAL; a container that asks for 5m gets 10m instead of an error.
_LEAST_QUOTA_US = 1_000

_LEAST_SHARES, _MOST_SHARES = 2, 262_144


@frozen
class Limits:
    """None leaves a limit as it is, `UNLIMITED` lifts it."""

    memory: int | None = None
    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    cpu_period_us: int = 100_000
    pids: int | None = None
    # Whether the kernel kills all processes here when it has to kill for want of memory. Version 1 cannot.
    is_killed_as_one: bool | None = None

    @property
    def effective_quota_us(self) -> int:
        """The quota as the kernel will take it."""
        if self.cpu_quota_us is None or self.cpu_quota_us == UNLIMITED:
            return UNLIMITED
        return max(self.cpu_quota_us, _LEAST_QUOTA_US)


@frozen
class Setting:
    """One value for one control file of one controller."""

    controller: str
    file: str
    value: bytes


class CgroupV1:
    """Version 1: file names and the form of their values."""

    MEMORY_USAGE: Final = "memory.usage_in_bytes"
    MEMORY_LIMIT: Final = "memory.limit_in_bytes"
    # Without the prefix the line counts this cgroup alone, and a pod's own cgroup holds no process.
    INACTIVE_FILE: Final = b"total_inactive_file"
    OOM_CONTROL: Final = "memory.oom_control"
    EVENT_CONTROL: Final = "cgroup.event_control"
    FREEZER_STATE: Final = "freezer.state"
    CPU_USAGE_NS: Final = "cpuacct.usage"

    @staticmethod
    def settings(limits: Limits) -> Iterator[Setting]:
        """What to write where, in the order in which the kernel accepts it: a quota is checked against the period."""
        if limits.memory is not None:
            # -1 is the kernel's own word for unlimited.
            yield Setting("memory", CgroupV1.MEMORY_LIMIT, b"%d" % limits.memory)
        if limits.cpu_shares is not None:
            yield Setting("cpu", "cpu.shares", b"%d" % limits.cpu_shares)
        if limits.cpu_quota_us is not None:
            yield Setting("cpu", "cpu.cfs_period_us", b"%d" % limits.cpu_period_us)
            yield Setting("cpu", "cpu.cfs_quota_us", b"%d" % limits.effective_quota_us)
        if limits.pids is not None:
            yield Setting("pids", "pids.max", b"max" if limits.pids == UNLIMITED else b"%d" % limits.pids)


class CgroupV2:
    """Version 2: file names and the form of their values."""

    MEMORY_USAGE: Final = "memory.current"
    MEMORY_LIMIT: Final = "memory.max"
    INACTIVE_FILE: Final = b"inactive_file"
    MEMORY_EVENTS: Final = "memory.events"
    SUBTREE_CONTROL: Final = "cgroup.subtree_control"
    KILL: Final = "cgroup.kill"
    FREEZE: Final = "cgroup.freeze"
    CPU_STAT: Final = "cpu.stat"

    @staticmethod
    def settings(limits: Limits) -> Iterator[Setting]:
        """What to write where."""
        if limits.memory is not None:
            yield Setting("memory", CgroupV2.MEMORY_LIMIT, _number(limits.memory))
        if limits.is_killed_as_one is not None:
            yield Setting("memory", "memory.oom.group", b"%d" % limits.is_killed_as_one)
        if limits.cpu_shares is not None:
            yield Setting("cpu", "cpu.weight", b"%d" % cpu_weight(limits.cpu_shares))
        if limits.cpu_quota_us is not None:
            yield Setting("cpu", "cpu.max", b"%s %d" % (_number(limits.effective_quota_us), limits.cpu_period_us))
        if limits.pids is not None:
            yield Setting("pids", "pids.max", _number(limits.pids))


def cpu_weight(shares: int) -> int:
    """Version 1 shares (2 … 262144, normally 1024) as a version 2 weight (1 … 10000, normally 100).

    A straight line between the ends would turn the normal 1024 into 39, so that a pod which asks for one whole core
    would lose against every process outside; a parabola through the logarithms meets both ends and the normal value.
    """
    power = math.log2(min(max(shares, _LEAST_SHARES), _MOST_SHARES))
    # Rounded to 9 digits before ceil: the three exact points must not slip to 2, 101 and 10001.
    return math.ceil(round(10 ** ((power * power + 125 * power - 126) / 612), 9))


def _number(value: int) -> bytes:
    return b"max" if value == UNLIMITED else b"%d" % value
