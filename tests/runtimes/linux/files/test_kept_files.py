"""Files that stay open, and how many."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jettison.errors import ObservationError
from jettison.runtimes.linux.files.kept_files import DescriptorBudget, KeptFile

Count = Callable[[], int]


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
