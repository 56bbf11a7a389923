"""What fills the disks of a node: which filesystem is which, and how much of each is pods, images, logs or neither.

Measured here and now, by the process that asks: a walk over an image store takes seconds, and an agent has no time for
it. What pods hold comes from their agent, or from their directories where it is down.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from jettison.engine.config.policy import Policy
from jettison.engine.node.signals import ROWS, Part, Resource, Signal
from jettison.engine.node.snapshot import Layout, PodUsage, Reading
from jettison.engine.node.thresholds import Threshold
from jettison.errors import ObservationError
from jettison.runtimes.linux.files.disk_usage import DirectoryWalk
from jettison.runtimes.linux.files.filesystems import Filesystem, Mount, mount_of, read_filesystem
from jettison.runtimes.machine.node_disks import DiskPlaces
from jettison.values import frozen

WALK_SECONDS = 20.0
"""For each directory that is walked over; what was not reached by then is missing from the sum, and that is said."""

NODEFS, IMAGEFS, CONTAINERFS = ROLES = ("nodefs", "imagefs", "containerfs")
_SIGNALS = {
    NODEFS: (Signal.NODEFS_AVAILABLE, Signal.NODEFS_INODES_FREE),
    IMAGEFS: (Signal.IMAGEFS_AVAILABLE, Signal.IMAGEFS_INODES_FREE),
    CONTAINERFS: (Signal.CONTAINERFS_AVAILABLE, Signal.CONTAINERFS_INODES_FREE),
}
# A runtime names a part of its directory; the rest of it is its own as well.
_PARTS_OF_STORES = ("io.containerd.", "overlay-")


@frozen
class PodOnDisk:
    """What one pod has; `is_safe` where no pressure may evict it."""

    name: str
    usage: PodUsage
    is_safe: bool = False
    # Its writable layers are in the store of a container runtime or an engine.
    is_boxed: bool = False

    def bytes_of(self, parts: Iterable[Part]) -> int:
        """As a ranking counts them."""
        containers, volumes = self.usage.containers, self.usage.volumes
        sums = {
            Part.ROOTFS: sum(each.rootfs_bytes or 0 for each in containers),
            Part.LOGS: sum(each.logs_bytes or 0 for each in containers),
            Part.VOLUMES: sum(each.used_bytes or 0 for each in volumes),
        }
        return sum(sums[part] for part in parts)


@frozen
class GuardedLevel:
    """A threshold of the filesystem. `missing` is what must come free until it is resolved; 0 where nothing must."""

    threshold: Threshold
    reading: Reading
    missing: int


@frozen
class DiskFill:
    """One filesystem, and what is on it, in bytes."""

    roles: tuple[str, ...]
    mount: Mount
    space: Filesystem
    levels: tuple[GuardedLevel, ...]
    # By pod, of what counts against this filesystem.
    pods: Mapping[str, int]
    # Of all pods together.
    parts: Mapping[Part, int]
    # What the container runtime or an engine keeps there, without the pods' writable layers.
    images: int
    unused_images: int | None
    # Logs that no living pod has.
    old_logs: int
    # What pods that may be evicted hold.
    evictable: int
    is_cut_short: bool

    @property
    def others(self) -> int:
        """What belongs to no pod and to no image."""
        return max(self.space.used - sum(self.parts.values()) - self.images - self.old_logs, 0)

    @property
    def hopeless(self) -> GuardedLevel | None:
        """A threshold that stays crossed though all images that may go and all pods that may be evicted were gone."""
        hope = self.evictable + (self.unused_images or 0) + self.old_logs
        short = [each for each in self.levels if ROWS[each.threshold.signal].resource is Resource.EPHEMERAL_STORAGE]
        return next((each for each in short if each.missing > hope), None)


def report_disks(
    places: DiskPlaces,
    policy: Policy | None,
    pods: Sequence[PodOnDisk],
    logs_dir: Path,
    unused_images: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[DiskFill]:
    """nodefs first. Raises ObservationError where a filesystem cannot be read."""
    found: dict[str, tuple[Mount, Path, list[str]]] = {}
    for role, path in zip(ROLES, (places.node, places.images, places.layers), strict=True):
        mount = mount_of(path)
        if mount is None:
            raise ObservationError(f"cannot measure {role}: `{path}` is gone")
        found.setdefault(mount.device, (mount, path, []))[2].append(role)
    store = None if places.named is None else _store_of(Path(places.named.images))
    walked = {path: _walked(path, clock) for path in {logs_dir, *([] if store is None else [store])}}
    fills = []
    for mount, path, roles in found.values():
        space = read_filesystem(path)
        if space is None:
            raise ObservationError(f"cannot measure {roles[0]}: `{path}` is gone")
        own = _own_parts(roles, places.layout)
        parts = {part: sum(each.bytes_of((part,)) for each in pods) for part in Part if part in own}
        here = [each for each in walked if _device(each) == mount.device]
        layers = sum(each.bytes_of((Part.ROOTFS,)) for each in pods if each.is_boxed)
        images = walked[store][0] - layers if store is not None and store in here else 0
        old_logs = walked[logs_dir][0] - parts.get(Part.LOGS, 0) if logs_dir in here else 0
        fills.append(
            DiskFill(
                tuple(roles),
                mount,
                space,
                tuple(_levels(roles, places.layout, policy, space)),
                {each.name: each.bytes_of(own) for each in pods},
                parts,
                max(images, 0),
                unused_images if IMAGEFS in roles else 0,
                max(old_logs, 0),
                sum(each.bytes_of(own) for each in pods if not each.is_safe),
                any(walked[each][1] for each in here),
            )
        )
    return fills


def _own_parts(roles: Sequence[str], layout: Layout) -> frozenset[Part]:
    """The parts of pods that count against the filesystem, in whichever of its roles."""
    rows = (ROWS[_SIGNALS[role][0]] for role in roles)
    return frozenset(part for row in rows if row.parts is not None for part in row.parts[layout.disks])


def _levels(roles: Sequence[str], layout: Layout, policy: Policy | None, space: Filesystem) -> Iterable[GuardedLevel]:
    if policy is None:
        return
    signals = {signal for role in roles for signal in _SIGNALS[role]}
    for each in policy.layouts[layout].all:
        if each.signal not in signals or each.is_inert:
            continue
        is_bytes = ROWS[each.signal].resource is Resource.EPHEMERAL_STORAGE
        available, capacity = (space.available, space.capacity) if is_bytes else (space.inodes_free, space.inodes)
        if available is not None and capacity is not None:
            reading = Reading(available, capacity, None)
            missing = max(each.quantity(capacity).value - available, 0) if each.is_crossed(reading) else 0
            yield GuardedLevel(each, reading, missing)


def _store_of(images: Path) -> Path:
    """The whole directory of a runtime or an engine."""
    return images.parent if images.name.startswith(_PARTS_OF_STORES) else images


def _device(path: Path) -> str | None:
    mount = mount_of(path)
    return None if mount is None else mount.device


def _walked(path: Path, clock: Callable[[], float]) -> tuple[int, bool]:
    """Bytes, and whether the walk was given up before its end."""
    until = clock() + WALK_SECONDS
    with DirectoryWalk(path) as walk:
        while walk.step():
            if clock() > until:
                return (0 if walk.usage is None else walk.usage.size), True
        usage = walk.usage
    return (0 if usage is None else usage.size), usage is not None and usage.unreadable > 0
