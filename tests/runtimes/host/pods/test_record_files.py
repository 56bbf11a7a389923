"""Lines that are written as a whole, or not at all; the last one counts."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from jettison import events
from jettison.errors import InputError, ManifestError, ObservationError, WriteError
from jettison.events import Fact
from jettison.runtimes.host.pods import record_files
from jettison.runtimes.host.pods.record_files import RecordFiles
from jettison.runtimes.host.pods.records import ContainerRecord, PodRecord
from tests.runtimes.host.scenes import HangingDisk

RECORD = PodRecord("uid-1", {"kind": "Pod"}, created_ns=5)


def play(directory: Path, scenario: Callable[[RecordFiles, list[Fact]], Awaitable[None]]) -> None:
    async def run() -> None:
        with ThreadPoolExecutor(1) as pool:
            facts: list[Fact] = []
            files = RecordFiles(directory, pool, facts.append)
            files.load()
            await scenario(files, facts)
            await files.settle()

    asyncio.run(run())


def test_what_was_saved_is_found_again_oldest_first(tmp_path: Path) -> None:
    async def scenario(files: RecordFiles, _: list[Fact]) -> None:
        await files.save(replace(RECORD, uid="younger", created_ns=9)).done()
        await files.save(RECORD).done()
        await files.save(replace(RECORD, origin="second")).done()
        assert [(each.uid, each.origin) for each in files.load().records] == [("uid-1", "second"), ("younger", "")]
        await files.forget("younger")
        await files.forget("never-there")
        assert [each.uid for each in files.load().records] == ["uid-1"]

    play(tmp_path / "deep" / "pods", scenario)


def test_a_file_does_not_grow_without_limit(tmp_path: Path) -> None:
    async def scenario(files: RecordFiles, _: list[Fact]) -> None:
        large = replace(RECORD, document={"x": "y" * 3000})
        path = tmp_path / "uid-1.json"
        sizes = []
        for number in range(60):
            await files.save(replace(large, created_ns=number)).done()
            sizes.append(path.stat().st_size)
            await files.settle()
            sizes.append(path.stat().st_size)
        assert 60_000 < max(sizes) < 70_000
        assert min(sizes[20:]) < 4000
        assert files.load().records[0].created_ns == 59
        huge = replace(RECORD, document={"x": "y" * 100_000})
        for number in range(10):
            await files.save(replace(huge, created_ns=number)).done()
            await files.settle()
        assert path.stat().st_size < 500_000
        assert files.load().records[0].created_ns == 9

    play(tmp_path, scenario)


def test_what_is_saved_while_a_file_is_shortened_is_in_it_before_and_after(tmp_path: Path) -> None:
    """The disk hangs meanwhile. After each record the agent might be killed: what is there then is the newest."""
    large = replace(RECORD, document={"x": "y" * 30_000})

    async def scenario() -> None:
        may_move = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(may_move.wait)
            files = RecordFiles(tmp_path, pool, list[Fact]().append)
            for number in range(20):
                await files.save(replace(large, created_ns=number)).done()
                assert _on_disk(tmp_path) == number
            may_move.set()
            await files.settle()
            assert _on_disk(tmp_path) == 19
            assert [path.name for path in tmp_path.iterdir()] == ["uid-1.json"]

    asyncio.run(scenario())


def test_what_is_saved_just_when_the_shortened_file_takes_its_place_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = replace(RECORD, document={"x": "y" * 30_000})
    real = record_files._append_if_there

    def moved_before(path: Path, line: bytes) -> bool:
        record_files._move(path, path.with_suffix(""))
        return real(path, line)

    monkeypatch.setattr(record_files, "_append_if_there", moved_before)

    async def scenario() -> None:
        may_move = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(may_move.wait)
            files = RecordFiles(tmp_path, pool, list[Fact]().append)
            for number in range(10):
                await files.save(replace(large, created_ns=number)).done()
                assert _on_disk(tmp_path) == number
            may_move.set()
            await files.settle()
            assert _on_disk(tmp_path) == 9

    asyncio.run(scenario())


def test_a_pod_that_is_forgotten_while_its_file_is_shortened_stays_forgotten(tmp_path: Path) -> None:
    large = replace(RECORD, document={"x": "y" * 30_000})

    async def scenario() -> None:
        may_move = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(may_move.wait)
            files = RecordFiles(tmp_path, pool, list[Fact]().append)
            for number in range(8):
                await files.save(replace(large, created_ns=number)).done()
            await files.forget("uid-1")
            may_move.set()
            await files.settle()
            assert list(tmp_path.iterdir()) == []

    asyncio.run(scenario())


def test_while_a_disk_hangs_the_loop_goes_on_and_keeps_one_record_of_each_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(files: RecordFiles, _: list[Fact]) -> None:
        disk = HangingDisk(monkeypatch)
        first = files.save(RECORD)
        await asyncio.to_thread(disk.begun.wait)
        later = [files.save(replace(RECORD, created_ns=number)) for number in range(100)]
        other = files.save(replace(RECORD, uid="uid-2"))
        assert len(set(later)) == 1
        assert not any(each.is_over() for each in (first, later[0], other))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await first.done()
        disk.may_write.set()
        await asyncio.gather(later[0].done(), other.done())
        assert first.is_over()
        assert [json.loads(line)["created_ns"] for line in disk.lines] == [5, 99, 5]
        assert _on_disk(tmp_path) == 99

    play(tmp_path, scenario)


def test_no_record_comes_after_the_pod_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(files: RecordFiles, _: list[Fact]) -> None:
        disk = HangingDisk(monkeypatch)
        saving = files.save(RECORD)
        forgetting = asyncio.create_task(files.forget("uid-1"))
        await asyncio.to_thread(disk.begun.wait)
        disk.may_write.set()
        await forgetting
        assert saving.is_over()
        assert list(tmp_path.iterdir()) == []

    play(tmp_path, scenario)


def _on_disk(directory: Path) -> int:
    *_, last = (directory / "uid-1.json").read_bytes().splitlines()
    return int(json.loads(last)["created_ns"])


@pytest.mark.parametrize(
    "tail", [b'{"uid": "uid-1", "docum', b"\0" * 500, b"\xff\n", b"\n\n", b'{"uid": "x", "document": {}}\n']
)
def test_of_a_torn_file_the_last_whole_line_counts(tmp_path: Path, tail: bytes) -> None:
    async def scenario(files: RecordFiles, _: list[Fact]) -> None:
        await files.save(replace(RECORD, origin="old")).done()
        await files.save(RECORD).done()
        with (tmp_path / "uid-1.json").open("ab") as file:
            file.write(tail)
        assert files.load().records == (RECORD,)
        await files.save(replace(RECORD, origin="new")).done()
        assert [each.origin for each in files.load().records] == ["new"]

    play(tmp_path, scenario)


def test_a_line_that_was_torn_before_its_end_is_not_continued(tmp_path: Path) -> None:
    async def scenario(files: RecordFiles, _: list[Fact]) -> None:
        await files.save(RECORD).done()
        path = tmp_path / "uid-1.json"
        path.write_bytes(path.read_bytes().rstrip())
        assert files.load().records == (RECORD,)
        await files.save(replace(RECORD, origin="new")).done()
        assert [each.origin for each in files.load().records] == ["new"]

    play(tmp_path, scenario)


def test_only_we_can_read_them(tmp_path: Path) -> None:
    async def scenario(files: RecordFiles, _: list[Fact]) -> None:
        await files.save(RECORD).done()
        assert stat.S_IMODE((tmp_path / "pods" / "uid-1.json").stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "pods").stat().st_mode) == 0o700

    play(tmp_path / "pods", scenario)


def test_broken_files_are_put_aside_and_reported_once(tmp_path: Path) -> None:
    async def scenario(files: RecordFiles, _: list[Fact]) -> None:
        await files.save(RECORD).done()
        (tmp_path / "torn.json").write_text('{"uid": "torn", "docum')
        (tmp_path / "empty.json").write_text("")
        (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
        (tmp_path / "other.json").write_text('{"uid": "another-pod", "document": {}}')
        (tmp_path / "hostile.json").write_text('{"uid": "../../etc/passwd", "document": {}}')
        (tmp_path / "deep.json").write_text('{"uid": "deep", "document": ' + '{"a":' * 5000 + "0" + "}" * 5001)
        (tmp_path / "circle.json").symlink_to(tmp_path / "circle.json")
        (tmp_path / "nowhere.json").symlink_to(tmp_path / "gone")
        (tmp_path / "uid-1.json.tmp").write_text("half")
        found = files.load()
        assert found.records == (RECORD,)
        assert len(found.broken) == 8
        assert any("it speaks of pod `another-pod`" in why for why in found.broken)
        assert not files.load().broken
        assert files.load().records == (RECORD,)
        assert not (tmp_path / "uid-1.json.tmp").exists()
        assert (tmp_path / "torn.json.broken").exists()

    play(tmp_path, scenario)


@pytest.mark.parametrize("uid", ["", "..", "a/b", "../x", "a\0"])
def test_a_hostile_uid_names_no_file(tmp_path: Path, uid: str) -> None:
    async def scenario(files: RecordFiles, _: list[Fact]) -> None:
        with pytest.raises(InputError):
            await files.save(replace(RECORD, uid=uid)).done()
        with pytest.raises(InputError):
            await files.forget(uid)

    play(tmp_path, scenario)


@pytest.mark.parametrize("value", ["\ud800", object()])
def test_what_is_not_json_is_refused_and_the_old_record_stays(tmp_path: Path, value: object) -> None:
    async def scenario(files: RecordFiles, _: list[Fact]) -> None:
        await files.save(RECORD).done()
        with pytest.raises(ManifestError, match="pod `uid-1` cannot be written as JSON"):
            await files.save(replace(RECORD, document={"x": value})).done()
        assert files.load().records == (RECORD,)

    play(tmp_path, scenario)


def fill(path: Path) -> None:
    """Until the disk is full."""
    with path.open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(b"x" * 65536)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small filesystem")
def test_on_a_full_disk_the_old_record_stays(tmp_path: Path, small_disk: Path) -> None:
    async def scenario(files: RecordFiles, _: list[Fact]) -> None:
        await files.save(RECORD).done()
        fill(small_disk / "filler")
        larger = replace(RECORD, containers=tuple(ContainerRecord(f"c{number}" * 50) for number in range(200)))
        with pytest.raises(WriteError, match="cannot record pod `uid-1`: no space left on device"):
            await files.save(larger).done()
        assert files.load().records == (RECORD,)
        (small_disk / "filler").unlink()
        await files.save(larger).done()
        assert files.load().records == (larger,)

    play(small_disk / "pods", scenario)


def test_a_directory_that_cannot_be_made_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ObservationError, match="cannot read records"):
        play(tmp_path / "file" / "pods", _nothing)


async def _nothing(_files: RecordFiles, _facts: list[Fact]) -> None:
    return


def test_a_disk_that_does_not_take_it_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    async def scenario(files: RecordFiles, facts: list[Fact]) -> None:
        monkeypatch.setattr(os, "fsync", fails)
        await files.save(RECORD).done()
        await files.settle()
        assert facts == [events.ActionFailed("bring records to the disk", "input/output error")]

    play(tmp_path, scenario)
