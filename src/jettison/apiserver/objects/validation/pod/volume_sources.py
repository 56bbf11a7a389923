"""Sources of volumes that are not of the node itself: network filesystems, disks of clouds, drivers and claims."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.metadata import (
    label_name,
    subdomain_name,
    validate_annotations,
    validate_labels,
    validate_selector,
)
from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, invalid, required, too_long, unsupported
from jettison.engine.numbers.quantity import parse
from jettison.manifests.files.kinds import structs

Json = dict[str, Any]
Check = Callable[[Json, str], Iterable[Mistake]]

_LONGEST_DRIVER: Final = 63
_LONGEST_TENANT: Final = 64
_LARGEST_NUMBER: Final = 255
_BYTE_RULE: Final = f"must be between 0 and {_LARGEST_NUMBER}, inclusive"
_PARTITION_RULE: Final = f"must be between 1 and {_LARGEST_NUMBER}, inclusive"
_FORMATS: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+\Z", re.ASCII),
    "eui": re.compile(r"\Aeui.[A-Za-z0-9]{16}\Z"),
    "naa": re.compile(r"\Anaa.[A-Za-z0-9]{32}\Z"),
}
_PAIRS_RULE: Final = "must be a host:port pair or multiple pairs separated by commas"
_CACHING: Final = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED_DISK: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_RESERVED: Final = (".kubernetes.io", ".k8s.io")
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_TEMPLATE_METADATA: Final = ("labels", "annotations")


def needs(*keys: str) -> Check:
    """The fields without which a source means nothing."""

    def check(source: Json, field: str) -> Iterator[Mistake]:
        yield from (required(f"{field}.{key}") for key in keys if not source.get(key))

    return check


def _disk(key: str) -> Check:
    """A disk of a cloud, or a partition of one."""

    def check(source: Json, field: str) -> Iterator[Mistake]:
        yield from needs(key)(source, field)
        if not 0 <= source.get("partition", 0) <= _LARGEST_NUMBER:
            yield invalid(f"{field}.partition", source["partition"], _PARTITION_RULE)

    return check


def _nfs(source: Json, field: str) -> Iterator[Mistake]:
    yield from needs("server", "path")(source, field)
    if not source["path"].startswith("/"):
        yield invalid(f"{field}.path", source["path"], "must be an absolute path")


def _iscsi(source: Json, field: str) -> Iterator[Mistake]:
    yield from needs("targetPortal", "iqn")(source, field)
    if source["iqn"]:
        yield from _qualified(source["iqn"], f"{field}.iqn")
    if not 0 <= source["lun"] <= _LARGEST_NUMBER:
        yield invalid(f"{field}.lun", source["lun"], _BYTE_RULE)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        yield required(f"{field}.secretRef")
    if "initiatorName" in source:
        yield from _qualified(source["initiatorName"], f"{field}.initiatorname")


def _qualified(name: str, field: str) -> Iterator[Mistake]:
    form = _FORMATS.get(name[:3])
    if form is None:
        yield invalid(field, name, "must be valid format starting with iqn, eui, or naa")
    elif not form.search(name):
        yield invalid(field, name, "must be valid format")


def _flocker(source: Json, field: str) -> Iterator[Mistake]:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uuid:
        yield required(field, "one of datasetName and datasetUUID is required")
    if name and uuid:
        yield invalid(field, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        yield invalid(f"{field}.datasetName", name, "must not contain '/'")


def _quobyte(source: Json, field: str) -> Iterator[Mistake]:
    if not source["registry"]:
        yield required(f"{field}.registry", _PAIRS_RULE)
    elif len(source.get("tenant", "").encode()) > _LONGEST_TENANT:
        why = f"must be a UUID and may not exceed a length of {_LONGEST_TENANT} characters"
        yield required(f"{field}.tenant", why)
    else:
        for pair in source["registry"].split(","):
            if not _is_host_and_port(pair):
                yield invalid(f"{field}.registry", source["registry"], _PAIRS_RULE)
    yield from needs("volume")(source, field)


def _is_host_and_port(pair: str) -> bool:
    """As Go splits it: the port may be empty, and so may the host. An IPv6 address stands in brackets."""
    host, colon, port = pair.rpartition(":")
    if host.startswith("["):
        host, bracket, rest = host[1:].partition("]")
        if not bracket or rest:
            return False
    elif ":" in host:
        return False
    return bool(colon) and not any(char in "[]" for char in host + port)


def _fibre_channel(source: Json, field: str) -> Iterator[Mistake]:
    names = source.get("targetWWNs")
    if not names and not source.get("wwids"):
        yield required(f"{field}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if not names:
        return
    if source.get("wwids"):
        yield invalid(f"{field}.targetWWNs", names, "targetWWNs and wwids can not be specified simultaneously")
    if "lun" not in source:
        yield required(f"{field}.lun", "lun is required if targetWWNs is specified")
    elif not 0 <= source["lun"] <= _LARGEST_NUMBER:
        yield invalid(f"{field}.lun", source["lun"], _BYTE_RULE)


def _flex(source: Json, field: str) -> Iterator[Mistake]:
    yield from needs("driver")(source, field)
    for key in source.get("options") or {}:
        if f".{key.partition('/')[0].lower()}".endswith(_RESERVED):
            yield invalid(f"{field}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved")


def _cinder(source: Json, field: str) -> Iterator[Mistake]:
    yield from needs("volumeID")(source, field)
    yield from _named_secret(source, field)


def _named_secret(source: Json, field: str) -> Iterator[Mistake]:
    if "secretRef" in source:
        yield from needs("name")(source["secretRef"], f"{field}.secretRef")


def _azure_disk(source: Json, field: str) -> Iterator[Mistake]:
    yield from needs("diskName", "diskURI")(source, field)
    for key, known in (("cachingMode", _CACHING), ("kind", _DISK_KINDS)):
        if key in source and source[key] not in known:
            yield unsupported(f"{field}.{key}", source[key], known)
    if "kind" in source:
        start, form = ("/subscriptions/", _MANAGED_DISK) if source["kind"] == "Managed" else ("https://", _BLOB)
        if not source["diskURI"].startswith(start):
            yield unsupported(f"{field}.diskURI", source["diskURI"], (form,))


def _storage_os(source: Json, field: str) -> Iterator[Mistake]:
    yield from needs("volumeName")(source, field)
    for key in ("volumeName", "volumeNamespace"):
        if source.get(key):
            yield from (invalid(f"{field}.{key}", source[key], why) for why in label_name(source[key]))
    yield from _named_secret(source, field)


def _csi(source: Json, field: str) -> Iterator[Mistake]:
    driver = source["driver"]
    if not driver:
        yield required(f"{field}.driver")
    else:
        if len(driver.encode()) > _LONGEST_DRIVER:
            yield too_long(f"{field}.driver", _LONGEST_DRIVER)
        yield from (invalid(f"{field}.driver", driver, why) for why in subdomain_name(driver.lower()))
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return
    if not secret.get("name"):
        yield required(f"{field}.nodePublishSecretRef.name")
    else:
        yield from (invalid(f"{field}.name", secret["name"], why) for why in subdomain_name(secret["name"]))


def _ephemeral(source: Json, field: str) -> Iterator[Mistake]:
    template = source.get("volumeClaimTemplate")
    where = f"{field}.volumeClaimTemplate"
    if template is None:
        yield required(where)
        return
    metadata = template.get("metadata") or {}
    yield from validate_annotations(metadata.get("annotations") or {}, f"{where}.metadata.annotations")
    yield from validate_labels(metadata.get("labels") or {}, f"{where}.metadata.labels")
    for key in structs()["ObjectMeta"].fields:
        if key in metadata and key not in _TEMPLATE_METADATA:
            yield forbidden(f"{where}.metadata.{'uID' if key == 'uid' else key}", "cannot be set")
    yield from validate_claim_spec(template["spec"], f"{where}.spec")


def validate_claim_spec(spec: Json, field: str) -> Iterator[Mistake]:
    """What a claim asks for, in the template of a volume or of a stateful set."""
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required(f"{field}.accessModes", "at least 1 access mode is required")
    if "selector" in spec:
        yield from validate_selector(spec["selector"], f"{field}.selector")
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield unsupported(f"{field}.accessModes", mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode in _ACCESS_MODES[:-1] for mode in modes):
        yield forbidden(f"{field}.accessModes", "may not use ReadWriteOncePod with other access modes")
    size = (spec["resources"].get("requests") or {}).get("storage")
    if size is None:
        yield required(f"{field}.resources[storage]")
    elif parse(size).sign <= 0:
        yield invalid(f"{field}.resources[storage]", size, "must be greater than zero")
    yield from _class_name(spec, field, "storageClassName")
    if "volumeMode" in spec and spec["volumeMode"] not in _VOLUME_MODES:
        yield unsupported(f"{field}.volumeMode", spec["volumeMode"], _VOLUME_MODES)
    yield from _data_sources(spec, field)
    yield from _class_name(spec, field, "volumeAttributesClassName")


def _class_name(spec: Json, field: str, key: str) -> Iterator[Mistake]:
    if name := spec.get(key):
        yield from (invalid(f"{field}.{key}", name, why) for why in subdomain_name(name))


def _data_sources(spec: Json, field: str) -> Iterator[Mistake]:
    """What the volume is filled with at first, under its old name and its new one."""
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    for key, source in (("dataSource", old), ("dataSourceRef", new)):
        if source is None:
            continue
        where, group = f"{field}.{key}", source.get("apiGroup") or ""
        yield from needs("name", "kind")(source, where)
        if not group and source["kind"] != "PersistentVolumeClaim":
            why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            yield invalid(where, source["kind"], why)
        if group:
            yield from (invalid(f"{where}.apiGroup", group, why) for why in subdomain_name(group))
        if source.get("namespace"):
            names = label_name(source["namespace"])
            yield from (invalid(f"{where}.namespace", source["namespace"], why) for why in names)
    if old is None or new is None:
        return
    if new.get("namespace"):
        yield invalid(field, {}, "may not be specified when dataSourceRef.namespace is specified")
    elif any(old.get(key) != new.get(key) for key in ("apiGroup", "kind", "name")):
        yield invalid(field, {}, "must match dataSourceRef")


FOREIGN_SOURCES: Final[dict[str, Check]] = {
    "gcePersistentDisk": _disk("pdName"),
    "awsElasticBlockStore": _disk("volumeID"),
    "nfs": _nfs,
    "iscsi": _iscsi,
    "glusterfs": needs("endpoints", "path"),
    "flocker": _flocker,
    "rbd": needs("monitors", "image"),
    "cinder": _cinder,
    "cephfs": needs("monitors"),
    "quobyte": _quobyte,
    "fc": _fibre_channel,
    "flexVolume": _flex,
    "azureFile": needs("secretName", "shareName"),
    "vsphereVolume": needs("volumePath"),
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "scaleIO": needs("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
}
"""By the name of the source in a volume."""
