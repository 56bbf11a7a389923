"""When lines were written, told without a process between a container and its log."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from jettison.errors import ObservationError
from jettison.node.logs.log_files import Stamper, log_blocks
from jettison.runtimes.host.volumes import logs
from jettison.runtimes.host.volumes.log_times import MOST_MARKS, LogTimes, Mark, Marks, note, times_file

SECOND = 10**9
NOON = 1893456000 * SECOND


def write(path: Path, text: str, time_s: float) -> None:
    """As a container would at that time, with a look of the agent right after it."""
    with path.open("a") as file:
        file.write(text)
    moment = NOON + round(time_s * SECOND)
    os.utime(path, ns=(moment, moment))


def shown(path: Path, *, tail: int | None = None, since_s: float | None = None, has_times: bool = True) -> str:
    since_ns = None if since_s is None else NOON + round(since_s * SECOND)
    blocks = log_blocks(path, tail, since_ns, Stamper() if has_times else None)
    return b"".join(block for block, _ in blocks).decode()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three looks: at 1 s, 2 s and 5 s; and what was written at 9 s, when no agent looked."""
    path = tmp_path / "0.log"
    for time_s, text in ((1, "a\nb\n"), (2, "c\npar"), (5, "tial\nd\n")):
        write(path, text, time_s)
        note(str(path))
    write(path, "e\nf", 9)
    return path


def test_every_line_has_the_time_of_the_look_after_it(log: Path) -> None:
    lines = [line.split(" ") for line in shown(log).split("\n")]
    assert [(line[0][17:19], line[1]) for line in lines] == [
        ("01", "a"),
        ("01", "b"),
        ("02", "c"),
        ("05", "partial"),
        ("05", "d"),
        ("09", "e"),
        ("09", "f"),
    ]
    assert lines[0][0] == "2030-01-01T00:00:01.000000000Z"


@pytest.mark.parametrize(
    ("since_s", "text"),
    [
        (0, "a\nb\nc\npartial\nd\ne\nf"),
        (1, "a\nb\nc\npartial\nd\ne\nf"),
        (1.5, "c\npartial\nd\ne\nf"),
        (3, "partial\nd\ne\nf"),
        (5.5, "e\nf"),
        (9, "e\nf"),
        (10, ""),
    ],
)
def test_since_takes_whole_lines_and_none_that_is_newer_is_missed(log: Path, since_s: float, text: str) -> None:
    assert shown(log, since_s=since_s, has_times=False) == text


def test_since_and_tail_both_count(log: Path) -> None:
    assert shown(log, since_s=3, tail=2, has_times=False) == "e\nf"
    assert shown(log, since_s=5.5, tail=5, has_times=False) == "e\nf"


def test_times_are_rotated_with_the_log(log: Path) -> None:
    write(log, "\n", 9)
    before = shown(log)
    logs.rotate(log)
    os.utime(f"{log}.1", ns=(NOON + 9 * SECOND, NOON + 9 * SECOND))
    assert shown(log) == before
    write(log, "g\n", 20)
    note(str(log))
    logs.rotate(log)
    write(log, "h\n", 30)
    assert shown(log).startswith(before)
    assert [line[17:19] for line in shown(log).split("\n")[-3:-1]] == ["20", "30"]
    assert shown(log, since_s=25, has_times=False) == "h\n"


def test_a_log_that_does_not_grow_costs_no_mark(log: Path) -> None:
    times = LogTimes()
    for _ in range(5):
        times.look([str(log)])
    size = Path(times_file(log)).stat().st_size
    times.look([str(log), str(log.with_name("gone.log"))])
    times.close()
    note(str(log))  # the next agent
    assert Path(times_file(log)).stat().st_size == size == 4 * 16


def test_a_container_that_cuts_its_own_log_begins_anew(log: Path) -> None:
    os.truncate(log, 0)
    write(log, "x\n", 50)
    note(str(log))
    assert shown(log) == "2030-01-01T00:00:50.000000000Z x\n"


