"""Logs that are written by the containers themselves, and rotated under their hands."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from jettison.errors import WriteError
from jettison.runtimes.host.volumes import logs
from tests.builders import pod as make_pod

MI = 2**20


def numbered(path: Path) -> list[str]:
    return [file.name for file in logs.files_of(path)]


def test_the_directory_is_named_as_the_kubelet_names_it(tmp_path: Path) -> None:
    assert logs.pod_log_dir(tmp_path, make_pod("web")).name == "default_web_web"


def test_a_log_is_appended_to_by_each_process_that_opens_it(tmp_path: Path) -> None:
    for word in (b"one\n", b"two\n"):
        descriptor = logs.open_log(tmp_path / "pod" / "c", 3)
        os.write(descriptor, word)
        os.close(descriptor)
    assert logs.log_file(tmp_path / "pod" / "c", 3).read_bytes() == b"one\ntwo\n"


def test_a_log_is_never_opened_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "0.log").symlink_to(tmp_path / "passwd")
    with pytest.raises(WriteError, match="cannot open log"):
        logs.open_log(tmp_path, 0)
    assert not (tmp_path / "passwd").exists()


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A container that runs as root can put a pipe where its next log will be."""
    os.mkfifo(tmp_path / "0.log")
    (tmp_path / "1.log").mkdir()
    os.mkfifo(tmp_path / "2.log")
    reader = os.open(tmp_path / "2.log", os.O_RDONLY | os.O_NONBLOCK)
    try:
        for run in range(3):
            with pytest.raises(WriteError, match="cannot open log"):
                logs.open_log(tmp_path, run)
    finally:
        os.close(reader)


def test_rotation_keeps_five_files_and_the_writer_notices_nothing(tmp_path: Path) -> None:
    descriptor = logs.open_log(tmp_path, 0)
    path = logs.log_file(tmp_path, 0)
    try:
        for number in range(7):
            os.write(descriptor, b"%d\n" % number)
            logs.rotate(path)
        os.write(descriptor, b"last\n")
    finally:
        os.close(descriptor)
    assert numbered(path) == ["0.log.4", "0.log.3", "0.log.2", "0.log.1", "0.log"]
    assert [file.read_text() for file in logs.files_of(path)] == ["3\n", "4\n", "5\n", "6\n", "last\n"]
    # Each with the times of its lines, but for the last, which no agent has looked at yet.
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(
        ["0.log", *(f"0.log.{number}{end}" for number in range(1, 5) for end in ("", ".times"))]
    )


def test_a_log_is_due_when_it_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    assert not logs.is_due(path, 0)
    path.write_bytes(b"x" * 100)
    assert logs.is_due(path, 99)
    assert not logs.is_due(path, 100)


def in_place_of(path: Path, kind: str) -> None:
    """What a container that may write there can put in the place of one of its logs."""
    match kind:
        case "loop":
            path.symlink_to(path.name)
        case "link":
            (path.parent / "precious").write_bytes(b"x" * 100)
            path.symlink_to("precious")
        case "other name":
            (path.parent / "precious").write_bytes(b"x" * 100)
            path.hardlink_to(path.parent / "precious")
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
            (path / "x").write_bytes(b"x" * 100)
        case "file above":
            path.parent.rmdir()
            path.parent.write_bytes(b"x" * 100)


@pytest.mark.parametrize("kind", ["loop", "link", "pipe", "directory", "file above"])
def test_what_a_container_has_put_in_the_place_of_its_log_is_not_rotated(tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "c"
    directory.mkdir()
    in_place_of(directory / "0.log", kind)
    assert not logs.is_due(directory / "0.log", 10)
    with pytest.raises(WriteError, match="cannot rotate log"):
        logs.rotate(directory / "0.log")
    assert kind != "link" or (directory / "precious").read_bytes() == b"x" * 100


@pytest.mark.parametrize("kind", ["loop", "link", "other name", "pipe", "directory"])
def test_nothing_is_in_the_way_of_a_copy(tmp_path: Path, kind: str) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(b"line\n")
    in_place_of(tmp_path / "0.log.copying", kind)
    logs.rotate(log)
    assert (tmp_path / "0.log.1").read_bytes() == b"line\n"
    assert kind not in ("link", "other name") or (tmp_path / "precious").read_bytes() == b"x" * 100


def test_hardly_anything_is_lost_while_a_process_writes(tmp_path: Path) -> None:
    descriptor = logs.open_log(tmp_path, 0)
    path = logs.log_file(tmp_path, 0)
    writer = subprocess.Popen(["seq", "-f", "%07.0f", "1000000"], stdout=descriptor)
    os.close(descriptor)
    copies: list[bytes] = []
    while writer.poll() is None and len(copies) < 3:
        time.sleep(0.02)
        if path.stat().st_size:
            logs.rotate(path)
            copies.append(Path(f"{path}.1").read_bytes())
    assert writer.wait() == 0
    assert copies
    kept = b"".join((*copies, path.read_bytes()))
    assert len(kept) > 0.9 * 8_000_000
    # What was kept is in order, whole lines but for the two on either side of a gap.
    numbers = [int(line) for line in kept.split(b"\n") if len(line) == 7]
    assert numbers == sorted(numbers)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small filesystem")
def test_on_a_full_disk_nothing_is_cut(small_disk: Path) -> None:
    path = small_disk / "0.log"
    path.write_bytes(b"x" * 700_000)
    with pytest.raises(WriteError, match=r"cannot rotate log .*: no space left on device"):
        logs.rotate(path)
    assert path.stat().st_size == 700_000
    assert [file.name for file in small_disk.iterdir()] == ["0.log"]


def test_what_was_never_written_is_not_copied(tmp_path: Path) -> None:
    """A container owns its log: `truncate -s 1T /dev/stdout` takes it no space at all."""
    log = tmp_path / "0.log"
    log.write_bytes(b"begin\n")
    os.truncate(log, 2**34)
    with log.open("ab") as file:
        file.write(b"end\n")
    logs.rotate(log)
    copy = tmp_path / "0.log.1"
    assert copy.read_bytes().replace(b"\0", b"") == b"begin\nend\n"
    assert copy.stat().st_size < 2**20
    assert log.stat().st_size == 0
    assert not (tmp_path / "0.log.times").exists()
    assert not (tmp_path / "0.log.1.times").exists()


def test_a_container_that_writes_faster_than_its_log_is_copied_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(b"x" * 2**20)
    copy_range = os.copy_file_range
    written = 0

    def outrun(source: int, target: int, count: int, **places: int) -> int:
        nonlocal written
        copied = copy_range(source, target, count, **places)
        with log.open("ab") as file:
            written += file.write(b"x" * min(copied, 4 * 2**20))
        assert written < 2**27
        return copied

    monkeypatch.setattr(os, "copy_file_range", outrun)
    logs.rotate(log)
    assert (tmp_path / "0.log.1").stat().st_size == 12 * 2**20
    assert log.stat().st_size == 0


def test_a_log_that_is_gone_cannot_be_rotated(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="no such file"):
        logs.rotate(tmp_path / "0.log")
