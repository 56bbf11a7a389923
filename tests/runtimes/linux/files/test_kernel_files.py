"""Whole files, gone files, refused files, and files that stay open."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jettison.errors import ObservationError, WriteError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import DescriptorBudget, KeptFile

Count = Callable[[], int]


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


def test_a_file_is_opened_once_and_read_from_the_beginning_each_time(tmp_path: Path, open_descriptors: Count) -> None:
    (tmp_path / "file").write_bytes(b"1")
    before = open_descriptors()
    file = KeptFile(tmp_path / "file", DescriptorBudget(5))

    readings = [file.read(), file.read()]
    (tmp_path / "file").write_bytes(b"23")
    readings.append(file.read())

    assert readings == [b"1", b"1", b"23"]
    assert open_descriptors() == before + 1
    file.close()
    assert open_descriptors() == before


def test_without_budget_files_are_read_all_the_same(tmp_path: Path, open_descriptors: Count) -> None:
    (tmp_path / "file").write_bytes(b"1")
    before = open_descriptors()
    budget = DescriptorBudget(1)
    kept, other = KeptFile(tmp_path / "file", budget), KeptFile(tmp_path / "file", budget)

    assert [kept.read(), other.read(), other.read()] == [b"1", b"1", b"1"]
    assert open_descriptors() == before + 1

    kept.close()
    other.read()
    assert open_descriptors() == before + 1  # now the other one is kept
    other.close()
    assert budget.left == 1


def test_a_missing_file_costs_no_budget_and_may_come_later(tmp_path: Path) -> None:
    budget = DescriptorBudget(1)
    file = KeptFile(tmp_path / "file", budget)

    assert [file.read(), file.read(), budget.left] == [None, None, 1]

    (tmp_path / "file").write_bytes(b"1")
    assert file.read() == b"1"
    file.close()


def test_a_file_that_refuses_is_an_error(tmp_path: Path) -> None:
    budget = DescriptorBudget(1)

    with pytest.raises(ObservationError, match="is a directory"):
        KeptFile(tmp_path, budget).read()
    assert budget.left == 1


def test_by_default_half_of_the_limit_is_used() -> None:
    assert 0 < DescriptorBudget().left < os.sysconf("SC_OPEN_MAX")
