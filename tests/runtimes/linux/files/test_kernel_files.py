"""Whole files, gone files, refused files."""

from __future__ import annotations

from pathlib import Path

import pytest

from jettison.errors import ObservationError, WriteError
from jettison.runtimes.linux.files import kernel_files


def test_a_file_is_read_whole_however_many_reads_that_takes(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"0123456789" * 50_000)

    assert kernel_files.read(tmp_path / "big") == b"0123456789" * 50_000


@pytest.mark.parametrize("path", ["nothing", "nothing/below", "file/below"])
def test_what_is_gone_reads_as_none_and_takes_no_writes(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_bytes(b"")

    assert kernel_files.read(tmp_path / path) is None
    assert kernel_files.read_number(tmp_path / path) is None
    assert kernel_files.write(tmp_path / path, b"1") is False


def test_a_reaped_process_is_gone() -> None:
    assert kernel_files.read(f"/proc/{2**22 + 1}/stat") is None


@pytest.mark.parametrize(("content", "number"), [(b"42\n", 42), (b"-5", -5), (b"max\n", None)])
def test_a_number_is_a_number_or_max(tmp_path: Path, content: bytes, number: int | None) -> None:
    (tmp_path / "file").write_bytes(content)

    assert kernel_files.read_number(tmp_path / "file") == number


@pytest.mark.parametrize("content", [b"", b"4 2", b"maximum", b"\xff"])
def test_anything_else_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)

    with pytest.raises(ObservationError, match=r"file` holds .*, not a number"):
        kernel_files.read_number(tmp_path / "file")


def test_a_refusal_of_the_kernel_keeps_its_cause() -> None:
    with pytest.raises(WriteError, match="cannot write `1` to `/proc/version`") as caught:
        kernel_files.write("/proc/version", b"1")

    assert isinstance(caught.value.__cause__, OSError)


def test_a_directory_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ObservationError, match="is a directory"):
        kernel_files.read(tmp_path)