def test_only_logs_that_have_grown_are_looked_at(log: Path) -> None:
    """What has not is told by nothing, and costs nothing."""
    other, paths = log.with_name("1.log"), [str(log), str(log.with_name("1.log"))]
    times = LogTimes()
    assert times.grown(paths) == paths
    times.look(paths)
    # One that is not there could not be followed, and is looked for again.
    assert times.grown(paths) == paths[1:]
    write(other, "x\n", 10)
    times.look(paths[1:])
    assert times.grown(paths) == []
    write(log, "y\n", 20)
    write(log, "y\n", 20)
    assert times.grown(paths) == paths[:1]
    assert times.grown(paths) == paths[:1], "until it was looked at"
    times.look(paths[:1])
    assert times.grown(paths) == []
    times.forget(paths[:1])
    assert times.grown(paths) == paths[1:]
    times.close()


def test_marks_are_bounded_and_old_lines_keep_a_time(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    for number in range(500):
        write(path, f"{number}\n", number)
        note(str(path), most=64, recent=16)
    assert Path(times_file(path)).stat().st_size <= 65 * 16
    lines = [line.split(" ") for line in shown(path).splitlines()]
    seconds = [int(time[17:19]) + 60 * int(time[14:16]) for time, _ in lines]
    assert [text for _, text in lines] == [str(number) for number in range(500)]
    assert seconds == sorted(seconds)
    assert all(second >= number for number, second in enumerate(seconds))
    assert seconds[-16:] == list(range(484, 500))
    assert MOST_MARKS == 8192


@pytest.mark.parametrize(
    "data", [b"", b"x", b"\xff" * 15, b"\xff" * 16, b"\x00" * 1000, random.Random(7).randbytes(999)]
)
def test_damaged_marks_cost_accuracy_and_nothing_else(log: Path, data: bytes) -> None:
    Path(times_file(log)).write_bytes(data)
    assert [line.split(" ")[1] for line in shown(log).split("\n")] == ["a", "b", "c", "partial", "d", "e", "f"]
    assert shown(log, since_s=100, has_times=False) in ("", "a\nb\nc\npartial\nd\ne\nf")
    note(str(log))


def test_marks_that_are_none_are_neither_waited_for_nor_read(log: Path) -> None:
    """A container that may write there can put anything in their place: a pipe takes 4,096 marks and then waits."""
    marks = Path(times_file(log))
    marks.unlink()
    os.mkfifo(marks)
    with pytest.raises(OSError, match="Not a plain file"):
        note(str(log))
    marks.unlink()
    with marks.open("wb") as file:
        file.truncate(2**40)
    note(str(log))
    assert marks.stat().st_size == 16


def test_a_link_in_the_place_of_a_log_is_not_followed(log: Path) -> None:
    """A pod that may write in the directory of logs would have its reader shown any file of the host."""
    secret = log.with_name("secret")
    log.rename(secret)
    log.symlink_to(secret)
    for tail in (None, 1):
        with pytest.raises(ObservationError, match="symbolic links"):
            shown(log, tail=tail, has_times=False)


def test_time_never_goes_back() -> None:
    """Also when the clock does."""
    marks = Marks([Mark(50, 10), Mark(20, 20), Mark(60, 15), Mark(70, 30)], 5)
    assert [marks.time_ns(end) for end in (1, 10, 11, 20, 25, 30, 31)] == [50, 50, 50, 50, 70, 70, 70]


@pytest.mark.parametrize("time_s", [-(10**9), 10**12])
def test_a_container_may_set_the_time_of_its_log_to_anything(tmp_path: Path, time_s: int) -> None:
    """The file is its user's."""
    path = tmp_path / "0.log"
    path.write_text("a\n")
    os.utime(path, (time_s, time_s))
    note(str(path))
    assert shown(path).endswith("Z a\n")
