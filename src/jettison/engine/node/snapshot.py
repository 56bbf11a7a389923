"""What was measured: the node, its pods' usages, and when. The shape follows the kubelet's Summary API.

Measurements are named tuples and not dataclasses: a node has hundreds, each snapshot makes them anew, and a tuple is
built three times faster than a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import NamedTuple

from jettison.engine.pods.pod import Pod
from jettison.values import frozen


class Disks(Enum):
    """How images and writable layers are spread over filesystems, as rankings and reclaims tell them apart."""

    SHARED = "one filesystem"
    DEDICATED = "images and writable layers on a filesystem of their own"
    SPLIT = "images on a filesystem of their own, writable layers with the node"


class Layout(NamedTuple):
    """The kubelet asks two questions, and both answers matter by themselves."""

    has_image_fs: bool = False
    is_split: bool = False

    @property
    def disks(self) -> Disks:
        """Split without a dedicated image filesystem counts as shared, as upstream has it."""
        if not self.has_image_fs:
            return Disks.SHARED
        return Disks.SPLIT if self.is_split else Disks.DEDICATED


class Reading(NamedTuple):
    """Available, capacity and when, for one signal. Available may be negative: a cgroup can be over its limit."""

    available: int
    capacity: int
    time_ns: int | None


class MemoryStats(NamedTuple):
    """Memory of the node, of all pods together, or of anything else with a limit."""

    time_ns: int | None = None
    available: int | None = None
    usage: int | None = None
    working_set: int | None = None


class FsStats(NamedTuple):
    """One filesystem."""

    time_ns: int | None = None
    available: int | None = None
    capacity: int | None = None
    used: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    inodes_used: int | None = None


class ProcessStats(NamedTuple):
    """Process ids: how many there may be and how many there are, threads included."""

    time_ns: int | None = None
    maximum: int | None = None
    current: int | None = None


class NodeStats(NamedTuple):
    """The node's own numbers."""

    name: str = ""
    memory: MemoryStats | None = None
    # The system container `pods`: None when the summary has none, which upstream reports as an error of its own.
    pods_memory: MemoryStats | None = None
    has_pods_container: bool = False
    fs: FsStats | None = None
    image_fs: FsStats | None = None
    container_fs: FsStats | None = None
    processes: ProcessStats | None = None


class ContainerUsage(NamedTuple):
    """What one container uses; init and ephemeral containers appear here too while they run."""

    name: str
    working_set: int | None = None
    rootfs_bytes: int | None = None
    rootfs_inodes: int | None = None
    logs_bytes: int | None = None
    logs_inodes: int | None = None


class VolumeUsage(NamedTuple):
    """What one volume of a pod holds."""

    name: str
    used_bytes: int | None = None
    used_inodes: int | None = None


class PodUsage(NamedTuple):
    """What one pod uses. A pod that was not measured yet has no such entry at all, and goes first."""

    working_set: int | None = None
    processes: int | None = None
    ephemeral_storage_bytes: int | None = None
    containers: Sequence[ContainerUsage] = ()
    volumes: Sequence[VolumeUsage] = ()


@frozen
class Snapshot:
    """One consistent instant: everything in a step sees this and nothing else.

    All its times are by one clock, and durations are taken from them: an agent's must never jump.
    """

    now_ns: int
    node: NodeStats
    pods: Sequence[Pod]
    # By the pod's uid. Pods are in the order in which local-storage limits are looked at. None of them has ended:
    # `decide` ranks what it is given, as the kubelet's eviction manager does, and the end of such a pod frees nothing.
    usages: Mapping[str, PodUsage] = field(default_factory=dict)
    layout: Layout = field(default_factory=Layout)

    def shifted(self, by_ns: int) -> Snapshot:
        """The same by a clock that shows so much more."""
        if not by_ns:
            return self
        node = self.node
        parts = {name: getattr(node, name) for name in _DATED}
        dated = {
            name: part._replace(time_ns=part.time_ns + by_ns)
            for name, part in parts.items()
            if part is not None and part.time_ns is not None
        }
        return replace(self, now_ns=self.now_ns + by_ns, node=node._replace(**dated))


_DATED = ("memory", "pods_memory", "fs", "image_fs", "container_fs", "processes")
