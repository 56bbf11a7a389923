"""THE table of signals: one row says everything about one signal.

Which resource it stands for, which condition it raises, where its reading comes from, what ranks the pods, and what
can be freed before a pod must go, for each disk layout. Adding a signal is adding a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum, StrEnum

from jettison.engine.node.snapshot import Disks, FsStats, MemoryStats, NodeStats, ProcessStats, Reading
from jettison.engine.numbers.quantity import Quantity, binary, decimal, wrapped
from jettison.engine.numbers.strconv import INT64_MAX, INT64_MIN
from jettison.values import frozen


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


@frozen
class SignalRow:
    """Everything about one signal."""

    signal: Signal
    resource: Resource
    condition: Condition
    # The field of `NodeStats` that it is read from, and what reads all signals of that field.
    source: str
    read: Callable[..., None]
    reclaims: Reclaims = field(default_factory=lambda: _NOTHING)
    # The parts of a pod that count against this filesystem; None where a ranking does not look at disks.
    parts: Parts | None = None

    def amount(self, number: int) -> Quantity:
        """`number` of this signal's resource, printing in the resource's own way."""
        return (binary if self.resource in (Resource.MEMORY, Resource.EPHEMERAL_STORAGE) else decimal)(number)


# A third of the time of `Reading(…)`: nine are made in every look.
_new = tuple.__new__

Found = dict[Signal, Reading]


def _reading(available: int, capacity: int, time_ns: int | None) -> Reading:
    """Numbers that a summary has with 64 bits are read with 63 and a sign, as upstream reads them."""
    if available > INT64_MAX or not INT64_MIN <= capacity <= INT64_MAX:
        available, capacity = wrapped(available), wrapped(capacity)
    return _new(Reading, (available, capacity, time_ns))


def _read_memory(found: Found, stats: MemoryStats, signal: Signal) -> None:
    time_ns, available, _, working_set = stats
    if available is not None and working_set is not None:
        found[signal] = _reading(available, available + working_set, time_ns)


def _read_disk(found: Found, stats: FsStats, signal: Signal, inodes_signal: Signal) -> None:
    time_ns, available, capacity, _, inodes_free, inodes, _ = stats
    if available is not None and capacity is not None:
        found[signal] = _reading(available, capacity, time_ns)
    if inodes_free is not None and inodes is not None:
        found[inodes_signal] = _reading(inodes_free, inodes, time_ns)


def _read_processes(found: Found, stats: ProcessStats, signal: Signal) -> None:
    time_ns, maximum, current = stats
    if maximum is not None and current is not None:
        found[signal] = _reading(maximum - current, maximum, time_ns)


def _disk_rows(
    available: Signal,
    inodes_free: Signal,
    source: str,
    reclaims: Reclaims,
    parts: Parts,
) -> tuple[SignalRow, SignalRow]:
    """Bytes and inodes of one filesystem differ only in what is counted."""
    condition = Condition.DISK_PRESSURE
    storage, inodes = Resource.EPHEMERAL_STORAGE, Resource.INODES
    return (
        SignalRow(available, storage, condition, source, _read_disk, reclaims, parts),
        SignalRow(inodes_free, inodes, condition, source, _read_disk, reclaims, parts),
    )


TABLE: tuple[SignalRow, ...] = (
    SignalRow(
        Signal.MEMORY_AVAILABLE,
        Resource.MEMORY,
        Condition.MEMORY_PRESSURE,
        "memory",
        _read_memory,
    ),
    SignalRow(
        Signal.ALLOCATABLE_MEMORY_AVAILABLE,
        Resource.MEMORY,
        Condition.MEMORY_PRESSURE,
        "pods_memory",
        _read_memory,
    ),
    *_disk_rows(
        Signal.NODEFS_AVAILABLE,
        Signal.NODEFS_INODES_FREE,
        "fs",
        _NODE_RECLAIMS,
        _NODE_PARTS,
    ),
    *_disk_rows(
        Signal.IMAGEFS_AVAILABLE,
        Signal.IMAGEFS_INODES_FREE,
        "image_fs",
        _IMAGE_RECLAIMS,
        _IMAGE_PARTS,
    ),
    *_disk_rows(
        Signal.CONTAINERFS_AVAILABLE,
        Signal.CONTAINERFS_INODES_FREE,
        "container_fs",
        _CONTAINER_RECLAIMS,
        _CONTAINER_PARTS,
    ),
    SignalRow(Signal.PID_AVAILABLE, Resource.PIDS, Condition.PID_PRESSURE, "processes", _read_processes),
)

ROWS: Mapping[Signal, SignalRow] = {row.signal: row for row in TABLE}


def readings(node: NodeStats) -> dict[Signal, Reading]:
    """Every signal that could be measured; a signal needs both its numbers or it has no reading."""
    found: Found = {}
    for place, read, signals in _READERS:
        stats = node[place]
        if stats is not None:
            read(found, stats, *signals)
    return found


_READERS = tuple(
    (
        NodeStats._fields.index(source),
        next(row.read for row in TABLE if row.source == source),
        tuple(row.signal for row in TABLE if row.source == source),
    )
    for source in dict.fromkeys(row.source for row in TABLE)
)
"""By field of `NodeStats`, in the order of the table."""
