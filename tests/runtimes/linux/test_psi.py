"""Pressure files and triggers."""

from __future__ import annotations

import asyncio
import errno
import os
import select
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from jettison.errors import ObservationError
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.mounts import discover
from jettison.runtimes.linux.processes import Capability, read_capabilities
from jettison.runtimes.linux.psi import Pressure, PressureFile, PressureTrigger, Stall
from tests.runtimes.linux.crowding import crowded

MakeCgroup = Callable[..., Cgroup]
Spawn = Callable[[str], "Popen[bytes]"]

SYSTEM = Path("/proc/pressure/memory")

has_psi = pytest.mark.skipif(PressureFile(SYSTEM).read() is None, reason="this kernel has no pressure information")
# Older kernels (6.1) let no process arm without CAP_SYS_RESOURCE; root usually has it.
live = pytest.mark.skipif(
    os.geteuid() != 0 or discover().unified is None or PressureFile(SYSTEM).read() is None,
    reason="pressure of a cgroup takes root, a unified hierarchy and a kernel with PSI",
)

TEXT = "some avg10=1.50 avg60=0.25 avg300=0.00 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"


@pytest.fixture
def pressure(make_cgroup: MakeCgroup) -> tuple[Cgroup, Path]:
    """A cgroup and its directory in the unified hierarchy."""
    cgroup = make_cgroup()
    directory = cgroup.unified_directory
    assert directory is not None
    return cgroup, directory


def privileged() -> bool:
    return read_capabilities().has(Capability.SYS_RESOURCE)


def test_both_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "memory.pressure").write_text(TEXT)

    assert PressureFile(tmp_path / "memory.pressure").read() == Pressure(
        Stall(1.5, 0.25, 0.0, 123456), Stall(0.0, 0.0, 0.0, 7)
    )


def test_an_old_kernel_has_no_full_line_for_the_processor(tmp_path: Path) -> None:
    (tmp_path / "cpu.pressure").write_text(TEXT.splitlines()[0])

    pressure = PressureFile(tmp_path / "cpu.pressure").read()

    assert pressure is not None
    assert pressure.full is None


@pytest.mark.parametrize("text", ["", "full avg10=0 avg60=0 avg300=0 total=0\n", "some avg10=x\n", "some\n", "\n"])
def test_what_is_no_pressure_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "memory.pressure").write_text(text)

    with pytest.raises(ObservationError, match="not pressure"):
        PressureFile(tmp_path / "memory.pressure").read()


def test_a_kernel_without_pressure_says_none_and_arms_nothing(tmp_path: Path) -> None:
    file = PressureFile(tmp_path / "memory.pressure")

    assert file.read() is None
    with pytest.raises(ObservationError, match=r"no pressure trigger on .*memory.pressure`: no such file"):
        file.arm(100_000, 1_000_000)


@has_psi
@pytest.mark.parametrize("resource", ["memory", "io", "cpu"])
def test_the_machine_has_pressure(resource: str) -> None:
    pressure = PressureFile(Path("/proc/pressure") / resource).read()

    assert pressure is not None
    assert 0 <= pressure.some.avg10 <= 100


@live
@pytest.mark.parametrize("free", [0, 1])
def test_a_full_table_of_descriptors_is_no_crash(
    pressure: tuple[Cgroup, Path], open_descriptors: Callable[[], int], free: int
) -> None:
    file = PressureFile(pressure[1] / "memory.pressure")
    before = open_descriptors()

    with crowded(free), pytest.raises(ObservationError, match=r"no pressure trigger on .*: too many open files"):
        file.arm(200_000, 2_000_000)
    assert open_descriptors() == before
    assert file.read() is not None


@live
@pytest.mark.parametrize(
    ("wanted_us", "unprivileged_us", "privileged_us"),
    [
        (500_000, 2_000_000, 500_000),
        (1_000_000, 2_000_000, 1_000_000),
        (2_000_000, 2_000_000, 2_000_000),
        (3_000_000, 4_000_000, 3_000_000),
        (10_000_000, 10_000_000, 10_000_000),
        (1, 2_000_000, 500_000),
        (99_000_000, 10_000_000, 10_000_000),
    ],
)
def test_the_window_taken_is_the_nearest_allowed_and_the_share_stays(
    wanted_us: int, unprivileged_us: int, privileged_us: int
) -> None:
    trigger = PressureFile(SYSTEM).arm(max(1, wanted_us // 10), wanted_us)
    window_us = privileged_us if privileged() else unprivileged_us

    assert trigger.window_us == window_us
    if wanted_us > 1:
        assert trigger.stall_us == window_us // 10
    trigger.close()


@live
def test_the_share_cannot_exceed_the_whole() -> None:
    with pytest.raises(ObservationError, match="takes no window near `2000000`"):
        PressureFile(SYSTEM).arm(3_000_000, 2_000_000)


@live
def test_the_premise_that_proc_eats_the_last_byte() -> None:
    """Should this fail, the kernel has changed and the NUL at the end of our commands is no longer needed."""
    fd = os.open(SYSTEM, os.O_RDWR | os.O_NONBLOCK)
    try:
        with pytest.raises(OSError, match="Invalid argument") as caught:
            os.write(fd, b"some 150000 2000000")
    finally:
        os.close(fd)
    assert caught.value.errno == errno.EINVAL


@live
def test_a_file_with_a_trigger_is_not_read(pressure: tuple[Cgroup, Path]) -> None:
    file = PressureFile(pressure[1] / "memory.pressure")
    before = file.read()
    trigger = file.arm(200_000, 2_000_000)
    meanwhile = file.read()
    trigger.close()
    trigger.close()

    assert before is not None
    assert meanwhile is None
    assert file.read() is not None


@live
def test_a_trigger_of_a_removed_cgroup_says_so(pressure: tuple[Cgroup, Path]) -> None:
    """It stays ready from then on: a loop that does not notice spins."""
    cgroup, directory = pressure
    trigger = PressureFile(directory / "memory.pressure").arm(200_000, 2_000_000)
    quiet = trigger.consume()
    assert cgroup.remove()

    assert quiet is True
    assert select.select([trigger], [], [], 30)[0] == [trigger]
    assert trigger.consume() is False
    trigger.close()


@live
def test_a_stall_wakes_an_event_loop(pressure: tuple[Cgroup, Path], spawn: Spawn) -> None:
    """Two busy processes on one processor: one of them always waits."""
    cgroup, directory = pressure
    trigger = PressureFile(directory / "cpu.pressure").arm(100_000, 2_000_000)
    for _ in range(2):
        cgroup.move(spawn("import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass").pid)

    assert asyncio.run(woken(trigger, timeout=30)) is True
    trigger.close()


async def woken(trigger: PressureTrigger, timeout: float) -> bool:
    loop = asyncio.get_running_loop()
    event: asyncio.Future[bool] = loop.create_future()

    def callback() -> None:
        is_alive = trigger.consume()
        if not event.done():
            event.set_result(is_alive)

    loop.add_reader(trigger.fileno(), callback)
    try:
        return await asyncio.wait_for(event, timeout)
    finally:
        loop.remove_reader(trigger.fileno())
