"""The table of signals and what is read from a node (spec §3.1, §7.1, §8.2, §16 examples 28, 57, 59 and 60)."""

from __future__ import annotations

import pytest

from jettison.engine.node.signals import ROWS, TABLE, Condition, Part, Reclaimable, Resource, Signal, readings
from jettison.engine.node.snapshot import FsStats, MemoryStats, NodeStats, ProcessStats, Reading
from tests.builders import DEDICATED, GI, MI, SHARED, SPLIT, node

C, I = Reclaimable.CONTAINERS, Reclaimable.IMAGES  # noqa: E741  the spec's own letters
ROOT, LOGS, VOLUMES = Part.ROOTFS, Part.LOGS, Part.VOLUMES
EVERYTHING = {ROOT, LOGS, VOLUMES}
LAYOUTS = (SHARED, DEDICATED, SPLIT)


def test_every_signal_has_one_row() -> None:
    """There is no second place to look."""
    assert [row.signal for row in TABLE] == list(Signal)
    assert set(ROWS) == set(Signal)


@pytest.mark.parametrize(
    ("prefix", "resource", "condition"),
    [
        ("memory.available", Resource.MEMORY, Condition.MEMORY_PRESSURE),
        ("allocatableMemory.available", Resource.MEMORY, Condition.MEMORY_PRESSURE),
        ("nodefs.available", Resource.EPHEMERAL_STORAGE, Condition.DISK_PRESSURE),
        ("nodefs.inodesFree", Resource.INODES, Condition.DISK_PRESSURE),
        ("imagefs.available", Resource.EPHEMERAL_STORAGE, Condition.DISK_PRESSURE),
        ("imagefs.inodesFree", Resource.INODES, Condition.DISK_PRESSURE),
        ("containerfs.available", Resource.EPHEMERAL_STORAGE, Condition.DISK_PRESSURE),
        ("containerfs.inodesFree", Resource.INODES, Condition.DISK_PRESSURE),
        ("pid.available", Resource.PIDS, Condition.PID_PRESSURE),
    ],
)
def test_what_a_signal_stands_for(prefix: str, resource: Resource, condition: Condition) -> None:
    """The resource of messages and the condition of the node."""
    row = ROWS[Signal(prefix)]
    assert (row.resource, row.condition) == (resource, condition)


@pytest.mark.parametrize(
    ("filesystem", "reclaims"),
    [
        ("nodefs", [(C, I), (), (C,)]),
        ("imagefs", [(C, I), (C, I), (I,)]),
        ("containerfs", [(C, I), (C, I), (C,)]),
    ],
)
def test_what_can_be_freed_first(filesystem: str, reclaims: list[tuple[Reclaimable, ...]]) -> None:
    """With a dedicated image filesystem nothing that can be collected lies on the node's own."""
    for name in (f"{filesystem}.available", f"{filesystem}.inodesFree"):
        assert [ROWS[Signal(name)].reclaims[layout.disks] for layout in LAYOUTS] == reclaims


@pytest.mark.parametrize("signal", [Signal.MEMORY_AVAILABLE, Signal.ALLOCATABLE_MEMORY_AVAILABLE, Signal.PID_AVAILABLE])
def test_memory_and_processes_cannot_be_collected(signal: Signal) -> None:
    """Only pods hold them, and no part of a pod's disk matters."""
    assert set(ROWS[signal].reclaims.values()) == {()}
    assert ROWS[signal].parts is None


@pytest.mark.parametrize(
    ("filesystem", "parts"),
    [
        ("nodefs", [EVERYTHING, {LOGS, VOLUMES}, EVERYTHING]),
        ("imagefs", [EVERYTHING, {ROOT}, set()]),
        ("containerfs", [EVERYTHING, {ROOT}, EVERYTHING]),
    ],
)
def test_which_parts_of_a_pod_lie_on_a_filesystem(filesystem: str, parts: list[set[Part]]) -> None:
    """Image layers are never measured, so on a split image filesystem no pod uses anything."""
    for name in (f"{filesystem}.available", f"{filesystem}.inodesFree"):
        found = ROWS[Signal(name)].parts
        assert found is not None
        assert [set(found[layout.disks]) for layout in LAYOUTS] == parts


def test_readings_of_a_node() -> None:
    """Memory's capacity is available plus working set, so that of the pods is the limit of their cgroup."""
    stats = NodeStats(
        memory=MemoryStats(1, 3 * GI, 7 * GI, 5 * GI),
        pods_memory=MemoryStats(2, 48 * MI, None, 14800 * MI),
        fs=FsStats(3, 10, 100, inodes_free=5, inodes=50),
        image_fs=FsStats(4, 20, 200),
        processes=ProcessStats(5, 32768, 31200),
    )
    assert readings(stats) == {
        Signal.MEMORY_AVAILABLE: Reading(3 * GI, 8 * GI, 1),
        Signal.ALLOCATABLE_MEMORY_AVAILABLE: Reading(48 * MI, 14848 * MI, 2),
        Signal.NODEFS_AVAILABLE: Reading(10, 100, 3),
        Signal.NODEFS_INODES_FREE: Reading(5, 50, 3),
        Signal.IMAGEFS_AVAILABLE: Reading(20, 200, 4),
        Signal.PID_AVAILABLE: Reading(1568, 32768, 5),
    }


@pytest.mark.parametrize(
    "stats",
    [
        NodeStats(),
        NodeStats(memory=MemoryStats(available=1), pods_memory=MemoryStats(working_set=1)),
        NodeStats(fs=FsStats(capacity=1, inodes=1), image_fs=FsStats(available=1, inodes_free=1)),
        NodeStats(processes=ProcessStats(maximum=1)),
        NodeStats(processes=ProcessStats(current=1), container_fs=FsStats(used=1, inodes_used=1)),
    ],
)
def test_a_signal_needs_both_its_numbers(stats: NodeStats) -> None:
    """What was not measured is absent and never zero."""
    assert readings(stats) == {}


@pytest.mark.parametrize(
    ("signal", "text"),
    [
        (Signal.MEMORY_AVAILABLE, "200000"),
        (Signal.IMAGEFS_AVAILABLE, "200000"),
        (Signal.IMAGEFS_INODES_FREE, "200k"),
        (Signal.PID_AVAILABLE, "200k"),
    ],
)
def test_numbers_print_in_their_resources_way(signal: Signal, text: str) -> None:
    """Bytes in powers of two, counts in powers of ten."""
    assert str(ROWS[signal].amount(200_000)) == text


def test_a_node_of_the_builders_has_every_reading_but_the_pods() -> None:
    """So that tables which say nothing about a signal really have plenty of it."""
    found = readings(node())
    assert set(found) == set(Signal) - {Signal.ALLOCATABLE_MEMORY_AVAILABLE}
    assert all(reading.available * 2 > reading.capacity for reading in found.values())


def test_numbers_of_64_bits_wrap_as_they_do_in_go() -> None:
    """A summary counts without a sign, eviction with one: what does not fit becomes negative."""
    huge = 2**64 - 5
    stats = NodeStats(
        memory=MemoryStats(available=huge, working_set=10), fs=FsStats(available=2**63, capacity=2**63 + 1)
    )
    found = readings(stats)
    assert found[Signal.MEMORY_AVAILABLE][:2] == (-5, 5)
    assert found[Signal.NODEFS_AVAILABLE][:2] == (-(2**63), -(2**63) + 1)
    found = readings(NodeStats(memory=MemoryStats(available=-1, working_set=-(2**63))))
    assert found[Signal.MEMORY_AVAILABLE][:2] == (-1, 2**63 - 1)
