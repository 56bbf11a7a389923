"""The Summary API's `/stats/summary`, the wire format of a snapshot, to `engine.snapshot` values."""

from __future__ import annotations

import msgspec
from msgspec import field

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
from jettison.errors import ManifestError
from jettison.manifests.files.decoding import Unsigned, Wire, convert, decode
from jettison.manifests.times import parse_time


class _Memory(Wire):
    time: str | None = None
    available_bytes: Unsigned | None = None
    usage_bytes: Unsigned | None = None
    working_set_bytes: Unsigned | None = None


class _Fs(Wire):
    time: str | None = None
    available_bytes: Unsigned | None = None
    capacity_bytes: Unsigned | None = None
    used_bytes: Unsigned | None = None
    inodes_free: Unsigned | None = None
    inodes: Unsigned | None = None
    inodes_used: Unsigned | None = None


class _WorkingSet(Wire):
    working_set_bytes: Unsigned | None = None


class _Used(Wire):
    used_bytes: Unsigned | None = None
    inodes_used: Unsigned | None = None


class _ContainerStats(Wire):
    name: str = ""
    memory: _WorkingSet | None = None
    rootfs: _Used | None = None
    logs: _Used | None = None


class _VolumeStats(Wire):
    name: str = ""
    used_bytes: Unsigned | None = None
    inodes_used: Unsigned | None = None


class _Processes(Wire, rename=None):
    process_count: Unsigned | None = None


class _PodRef(Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _PodStats(Wire):
    pod_ref: _PodRef = field(default_factory=_PodRef)
    containers: list[_ContainerStats] | None = None
    memory: _WorkingSet | None = None
    volume: list[_VolumeStats] | None = None
    ephemeral_storage: _Used | None = field(name="ephemeral-storage", default=None)
    process_stats: _Processes | None = field(name="process_stats", default=None)


class _Rlimit(Wire):
    time: str | None = None
    maxpid: int | None = None
    curproc: int | None = None


class _SystemContainer(Wire):
    name: str = ""
    memory: _Memory | None = None


class _Runtime(Wire):
    image_fs: _Fs | None = None
    container_fs: _Fs | None = None


class _Node(Wire):
    node_name: str = ""
    system_containers: list[_SystemContainer] | None = None
    memory: _Memory | None = None
    fs: _Fs | None = None
    runtime: _Runtime | None = None
    rlimit: _Rlimit | None = None


class SummaryDocument(Wire):
    """What the kubelet answers on `/stats/summary`."""

    node: _Node = field(default_factory=_Node)
    pods: list[_PodStats] | None = None


_SUMMARY = msgspec.json.Decoder(SummaryDocument)


def parse_summary(data: bytes, source: str = "summary") -> tuple[NodeStats, dict[str, PodUsage]]:
    """The node's numbers, and each pod's usage by uid."""
    return _summary(decode(_SUMMARY, data, source), source)


def summary_from(document: object, source: str = "summary") -> tuple[NodeStats, dict[str, PodUsage]]:
    """Like `parse_summary`, for a document that is already decoded."""
    return _summary(convert(document, SummaryDocument, source), source)


def _summary(document: SummaryDocument, source: str) -> tuple[NodeStats, dict[str, PodUsage]]:
    try:
        return _node(document.node), {_uid(pod.pod_ref): _pod_usage(pod) for pod in document.pods or ()}
    except (OverflowError, ManifestError) as error:
        raise ManifestError(f"{source}: {error}") from error
    except ValueError as error:  # an integer that Python does not print
        raise ManifestError(f"{source}: a number has more than 4300 digits") from error


def _uid(reference: _PodRef) -> str:
    return reference.uid or f"{reference.namespace}/{reference.name}"


def _pod_usage(document: _PodStats) -> PodUsage:
    memory, processes, storage = document.memory, document.process_stats, document.ephemeral_storage
    return PodUsage(
        # A pod whose memory was looked at and whose working set is missing uses nothing, as upstream reads it.
        (_signed(memory.working_set_bytes) or 0) if memory else None,
        _signed(processes.process_count) if processes else None,
        _signed(storage.used_bytes) if storage else None,
        [_container_usage(each) for each in document.containers or ()],
        [VolumeUsage(each.name, _signed(each.used_bytes), _signed(each.inodes_used)) for each in document.volume or ()],
    )


def _container_usage(document: _ContainerStats) -> ContainerUsage:
    memory, rootfs, logs = document.memory, document.rootfs, document.logs
    return ContainerUsage(
        document.name,
        _signed(memory.working_set_bytes) if memory else None,
        _signed(rootfs.used_bytes) if rootfs else None,
        _signed(rootfs.inodes_used) if rootfs else None,
        _signed(logs.used_bytes) if logs else None,
        _signed(logs.inodes_used) if logs else None,
    )


def _signed(number: int | None) -> int | None:
    """The wire's unsigned 64 bits as the kubelet reads them: what wrapped below zero is negative again."""
    if number is None or number < 2**63:
        return number
    if number >= 2**64:
        raise OverflowError(f"`{number}` does not fit into 64 bits")
    return number - 2**64


def _node(document: _Node) -> NodeStats:
    pods = next((each for each in document.system_containers or () if each.name == "pods"), None)
    runtime = document.runtime or _Runtime()
    rlimit = document.rlimit
    return NodeStats(
        document.node_name,
        _memory(document.memory),
        _memory(pods.memory) if pods else None,
        pods is not None,
        _fs(document.fs),
        _fs(runtime.image_fs),
        _fs(runtime.container_fs),
        ProcessStats(_instant(rlimit.time), rlimit.maxpid, rlimit.curproc) if rlimit else None,
    )


def _memory(document: _Memory | None) -> MemoryStats | None:
    if document is None:
        return None
    return MemoryStats(
        _instant(document.time),
        _signed(document.available_bytes),
        _signed(document.usage_bytes),
        _signed(document.working_set_bytes),
    )


def _fs(document: _Fs | None) -> FsStats | None:
    if document is None:
        return None
    return FsStats(
        _instant(document.time),
        _signed(document.available_bytes),
        _signed(document.capacity_bytes),
        _signed(document.used_bytes),
        _signed(document.inodes_free),
        _signed(document.inodes),
        _signed(document.inodes_used),
    )


_GO_ZERO_NS = parse_time("0001-01-01T00:00:00Z")


def _instant(text: str | None) -> int | None:
    """Go's zero time means that none was noted, and a reading without a time counts as new."""
    instant = None if text is None else parse_time(text)
    return None if instant == _GO_ZERO_NS else instant


def layout_of(node: NodeStats) -> Layout:
    """A guess from sizes, where there is a summary but not the node: equal capacities mean one filesystem."""
    has_image_fs = _differ(node.fs, node.image_fs)
    return Layout(has_image_fs, has_image_fs and _differ(node.image_fs, node.container_fs))


def _differ(one: FsStats | None, other: FsStats | None) -> bool:
    if one is None or other is None:
        return False
    return (one.capacity, one.inodes) != (other.capacity, other.inodes)
