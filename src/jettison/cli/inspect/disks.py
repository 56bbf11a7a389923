"""`jettison disks`: which filesystem is nodefs, imagefs and containerfs, its thresholds, and what fills it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from jettison.agent.journal.policy_records import policy_from
from jettison.cli.inspect.recorded_pods import recorded_statuses
from jettison.cli.inspect.watched_node import WatchedNode, watched_node_options
from jettison.cli.options.host_options import cri_endpoint_option, engine_sockets_option
from jettison.cli.output import Remarks, emit, output_option
from jettison.clock import SystemClock
from jettison.engine.config.policy import Policy
from jettison.engine.node.amounts import short
from jettison.engine.node.signals import ROWS, Part, Resource
from jettison.engine.node.snapshot import ContainerUsage, PodUsage, VolumeUsage
from jettison.engine.pods.pod import ENDED_PHASES
from jettison.errors import JettisonError, ManifestError, ObservationError, RuntimeFailure
from jettison.manifests.summary import summary_from
from jettison.node.upkeep.disk_report import DiskFill, GuardedLevel, PodOnDisk, report_disks
from jettison.node.upkeep.garbage import GarbageRound, find_stores
from jettison.runtimes.linux.files.disk_usage import measure
from jettison.runtimes.machine.garbage import GarbageKind
from jettison.runtimes.machine.node_disks import NodeDisks, StorageDirs

# Pods that are shown for each filesystem, the largest first.
_MOST_PODS = 5
# An empty directory of logs takes 4 KiB.
_WORTH_MENTIONING = 2**16
_PART_NAMES = {Part.ROOTFS: "layers", Part.LOGS: "logs", Part.VOLUMES: "volumes"}


@click.command()
@cri_endpoint_option("The socket of the container runtime, to ask which images are unused. [default: the node's]")
@engine_sockets_option("The same, of an engine. [default: the node's]")
@watched_node_options
@output_option
def command(node: WatchedNode, cri_endpoint: str, sockets: tuple[Path, ...], output: str) -> None:
    """Show the filesystems of a node of this machine, and what fills them: pods, images, logs, and what is no pod's.

    \b
    jettison disks
    jettison disks -o json
    """
    remarks = Remarks()
    card = node.card
    if card is None:
        raise ObservationError(f"node `{node.name}` has not been started yet")
    node_dir = node.directory / card.node_dir
    disks = NodeDisks(node_dir, SystemClock())
    places = disks.find([StorageDirs(card.images_dir, card.layers_dir)] if card.images_dir else [])
    policy, pods = _asked(node, remarks)
    if policy is None and card.policy is not None:
        policy = policy_from(card.policy)
    if pods is None:
        pods = _recorded(node, node_dir)
    if not cri_endpoint and not sockets:
        cri_endpoint, sockets = card.cri_endpoint, tuple(map(Path, card.sockets))
    unused = _unused_images(cri_endpoint, sockets, remarks) if places.named is not None else 0
    fills = report_disks(places, policy, pods, node.logs_dir, unused)
    emit(output, remarks, lambda: "\n\n".join(_text(each) for each in fills), lambda: _document(node.name, fills))


def _asked(node: WatchedNode, remarks: Remarks) -> tuple[Policy | None, list[PodOnDisk] | None]:
    """What its agent says; nothing where it is down."""
    if not node.is_live:
        remarks.notes.append(f"no agent runs for node `{node.name}`: its pods are measured by their directories")
        return None, None
    try:
        configz, summary, ranked, listed = map(node.ask, ("/configz", "/stats/summary", "/rank", "/pods"))
        policy = policy_from({"kubeletConfiguration": configz["kubeletconfig"], **configz["jettison"]})
        _, usages = summary_from(summary)
    except (ObservationError, ManifestError, KeyError, TypeError) as error:
        remarks.warnings.append(f"the agent's answer cannot be used: {error}")
        return None, None
    orders = [each["order"] for each in ranked.get("signals", ())]
    safe = {each["uid"] for order in orders for each in order if each["isCritical"]}
    refs = {each["podRef"]["uid"]: each["podRef"] for each in summary["pods"]}
    boxed = {each["metadata"]["uid"] for each in listed["items"] if _is_boxed(each)}
    return policy, [
        PodOnDisk(f"{refs[uid].get('namespace', '')}/{refs[uid].get('name', uid)}", usage, uid in safe, uid in boxed)
        for uid, usage in usages.items()
        if uid in refs
    ]


def _is_boxed(document: Mapping[str, Any]) -> bool:
    """Whether a container runtime has it: one of Jettison's own with images, or one that an engine has started."""
    statuses = document.get("status", {}).get("containerStatuses", ())
    if any(not each.get("containerID", "").startswith(("jettison://", "cgroup://")) for each in statuses):
        return True
    return all(each.get("image") for each in document.get("spec", {}).get("containers", ()))


