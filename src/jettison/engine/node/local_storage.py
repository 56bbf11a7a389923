"""Local-storage limits: pods that hold more than they are allowed, whatever the node's state (spec §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jettison.engine.node.evictions import HARD_GRACE, Eviction
from jettison.engine.node.snapshot import Layout, PodUsage
from jettison.engine.numbers.quantity import NANO, Quantity
from jettison.engine.pods.pod import Pod

EMPTY_DIR = "emptydirfs.limit"
POD = "ephemeralpodfs.limit"
CONTAINER = "ephemeralcontainerfs.limit"


class Violation(NamedTuple):
    """A limit that is broken: the label of the metric, Kubernetes' words, and what holds how much of it."""

    label: str
    message: str
    what: str
    used: int
    limit: Quantity
    # Of the volume or container; empty for the pod as a whole.
    name: str = ""


def over_limit(pods: Sequence[Pod], usages: Mapping[str, PodUsage], layout: Layout) -> list[Eviction]:
    """Every pod that is over a limit, in the order of `pods`; they all go in one step.

    Critical pods are looked at upstream too, only to be refused without a trace.
    """
    found = []
    for pod in pods:
        if not pod.has_storage_limits or pod.is_critical:
            continue
        usage = usages.get(pod.uid)
        violation = None if usage is None else broken_limit(pod, usage, layout)
        if violation is not None:
            found.append(Eviction(pod, violation.message, HARD_GRACE, violation.label))
    return found


def broken_limit(pod: Pod, usage: PodUsage, layout: Layout) -> Violation | None:
    """The first that Kubernetes finds; it looks for no other."""
    return _empty_dir(pod, usage) or _pod(pod, usage) or _container(pod, usage, layout)


def _empty_dir(pod: Pod, usage: PodUsage) -> Violation | None:
    # Of several entries with one name the last counts here, and in rankings the first.
    used = {volume.name: volume.used_bytes for volume in usage.volumes}
    for volume in pod.volumes:
        size, limit = used.get(volume.name), volume.size_limit
        if limit is not None and size is not None and size * NANO > limit.nanos:
            said = f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}". '
            return Violation(EMPTY_DIR, said, f"emptyDir `{volume.name}`", size, limit, volume.name)
    return None


def _pod(pod: Pod, usage: PodUsage) -> Violation | None:
    limit, used = pod.storage_limit, usage.ephemeral_storage_bytes or 0
    if limit is None or used * NANO <= limit.nanos:
        return None
    said = f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
    return Violation(POD, said, "the pod", used, limit)


def _container(pod: Pod, usage: PodUsage, layout: Layout) -> Violation | None:
    limits = pod.container_storage_limits
    for container in usage.containers if limits else ():
        limit = limits.get(container.name)
        if limit is None:
            continue
        used = container.logs_bytes or 0
        if not layout.has_image_fs:
            used += container.rootfs_bytes or 0
        if used * NANO > limit.nanos:
            said = f'Container {container.name} exceeded its local ephemeral storage limit "{limit}". '
            return Violation(CONTAINER, said, f"container `{container.name}`", used, limit, container.name)
    return None
