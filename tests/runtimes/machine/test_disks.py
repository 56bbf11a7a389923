from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jettison.clock import SystemClock
from jettison.runtimes.linux.files.disk_usage import DiskUsage, measure
from jettison.runtimes.machine.disks import DiskWatch
from tests.builders import MI
from tests.runtimes.host.nodes import descriptors


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def watch(pool: ThreadPoolExecutor, period: float = 10, patience: float = 5) -> DiskWatch:
    return DiskWatch(pool, SystemClock(), period, patience)


def test_trees_are_measured_whole_and_logs_by_their_plain_files(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    tree, logs = tmp_path / "tree", tmp_path / "logs"
    (tree / "deep/er").mkdir(parents=True)
    (tree / "deep/er/file").write_bytes(b"x" * MI)
    (logs / "nested").mkdir(parents=True)
    for name in ("0.log", "1.log", "nested/no.log"):
        (logs / name).write_bytes(b"x" * 8192)
    (logs / "link").symlink_to(tree / "deep/er/file")

    async def scenario() -> None:
        disks = watch(pool)
        disks.want({str(tree): False, str(logs): True})
        assert disks.usages == {}
        await disks.refresh(patience=10)
        assert disks.usages[str(tree)] == measure(tree)
        assert disks.usages[str(logs)] == DiskUsage(16384, 2)
        await disks.close()

    asyncio.run(scenario())


def test_a_round_runs_when_it_is_due_or_a_pod_is_new(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()

    async def settle(disks: DiskWatch) -> None:
        await disks.refresh()
        while disks._running is not None or disks._soon is not None:
            await asyncio.sleep(0.001)

    async def scenario() -> None:
        disks = watch(pool)
        disks.want({str(one): False})
        await settle(disks)
        (one / "file").write_text("x")
        await settle(disks)
        assert disks.usages[str(one)].inodes == 1, "it is not due yet"
        disks.want({str(one): False, str(two): False})
        await settle(disks)
        assert {path: usage.inodes for path, usage in disks.usages.items()} == {str(one): 2, str(two): 1}
        disks.want({str(two): False})
        await disks.refresh(patience=10)
        assert disks.usages.keys() == {str(two)}
        await disks.close()

    asyncio.run(scenario())


def test_a_large_directory_is_measured_in_several_rounds_and_never_shrinks_meanwhile(
    pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    large.mkdir()
    small.mkdir()
    for number in range(3500):
        (large / f"{number}").touch()

    async def scenario() -> None:
        disks = watch(pool, patience=0)  # no patience at all: one portion of 1,000 entries a round
        disks.want({str(large): False, str(small): False})
        counts = []
        for _ in range(5):
            await disks.refresh(patience=10)
            counts.append(disks.usages[str(large)].inodes)
            assert disks.usages[str(small)].inodes == 1
        assert counts[:3] == [1001, 2001, 3001]
        assert counts[3:] == [3501, 3501], "complete, then half way again with the last result still counting"
        before = descriptors()
        await disks.close()
        assert descriptors() < before

    asyncio.run(scenario())


def test_what_vanishes_is_missing_and_what_cannot_be_read_is_named(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    gone, loop = tmp_path / "gone", tmp_path / "a"
    loop.symlink_to(loop)

    async def scenario() -> None:
        disks = watch(pool)
        disks.want({str(gone): False, str(gone / "logs"): True, str(loop / "x"): False})
        await disks.refresh(patience=10)
        assert disks.usages == {}
        assert list(disks.failures) == [str(loop / "x")]
        assert "cannot read" in disks.failures[str(loop / "x")]
        await disks.close()

    asyncio.run(scenario())


def test_a_hurried_caller_does_not_wait_for_long(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    async def scenario() -> None:
        disks = watch(pool)
        blocker = asyncio.Event()
        loop = asyncio.get_running_loop()
        pool.submit(lambda: asyncio.run_coroutine_threadsafe(blocker.wait(), loop).result())
        disks.want({str(tmp_path): False})
        async with asyncio.timeout(30):
            await disks.refresh(patience=0.02)
        assert disks.usages == {}
        blocker.set()
        await disks.refresh(patience=10)
        assert str(tmp_path) in disks.usages
        await disks.close()

    asyncio.run(scenario())
