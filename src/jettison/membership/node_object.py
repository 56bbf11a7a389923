"""The Node object: what a node says about itself, as the kubelet writes it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from jettison import __version__
from jettison.engine.config.allocatable import Allocatable
from jettison.engine.node.signals import Condition
from jettison.engine.node.wording import NORMAL, Event, NodeCondition, report_conditions
from jettison.engine.numbers.durations import MINUTE_NS, SECOND_NS
from jettison.engine.numbers.quantity import Quantity
from jettison.engine.scheduling.placement import Taint
from jettison.errors import ObservationError
from jettison.manifests.pod_writer import present
from jettison.manifests.times import time_or_none, time_text
from jettison.runtimes.linux.files import kernel_files
from jettison.values import frozen

Document = dict[str, Any]

READY: Final = "Ready"
NODE_READY: Final = "NodeReady"
NODE_NOT_READY: Final = "NodeNotReady"
RUNTIME_UNHEALTHY: Final = "ContainerRuntimeUnhealthy"
"""As the node problem detector calls it."""
KUBERNETES: Final = "v1.36.4"
"""The release of the kubelet that this node stands for: schedulers and clients choose by it what a node can do."""

# Of one image, as in a kubelet's status.
_MOST_NAMES: Final = 5
_LONGEST_MESSAGE: Final = 1024
# Of a status, and the node's alone to write.
_OWN_FIELDS: Final = ("images", "daemonEndpoints", "volumesInUse", "runtimeHandlers", "features", "declaredFeatures")
_HUGE_PAGES: Final = "hugepages-"
_HEALTHY: Final = ("ContainerRuntimeIsHealthy", "Container runtime on the node is functioning properly")
_GO_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm"}


def machine_labels(name: str) -> dict[str, str]:
    """Those that every node has."""
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _architecture(),
    }


def node_info(container_runtime: str = "") -> dict[str, str]:
    """`status.nodeInfo`. Without a container runtime pods are processes, which Jettison runs itself."""
    machine_id = _line(Path("/etc/machine-id"))
    return {
        "machineID": machine_id,
        "systemUUID": _line(Path("/sys/class/dmi/id/product_uuid")) or machine_id,
        "bootID": _line(Path("/proc/sys/kernel/random/boot_id")),
        "kernelVersion": os.uname().release,
        "osImage": _os_image(),
        "containerRuntimeVersion": container_runtime or f"jettison://{__version__}",
        "kubeletVersion": f"{KUBERNETES}+jettison",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": _architecture(),
    }


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _line(path: Path) -> str:
    try:
        return (kernel_files.read(path) or b"").decode("ascii", "replace").strip()
    except ObservationError:  # some are for root alone
        return ""


def _architecture() -> str:
    machine = os.uname().machine
    return _GO_ARCHITECTURES.get(machine, machine)


@frozen
class NodeProfile:
    """What does not change while the node runs."""

    name: str
    # Where its pods can be reached.
    address: str
    resources: Allocatable
    labels: Mapping[str, str] = field(default_factory=dict)
    # Set when the Node is created; later they belong to the cluster.
    taints: Sequence[Taint] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    # Where it answers as a kubelet does, if it does.
    port: int | None = None
    info: Mapping[str, str] = field(default_factory=node_info)
    # nodeStatusUpdateFrequency: how often it is looked whether anything has changed.
    look_ns: int = 10 * SECOND_NS
    # nodeStatusReportFrequency: how often an unchanged status is told all the same.
    report_ns: int = 5 * MINUTE_NS
    # nodeStatusMaxImages.
    most_images: int = 50


@frozen
class NodeImage:
    """One that the node has; digests come before tags."""

    id: str
    names: tuple[str, ...]
    size: int


def listed_images(images: Iterable[NodeImage], most: int) -> list[Document]:
    """`status.images`: the largest first, `most` of them, or all where it is below 0."""
    found = sorted(images, key=lambda each: (each.size, each.id), reverse=True)
    chosen = found if most < 0 else found[:most]
    return [{"names": list(each.names[:_MOST_NAMES]), "sizeBytes": each.size} for each in chosen]


def node_document(profile: NodeProfile, status: Document) -> Document:
    """The Node as it is created."""
    metadata: Document = {"name": profile.name, "labels": dict(profile.labels)}
    if profile.annotations:
        metadata["annotations"] = dict(profile.annotations)
    taints = [present({"key": each.key, "value": each.value or None, "effect": each.effect}) for each in profile.taints]
    spec = {"taints": taints} if taints else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def status_document(
    profile: NodeProfile, conditions: Iterable[NodeCondition], images: Iterable[NodeImage] = ()
) -> Document:
    """The whole status."""
    status: Document = {
        "capacity": _texts(profile.resources.capacity),
        "allocatable": _texts(profile.resources.allocatable),
        "conditions": [_condition(each) for each in conditions],
        "addresses": [
            {"type": "InternalIP", "address": profile.address},
            {"type": "Hostname", "address": profile.name},
        ],
        "nodeInfo": dict(profile.info),
    }
    if listed := listed_images(images, profile.most_images):
        status["images"] = listed
    if profile.port is not None:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": profile.port}}
    return status


def status_patch(status: Document, before: Document) -> Document:
    """For a strategic merge: the status, and the end of what an earlier kubelet of this name has left.

    As a kubelet does. A merge keeps what it does not name: a second InternalIP is called, images attract pods, and
    volumes that count as used are not detached. Extended resources stay: an administrator may have advertised them.
    """
    patch: Document = {key: None for key in _OWN_FIELDS if before.get(key)}
    patch |= {**status, "addresses": [{"$patch": "replace"}, *status["addresses"]]}
    patch["nodeInfo"] = dict.fromkeys(before.get("nodeInfo") or ()) | status["nodeInfo"]
    for amounts in ("capacity", "allocatable"):
        pages = (name for name in before.get(amounts) or () if name.startswith(_HUGE_PAGES))
        patch[amounts] = dict.fromkeys(pages) | status[amounts]
    return patch


def conditions_of(document: Document | None) -> list[NodeCondition]:
    """As the API has them; times that cannot be parsed are None."""
    status = (document or {}).get("status") or {}
    return [_known(each) for each in status.get("conditions") or ()]


def next_conditions(
    before: Sequence[NodeCondition], pressure: frozenset[Condition], complaint: str | None, now_ns: int, name: str
) -> tuple[list[NodeCondition], list[Event]]:
    """The pressure conditions and Ready, and an event for each that changed. `complaint` is why it is not ready."""
    conditions, said = report_conditions(before, pressure, now_ns, name)
    index = next((i for i, each in enumerate(conditions) if each.type == READY), None)
    if index is None:
        conditions.append(NodeCondition(READY))
        index = len(conditions) - 1
    is_ready = complaint is None
    current = replace(
        conditions[index],
        heartbeat_ns=now_ns,
        reason="KubeletReady" if is_ready else "KubeletNotReady",
        message="kubelet is posting ready status" if complaint is None else complaint,
    )
    if (current.status == "True") != is_ready:
        current = replace(current, status="True" if is_ready else "False", transition_ns=now_ns)
        event = NODE_READY if is_ready else NODE_NOT_READY
        said.append(Event(NORMAL, event, f"Node {name} status is now: {event}"))
    conditions[index] = current
    return conditions, said


def with_runtime(before: Sequence[NodeCondition], lack: str | None, now_ns: int) -> list[NodeCondition]:
    """The same with a condition for the container runtime: `lack` is why it does not answer, empty while it does.

    Not a part of Ready, as it is for a kubelet: a node that is not ready loses its pods, and containers run on without
    their runtime, as processes do. A node without one (None) has the condition only where it had it before.
    """
    known = next((each for each in before if each.type == RUNTIME_UNHEALTHY), None)
    if lack is None and known is None:
        return list(before)
    current = known or NodeCondition(RUNTIME_UNHEALTHY)
    status = "True" if lack else "False"
    reason, message = ("ContainerRuntimeNotAnswering", lack[:_LONGEST_MESSAGE]) if lack else _HEALTHY
    if current.status != status:
        current = replace(current, status=status, transition_ns=now_ns)
    current = replace(current, heartbeat_ns=now_ns, reason=reason, message=message)
    return [*(each for each in before if each.type != RUNTIME_UNHEALTHY), current]


def _texts(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def _condition(condition: NodeCondition) -> Document:
    return present(
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason or None,
            "message": condition.message or None,
            "lastHeartbeatTime": _time(condition.heartbeat_ns),
            "lastTransitionTime": _time(condition.transition_ns),
        }
    )


def _known(document: Document) -> NodeCondition:
    return NodeCondition(
        document["type"],
        document.get("status") or "Unknown",
        document.get("reason") or "",
        document.get("message") or "",
        time_or_none(document.get("lastHeartbeatTime")),
        time_or_none(document.get("lastTransitionTime")),
    )


def _time(time_ns: int | None) -> str | None:
    return None if time_ns is None else time_text(time_ns)
