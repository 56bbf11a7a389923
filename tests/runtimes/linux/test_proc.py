"""The machine's own numbers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jettison.errors import ObservationError
from jettison.runtimes.linux.proc import Machine, MemoryInfo

MEMINFO = """\
MemTotal:       24682412 kB
MemFree:        20000000 kB
MemAvailable:   21000000 kB
SwapTotal:             0 kB
"""


def test_memory_is_in_bytes_and_what_is_not_there_is_none(fake_proc: Path) -> None:
    (fake_proc / "meminfo").write_text(MEMINFO)

    assert Machine(fake_proc).memory() == MemoryInfo(
        total=24682412 * 1024, free=20000000 * 1024, available=21000000 * 1024
    )


@pytest.mark.parametrize(
    "content",
    ["", "MemTotal: 5 kB\n", "MemTotal: x kB\nMemFree: 1 kB\n", "MemTotal: 5 MB\nMemFree: 1 kB\n", "XMemTotal: 5 kB\n"],
)
def test_a_meminfo_that_is_none_is_an_error(fake_proc: Path, content: str) -> None:
    (fake_proc / "meminfo").write_text(content)

    with pytest.raises(ObservationError, match="meminfo"):
        Machine(fake_proc).memory()


def test_tasks_are_the_number_after_the_slash(fake_proc: Path) -> None:
    (fake_proc / "loadavg").write_text("0.20 0.18 0.12 1/812 11206\n")

    assert Machine(fake_proc).tasks() == 812


@pytest.mark.parametrize("content", ["", "0.20 0.18 0.12", "0.20 0.18 0.12 812 11206", "a b c 1/x 5"])
def test_a_loadavg_that_is_none_is_an_error(fake_proc: Path, content: str) -> None:
    (fake_proc / "loadavg").write_text(content)

    with pytest.raises(ObservationError, match="not five fields"):
        Machine(fake_proc).tasks()


@pytest.mark.parametrize(
    ("pid_max", "threads_max", "most"),
    [("32768", "190000", 32768), ("4194304", "190000", 190000), ("32768", None, 32768), (None, None, None)],
)
def test_the_smaller_limit_counts_and_either_may_be_missing(
    fake_proc: Path, pid_max: str | None, threads_max: str | None, most: int | None
) -> None:
    kernel = fake_proc / "sys/kernel"
    kernel.mkdir(parents=True)
    for name, value in (("pid_max", pid_max), ("threads-max", threads_max)):
        if value is not None:
            (kernel / name).write_text(value + "\n")

    assert Machine(fake_proc).most_tasks() == most


def test_without_proc_nothing_is_measured(fake_proc: Path) -> None:
    machine = Machine(fake_proc)

    with pytest.raises(ObservationError, match="is /proc mounted"):
        machine.memory()
    with pytest.raises(ObservationError, match="is /proc mounted"):
        machine.tasks()


def test_this_machine() -> None:
    machine = Machine()
    memory, most = machine.memory(), machine.most_tasks()

    assert memory.total == pytest.approx(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), rel=0.05)
    assert 0 < memory.free < memory.total
    assert most is not None
    assert 0 < machine.tasks() < most
    machine.close()
