"""Limits in the words of both versions."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from jettison.runtimes.linux.cgroups.limits import UNLIMITED, CgroupV1, CgroupV2, Limits, Setting, cpu_weight

ALL = Limits(memory=2**30, cpu_shares=1024, cpu_quota_us=50_000, pids=100, is_killed_as_one=True)
NONE = Limits(memory=UNLIMITED, cpu_shares=2, cpu_quota_us=UNLIMITED, pids=UNLIMITED, is_killed_as_one=False)


def written(settings: Iterable[Setting]) -> dict[str, bytes]:
    return {setting.file: setting.value for setting in settings}


def test_what_is_not_said_is_not_written() -> None:
    assert list(CgroupV1.settings(Limits())) == []
    assert list(CgroupV2.settings(Limits())) == []


def test_version_1() -> None:
    assert written(CgroupV1.settings(ALL)) == {
        "memory.limit_in_bytes": b"1073741824",
        "cpu.shares": b"1024",
        "cpu.cfs_period_us": b"100000",
        "cpu.cfs_quota_us": b"50000",
        "pids.max": b"100",
    }
    assert written(CgroupV1.settings(NONE)) == {
        "memory.limit_in_bytes": b"-1",
        "cpu.shares": b"2",
        "cpu.cfs_period_us": b"100000",
        "cpu.cfs_quota_us": b"-1",
        "pids.max": b"max",
    }


def test_version_2() -> None:
    assert written(CgroupV2.settings(ALL)) == {
        "memory.max": b"1073741824",
        "memory.oom.group": b"1",
        "cpu.weight": b"100",
        "cpu.max": b"50000 100000",
        "pids.max": b"100",
    }
    assert written(CgroupV2.settings(NONE)) == {
        "memory.max": b"max",
        "memory.oom.group": b"0",
        "cpu.weight": b"1",
        "cpu.max": b"max 100000",
        "pids.max": b"max",
    }


@pytest.mark.parametrize("quota_us", [0, 1, 999, 1000])
def test_the_smallest_quota_is_what_the_kernel_takes(quota_us: int) -> None:
    assert Limits(cpu_quota_us=quota_us).effective_quota_us == 1000


@pytest.mark.parametrize(("shares", "weight"), [(0, 1), (2, 1), (1024, 100), (262_144, 10_000), (10**9, 10_000)])
def test_ends_and_normal_value_of_shares_are_those_of_weights(shares: int, weight: int) -> None:
    assert cpu_weight(shares) == weight


def test_more_shares_never_weigh_less() -> None:
    weights = [cpu_weight(shares) for shares in range(2, 5000)]

    assert weights == sorted(weights)
