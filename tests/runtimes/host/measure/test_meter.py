from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jettison.clock import SystemClock
from jettison.errors import ObservationError
from jettison.runtimes.host.cgroups.families import Families
from jettison.runtimes.host.cgroups.places import ProcessGroups
from jettison.runtimes.host.measure.meter import CgroupMeter, Exactness, ProcessMeter
from jettison.runtimes.host.pods.reports import ActivePod
from jettison.runtimes.host.processes.orders import Launch
from jettison.runtimes.host.processes.processes import spawn
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.proc import Machine
from tests.builders import GI, MI, pod
from tests.runtimes.host.nodes import SLEEPS, Node, active, end, needs_root, node, python, running, settings

EXACT = Exactness()
KEPT = Exactness(memory=False, processes=False)
# 24 MiB of its own, and two processes with three threads more than those.
BUSY = python("""
import threading
kept = bytearray(24 << 20)
for _ in range(3):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
if os.fork() == 0:
    time.sleep(60)
""")
CACHED = python("""
with open('{path}', 'wb') as file:
    file.write(bytes(32 << 20))
""")

# Both hold the same 32 MiB, which the kernel keeps once.
SHARING = python("""
kept = bytearray(32 << 20)
if os.fork() == 0:
    time.sleep(60)
""")


def meter_of(made: Node) -> CgroupMeter:
    return CgroupMeter(made.settings, made.kubepods, made.host, SystemClock())


@needs_root
def test_a_smaller_node_is_measured_by_its_own_cgroup(tmp_path: Path) -> None:
    async def scenario() -> None:
        with node(settings(tmp_path, node_pids=64)) as made:
            place = made.kubepods.of_container(pod(), "c")
            place.create()
            meter = meter_of(made)
            with running(place, BUSY):
                memory = meter.memory()
                assert memory.node is not None
                assert memory.pods is not None
                assert memory.node.available is not None
                assert memory.node.working_set is not None
                assert 24 * MI < memory.node.working_set < 48 * MI
                assert memory.node.available == 128 * MI - memory.node.working_set
                # Nothing of the node is outside of the pods, and nothing is reserved.
                assert memory.pods.working_set == pytest.approx(memory.node.working_set, abs=MI)
                processes = meter.processes()
                assert (processes.maximum, processes.current) == (64, 5)
            meter.close()
            made.oom.close()

    asyncio.run(scenario())


@needs_root
def test_a_node_that_is_the_machine_has_the_machines_memory_and_tasks(tmp_path: Path) -> None:
    with node(settings(tmp_path, node_memory=None)) as made:
        meter = meter_of(made)
        memory, total = meter.memory(), made.host.memory().total
        assert memory.node is not None
        assert memory.node.available is not None
        assert memory.node.working_set is not None
        assert memory.node.available + memory.node.working_set == total
        assert memory.node.working_set > 16 * MI
        assert memory.pods is not None
        assert memory.pods.available is not None
        assert memory.pods.available == pytest.approx(total, abs=MI), "kubepods is empty and may have everything"
        processes = meter.processes()
        assert processes.maximum == made.host.most_tasks()
        assert processes.current is not None
        assert processes.current >= 1
        meter.close()


@needs_root
def test_pods_are_measured_with_their_containers(tmp_path: Path) -> None:
    async def scenario() -> None:
        with node(settings(tmp_path)) as made:
            place = made.kubepods.of_container(pod(), "c")
            place.create()
            meter = meter_of(made)
            with running(place, BUSY) as pid:
                each = active(place, "a", tmp_path / "pod", pid)
                for exactness in (EXACT, KEPT):
                    numbers = meter.pods([each], exactness)["a"]
                    assert numbers.working_set is not None
                    assert 24 * MI < numbers.working_set < 48 * MI
                    assert numbers.containers["c"] == pytest.approx(numbers.working_set, abs=MI)
                    assert numbers.processes == 2, "threads do not count"
            meter.close()
            made.oom.close()

    asyncio.run(scenario())


