"""In which order pods go, and by which keys (spec §8).

A ranking is the whole order, because the first choice may be critical or already gone, and because `why` shows
it. QoS classes do not count: BestEffort pods come early only because any usage exceeds a request of nothing.

The sort works on tuples of plain integers, computed once per pod; what is shown of a candidate is made when it is
looked at. That keeps 10,000 pods within some twenty milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import overload

from jettison.engine.node.signals import ROWS, Part, Resource, Signal, SignalRow
from jettison.engine.node.snapshot import ContainerUsage, Layout, PodUsage, VolumeUsage
from jettison.engine.numbers.quantity import NANO, ZERO, Quantity
from jettison.engine.pods.pod import Pod
from jettison.values import frozen

SortKey = tuple[object, ...]
# Sort key, pod, its usage of the starved resource (None without statistics).
_Entry = tuple[SortKey, Pod, int | None]


@frozen
class Candidate:
    """A pod in the order, with the keys that put it there."""

    pod: Pod
    position: int
    # None when the pod has no statistics, or when the ranking does not ask.
    exceeds_request: bool | None
    priority: int
    usage: Quantity | None
    request: Quantity
    excess: Quantity | None
    has_usage: bool


@frozen
class Ranking(Sequence[Candidate]):
    """All pods, first to go first. Equal pods are ordered by namespace, name and uid."""

    signal: Signal
    ranks_inodes_by_inodes: bool
    entries: tuple[_Entry, ...]

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Candidate]: ...
    def __getitem__(self, index: int | slice) -> Candidate | Sequence[Candidate]:
        if isinstance(index, slice):
            return [self._candidate(position) for position in range(len(self))[index]]
        return self._candidate(range(len(self))[index])

    @property
    def pods(self) -> list[Pod]:
        """Just the pods, in order."""
        return [pod for _, pod, _ in self.entries]

    def are_equal(self, one: int, other: int) -> bool:
        """Whether Kubernetes would leave the order of these two to chance."""
        return self.entries[one][0][:-1] == self.entries[other][0][:-1]

    def _candidate(self, position: int) -> Candidate:
        _, pod, used = self.entries[position]
        row = ROWS[self.signal]
        request = ZERO
        if row.resource is Resource.MEMORY:
            request = pod.memory_request
        elif row.resource is Resource.EPHEMERAL_STORAGE or (
            row.resource is Resource.INODES and not self.ranks_inodes_by_inodes
        ):
            request = pod.storage_request
        usage = None if used is None else row.amount(used)
        asks = row.resource is not Resource.PIDS
        compared = ZERO if row.resource is Resource.INODES else request
        return Candidate(
            pod,
            position,
            compared < usage if asks and usage is not None else None,
            pod.effective_priority,
            usage,
            request,
            usage - request if usage is not None else None,
            used is not None,
        )


def rank(
    signal: Signal,
    pods: Sequence[Pod],
    usages: Mapping[str, PodUsage],
    layout: Layout,
    *,
    inodes_by_inodes: bool = False,
) -> Ranking:
    """The eviction order for a starved signal."""
    row = ROWS[signal]
    if row.resource is Resource.PIDS:
        entries = _by_processes(pods, usages)
    elif row.parts is None:
        entries = _by_memory(pods, usages)
    else:
        entries = _by_disk(row, row.parts[layout.disks], pods, usages, inodes_by_inodes=inodes_by_inodes)
    entries.sort(key=itemgetter(0))
    return Ranking(signal, inodes_by_inodes, tuple(entries))


def _by_memory(pods: Sequence[Pod], usages: Mapping[str, PodUsage]) -> list[_Entry]:
    """Without statistics first, then above the request, then low priority, then the largest excess."""
    entries: list[_Entry] = []
    for pod in pods:
        usage = usages.get(pod.uid)
        if usage is None:
            entries.append(((0, 0, pod.effective_priority, 0, pod.order), pod, None))
            continue
        used = usage.working_set or 0
        excess = used * NANO - pod.memory_request_nanos
        entries.append(((1, excess <= 0, pod.effective_priority, -excess, pod.order), pod, used))
    return entries


def _by_processes(pods: Sequence[Pod], usages: Mapping[str, PodUsage]) -> list[_Entry]:
    """Low priority first, whatever the usage; then without statistics, then the most processes."""
    entries: list[_Entry] = []
    for pod in pods:
        usage = usages.get(pod.uid)
        count = None if usage is None else usage.processes or 0
        key = (pod.effective_priority, count is not None, -(count or 0), pod.order)
        entries.append((key, pod, count))
    return entries


def _by_disk(
    row: SignalRow,
    parts: frozenset[Part],
    pods: Sequence[Pod],
    usages: Mapping[str, PodUsage],
    *,
    inodes_by_inodes: bool,
) -> list[_Entry]:
    """As for memory. For inodes upstream subtracts the request for storage, bytes from inodes, from each count."""
    counts_inodes = row.resource is Resource.INODES
    ignores_request = counts_inodes and inodes_by_inodes
    entries: list[_Entry] = []
    for pod in pods:
        usage = usages.get(pod.uid)
        if usage is None:
            entries.append(((0, 0, pod.effective_priority, 0, pod.order), pod, None))
            continue
        used = disk_usage(pod, usage, parts, int(counts_inodes))
        excess = used * NANO - (0 if ignores_request else pod.storage_request_nanos)
        is_within = used <= 0 if counts_inodes else excess <= 0
        entries.append(((1, is_within, pod.effective_priority, -excess, pod.order), pod, used))
    return entries


# Where a usage keeps its bytes; its inodes stand right behind. An index is read twice as fast as a name.
_ROOTFS = ContainerUsage._fields.index("rootfs_bytes")
_LOGS = ContainerUsage._fields.index("logs_bytes")
_VOLUME = VolumeUsage._fields.index("used_bytes")


def disk_usage(pod: Pod, usage: PodUsage, parts: frozenset[Part], inodes: int) -> int:
    """Bytes of the pod in these parts, or with `inodes` 1 its inodes; what was not measured counts as nothing."""
    total = 0
    if Part.ROOTFS in parts:
        for container in usage.containers:
            total += container[_ROOTFS + inodes] or 0  # type: ignore[operator]
    if Part.LOGS in parts:
        for container in usage.containers:
            total += container[_LOGS + inodes] or 0  # type: ignore[operator]
    if Part.VOLUMES in parts and pod.local_volumes:
        for volume in _first_by_name(pod, usage):
            total += volume[_VOLUME + inodes] or 0  # type: ignore[operator]
    return total


def _first_by_name(pod: Pod, usage: PodUsage) -> Iterator[VolumeUsage]:
    """Each local volume's first entry. What was measured twice counts once, what the pod names twice counts twice."""
    measured = {volume.name: volume for volume in reversed(usage.volumes)}
    for volume in pod.volumes:
        if volume.is_local and volume.name in measured:
            yield measured[volume.name]
