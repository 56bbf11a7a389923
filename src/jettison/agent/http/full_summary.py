"""`/stats/summary` in full, as a kubelet of 1.36 serves it: the snapshot that decisions are made on, with all details.

What a snapshot has is taken from it, so that a client sees the numbers that were decided on. Pods and containers get
memory, processor time, swap and stalls of the look that was made for the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from jettison.engine.node.snapshot import FsStats, PodUsage, Snapshot
from jettison.engine.pods.pod import Pod
from jettison.manifests.summary_writer import filesystem_document, pod_summary, summary_document
from jettison.manifests.times import time_text
from jettison.runtimes.linux.cgroups.counters import Counters
from jettison.runtimes.linux.network import Interface, Network
from jettison.runtimes.linux.psi import Pressure, Stall
from jettison.runtimes.stats import Details, NodeDetails, PodDetails

Document = dict[str, Any]

_NO_STALL = Stall(0.0, 0.0, 0.0, 0)


def full_summary(snapshot: Snapshot, details: NodeDetails, *, only_cpu_and_memory: bool = False) -> bytes:
    """The whole document; without disks, networks and processes where only these are wanted.

    Encoded pod by pod: the values of 110 pods would take 3 MB at once.
    """
    node: Document = summary_document(snapshot.node, {}, (), only_cpu_and_memory=only_cpu_and_memory)["node"]
    _add_node(node, details)
    if not only_cpu_and_memory:
        _add_network(node, details.network, details.time_ns)
    known = {pod.uid: pod for pod in snapshot.pods}
    pods = (
        _pod(snapshot, details, uid, known.get(uid), only_cpu_and_memory=only_cpu_and_memory) for uid in snapshot.usages
    )
    encode = msgspec.json.encode
    return b'{"node":' + encode(node) + b',"pods":[' + b",".join(map(encode, pods)) + b"]}"


def _pod(snapshot: Snapshot, details: NodeDetails, uid: str, pod: Pod | None, *, only_cpu_and_memory: bool) -> Document:
    usage, known = snapshot.usages[uid], details.pods.get(uid)
    document = pod_summary(usage, uid, pod, only_cpu_and_memory=only_cpu_and_memory)
    if known is not None:
        _add_pod(document, known)
    if not only_cpu_and_memory:
        _add_disks(document, snapshot, usage, {} if known is None else known.volumes)
        _add_network(document, None if known is None else known.network, details.time_ns)
    return document


def _add_node(node: Document, details: NodeDetails) -> None:
    if details.started_ns is not None:
        node["startTime"] = time_text(details.started_ns)
    if details.whole is not None:
        # Available, usage and working set are those of the snapshot.
        _add_usage(node, details.whole, {**node.get("memory", {})})
    decided = {each["name"]: each.get("memory", {}) for each in node.get("systemContainers", ())}
    system: list[Document] = []
    for name, each in details.system.items():
        document: Document = {"name": name}
        _add_usage(document, each, decided.get(name, {}))
        system.append(document)
    if system:
        node["systemContainers"] = system


def _add_pod(pod: Document, details: PodDetails) -> None:
    if details.started_ns is not None:
        pod["startTime"] = time_text(details.started_ns)
    if details.whole is not None:
        _add_usage(pod, details.whole._replace(started_ns=None), {})
    for container in pod["containers"]:
        known = details.containers.get(container["name"])
        if known is not None:
            _add_usage(container, known, {})


def _add_usage(document: Document, details: Details, decided: Mapping[str, Any]) -> None:
    """`decided` goes before what was counted for the client."""
    time, counters = time_text(details.time_ns), details.counters
    if details.started_ns is not None:
        document["startTime"] = time_text(details.started_ns)
    cpu = _without_none(
        time=time,
        usageNanoCores=details.nano_cores,
        usageCoreNanoSeconds=counters.cpu_ns,
        psi=_pressure(counters.stalls.cpu),
    )
    if counters.cpu_ns is not None:
        document["cpu"] = cpu
    if counters.memory is not None:
        document["memory"] = {**_memory(time, counters), **decided}
    if counters.swap is not None:
        used, limit = counters.swap
        document["swap"] = _without_none(
            time=time, swapAvailableBytes=None if limit is None else max(limit - used, 0), swapUsageBytes=used
        )
    if counters.stalls.io is not None:
        document["io"] = {"time": time, "psi": _pressure(counters.stalls.io)}


def _memory(time: str, counters: Counters) -> Document:
    memory = counters.memory
    assert memory is not None
    available = None if memory.limit is None else max(memory.limit - memory.working_set, 0)
    return _without_none(
        time=time,
        availableBytes=available,
        usageBytes=memory.usage,
        workingSetBytes=memory.working_set,
        rssBytes=memory.rss,
        pageFaults=memory.faults,
        majorPageFaults=memory.major_faults,
        psi=_pressure(counters.stalls.memory),
    )


def _pressure(pressure: Pressure | None) -> Document | None:
    """Microseconds in all, as the kernel's file has them; nothing was lost where it measures only one of the two."""
    if pressure is None:
        return None
    return {"full": _stall(pressure.full or _NO_STALL), "some": _stall(pressure.some)}


def _stall(stall: Stall) -> Document:
    return {"total": stall.total_us, "avg10": stall.avg10, "avg60": stall.avg60, "avg300": stall.avg300}


def _add_network(document: Document, network: Network | None, time_ns: int) -> None:
    if network is not None:
        default = {"name": ""} if network.default is None else _interface(network.default)
        document["network"] = {
            "time": time_text(time_ns),
            **default,
            "interfaces": [_interface(each) for each in network.interfaces],
        }


def _interface(interface: Interface) -> Document:
    return {
        "name": interface.name,
        "rxBytes": interface.rx_bytes,
        "rxErrors": interface.rx_errors,
        "txBytes": interface.tx_bytes,
        "txErrors": interface.tx_errors,
    }


def _add_disks(pod: Document, snapshot: Snapshot, usage: PodUsage, volumes: Mapping[str, FsStats]) -> None:
    """What the pod uses, together with the filesystem that it uses it of."""
    node = snapshot.node
    layers = _shared(node.container_fs or node.image_fs or node.fs)
    own = _shared(node.fs)
    for container in pod["containers"]:
        for part, filesystem in (("rootfs", layers), ("logs", own)):
            if part in container:
                container[part] = {**filesystem, **container[part]}
    for volume in pod.get("volume", ()):
        known = volumes.get(volume["name"])
        volume.update({**(own if known is None else filesystem_document(known)), **volume})
    if "ephemeral-storage" in pod:
        inodes = [
            each for container in usage.containers for each in (container.rootfs_inodes, container.logs_inodes)
        ] + [volume.used_inodes for volume in usage.volumes if volume.name not in volumes]
        known_inodes = [each for each in inodes if each is not None]
        used = {"inodesUsed": sum(known_inodes)} if known_inodes else {}
        pod["ephemeral-storage"] = {**own, **pod["ephemeral-storage"], **used}


def _shared(filesystem: FsStats | None) -> Document:
    """Without what others use of it."""
    return {} if filesystem is None else filesystem_document(filesystem._replace(used=None, inodes_used=None))


def _without_none(**values: Any) -> Document:
    return {name: value for name, value in values.items() if value is not None}