def _recorded(node: WatchedNode, node_dir: Path) -> list[PodOnDisk]:
    """Directories of pods that had not ended when the agent did."""
    found = []
    for status in recorded_statuses(node.records):
        pod = status.pod
        if status.phase in ENDED_PHASES:
            continue
        sizes = [_size(node_dir / "pods" / pod.uid / part) for part in ("containers", "volumes")]
        logs = _size(node_dir / "logs" / f"{pod.namespace}_{pod.name}_{pod.uid}")
        usage = PodUsage(
            containers=[ContainerUsage("", rootfs_bytes=sizes[0], logs_bytes=logs)],
            volumes=[VolumeUsage("", used_bytes=sizes[1])],
        )
        found.append(PodOnDisk(str(pod), usage, pod.is_critical))
    return found


def _size(path: Path) -> int:
    try:
        found = measure(path)
    except ObservationError:
        return 0
    return 0 if found is None else found.size


def _unused_images(cri_endpoint: str, sockets: Sequence[Path], remarks: Remarks) -> int | None:
    """Bytes, as the stores count them; None where none of them answers."""
    failures = list[str]()
    try:
        stores = find_stores(cri_endpoint, sockets)
        work = GarbageRound(stores, (GarbageKind.IMAGES,), (), 0, lambda _, why: failures.append(why))
        plans = asyncio.run(work.plan())
    except (JettisonError, RuntimeFailure) as error:
        failures.append(str(error))
        plans = {}
    if failures and not plans:
        remarks.notes.append(f"which images are unused is not known: {'; '.join(failures)}")
        return None
    return sum(item.size or 0 for items in plans.values() for item in items if item.goes)


def _text(fill: DiskFill) -> str:
    space, mount = fill.space, fill.mount
    used = 100 * space.used // space.capacity if space.capacity else 0
    lines = [
        f"{', '.join(fill.roles)}: {mount.source} on {mount.mount_point} ({mount.fstype}, device {mount.device})",
        f"  size        {_bytes(space.capacity)}, {_bytes(space.used)} used ({used}%), {_bytes(space.available)} free",
    ]
    if space.inodes is not None and space.inodes_free is not None:
        lines.append(f"  inodes      {space.inodes}, {space.inodes_free} free")
    lines += [f"  threshold   {_level(each)}" for each in fill.levels]
    parts = ", ".join(f"{_PART_NAMES[part]} {_bytes(size)}" for part, size in fill.parts.items())
    lines.append(f"  pods        {_bytes(sum(fill.parts.values()))}{f': {parts}' if parts else ''}")
    largest = sorted(fill.pods.items(), key=lambda each: (-each[1], each[0]))
    lines += [f"              {_bytes(size)} {name}" for name, size in largest[:_MOST_PODS] if size]
    unused = "" if fill.unused_images is None else f", {_bytes(fill.unused_images)} at most of unused ones"
    if fill.images:
        lines.append(f"  images      {_bytes(fill.images)}{unused}")
    if fill.old_logs >= _WORTH_MENTIONING:
        lines.append(f"  old logs    {_bytes(fill.old_logs)}, of pods that are gone")
    lines.append(f"  no pod's    {_bytes(fill.others)}")
    if fill.is_cut_short:
        lines.append("  not all of it could be measured: what is missing counts as no pod's")
    if (lost := fill.hopeless) is not None:
        lines.append(
            f"  no eviction can help: {_bytes(lost.missing)} must come free until {lost.threshold} is clear, and "
            f"pods that may go hold {_bytes(fill.evictable)}"
        )
    return "\n".join(lines)


def _level(level: GuardedLevel) -> str:
    kind, resource = "hard" if level.threshold.is_hard else "soft", ROWS[level.threshold.signal].resource
    state = f"crossed, {short(level.reading.available, resource)} left" if level.missing else "clear"
    return f"{level.threshold} ({kind}): {state}"


def _bytes(size: int) -> str:
    return short(size, Resource.EPHEMERAL_STORAGE)


def _document(node: str, fills: Sequence[DiskFill]) -> dict[str, Any]:
    return {"kind": "Disks", "node": node, "filesystems": [_data(each) for each in fills]}


def _data(fill: DiskFill) -> Mapping[str, Any]:
    space, mount, lost = fill.space, fill.mount, fill.hopeless
    return {
        "roles": list(fill.roles),
        "device": mount.device,
        "source": mount.source,
        "mountPoint": str(mount.mount_point),
        "fsType": mount.fstype,
        "capacityBytes": space.capacity,
        "usedBytes": space.used,
        "availableBytes": space.available,
        "inodes": space.inodes,
        "inodesFree": space.inodes_free,
        "thresholds": [
            {
                "threshold": str(each.threshold),
                "isHard": each.threshold.is_hard,
                "isCrossed": bool(each.missing),
                "missing": each.missing,
            }
            for each in fill.levels
        ],
        "podsBytes": {_PART_NAMES[part]: size for part, size in fill.parts.items()},
        "pods": [{"pod": name, "bytes": size} for name, size in fill.pods.items()],
        "imagesBytes": fill.images,
        "unusedImagesBytes": fill.unused_images,
        "oldLogsBytes": fill.old_logs,
        "othersBytes": fill.others,
        "evictableBytes": fill.evictable,
        "isComplete": not fill.is_cut_short,
        "noEvictionCanHelp": None if lost is None else str(lost.threshold),
    }
