"""The journal survives what can happen to it: a crash at any byte, a full disk, readers, rotation, decay."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jettison.agent.journal.files import MAGIC, SegmentReader, segment_path, segments
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.reading import PodQuery, Record, read_journal
from jettison.agent.journal.records import fact_record
from jettison.errors import ObservationError, WriteError
from jettison.events import AgentStopped

ROUNDS_OF_KILLING = 12


def record(number: int, pod: str = "a", **more: Any) -> dict[str, Any]:
    names = [("default", pod, f"uid-{pod}")]
    return {"version": 1, "kind": "fact", "time": number, "node": "n", "pods": names, "event": "e", "values": more}


def written(directory: Path, numbers: range, **more: Any) -> None:
    journal = Journal.open(directory)
    for number in numbers:
        assert journal.append(record(number, **more))
    journal.close()


def times(directory: Path) -> list[int]:
    return [each.time_ns for each in read_journal(directory)]


def test_records_are_read_in_either_order(tmp_path: Path) -> None:
    written(tmp_path, range(5), note="ü\n")

    assert times(tmp_path) == [0, 1, 2, 3, 4]
    assert [each.time_ns for each in read_journal(tmp_path, newest_first=True)] == [4, 3, 2, 1, 0]
    assert next(read_journal(tmp_path)).values == {"note": "ü\n"}


def test_a_journal_is_continued(tmp_path: Path) -> None:
    written(tmp_path, range(3))
    written(tmp_path, range(3, 5))

    assert times(tmp_path) == [0, 1, 2, 3, 4]
    assert len(segments(tmp_path)) == 1


def test_a_crash_at_any_byte_costs_only_the_record_it_hit(tmp_path: Path) -> None:
    written(tmp_path, range(4), note="x" * 20)
    whole = segment_path(tmp_path, 1).read_bytes()
    with SegmentReader(segment_path(tmp_path, 1)) as reader:
        ends = [place + length for place, length in reader.frames()]
    assert len(ends) == 4
    assert ends[-1] == len(whole)

    for place in range(len(whole) + 1):
        directory = tmp_path / str(place)
        directory.mkdir()
        segment_path(directory, 1).write_bytes(whole[:place])
        survivors = list(range(sum(end <= place for end in ends)))
        assert times(directory) == survivors, f"torn at {place}, read"
        written(directory, range(9, 10))
        assert times(directory) == [*survivors, 9], f"torn at {place}, continued"


def test_garbage_behind_the_last_record_is_cut_off(tmp_path: Path) -> None:
    written(tmp_path, range(2))
    path = segment_path(tmp_path, 1)
    for garbage in (b"\0" * 100, b"\xff" * 100, b"\x10\0\0\0garbage and more garbage", os.urandom(1000)):
        clean = path.read_bytes()
        path.write_bytes(clean + garbage)

        assert times(tmp_path) == [0, 1]
        Journal.open(tmp_path).close()
        assert path.read_bytes() == clean


def test_a_record_that_the_disk_spoiled_hides_no_other(tmp_path: Path) -> None:
    written(tmp_path, range(3), note="y" * 50)
    path = segment_path(tmp_path, 1)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    assert times(tmp_path) == [0, 2]
    written(tmp_path, range(3, 4))
    assert times(tmp_path) == [0, 2, 3]


WRITER = """
import sys
from pathlib import Path
from jettison.agent.journal.journal import Journal
journal = Journal.open(Path(sys.argv[1]), segment_bytes=20_000, total_bytes=10_000_000)
number = int(sys.argv[2])
while True:
    number += 1
    note = "z" * (number * 7919 % 3000)
    record = {"version": 1, "kind": "fact", "time": number, "node": "n", "pods": [], "values": {"note": note}}
    assert journal.append(record)
    assert number % 3 or journal.sync()
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def test_no_acknowledged_record_is_lost_when_the_writer_is_killed(tmp_path: Path) -> None:
    last = 0
    for round_ in range(ROUNDS_OF_KILLING):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(last)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline())]
        time.sleep(0.004 * (round_ % 8))
        writer.send_signal(signal.SIGKILL)
        # A line may be torn by the kill; then its record was written and just not acknowledged in full.
        acknowledged += [int(line) for line in writer.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]
        writer.wait()
        writer.stdout.close()

        found = list(read_journal(tmp_path))
        numbers = [each.time_ns for each in found]
        assert numbers == list(range(1, len(numbers) + 1))
        assert numbers[-1] >= acknowledged[-1]
        assert all(each.values["note"] == "z" * (each.time_ns * 7919 % 3000) for each in found)
        last = numbers[-1]
    assert last > ROUNDS_OF_KILLING
    assert len(segments(tmp_path)) > 1


