"""Small worlds to decide on: a pod, its usage, a node, a policy, a snapshot, each in one line.

A table of cases stays readable only if a row says what matters and nothing else. Whatever a row leaves out is set here
so that it does not matter: a node has plenty of everything, a pod asks for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jettison.engine.config.kubelet_config import Source, assemble
from jettison.engine.config.kubelet_fields import API_VERSION, KIND
from jettison.engine.config.policy import KUBELET, Policy, Switches, build_policy
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import (
    ContainerUsage,
    FsStats,
    Layout,
    MemoryStats,
    NodeStats,
    PodUsage,
    ProcessStats,
    Snapshot,
)
from jettison.engine.node.thresholds import Percentage, Threshold
from jettison.engine.numbers.quantity import Quantity, parse
from jettison.engine.numbers.strconv import parse_percentage
from jettison.engine.pods.pod import Container, Pod, Volume

KI, MI, GI = 2**10, 2**20, 2**30
SECOND_NS = 10**9

SHARED = Layout()
DEDICATED = Layout(has_image_fs=True)
SPLIT = Layout(has_image_fs=True, is_split=True)


def resources(**texts: str) -> dict[str, Quantity]:
    """`resources(memory="1Gi", ephemeral_storage="2Gi")`."""
    return {name.replace("_", "-"): parse(text) for name, text in texts.items()}


def container(name: str = "c", limits: Mapping[str, str] | None = None, **requests: str) -> Container:
    """A regular container with these requests."""
    return Container(name, resources(**requests), resources(**(limits or {})))


def sidecar(name: str, limits: Mapping[str, str] | None = None, **requests: str) -> Container:
    """An init container that keeps running."""
    return Container(name, resources(**requests), resources(**(limits or {})), is_sidecar=True)


def pod(name: str = "a", priority: int | None = None, *, volumes: Iterable[Volume] = (), **requests: str) -> Pod:
    """A pod with one container `c`; its uid is its name."""
    return Pod(
        name, uid=name, priority=priority, containers=(container("c", None, **requests),), volumes=tuple(volumes)
    )


def memory_used(working_set: int | None, name: str = "c") -> PodUsage:
    """A pod whose only container uses what the pod uses."""
    return PodUsage(working_set, containers=[ContainerUsage(name, working_set)])


def filesystem(available: int, capacity: int = 100 * GI, *, inodes_free: int = 10**6, inodes: int = 10**6) -> FsStats:
    """A filesystem read at no particular time."""
    return FsStats(None, available, capacity, capacity - available, inodes_free, inodes, inodes - inodes_free)


PLENTY = filesystem(100 * GI)


def node(
    *,
    memory: int = 100 * GI,
    capacity: int = 128 * GI,
    time_s: int | None = None,
    fs: FsStats = PLENTY,
    image_fs: FsStats = PLENTY,
    container_fs: FsStats = PLENTY,
    pids_left: int = 30000,
) -> NodeStats:
    """A node with plenty of everything but for what is said. Times are those of the memory only."""
    time_ns = None if time_s is None else time_s * SECOND_NS
    return NodeStats(
        "node1",
        memory=MemoryStats(time_ns, memory, capacity - memory, capacity - memory),
        fs=fs,
        image_fs=image_fs,
        container_fs=container_fs,
        processes=ProcessStats(None, 32768, 32768 - pids_left),
    )


def snapshot(
    at_s: float,
    stats: NodeStats,
    pods: Sequence[Pod] = (),
    usages: Mapping[str, PodUsage] | None = None,
    layout: Layout = SHARED,
) -> Snapshot:
    """An instant `at_s` seconds after the epoch."""
    return Snapshot(round(at_s * SECOND_NS), stats, pods, usages or {}, layout)


def document(**fields: Any) -> dict[str, Any]:
    """A KubeletConfiguration with these fields."""
    return {"apiVersion": API_VERSION, "kind": KIND, **fields}


def policy(
    hard: Mapping[str, str] | None = None,
    soft: Mapping[str, str] | None = None,
    *,
    grace: str | Mapping[str, str] = "30s",
    reclaim: Mapping[str, str] | None = None,
    guards_allocatable: bool = False,
    flags: Iterable[tuple[str, str]] = (),
    switches: Switches = KUBELET,
    **fields: Any,
) -> Policy:
    """A policy with these thresholds and no others; a single `grace` is that of every soft one."""
    graces = dict.fromkeys(soft or (), grace) if isinstance(grace, str) else dict(grace)
    file = document(
        evictionHard=dict(hard or {}),
        evictionSoft=dict(soft or {}),
        evictionSoftGracePeriod=graces,
        evictionMinimumReclaim=dict(reclaim or {}),
        enforceNodeAllocatable=["pods"] if guards_allocatable else [],
        **fields,
    )
    return build_policy(assemble(Source("test", file), flags=flags), switches)


def threshold(signal: Signal, amount: str, *, grace_s: int = 0, reclaim: str | None = None) -> Threshold:
    """A threshold as it stands in a file, `1Gi` or `10%`."""
    return Threshold(signal, _amount(amount), grace_s * SECOND_NS, None if reclaim is None else _amount(reclaim))


def _amount(text: str) -> Quantity | Percentage:
    return Percentage(parse_percentage(text)) if text.endswith("%") else parse(text)


def sharing(document: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The same pod, with this directory of the host as `shared` in its working directory."""
    spec = document["spec"]
    spec["volumes"] = [*spec.get("volumes", ()), {"name": "shared", "hostPath": {"path": str(directory)}}]
    for each in spec["containers"]:
        each["volumeMounts"] = [*each.get("volumeMounts", ()), {"name": "shared", "mountPath": "/shared"}]
    return document
