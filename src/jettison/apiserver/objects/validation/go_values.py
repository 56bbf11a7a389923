"""Values as Kubernetes has them inside, in Go: its names, its order and its empty fields. Complaints show them."""

from __future__ import annotations

from typing import Any, Final

from jettison.manifests.files.kinds import Field, Type, structs

Json = dict[str, Any]

_SPEC: Final = (
    "volumes", "initContainers", "containers", "ephemeralContainers", "restartPolicy", "terminationGracePeriodSeconds",
    "activeDeadlineSeconds", "dnsPolicy", "nodeSelector", "serviceAccountName", "automountServiceAccountToken",
    "nodeName", "securityContext", "imagePullSecrets", "hostname", "subdomain", "setHostnameAsFQDN", "affinity",
    "schedulerName", "tolerations", "hostAliases", "priorityClassName", "priority", "preemptionPolicy", "dnsConfig",
    "readinessGates", "runtimeClassName", "overhead", "enableServiceLinks", "topologySpreadConstraints", "os",
    "schedulingGates", "resourceClaims", "resources", "hostnameOverride", "schedulingGroup",
)  # fmt: skip
_POD_SECURITY: Final = (
    "hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers", "seLinuxOptions", "windowsOptions",
    "runAsUser", "runAsGroup", "runAsNonRoot", "supplementalGroups", "supplementalGroupsPolicy", "fsGroup",
    "fsGroupChangePolicy", "sysctls", "seccompProfile", "appArmorProfile", "seLinuxChangePolicy",
)  # fmt: skip
# Inside Kubernetes these five belong to the security context.
_MOVED: Final = frozenset(_POD_SECURITY[:5])
# Names that are not those of JSON with a capital letter.
_NAMES: Final = {
    "tty": "TTY", "os": "OS", "httpGet": "HTTPGet", "tcpSocket": "TCPSocket", "grpc": "GRPC", "ip": "IP", "nfs": "NFS",
    "rbd": "RBD", "csi": "CSI", "fc": "FC", "iscsi": "ISCSI", "dnsPolicy": "DNSPolicy", "dnsConfig": "DNSConfig",
    "seLinuxOptions": "SELinuxOptions", "seLinuxChangePolicy": "SELinuxChangePolicy", "fsGroup": "FSGroup",
    "fsGroupChangePolicy": "FSGroupChangePolicy", "httpHeaders": "HTTPHeaders", "cephfs": "CephFS",
    "gcePersistentDisk": "GCEPersistentDisk", "awsElasticBlockStore": "AWSElasticBlockStore", "storageos": "StorageOS",
    "fsType": "FSType", "diskURI": "DataDiskURI", "apiVersion": "APIVersion", "apiGroup": "APIGroup", "wwids": "WWIDs",
    "pdName": "PDName", "endpoints": "EndpointsName", "iqn": "IQN", "iscsiInterface": "ISCSIInterface",
    "chapAuthDiscovery": "DiscoveryCHAPAuth", "chapAuthSession": "SessionCHAPAuth", "sslEnabled": "SSLEnabled",
    "gmsaCredentialSpecName": "GMSACredentialSpecName", "gmsaCredentialSpec": "GMSACredentialSpec",
    "qosClass": "QOSClass", "lastState": "LastTerminationState", "uid": "UID", "gid": "GID",
}  # fmt: skip
_RBD_NAMES: Final = {"monitors": "CephMonitors", "image": "RBDImage", "pool": "RBDPool", "user": "RadosUser"}
# These have JSON names inside, too, and leave out what is empty.
_WITH_TAGS: Final = frozenset(
    ("LabelSelector", "LabelSelectorRequirement", "ManagedFieldsEntry", "ObjectMeta", "OwnerReference")
)
_ZEROS: Final = {"string": "", "bool": False, "int32": 0, "int64": 0, "quantity": "0"}


def spec_value(spec: Json) -> Json:
    """The spec of a pod."""
    known = structs()
    fields, security = known["PodSpec"].fields, known["PodSecurityContext"].fields
    shown = {_name("PodSpec", key): _value(fields[key], spec) for key in _SPEC}
    if (context := spec.get("securityContext")) is not None:
        shown["SecurityContext"] = {
            _name("", key): _value(fields[key], spec) if key in _MOVED else _value(security[key], context)
            for key in _POD_SECURITY
        }
    return shown


def go_value(struct: str, value: Any) -> Any:
    """A value of this struct."""
    return _typed(Type((), struct), value)


def go_field(struct: str, key: str, value: Json) -> Any:
    """The value of a field of this struct, which is there even if nothing is said of it."""
    return _value(structs()[struct].fields[key], value)


def _name(struct: str, key: str) -> str:
    if struct == "RBDVolumeSource" and key in _RBD_NAMES:
        return _RBD_NAMES[key]
    return _NAMES.get(key, key[:1].upper() + key[1:])


def _value(field: Field, source: Json) -> Any:
    value = source.get(field.name)
    if value is None and not field.is_pointer:
        if field.type.is_struct and field.is_always_written:
            return _typed(field.type, {})
        return None if field.type.shape else _ZEROS.get(field.type.base)
    return _typed(field.type, value)


def _typed(kind: Type, value: Any) -> Any:
    if value is None:
        return None
    if kind.shape:
        if isinstance(value, dict):
            return {key: _typed(kind.element, value[key]) for key in sorted(value)}
        return [_typed(kind.element, item) for item in value]
    if not kind.is_struct:
        return value
    fields = structs()[kind.base].fields
    if kind.base in _WITH_TAGS:
        given = ((key, field) for key, field in fields.items() if value.get(key) not in (None, [], {}))
        return {key: _typed(field.type, value[key]) for key, field in given}
    shown = {_name(kind.base, key): _value(field, value) for key, field in fields.items()}
    if kind.base == "PersistentVolumeClaimTemplate":
        # Its metadata have no name inside, so that their fields are its own.
        shown = {**(shown.pop("Metadata") or {}), **shown}
    if kind.base == "Volume":
        # The one struct whose order is another one inside.
        ordered = list(shown)
        ordered.remove("Quobyte")
        ordered.insert(ordered.index("RBD") + 1, "Quobyte")
        return {key: shown[key] for key in ordered}
    return shown
