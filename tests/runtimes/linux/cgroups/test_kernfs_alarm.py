"""Files that tell when they have changed."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from jettison.errors import ObservationError
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.kernfs_alarm import KernfsAlarm
from jettison.runtimes.linux.cgroups.mounts import discover
from tests.runtimes.linux.crowding import crowded

Count = Callable[[], int]

live = pytest.mark.skipif(
    os.geteuid() != 0 or discover().unified is None, reason="cgroup.events takes root and a unified hierarchy"
)


def is_ringing(alarm: KernfsAlarm, timeout: float = 0) -> bool:
    return bool(select.select([alarm], [], [], timeout)[0])


@pytest.mark.parametrize("name", ["nothing", "ordinary"])
def test_what_can_never_ring_cannot_be_armed(tmp_path: Path, name: str, open_descriptors: Count) -> None:
    (tmp_path / "ordinary").write_text("")
    before = open_descriptors()

    with pytest.raises(ObservationError, match=f"no news from .*{name}"):
        KernfsAlarm(tmp_path / name)
    assert open_descriptors() == before


@live
@pytest.mark.parametrize("free", [0, 1])
def test_a_full_table_of_descriptors_is_no_crash(
    make_cgroup: Callable[..., Cgroup], open_descriptors: Count, free: int
) -> None:
    directory = make_cgroup().unified_directory
    assert directory is not None
    before = open_descriptors()

    with crowded(free), pytest.raises(ObservationError, match=r"no news from .*cgroup.events`: too many open files"):
        KernfsAlarm(directory / "cgroup.events")
    assert open_descriptors() == before


@live
def test_it_rings_for_every_change_until_it_is_consumed(
    make_cgroup: Callable[..., Cgroup], spawn: Callable[[str], Popen[bytes]]
) -> None:
    cgroup = make_cgroup()
    directory = cgroup.unified_directory
    assert directory is not None
    alarm = KernfsAlarm(directory / "cgroup.events")
    process = spawn("input()")
    assert not is_ringing(alarm)

    cgroup.move(process.pid)
    assert is_ringing(alarm, timeout=30)
    assert is_ringing(alarm)
    assert b"populated 1" in (alarm.consume() or b"")
    assert not is_ringing(alarm)

    process.kill()
    assert is_ringing(alarm, timeout=30)
    assert b"populated 0" in (alarm.consume() or b"")

    process.wait()
    while not cgroup.remove():
        assert cgroup.exists
    assert alarm.consume() is None
    alarm.close()
    alarm.close()
