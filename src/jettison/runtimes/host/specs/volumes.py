"""Volumes and where they are mounted, out of a pod's document.

Where a process has a mount namespace of its own, and in containers, a mount is what it is in Kubernetes. Elsewhere it
is a symbolic link in the writable directory, and readOnly is not enforced.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from jettison.engine.numbers.quantity import parse
from jettison.errors import ManifestError, QuantityError, kind_in_words
from jettison.manifests.files.decoding import shortened
from jettison.runtimes.host.specs import texts
from jettison.runtimes.host.specs.content import ContentSpec, volume_content
from jettison.runtimes.host.specs.pod_documents import MountWire, VolumeWire
from jettison.values import frozen

HOST_PATH_TYPES = (
    "",
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
)


class VolumeNeededError(ManifestError):
    """A volume of a kind that takes more than a host."""


@frozen
class VolumeSpec:
    """With neither `host_path` nor `content` it is an emptyDir."""

    name: str
    is_memory: bool = False
    size_limit: int | None = None
    host_path: str | None = None
    host_path_type: str = ""
    # Files that the node writes; None for a volume of another kind.
    content: ContentSpec | None = None


@frozen
class MountSpec:
    """`path` is relative to the container's writable directory, or to its root."""

    volume: str
    path: PurePosixPath
    sub_path: PurePosixPath
    is_read_only: bool = False


def volume_spec(volume: VolumeWire) -> VolumeSpec:
    """One volume, or a ManifestError."""
    where = f"volume `{texts.label(volume.name, 'volume name')}`"
    if volume.host_path is not None:
        path, kind = volume.host_path.path, volume.host_path.type or ""
        texts.passable(path, f"{where}: hostPath")
        if not path.startswith("/") or ".." in path.split("/"):
            raise ManifestError(f"{where}: hostPath `{shortened(path)}` must be absolute and without `..`")
        kind = texts.choice(kind, HOST_PATH_TYPES, f"{where}: type")
        return VolumeSpec(volume.name, host_path=path, host_path_type=kind)
    try:
        content = volume_content(volume)
    except ManifestError as error:
        raise ManifestError(f"{where}: {error}") from error
    if content is not None:
        return VolumeSpec(volume.name, content.is_memory, content=content)
    if volume.empty_dir is None:
        known = "configMap, downwardAPI, emptyDir, hostPath, projected and secret"
        raise VolumeNeededError(f"{where}: a node has {known}, nothing else")
    medium = texts.choice(volume.empty_dir.medium or "", ("", "Memory"), f"{where}: medium")
    return VolumeSpec(volume.name, medium == "Memory", _size(volume.empty_dir.size_limit, where))


def mount_specs(
    mounts: Iterable[MountWire], volumes: frozenset[str], *, in_container: bool = False
) -> tuple[MountSpec, ...]:
    """Where one container sees the volumes."""
    found: list[MountSpec] = []
    for mount in mounts:
        if mount.name not in volumes:
            raise ManifestError(f"volumeMounts: there is no volume `{texts.shown(mount.name)}`")
        if mount.sub_path_expr:
            raise ManifestError("volumeMounts: subPathExpr is not available on a bare host")
        path = texts.below(mount.mount_path.lstrip("/"), "mountPath")
        if path == PurePosixPath() or not mount.mount_path.startswith("/"):
            raise ManifestError(f"mountPath `{shortened(mount.mount_path)}` must be absolute and not the root")
        inside = texts.below(mount.sub_path or "", "subPath")
        found.append(MountSpec(mount.name, path, inside, bool(mount.read_only)))
    if in_container:
        # What lies inside another is mounted after it.
        return tuple(sorted(found, key=lambda mount: mount.path.parts))
    # In this order what lies inside another follows it at once, or after others that do.
    in_order = sorted(mount.path.parts for mount in found)
    for outer, inner in pairwise(in_order):
        if inner[: len(outer)] == outer:
            raise ManifestError(f"mountPath `/{'/'.join(inner)}` and `/{'/'.join(outer)}` lie inside one another")
    return tuple(found)


def _size(limit: Any, where: str) -> int | None:
    """In bytes; zero and less are no limit, as in Kubernetes."""
    if limit is None:
        return None
    if not isinstance(limit, int | float | str) or isinstance(limit, bool):
        raise ManifestError(f"{where}: sizeLimit is {kind_in_words(limit)}, expected a quantity such as `100Mi`")
    try:
        size = parse(str(limit)).value
    except QuantityError as error:
        raise ManifestError(f"{where}: sizeLimit `{texts.shown(limit)}`: {error}") from error
    return size if size > 0 else None
