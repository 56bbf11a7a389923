"""Volumes of a pod: their names, and as much of what they mount as a bare host has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.mistakes import Mistake, duplicate, forbidden, invalid, required, unsupported
from jettison.apiserver.objects.validation.names import label_name
from jettison.engine.numbers.quantity import parse

Json = dict[str, Any]

# Of two in one volume the first of this list is the one that counts.
_SOURCES: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
_HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip


def validate_volumes(volumes: Any, field: str) -> Iterator[Mistake]:
    """Those of a pod or of a template."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        where = f"{field}[{index}]"
        yield from _validate_source(volume, where)
        if not volume["name"]:
            yield required(f"{where}.name")
        else:
            yield from (invalid(f"{where}.name", volume["name"], why) for why in label_name(volume["name"]))
        if volume["name"] in seen:
            yield duplicate(f"{where}.name", volume["name"])
        seen.add(volume["name"])


def _validate_source(volume: Json, field: str) -> Iterator[Mistake]:
    sources = [each for each in _SOURCES if each in volume]
    if "emptyDir" in sources:
        limit = volume["emptyDir"].get("sizeLimit")
        if limit is not None and parse(limit).sign < 0:
            yield forbidden(f"{field}.emptyDir.sizeLimit", "SizeLimit field must be a valid resource quantity")
    elif "hostPath" in sources:
        yield from _validate_host_path(volume["hostPath"], f"{field}.hostPath")
    for extra in sources[1:]:
        yield forbidden(f"{field}.{extra}", "may not specify more than 1 volume type")


def _validate_host_path(source: Json, field: str) -> Iterator[Mistake]:
    path = source["path"]
    if not path:
        yield required(f"{field}.path")
        return
    if ".." in path.split("/"):
        yield invalid(f"{field}.path", path, "must not contain '..'")
    if source.get("type", "") not in _HOST_PATH_TYPES:
        yield unsupported(f"{field}.type", source["type"], _HOST_PATH_TYPES)
