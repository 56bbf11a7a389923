"""The volumes of a pod or of a template, source by source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.metadata import label_name, subdomain_name
from jettison.apiserver.objects.validation.mistakes import Mistake, duplicate, forbidden, invalid, required, unsupported
from jettison.apiserver.objects.validation.pod.volume_sources import FOREIGN_SOURCES, Check, needs
from jettison.engine.labels.syntax import label_key_complaints
from jettison.engine.numbers.quantity import parse

Json = dict[str, Any]

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MODE_RULE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_FIELD_LABELS: Final = frozenset(
    {
        *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
        *("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName", "spec.host"),
        *("status.phase", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
    }
)
_VOLUME_FIELDS: Final = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
)  # fmt: skip
_RESOURCES: Final = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_PORTAL_RULE: Final = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters"
    " if iscsi.initiatorName is specified."
)
_HUGE: Final = ("requests.hugepages-", "limits.hugepages-")
_SIZES: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_MOST_TOKEN_SECONDS: Final = 1 << 32
_LEAST_TOKEN_SECONDS: Final = 600


def validate_volumes(volumes: Iterable[Json], field: str, name: str, *, is_pod: bool) -> Iterator[Mistake]:
    """All of them. `name` is that of a pod, which the names of its claims are made from."""
    seen: set[str] = set()
    listed = list(volumes)
    made = {f"{name}-{each['name']}" for each in listed if name and "ephemeral" in each}
    for index, volume in enumerate(listed):
        where = f"{field}[{index}]"
        mistakes = list(_validate_volume(volume, where, name, seen, is_pod=is_pod))
        yield from mistakes
        if not mistakes:
            seen.add(volume["name"])
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if claim in made:
            why = "must not reference a PVC that gets created for an ephemeral volume"
            yield invalid(f"{where}.persistentVolumeClaim.claimName", claim, why)


def usable_volumes(volumes: Iterable[Json], name: str, *, is_pod: bool) -> dict[str, Json]:
    """Those that containers may mount: of a volume with a mistake upstream says that it is not found."""
    found: dict[str, Json] = {}
    for volume in volumes:
        if not list(_validate_volume(volume, "", name, found.keys(), is_pod=is_pod)):
            found[volume["name"]] = volume
    return found


def _validate_volume(volume: Json, field: str, pod: str, seen: Iterable[str], *, is_pod: bool) -> Iterator[Mistake]:
    name = volume["name"]
    sources = [each for each in _CHECKS if each in volume]
    for place, source in enumerate(sources):
        if place:
            yield forbidden(f"{field}.{_MISSPELT.get(source, source)}", "may not specify more than 1 volume type")
            continue
        if source == "image":
            yield from _image(volume[source], f"{field}.image", is_pod=is_pod)
        else:
            where = "persistentDisk" if source == "gcePersistentDisk" else source
            yield from _CHECKS[source](volume[source], f"{field}.{where}")
        if source == "ephemeral" and pod and name:
            claim = f"{pod}-{name}"
            yield from (
                invalid(f"{field}.name", name, f'PVC name "{claim}": {why}') for why in subdomain_name(claim)
            )  # fmt: skip
    if "initiatorName" in volume.get("iscsi", ()) and len(f"{name}:{volume['iscsi']['targetPortal']}".encode()) > 64:
        yield invalid(f"{field}.name", name, _PORTAL_RULE)
    if not sources:
        yield required(field, "must specify a volume type")
    if not name:
        yield required(f"{field}.name")
    else:
        yield from (invalid(f"{field}.name", name, why) for why in label_name(name))
    if name in seen:
        yield duplicate(f"{field}.name", name)


def _empty_dir(source: Json, field: str) -> Iterator[Mistake]:
    limit = source.get("sizeLimit")
    if limit is not None and parse(limit).sign < 0:
        yield forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(source: Json, field: str) -> Iterator[Mistake]:
    path = source["path"]
    if not path:
        yield required(f"{field}.path")
        return
    yield from no_backsteps(path, f"{field}.path")
    if source.get("type", "") not in _HOST_PATH_TYPES:
        yield unsupported(f"{field}.type", source["type"], _HOST_PATH_TYPES)


def no_backsteps(path: str, field: str) -> Iterator[Mistake]:
    """No part of it may be `..`."""
    if ".." in path.split("/"):
        yield invalid(field, path, "must not contain '..'")


def descending_path(path: str, field: str) -> Iterator[Mistake]:
    """It leads down from where it begins."""
    if path.startswith("/"):
        yield invalid(field, path, "must be a relative path")
    yield from no_backsteps(path, field)


def _file_path(path: str, field: str) -> Iterator[Mistake]:
    yield from descending_path(path, field)
    if path.startswith("..") and not path.startswith("../"):
        yield invalid(field, path, "must not start with '..'")


def _mode(source: Json, key: str, field: str) -> Iterator[Mistake]:
    mode = source.get(key)
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(f"{field}.{key}", mode, _MODE_RULE)


def _item(item: Json, field: str) -> Iterator[Mistake]:
    for key in ("key", "path"):
        if not item[key]:
            yield required(f"{field}.{key}")
    yield from _file_path(item["path"], f"{field}.path")
    yield from _mode(item, "mode", field)


def _named_files(key: str) -> Check:
    """A Secret or a ConfigMap as files."""

    def check(source: Json, field: str) -> Iterator[Mistake]:
        if not source.get(key):
            yield required(f"{field}.{key}")
        yield from _mode(source, "defaultMode", field)
        for index, item in enumerate(source.get("items") or ()):
            yield from _item(item, f"{field}.items[{index}]")

    return check


def _downward(source: Json, field: str) -> Iterator[Mistake]:
    yield from _mode(source, "defaultMode", field)
    for item in source.get("items") or ():
        yield from _downward_file(item, field)


def _downward_file(item: Json, field: str) -> Iterator[Mistake]:
    path = item.get("path", "")
    if not path:
        yield required(f"{field}.path")
    yield from _file_path(path, f"{field}.path")
    if "fieldRef" in item:
        yield from field_reference(item["fieldRef"], f"{field}.fieldRef", _VOLUME_FIELDS)
        if "resourceFieldRef" in item:
            yield invalid(field, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif "resourceFieldRef" in item:
        yield from resource_reference(item["resourceFieldRef"], f"{field}.resourceFieldRef", is_in_volume=True)
    else:
        yield required(field, "one of fieldRef and resourceFieldRef is required")
    yield from _mode(item, "mode", field)


def field_reference(reference: Json, field: str, allowed: tuple[str, ...]) -> Iterator[Mistake]:
    """A field of the pod, for an environment variable or a file."""
    if not reference.get("apiVersion"):
        yield required(f"{field}.apiVersion")
        return
    path = reference.get("fieldPath", "")
    if not path:
        yield required(f"{field}.fieldPath")
        return
    base, bracket, rest = path.partition("['")
    subscript = rest.removesuffix("']") if bracket and rest.endswith("']") else None
    problem = ""
    if reference["apiVersion"] != "v1":
        problem = f"unsupported pod version: {reference['apiVersion']}"
    elif subscript is not None and base not in ("metadata.annotations", "metadata.labels"):
        problem = f"field label does not support subscript: {path}"
    elif subscript is None and path not in _FIELD_LABELS:
        problem = f"field label not supported: {path}"
    if problem:
        yield invalid(f"{field}.fieldPath", path, f"error converting fieldPath: {problem}")
    elif subscript is not None:
        key = subscript.lower() if base == "metadata.annotations" else subscript
        yield from (invalid(field, key, why) for why in label_key_complaints(key))
    else:
        inner = "spec.nodeName" if path == "spec.host" else path
        if inner not in allowed:
            yield unsupported(f"{field}.fieldPath", inner, allowed)


def resource_reference(reference: Json, field: str, *, is_in_volume: bool = False) -> Iterator[Mistake]:
    """A limit or request of a container, for an environment variable or a file."""
    resource = reference.get("resource", "")
    if is_in_volume and not reference.get("containerName"):
        yield required(f"{field}.containerName")
    elif not resource:
        yield required(f"{field}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE):
        yield unsupported(f"{field}.resource", resource, _RESOURCES)
    divisor = parse(reference.get("divisor") or "0")
    if not divisor.sign:
        return
    _, _, name = resource.partition(".")
    sizes, what = (("1m", "1"), "cpu") if name == "cpu" else (_SIZES, name)
    what = {"ephemeral-storage": "local ephemeral storage"}.get(what, "hugepages" if "hugepages-" in what else what)
    if (resource in _RESOURCES or resource.startswith(_HUGE)) and str(divisor) not in sizes:
        shown = "1m and 1" if name == "cpu" else ", ".join(_SIZES)
        yield invalid(
            f"{field}.divisor", resource, f"only divisor's values {shown} are supported with the {what} resource"
        )


def _projected(source: Json, field: str) -> Iterator[Mistake]:
    yield from _mode(source, "defaultMode", field)
    paths: set[str] = set()
    for index, each in enumerate(source.get("sources") or ()):
        where = f"{field}.sources[{index}]"
        for key in ("secret", "configMap"):
            if key in each:
                yield from _projected_items(each[key], f"{where}.{key}", field, paths)
        if "downwardAPI" in each:
            for item in each["downwardAPI"].get("items") or ():
                yield from _downward_file(item, f"{where}.downwardAPI")
                yield from _once(item.get("path", ""), item.get("path", ""), field, paths)
        if "serviceAccountToken" in each:
            yield from _token(each["serviceAccountToken"], where, field)
        if len(each) > 1:
            yield forbidden(where, "may not specify more than 1 volume type per source")


def _projected_items(source: Json, field: str, whole: str, paths: set[str]) -> Iterator[Mistake]:
    if not source.get("name"):
        yield required(f"{field}.name")
    for index, item in enumerate(source.get("items") or ()):
        yield from _item(item, f"{field}.items[{index}]")
        yield from _once(item["path"], source.get("name", ""), whole, paths)


def _once(path: str, shown: str, field: str, paths: set[str]) -> Iterator[Mistake]:
    if path and path in paths:
        yield invalid(field, shown, "conflicting duplicate paths")
    elif path:
        paths.add(path)


def _token(source: Json, field: str, whole: str) -> Iterator[Mistake]:
    seconds = source.get("expirationSeconds") or 0
    where = f"{field}.serviceAccountToken.expirationSeconds"
    if seconds < _LEAST_TOKEN_SECONDS:
        yield invalid(where, seconds, "may not specify a duration less than 10 minutes")
    if seconds > _MOST_TOKEN_SECONDS:
        yield invalid(where, seconds, "may not specify a duration larger than 2^32 seconds")
    if not source.get("path"):
        yield required(f"{whole}.path")
    else:
        yield from _file_path(source["path"], f"{whole}.path")


def _git(source: Json, field: str) -> Iterator[Mistake]:
    yield from needs("repository")(source, field)
    yield from descending_path(source.get("directory", ""), f"{field}.directory")


def _image(source: Json, field: str, *, is_pod: bool) -> Iterator[Mistake]:
    if is_pod and not source.get("reference"):
        yield required(f"{field}.reference")
    policy = source.get("pullPolicy", "")
    if not policy:
        yield required(f"{field}.pullPolicy")
    elif policy not in PULL_POLICIES:
        yield unsupported(f"{field}.pullPolicy", policy, PULL_POLICIES)


def _foreign(*names: str) -> dict[str, Check]:
    return {name: FOREIGN_SOURCES[name] for name in names}


# In upstream's order: of two sources in one volume the first of this list is the one that counts.
_CHECKS: Final[dict[str, Check]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": _git,
    **_foreign("gcePersistentDisk", "awsElasticBlockStore"),
    "secret": _named_files("secretName"),
    **_foreign("nfs", "iscsi", "glusterfs", "flocker"),
    "persistentVolumeClaim": needs("claimName"),
    **_foreign("rbd", "cinder", "cephfs", "quobyte"),
    "downwardAPI": _downward,
    **_foreign("fc", "flexVolume"),
    "configMap": _named_files("name"),
    **_foreign("azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "storageos"),
    "projected": _projected,
    **_foreign("scaleIO", "csi", "ephemeral"),
    "image": needs(),
}
# As upstream's complaint spells them.
_MISSPELT: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
