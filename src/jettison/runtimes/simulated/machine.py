"""One machine as sums of lines: what is used of memory, disks, inodes and process ids, exactly, at any moment.

A sum is kept as one line, so that asking costs the same with 3 pods and with 300. When a line bends (a curve, a start,
an end) the sum changes, and the moment at which it will cross something is found anew, by division and not by looking.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from jettison.engine.config.allocatable import MachineCapacity, node_allocatable
from jettison.engine.config.policy import Policy
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import (
    ContainerUsage,
    FsStats,
    Layout,
    MemoryStats,
    NodeStats,
    PodUsage,
    ProcessStats,
    VolumeUsage,
)
from jettison.engine.numbers.quantity import binary
from jettison.runtimes.simulated.agenda import Agenda, Entry
from jettison.runtimes.simulated.curves import NANO, Curve
from jettison.values import frozen

MEMORY, DISK, INODES, IMAGES, IMAGE_INODES, PIDS, POD_MEMORY = range(7)
"""What is summed up. `DISK` and `INODES` are of the node's own filesystem, `IMAGES` of another one for images, and
`POD_MEMORY` is the part of the memory that is the pods'.
"""

_KINDS = 7


_SHARED, _DEDICATED = Layout(), Layout(has_image_fs=True)


@frozen
class MachineSize:
    """What there is in all."""

    name: str
    cores: int = 4
    memory: int = 8 * 2**30
    disk: int = 100 * 2**30
    inodes: int = 6_000_000
    # None: images lie with everything else.
    images: int | None = None
    image_inodes: int = 6_000_000
    processes: int = 32_768

    @property
    def layout(self) -> Layout:
        """Images and writable layers may have a filesystem of their own."""
        return _SHARED if self.images is None else _DEDICATED

    def capacity(self) -> MachineCapacity:
        """For allocatable."""
        return MachineCapacity(self.cores, self.memory, binary(self.disk), pids=self.processes)


class Track(NamedTuple):
    """A line through time: its amount at moment 0 in 10⁻⁹, and its rate."""

    nanos: int = 0
    rate: int = 0

    def at(self, time_ns: int) -> int:
        """Whole units."""
        return (self.nanos + self.rate * time_ns) // NANO


_FLAT = Track()

PARTS = ("memory", "rootfs", "logs", "volume", "inodes", "processes")
"""What a pod may use, in the order of a `PodTracks`."""


class PodTracks(NamedTuple):
    """What a pod uses right now, each as a line. `volume` is all of its local volumes together."""

    memory: Track = _FLAT
    rootfs: Track = _FLAT
    logs: Track = _FLAT
    volume: Track = _FLAT
    inodes: Track = _FLAT
    processes: Track = _FLAT


_NO_TRACKS = PodTracks()


class Usages(Mapping[str, PodUsage]):
    """By uid, of one moment. Made when they are asked for: most looks decide without them."""

    def __init__(self, tracks: dict[str, tuple[PodTracks, str, str]], time_ns: int) -> None:
        self._tracks = tracks
        self._time_ns = time_ns

    def __getitem__(self, uid: str) -> PodUsage:
        usage, container, volume = self._tracks[uid]
        now_ns = self._time_ns
        memory, rootfs, logs, held, inodes, processes = [(nanos + rate * now_ns) // NANO for nanos, rate in usage]
        volumes = (VolumeUsage(volume, held, 1),) if volume else ()
        one = ContainerUsage(container, memory, rootfs, inodes, logs, 1)
        return PodUsage(memory, processes, rootfs + logs + held, (one,), volumes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tracks)

    def __len__(self) -> int:
        return len(self._tracks)


class Machine:
    """Sums, and the moments at which they cross a line."""

    def __init__(self, size: MachineSize, agenda: Agenda, system: Mapping[int, Curve] | None = None) -> None:
        self.size = size
        self._agenda = agenda
        self._nanos = [0] * _KINDS
        self._rates = [0] * _KINDS
        self.tracks: dict[str, tuple[PodTracks, str, str]] = {}
        # Of pods that have ended and are not cleaned up.
        self.remains: dict[str, PodTracks] = {}
        # What can be freed without harming a pod: bytes of unused images, and of dead containers by pod.
        self.unused_images = 0
        self.dead: dict[str, int] = {}
        # Where the pods' memory ends, for `allocatableMemory.available`.
        self._pods_limit = size.memory
        # By kind: the amounts in 10⁻⁹ at which `crossed` is told, in order; how many of them are crossed; and when the
        # next one will be.
        self._lines: list[list[int]] = [[] for _ in range(_KINDS)]
        self._lines[MEMORY].append((size.memory + 1) * NANO)
        self._over = [0] * _KINDS
        self._due: list[int | None] = [None] * _KINDS
        self._entry: Entry | None = None
        self.crossed: Callable[[], object] = lambda: None
        self.exhausted: Callable[[], object] = lambda: None
        # Where each part of a pod's usage counts.
        self._kinds = (MEMORY, DISK, DISK, DISK, INODES, PIDS)
        if size.images is not None:
            self._kinds = (MEMORY, IMAGES, DISK, DISK, IMAGE_INODES, PIDS)
        for kind, curve in (system or {}).items():
            self._follow(kind, curve, agenda.now_ns, _FLAT)

    def use(self, policy: Policy) -> None:
        """Watch for these thresholds."""
        found = node_allocatable(self.size.capacity(), policy)
        self._pods_limit = found.enforced["memory"].value
        lines = {(MEMORY, (self.size.memory + 1) * NANO)}
        for threshold in policy.layouts[self.size.layout].all:
            if threshold.is_inert:
                continue
            kind = _KIND_OF[threshold.signal]
            if self.size.images is None and kind in (IMAGES, IMAGE_INODES):
                kind -= IMAGES - DISK
            is_allocatable = threshold.signal is Signal.ALLOCATABLE_MEMORY_AVAILABLE
            whole = self._pods_limit if is_allocatable else self._whole(kind)
            amount = threshold.quantity(whole).nanos // NANO
            lines.add((POD_MEMORY if is_allocatable else kind, (whole - amount + 1) * NANO))
        self._lines = [sorted(line for kind, line in lines if kind == each) for each in range(_KINDS)]
        self._over = [0] * _KINDS
        self._plan(range(_KINDS))

    def _whole(self, kind: int) -> int:
        size = self.size
        return (size.memory, size.disk, size.inodes, size.images or size.disk, size.image_inodes, size.processes)[kind]

    def used(self, kind: int) -> int:
        """Now, in whole units."""
        return (self._nanos[kind] + self._rates[kind] * self._agenda.now_ns) // NANO

    def set_pod(self, uid: str, usage: PodTracks | None, container: str = "", volume: str = "") -> None:
        """From now on the pod uses this; None: nothing of it is left."""
        known = self.tracks.get(uid)
        before = self.remains.pop(uid, _NO_TRACKS) if known is None else known[0]
        if usage is None:
            self.tracks.pop(uid, None)
        else:
            self.tracks[uid] = (usage, container, volume)
        after = _NO_TRACKS if usage is None else usage
        changed = []
        for old, new, kind in zip(before, after, self._kinds, strict=True):
            if old is not new and old != new:
                self._bend(kind, new.nanos - old.nanos, new.rate - old.rate)
                changed.append(kind)
        if before.memory != after.memory:
            self._bend(POD_MEMORY, after.memory.nanos - before.memory.nanos, after.memory.rate - before.memory.rate)
            changed.append(POD_MEMORY)
        self._plan(changed)

    def hide_pod(self, uid: str) -> None:
        """It has ended: what is left of it takes room, and is measured no more."""
        if uid in self.tracks:
            self.remains[uid] = self.tracks.pop(uid)[0]

    def put_images(self, amount: int) -> None:
        """Images that no container uses."""
        self.unused_images += amount
        self._add(DISK if self.size.images is None else IMAGES, amount)

    def bury(self, uid: str, amount: int) -> None:
        """A container has ended, and what it wrote stays until it is removed."""
        self.dead[uid] = self.dead.get(uid, 0) + amount
        self._add(DISK if self.size.images is None else IMAGES, amount)

    def exhume(self, uid: str) -> int:
        """Remove what dead containers of the pod have left; how much that was."""
        amount = self.dead.pop(uid, 0)
        self._add(DISK if self.size.images is None else IMAGES, -amount)
        return amount

    def free_images(self) -> int:
        """Remove unused images; how much they took."""
        freed, self.unused_images = self.unused_images, 0
        self._add(DISK if self.size.images is None else IMAGES, -freed)
        return freed

    def _add(self, kind: int, amount: int) -> None:
        self._bend(kind, amount * NANO, 0)
        self._plan((kind,))

    def _follow(self, kind: int, curve: Curve, began_ns: int, before: Track) -> None:
        """PodTracks that belongs to no pod."""
        now_ns = self._agenda.now_ns
        nanos, rate, length_ns = curve.piece(now_ns - began_ns)
        track = Track(nanos - rate * now_ns, rate)
        self._bend(kind, track.nanos - before.nanos, track.rate - before.rate)
        self._plan((kind,))
        if length_ns is not None:
            self._agenda.after(length_ns, lambda: self._follow(kind, curve, began_ns, track))

    def _bend(self, kind: int, nanos: int, rate: int) -> None:
        """The sum goes on from here by this much more; lines that it has fallen below meanwhile can be crossed anew."""
        if self._over[kind] and self._rates[kind] < 0:
            now = self._nanos[kind] + self._rates[kind] * self._agenda.now_ns
            self._over[kind] = min(self._over[kind], bisect_right(self._lines[kind], now))
        self._nanos[kind] += nanos
        self._rates[kind] += rate

    def _plan(self, kinds: Iterable[int]) -> None:
        """Find out what is crossed by now of sums that have changed, and when the next line will be."""
        now_ns = self._agenda.now_ns
        has_news = False
        for kind in kinds:
            lines, nanos, rate = self._lines[kind], self._nanos[kind], self._rates[kind]
            over = bisect_right(lines, nanos + rate * now_ns)
            has_news = has_news or over > self._over[kind]
            self._over[kind] = over
            self._due[kind] = -((nanos - lines[over]) // rate) if rate > 0 and over < len(lines) else None
        if has_news:
            self._agenda.at(now_ns, self._cross)
        next_ns = min([due for due in self._due if due is not None], default=None)
        if next_ns is not None and (self._entry is None or next_ns < self._entry[0]):
            # One that comes too early plans anew; so most bends need no entry of their own.
            self._agenda.cancel(self._entry)
            self._entry = self._agenda.at(next_ns, self._reach)

    def _reach(self) -> None:
        self._entry = None
        self._plan(range(_KINDS))

    def _cross(self) -> None:
        if self.used(MEMORY) > self.size.memory:
            self.exhausted()
        self.crossed()

    def stats(self, time_ns: int) -> NodeStats:
        """As an observer would measure it; `time_ns` is what the readings say."""
        size, now_ns, nanos, rates = self.size, self._agenda.now_ns, self._nanos, self._rates
        memory = (nanos[MEMORY] + rates[MEMORY] * now_ns) // NANO
        pods = (nanos[POD_MEMORY] + rates[POD_MEMORY] * now_ns) // NANO
        disk = (nanos[DISK] + rates[DISK] * now_ns) // NANO
        inodes = (nanos[INODES] + rates[INODES] * now_ns) // NANO
        fs = _filesystem(time_ns, size.disk, disk, size.inodes, inodes)
        image_fs = fs
        if size.images is not None:
            image_fs = _filesystem(time_ns, size.images, self.used(IMAGES), size.image_inodes, self.used(IMAGE_INODES))
        return NodeStats(
            size.name,
            MemoryStats(time_ns, size.memory - memory, memory, memory),
            MemoryStats(time_ns, self._pods_limit - pods, pods, pods),
            True,
            fs,
            image_fs,
            image_fs,
            ProcessStats(time_ns, size.processes, self.used(PIDS)),
        )


def _filesystem(time_ns: int, size: int, used: int, inodes: int, inodes_used: int) -> FsStats:
    free = inodes - inodes_used
    left = size - used
    return FsStats(time_ns, max(0, left), size, used if left > 0 else size, max(0, free), inodes, inodes_used)


_KIND_OF = {
    Signal.MEMORY_AVAILABLE: MEMORY,
    Signal.ALLOCATABLE_MEMORY_AVAILABLE: MEMORY,
    Signal.NODEFS_AVAILABLE: DISK,
    Signal.NODEFS_INODES_FREE: INODES,
    Signal.IMAGEFS_AVAILABLE: IMAGES,
    Signal.IMAGEFS_INODES_FREE: IMAGE_INODES,
    Signal.CONTAINERFS_AVAILABLE: IMAGES,
    Signal.CONTAINERFS_INODES_FREE: IMAGE_INODES,
    Signal.PID_AVAILABLE: PIDS,
}
