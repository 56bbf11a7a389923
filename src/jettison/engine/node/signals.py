"""THE table of signals: one row says everything about one signal.

Which resource it stands for, which condition it raises, where its reading comes from, what ranks the pods, and what
can be freed before a pod must go, for each disk layout. Adding a signal is adding a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from jettison.engine.node.snapshot import Disks, FsStats, MemoryStats, NodeStats, Reading
from jettison.engine.numbers.quantity import Quantity, binary, decimal


class Signal(StrEnum):
    """A named quantity of the node."""

    MEMORY_AVAILABLE = "memory.available"
    ALLOCATABLE_MEMORY_AVAILABLE = "allocatableMemory.available"
    NODEFS_AVAILABLE = "nodefs.available"
    NODEFS_INODES_FREE = "nodefs.inodesFree"
    IMAGEFS_AVAILABLE = "imagefs.available"
    IMAGEFS_INODES_FREE = "imagefs.inodesFree"
    CONTAINERFS_AVAILABLE = "containerfs.available"
    CONTAINERFS_INODES_FREE = "containerfs.inodesFree"
    PID_AVAILABLE = "pid.available"


class Resource(StrEnum):
    """What a starved signal is called in messages and events."""

    MEMORY = "memory"
    EPHEMERAL_STORAGE = "ephemeral-storage"
    INODES = "inodes"
    PIDS = "pids"


class Condition(StrEnum):
    """A node condition as reported."""

    MEMORY_PRESSURE = "MemoryPressure"
    DISK_PRESSURE = "DiskPressure"
    PID_PRESSURE = "PIDPressure"


class Part(Enum):
    """Where a pod's bytes and inodes are. Image layers are missing on purpose: they are not measured per pod."""

    ROOTFS = "writable layers"
    LOGS = "logs"
    VOLUMES = "local volumes"


class Reclaimable(StrEnum):
    """What the node can free without harming a pod."""

    CONTAINERS = "containers"
    IMAGES = "images"


Parts = Mapping[Disks, frozenset[Part]]
Reclaims = Mapping[Disks, tuple[Reclaimable, ...]]

_EVERYTHING = frozenset(Part)
_NODE_PARTS: Parts = {
    Disks.SHARED: _EVERYTHING,
    Disks.DEDICATED: frozenset({Part.LOGS, Part.VOLUMES}),
    Disks.SPLIT: _EVERYTHING,
}
_IMAGE_PARTS: Parts = {
    Disks.SHARED: _EVERYTHING,
    Disks.DEDICATED: frozenset({Part.ROOTFS}),
    Disks.SPLIT: frozenset(),
}
_CONTAINER_PARTS: Parts = {
    Disks.SHARED: _EVERYTHING,
    Disks.DEDICATED: _IMAGE_PARTS[Disks.DEDICATED],
    Disks.SPLIT: _NODE_PARTS[Disks.SPLIT],
}

_CONTAINERS = (Reclaimable.CONTAINERS,)
_BOTH = (Reclaimable.CONTAINERS, Reclaimable.IMAGES)
_NOTHING: Reclaims = {Disks.SHARED: (), Disks.DEDICATED: (), Disks.SPLIT: ()}
_NODE_RECLAIMS: Reclaims = {Disks.SHARED: _BOTH, Disks.DEDICATED: (), Disks.SPLIT: _CONTAINERS}
_IMAGE_RECLAIMS: Reclaims = {Disks.SHARED: _BOTH, Disks.DEDICATED: _BOTH, Disks.SPLIT: (Reclaimable.IMAGES,)}
_CONTAINER_RECLAIMS: Reclaims = {Disks.SHARED: _BOTH, Disks.DEDICATED: _BOTH, Disks.SPLIT: _CONTAINERS}


@dataclass(frozen=True, slots=True)
class SignalRow:
    """Everything about one signal."""

    signal: Signal
    resource: Resource
    condition: Condition
    reading: Callable[[NodeStats], Reading | None]
    reclaims: Reclaims = field(default_factory=lambda: _NOTHING)
    # The parts of a pod that count against this filesystem; None where a ranking does not look at disks.
    parts: Parts | None = None

    def amount(self, number: int) -> Quantity:
        """`number` of this signal's resource, printing in the resource's own way."""
        return (binary if self.resource in (Resource.MEMORY, Resource.EPHEMERAL_STORAGE) else decimal)(number)


def _memory(stats: MemoryStats | None) -> Reading | None:
    if stats is None or stats.available is None or stats.working_set is None:
        return None
    return Reading(stats.available, stats.available + stats.working_set, stats.time_ns)


def _bytes(stats: FsStats | None) -> Reading | None:
    if stats is None or stats.available is None or stats.capacity is None:
        return None
    return Reading(stats.available, stats.capacity, stats.time_ns)


def _inodes(stats: FsStats | None) -> Reading | None:
    if stats is None or stats.inodes_free is None or stats.inodes is None:
        return None
    return Reading(stats.inodes_free, stats.inodes, stats.time_ns)


def _processes(node: NodeStats) -> Reading | None:
    stats = node.processes
    if stats is None or stats.maximum is None or stats.current is None:
        return None
    return Reading(stats.maximum - stats.current, stats.maximum, stats.time_ns)


def _disk_rows(
    available: Signal,
    inodes_free: Signal,
    stats: Callable[[NodeStats], FsStats | None],
    reclaims: Reclaims,
    parts: Parts,
) -> tuple[SignalRow, SignalRow]:
    """Bytes and inodes of one filesystem differ only in what is counted."""
    condition = Condition.DISK_PRESSURE
    storage, inodes = Resource.EPHEMERAL_STORAGE, Resource.INODES
    return (
        SignalRow(available, storage, condition, lambda node: _bytes(stats(node)), reclaims, parts),
        SignalRow(inodes_free, inodes, condition, lambda node: _inodes(stats(node)), reclaims, parts),
    )


TABLE: tuple[SignalRow, ...] = (
    SignalRow(
        Signal.MEMORY_AVAILABLE,
        Resource.MEMORY,
        Condition.MEMORY_PRESSURE,
        lambda node: _memory(node.memory),
    ),
    SignalRow(
        Signal.ALLOCATABLE_MEMORY_AVAILABLE,
        Resource.MEMORY,
        Condition.MEMORY_PRESSURE,
        lambda node: _memory(node.pods_memory),
    ),
    *_disk_rows(
        Signal.NODEFS_AVAILABLE,
        Signal.NODEFS_INODES_FREE,
        lambda node: node.fs,
        _NODE_RECLAIMS,
        _NODE_PARTS,
    ),
    *_disk_rows(
        Signal.IMAGEFS_AVAILABLE,
        Signal.IMAGEFS_INODES_FREE,
        lambda node: node.image_fs,
        _IMAGE_RECLAIMS,
        _IMAGE_PARTS,
    ),
    *_disk_rows(
        Signal.CONTAINERFS_AVAILABLE,
        Signal.CONTAINERFS_INODES_FREE,
        lambda node: node.container_fs,
        _CONTAINER_RECLAIMS,
        _CONTAINER_PARTS,
    ),
    SignalRow(Signal.PID_AVAILABLE, Resource.PIDS, Condition.PID_PRESSURE, _processes),
)

ROWS: Mapping[Signal, SignalRow] = {row.signal: row for row in TABLE}


def readings(node: NodeStats) -> dict[Signal, Reading]:
    """Every signal that could be measured; a signal needs both its numbers or it has no reading."""
    found = ((row.signal, row.reading(node)) for row in TABLE)
    return {signal: reading for signal, reading in found if reading is not None}
