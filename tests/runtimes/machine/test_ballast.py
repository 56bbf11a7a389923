"""Space that is held and given up, on a real filesystem that is filled to the last byte and the last inode."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jettison.clock import SystemClock
from jettison.engine.node.snapshot import FsStats
from jettison.events import BallastGivenUp, BallastKept, Fact
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.machine.ballast import Ballast, ballast_places
from jettison.runtimes.machine.node_disks import DiskPlaces, read_stats

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a filesystem needs root")

MI = 2**20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """16 MiB and 200 inodes."""
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,nr_inodes=200", "tmpfs", str(path)], check=True)
    yield path
    system_calls.detach(path)


def stats(disk: Path) -> FsStats:
    found = read_stats(disk, SystemClock())
    assert found is not None
    return found


def look(ballast: Ballast, disk: Path, *, is_short: bool = False) -> bool:
    """Whether something was to be done; it was done."""
    work = ballast.is_due(stats(disk), is_short=is_short)
    if work is not None:
        work()
    return work is not None


def fill(disk: Path) -> None:
    with (disk / "full").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(64 * 1024))
            except OSError:
                return


def test_it_is_given_up_at_the_last_byte_and_comes_back_when_there_is_plenty(disk: Path) -> None:
    facts: list[Fact] = []
    own = Ballast(disk / "ballast", 100 * MI, facts.append)
    assert look(own, disk)
    # One part in a hundred of the filesystem, whatever was asked for.
    kept = facts[0]
    assert isinstance(kept, BallastKept)
    assert 0 < kept.size_bytes <= 16 * MI // 100
    assert not look(own, disk)
    fill(disk)
    assert stats(disk).available == 0
    assert look(own, disk)
    assert (stats(disk).available or 0) > 0
    assert isinstance(facts[1], BallastGivenUp)
    assert not (disk / "ballast").exists()
    assert not look(own, disk)
    (disk / "full").unlink()
    # Not while a threshold is not resolved: it would take what was just freed.
    assert not look(own, disk, is_short=True)
    assert look(own, disk)
    assert own.is_held


def test_it_is_given_up_at_the_last_inode(disk: Path) -> None:
    own = Ballast(disk / "ballast", MI, lambda _: None)
    look(own, disk)
    number = 0
    while stats(disk).inodes_free:
        (disk / f"f{number}").touch()
        number += 1
    assert look(own, disk)
    assert (stats(disk).inodes_free or 0) >= 8


def test_what_a_dead_agent_held_is_held_by_the_next(disk: Path) -> None:
    look(Ballast(disk / "ballast", MI, lambda _: None), disk)
    fill(disk)
    assert look(Ballast(disk / "ballast", MI, lambda _: None), disk)
    assert not (disk / "ballast").exists()


def test_a_link_in_its_place_is_not_followed(disk: Path, tmp_path: Path) -> None:
    """Neither filled nor emptied."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "0").write_text("precious")
    (disk / "ballast").symlink_to(elsewhere)
    facts: list[Fact] = []
    own = Ballast(disk / "ballast", MI, facts.append)
    for _ in range(2):
        look(own, disk)
    own.drop()
    assert (elsewhere / "0").read_text() == "precious"
    assert len(facts) == 1


def test_a_filesystem_in_memory_has_none(disk: Path) -> None:
    assert ballast_places(DiskPlaces(disk, disk, disk), "n") == []
