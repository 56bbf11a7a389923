from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jettison.clock import SystemClock
from jettison.runtimes.host.cgroups.families import Families
from jettison.runtimes.host.cgroups.process_groups import ProcessGroups
from jettison.runtimes.host.measure.accounting import ProcessMeter
from jettison.runtimes.host.measure.meter import Exactness
from jettison.runtimes.host.processes.forking import Launch
from jettison.runtimes.host.processes.processes import spawn
from jettison.runtimes.linux.proc import Machine
from tests.builders import GI, MI, pod
from tests.runtimes.host.nodes import SLEEPS, active, end, python, running, settings

# Both hold the same 32 MiB, which the kernel keeps once.
SHARING = python("""
kept = bytearray(32 << 20)
if os.fork() == 0:
    time.sleep(60)
""")


@pytest.fixture
def groups() -> ProcessGroups:
    return ProcessGroups(Families(f"test-{os.getpid()}"), GI, lowest_score=0)


def meter_of(groups: ProcessGroups, tmp_path: Path, **changes: object) -> ProcessMeter:
    return ProcessMeter(settings(tmp_path, **changes), groups, Machine(), SystemClock(), pods_capacity=100 * MI)


@pytest.fixture
def meter(groups: ProcessGroups, tmp_path: Path) -> Iterator[ProcessMeter]:
    meter = meter_of(groups, tmp_path, node_pids=50)
    yield meter
    meter.close()


def test_a_smaller_node_uses_what_its_pods_use(groups: ProcessGroups, meter: ProcessMeter) -> None:
    with running(groups.of_container(pod(), "c"), python("kept = bytearray(24 << 20)")):
        memory = meter.memory()
        assert memory.node is not None
        assert memory.pods is not None
        assert memory.node.available is not None
        assert memory.pods.available is not None
        assert 24 * MI < 128 * MI - memory.node.available < 64 * MI
        assert memory.node.available - memory.pods.available == pytest.approx(28 * MI, abs=MI)
        processes = meter.processes()
        assert (processes.maximum, processes.current) == (50, 1)
    memory = meter.memory()
    assert memory.node is not None
    assert memory.node.available == 128 * MI


def test_shared_pages_count_once_where_a_decision_depends_on_it(
    groups: ProcessGroups, meter: ProcessMeter, tmp_path: Path
) -> None:
    place = groups.of_container(pod(), "c")
    with running(place, SHARING) as pid:
        each = active(place, "a", tmp_path / "pod", pid)
        rough = meter.pods([each], Exactness(memory=False))["a"]
        exact = meter.pods([each], Exactness(memory=True))["a"]
        assert rough.processes == exact.processes == 2
        assert rough.working_set is not None
        assert exact.working_set is not None
        assert rough.working_set > 64 * MI
        assert 32 * MI < exact.working_set < 56 * MI
        assert exact.containers == {"c": exact.working_set}


def test_the_whole_machine_has_what_the_kernel_calls_available(groups: ProcessGroups, tmp_path: Path) -> None:
    meter = meter_of(groups, tmp_path, node_memory=None)
    memory = meter.memory()
    assert memory.node is not None
    assert memory.node.available is not None
    assert memory.node.working_set is not None
    assert memory.node.available + memory.node.working_set == Machine().memory().total
    assert meter.processes().maximum == Machine().most_tasks()
    meter.close()


def test_a_container_whose_processes_are_gone_uses_nothing(
    groups: ProcessGroups, meter: ProcessMeter, tmp_path: Path
) -> None:
    gone = active(groups.of_container(pod(), "c"), "a", tmp_path / "pod")
    numbers = meter.pods([gone], Exactness())["a"]
    assert (numbers.working_set, numbers.processes, numbers.containers) == (0, 0, {"c": 0})


def test_a_pod_between_two_runs_uses_nothing(groups: ProcessGroups, meter: ProcessMeter, tmp_path: Path) -> None:
    each = active(groups.of_container(pod(), "c"), "a", tmp_path / "pod")
    waiting = replace(each, containers=[replace(each.containers[0], is_running=False)])
    numbers = meter.pods([waiting], Exactness())["a"]
    assert (numbers.working_set, numbers.processes, numbers.containers) == (0, 0, {})


def test_who_is_still_a_copy_of_the_agent_does_not_count_as_large_as_it(
    groups: ProcessGroups, meter: ProcessMeter, tmp_path: Path
) -> None:
    """An exec probe is that for some milliseconds, several times a second."""
    place = groups.of_container(pod(), "c")
    each = active(place, "a", tmp_path / "pod")
    sizes: list[tuple[int | None, int | None, int | None]] = []

    def measure(_pid: int, _start_ticks: int) -> None:
        memory = meter.memory().node
        rough, exact = (meter.pods([each], Exactness(memory=is_exact))["a"] for is_exact in (False, True))
        assert rough.processes == 1
        assert memory is not None
        sizes.append((memory.working_set, rough.working_set, exact.working_set))

    async def scenario() -> None:
        launch = Launch([sys.executable, "-I", "-S", "-c", SLEEPS], place.environment, tmp_path)
        process = await spawn(launch, place, measure)
        await asyncio.sleep(0.3)
        measure(0, 0)
        end(place)
        await process.exited

    asyncio.run(scenario())
    assert sizes[0] == (0, 0, 0)
    assert all(size is not None and size > MI for size in sizes[1])