def test_the_oldest_segments_go_when_the_bound_is_reached(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, segment_bytes=4000, total_bytes=20_000)
    for number in range(400):
        assert journal.append(record(number, note=os.urandom(200).hex()))
        assert sum(path.stat().st_size for _, path in segments(tmp_path)) <= 20_000
    journal.close()

    kept = times(tmp_path)
    assert kept == list(range(kept[0], 400))
    assert 40 < len(kept) < 100
    assert [each.time_ns for each in read_journal(tmp_path, newest_first=True)] == kept[::-1]


def test_a_record_larger_than_a_segment_is_kept(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, segment_bytes=1000)
    for number in range(3):
        assert journal.append(record(number, note=os.urandom(4000).hex()))
    journal.close()

    assert times(tmp_path) == [0, 1, 2]


def test_readers_see_whole_records_while_the_agent_writes(tmp_path: Path) -> None:
    stop = threading.Event()
    journal = Journal.open(tmp_path, segment_bytes=50_000, total_bytes=400_000)
    assert journal.append(record(0, note="n0"))

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            assert journal.append(record(number, note=f"n{number}" * (number % 200 + 1)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        deadline, seen = time.monotonic() + 1, 0
        while time.monotonic() < deadline:
            found = list(read_journal(tmp_path))
            numbers = [each.time_ns for each in found]
            assert numbers == sorted(set(numbers))
            assert numbers[-1] >= seen
            seen = numbers[-1]
            for each in found[-5:]:
                assert each.values["note"] == f"n{each.time_ns}" * (each.time_ns % 200 + 1 if each.time_ns else 1)
    finally:
        stop.set()
        writer.join()
    journal.close()


def test_only_one_agent_writes(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)

    with pytest.raises(WriteError, match="in use by another agent"):
        Journal.open(tmp_path)

    journal.close()
    Journal.open(tmp_path).close()


def test_a_segment_of_another_version_is_left_alone(tmp_path: Path) -> None:
    foreign = b"jettisn9" + b"whatever"
    segment_path(tmp_path, 4).write_bytes(foreign)

    written(tmp_path, range(2))

    assert segment_path(tmp_path, 4).read_bytes() == foreign
    assert times(tmp_path) == [0, 1]
    assert [number for number, _ in segments(tmp_path)] == [4, 5]


def test_other_files_in_the_directory_do_not_matter(tmp_path: Path) -> None:
    for name in ("x.journal", "notes", "٣.journal", "0000000002.journal.bak"):
        (tmp_path / name).write_bytes(MAGIC)

    written(tmp_path, range(1))

    assert times(tmp_path) == [0]


def test_no_journal_yet_is_an_empty_one(tmp_path: Path) -> None:
    assert times(tmp_path / "nothing") == []


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    written(tmp_path / "journal", range(1))

    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o700
    assert segment_path(tmp_path / "journal", 1).stat().st_mode & 0o777 == 0o600


def test_a_place_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(WriteError, match="cannot use"):
        Journal.open(tmp_path / "file" / "journal")
    with pytest.raises(ObservationError, match="cannot read the journal"):
        times(tmp_path / "file")


def test_a_record_that_could_not_be_read_is_refused(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, largest_record=300)

    assert not journal.append(record(1, note=os.urandom(400).hex()))

    assert "too large" in journal.failure
    assert journal.append(record(2))
    journal.close()
    assert times(tmp_path) == [2]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 512 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a filesystem takes root")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "jettison-test", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)  # a failed test has the journal open


def fill(directory: Path) -> None:
    """Until not a byte is left, as a runaway pod does."""
    with (directory / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"f" * 4096)
        except OSError:
            return


def test_a_full_disk_does_not_stop_the_journal(small_disk: Path) -> None:
    """Its blocks were reserved before, and the oldest segment makes room for the next one."""
    directory = small_disk / "journal"
    journal = Journal.open(directory, segment_bytes=32_768, total_bytes=200_000)
    for number in range(100):
        assert journal.append(record(number, note=os.urandom(200).hex()))
    assert len(segments(directory)) == 2
    fill(small_disk)

    for number in range(100, 300):
        assert journal.append(record(number, note=os.urandom(200).hex())), journal.failure
        assert journal.sync(), journal.failure
    journal.close()

    kept = times(directory)
    assert kept == list(range(kept[0], 300))
    assert len(kept) > 30


def test_an_agent_starts_on_a_full_disk(small_disk: Path) -> None:
    fill(small_disk)
    journal = Journal.open(small_disk / "journal", segment_bytes=32_768)

    assert not all(journal.append(record(number, note=os.urandom(2000).hex())) for number in range(40))
    assert journal.failures > 0
    assert journal.failure == "no space left on device"
    whole = times(small_disk / "journal")

    (small_disk / "filler").unlink()
    assert journal.append(record(99))
    assert times(small_disk / "journal") == [*whole, 99]
    journal.close()


def test_space_that_was_reserved_is_given_back(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, segment_bytes=2**20)
    assert journal.append(record(1))
    assert journal.sync()
    path = segment_path(tmp_path, 1)
    assert path.stat().st_blocks * 512 >= 2**20
    assert path.stat().st_size < 1000

    journal.close()

    assert path.stat().st_blocks * 512 < 2**16


def found(directory: Path, **query: Any) -> list[Record]:
    return list(read_journal(directory, **query))


def test_records_are_found_by_pod_and_by_time(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    for number in range(6):
        assert journal.append(record(number, pod="ab"[number % 2]))
    journal.close()

    def numbers(**query: Any) -> list[int]:
        return [each.time_ns for each in found(tmp_path, **query)]

    assert numbers(about=PodQuery("a")) == [0, 2, 4]
    assert numbers(about=PodQuery("a", "default")) == [0, 2, 4]
    assert numbers(about=PodQuery("a", "other")) == []
    assert numbers(about=PodQuery(uid="uid-b")) == [1, 3, 5]
    assert numbers(about=PodQuery("a", uid="uid-b")) == []
    assert numbers(since_ns=2, until_ns=4) == [2, 3]
    assert numbers(since_ns=2, about=PodQuery("b"), newest_first=True) == [5, 3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web", PodQuery("web")),
        ("shop/web", PodQuery("web", "shop")),
        ("shop/", PodQuery("", "shop")),
    ],
)
def test_a_pod_is_asked_for_as_people_write_it(text: str, expected: PodQuery) -> None:
    assert PodQuery.parse(text) == expected


def test_a_name_may_be_the_uid_that_another_tool_printed() -> None:
    assert PodQuery.parse("uid-a").matches(("default", "a", "uid-a"))
    assert not PodQuery.parse("default/uid-a").matches(("default", "a", "uid-a"))


@pytest.mark.parametrize("bit", [0, 3, 9, 17, 25, 31])
def test_a_spoiled_length_hides_no_other_record(tmp_path: Path, bit: int) -> None:
    """Nor does the next agent cut off what is behind it."""
    written(tmp_path, range(5), note="y" * 5000)
    path = segment_path(tmp_path, 1)
    with SegmentReader(path) as reader:
        place = [place for place, _ in reader.frames()][1] - 8
    data = bytearray(path.read_bytes())
    data[place + bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)

    assert times(tmp_path) == [0, 2, 3, 4]
    written(tmp_path, range(5, 6))
    assert times(tmp_path) == [0, 2, 3, 4, 5]


@pytest.mark.parametrize("make", [lambda path: path.write_text("no journal"), os.mkfifo], ids=["a file", "a pipe"])
def test_what_is_in_the_place_of_a_journal_makes_way(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "journal")

    journal = Journal.open(tmp_path / "journal")
    assert journal.append({"version": 1})
    journal.close()

    (complaint,) = journal.complaints
    assert "is not a directory; it is kept as" in complaint
    assert (tmp_path / "journal.broken").exists()
    again = Journal.open(tmp_path / "journal")
    again.close()
    assert again.complaints == []


@pytest.mark.parametrize(
    ("make", "is_said"),
    [
        (lambda path: path.mkdir(), True),
        (os.mkfifo, True),
        (lambda path: path.symlink_to(path), True),
        (lambda path: path.write_bytes(b"garbage" * 9), True),
        (lambda path: path.write_bytes(b""), False),
        # It is another version's, and no business of ours.
        (lambda path: path.write_bytes(b"jettisn9 and so on"), False),
    ],
    ids=["a directory", "a pipe", "a loop", "garbage", "nothing", "another version's"],
)
def test_a_damaged_segment_is_set_aside_and_the_rest_is_read(
    tmp_path: Path, make: Callable[[Path], object], is_said: bool
) -> None:
    journal = Journal.open(tmp_path)
    assert journal.append(fact_record(AgentStopped("before"), 5, "node1"))
    journal.close()
    damaged = segment_path(tmp_path, 2)
    make(damaged)
    (tmp_path / "3.journal").mkdir()
    (tmp_path / f"{'9' * 200}.journal").write_bytes(b"")

    journal = Journal.open(tmp_path)
    assert journal.append(fact_record(AgentStopped("after"), 6, "node1"))
    journal.close()

    assert [str(damaged) in each for each in journal.complaints] == [True] * is_said
    assert os.path.lexists(f"{damaged}.broken") is is_said
    assert [record.values["node"] for record in read_journal(tmp_path)] == ["before", "after"]


def _listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize(
    "make",
    [os.mkfifo, Path.mkdir, _listening, lambda path: path.symlink_to(path)],
    ids=["a pipe", "a directory", "a socket", "a loop"],
)
def test_what_is_in_the_way_of_the_next_segment_is_set_aside(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """While the agent runs: to wait for a pipe's reader would be the end of guarding."""
    journal = Journal.open(tmp_path, segment_bytes=500)
    make(segment_path(tmp_path, 2))
    for number in range(9):
        assert journal.append(fact_record(AgentStopped("x" * 100), number, "node1"))
    journal.close()
    assert segment_path(tmp_path, 2).is_file()
    assert journal.failures == 0
    assert len(times(tmp_path)) == 9
