"""Local-storage limits: pods that hold more than they are allowed, whatever the node's state (spec §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jettison.engine.evictions import HARD_GRACE, Eviction
from jettison.engine.pods import Pod
from jettison.engine.quantity import NANO
from jettison.engine.snapshot import Layout, PodUsage

EMPTY_DIR = "emptydirfs.limit"
POD = "ephemeralpodfs.limit"
CONTAINER = "ephemeralcontainerfs.limit"


def over_limit(pods: Sequence[Pod], usages: Mapping[str, PodUsage], layout: Layout) -> list[Eviction]:
    """Every pod that is over a limit, in the order of `pods`; they all go in one step.

    Critical pods are looked at upstream too, only to be refused without a trace.
    """
    found = []
    for pod in pods:
        if not pod.has_storage_limits or pod.is_critical:
            continue
        usage = usages.get(pod.uid)
        if usage is None:
            continue
        violation = _violation(pod, usage, layout)
        if violation is not None:
            label, message = violation
            found.append(Eviction(pod, message, HARD_GRACE, label))
    return found


def _violation(pod: Pod, usage: PodUsage, layout: Layout) -> tuple[str, str] | None:
    return _empty_dir(pod, usage) or _pod(pod, usage) or _container(pod, usage, layout)


def _empty_dir(pod: Pod, usage: PodUsage) -> tuple[str, str] | None:
    # Of several entries with one name the last counts here, and in rankings the first.
    used = {volume.name: volume.used_bytes for volume in usage.volumes}
    for volume in pod.volumes:
        size = used.get(volume.name)
        if volume.size_limit is not None and size is not None and size * NANO > volume.size_limit.nanos:
            return EMPTY_DIR, f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{volume.size_limit}". '
    return None


def _pod(pod: Pod, usage: PodUsage) -> tuple[str, str] | None:
    limit = pod.storage_limit
    if limit is None or (usage.ephemeral_storage_bytes or 0) * NANO <= limit.nanos:
        return None
    return POD, f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "


def _container(pod: Pod, usage: PodUsage, layout: Layout) -> tuple[str, str] | None:
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
            return CONTAINER, said
    return None