@needs_root
def test_inactive_page_cache_is_no_part_of_the_working_set(tmp_path: Path) -> None:
    async def scenario() -> None:
        with node(settings(tmp_path)) as made:
            place = made.kubepods.of_container(pod(), "c")
            place.create()
            meter = meter_of(made)
            with running(place, CACHED.format(path=tmp_path / "cached")) as pid:
                each = active(place, "a", tmp_path / "pod", pid)
                node_memory = meter.memory().node
                assert node_memory is not None
                assert node_memory.usage is not None
                assert node_memory.usage > 32 * MI
                # On a busy machine the kernel adds up what each processor has counted only every two seconds.
                until = asyncio.get_running_loop().time() + 10
                while (meter.pods([each], EXACT)["a"].working_set or 0) >= 16 * MI:
                    assert asyncio.get_running_loop().time() < until, "the page cache counts as the working set"
                    await asyncio.sleep(0.1)
                for exactness in (EXACT, KEPT):
                    numbers = meter.pods([each], exactness)["a"]
                    assert numbers.working_set is not None
                    assert numbers.working_set < 16 * MI
                    assert numbers.containers["c"] is not None
                    assert numbers.containers["c"] < 16 * MI
            meter.close()
            made.oom.close()

    asyncio.run(scenario())


@needs_root
def test_memory_left_behind_by_an_earlier_container_is_the_pods_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        with node(settings(tmp_path)) as made:
            first, second = (made.kubepods.of_container(pod(), name) for name in "ic")
            first.create()
            with running(first, CACHED.format(path="/dev/shm/" + made.settings.node_name)):  # stays charged, active
                pass
            try:
                assert first.remove()
                second.create()
                meter = meter_of(made)
                with running(second, python("")) as pid:
                    numbers = meter.pods([active(second, "a", tmp_path / "pod", pid)], EXACT)["a"]
                    assert numbers.working_set is not None
                    assert numbers.working_set > 32 * MI
                    assert numbers.containers["c"] is not None
                    assert numbers.containers["c"] < 16 * MI
                meter.close()
                made.oom.close()
            finally:
                Path("/dev/shm", made.settings.node_name).unlink()

    asyncio.run(scenario())


@needs_root
def test_a_pod_that_vanishes_is_unknown_and_its_files_are_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        with node(settings(tmp_path)) as made:
            place = made.kubepods.of_container(pod(), "c")
            place.create()
            meter = meter_of(made)
            gone = active(place, "a", tmp_path / "pod")
            meter.pods([gone], EXACT)
            assert made.kubepods.of_pod(pod()).remove()
            for exactness in (EXACT, KEPT):
                numbers = meter.pods([gone], exactness)["a"]
                assert numbers.working_set is None
                assert numbers.containers == {"c": None}
                assert numbers.processes == 0
            idle = ActivePod(gone.manifest, [replace(gone.containers[0], is_running=False)], [], gone.pod_dir)
            assert meter.pods([idle], EXACT) == {}
            assert not meter._reader._names()
            meter.close()

    asyncio.run(scenario())


@needs_root
def test_a_node_whose_cgroup_is_gone_cannot_be_observed(tmp_path: Path) -> None:
    with node(settings(tmp_path)) as made:
        meter = meter_of(made)
        assert Cgroup(made.cgroup_parent.mounts, made.kubepods.node).remove()
        with pytest.raises(ObservationError, match="is gone"):
            meter.memory()
        meter.close()


@pytest.fixture
def groups() -> ProcessGroups:
    return ProcessGroups(Families(f"test-{os.getpid()}"), GI, lowest_score=0)


def process_meter_of(groups: ProcessGroups, tmp_path: Path, **changes: object) -> ProcessMeter:
    return ProcessMeter(settings(tmp_path, **changes), groups, Machine(), SystemClock(), pods_capacity=100 * MI)


@pytest.fixture
def meter(groups: ProcessGroups, tmp_path: Path) -> Iterator[ProcessMeter]:
    meter = process_meter_of(groups, tmp_path, node_pids=50)
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
    meter = process_meter_of(groups, tmp_path, node_memory=None)
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


def test_a_process_that_is_still_a_copy_of_the_agent_does_not_count_as_large_as_it(
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
